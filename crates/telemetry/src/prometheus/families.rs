//! What is told: each family of samples, for Prometheus and for the page of the docs.

/// Samples of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name, with its unit.
    pub name: &'static str,
    /// What it is to Prometheus.
    pub kind: Kind,
    /// The labels of its samples.
    pub labels: &'static [&'static str],
    /// What it says, in one line.
    pub help: &'static str,
    /// What else there is to know, for the page of the docs; empty if nothing.
    pub more: &'static str,
}

/// What a family is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never runs back.
    Counter,
    /// Goes up and down.
    Gauge,
}

impl Kind {
    /// As the text has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

macro_rules! families {
    ($($id:ident $kind:ident $name:literal [$($label:literal),*] $help:literal $more:literal;)+) => {
        $(pub(super) const $id: Family = Family {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
            more: $more,
        };)+

        /// All that is told, in the order of the text.
        pub const FAMILIES: &[Family] = &[$($id),+];
    };
}

families! {
    INFO Gauge "paceline_info" ["version", "chain", "strategy"]
        "Always 1; labels say what runs."
        "";
    RUN_SECONDS Gauge "paceline_run_seconds" []
        "Time since the run began."
        "";
    PACKETS Counter "paceline_packets_total" ["core"]
        "Packets received."
        "";
    BYTES Counter "paceline_bytes_total" ["core"]
        "Bytes received, as long as they were on the wire."
        "";
    BATCHES Counter "paceline_batches_total" ["core"]
        "Batches received, of 1 to 64 packets."
        "This and the next one are absent with `--backend xdp`: a program in the kernel does not say.";
    BUSY Counter "paceline_busy_seconds_total" ["core"]
        "Time spent on packets, without waiting for them."
        "From receiving to edits, and without waiting for room to send. Its rate is the busy share. By the clock on the wall: where the system ran something else meanwhile, that is in it.";
    QUEUE Gauge "paceline_queue_depth" ["core"]
        "Packets waiting in the receive queue when the core last looked."
        "Those included that it took then. A replay's queue holds 1024. Absent where the port does not say.";
    VERDICTS Counter "paceline_verdicts_total" ["core", "verdict"]
        "Packets by what became of them."
        "`forward`, `drop`, `transmit-back`, `host`. They add up to the packets received.";
    DROPS Counter "paceline_drops_total" ["core", "function", "reason"]
        "Packets dropped, by who dropped them and why."
        "Beside the functions there are `malformed`, with the reason, where the chain drops malformed packets, and `engine`: `no-room` for edits that do not fit the packet's buffer, `queue-full` for packets that the port lost before the core saw them (a replay waits instead).";
    MALFORMED Counter "paceline_malformed_total" ["core", "reason"]
        "Packets whose headers cannot be believed, dropped or not."
        "";
    MOVED_IN Counter "paceline_entries_moved_in_total" ["core"]
        "Entries of the indirection table that came to this core."
        "With their flows.";
    MOVED_OUT Counter "paceline_entries_moved_out_total" ["core"]
        "Entries of the indirection table that left this core."
        "With their flows.";
    HELD Gauge "paceline_held_packets" ["core"]
        "Packets waiting for an entry that is on its way to this core."
        "Under `dyssect` also those that wait for a part of a shard (held and pending packets of the paper).";
    OWN Counter "paceline_strategy_events_total" ["core", "event"]
        "What the strategy counted of its own on this core."
        "`promotions` and `demotions` under `hybrid`; under `dyssect` `parts_lent`, `offloaded_packets`, `blocked`, `referred_packets`, `wrong_references`; under `auto` all of them; those that a strategy of your own declares.";
    RUNS Gauge "paceline_strategy_runs" ["strategy", "cores"]
        "Always 1; labels say what spreads packets now, and over how many cores."
        "Under `auto` that is another strategy than `paceline_info` has. Absent where the strategy does not say (`single`, `shared`, `scr`).";
    ACTIVE Gauge "paceline_active_cores" []
        "Cores that get packets; the others are parked."
        "Absent where none can be parked.";
    LOOKS Counter "paceline_strategy_looks_total" []
        "How often the strategy looked at the loads."
        "At the end of each period, whether anything changed or not. This and `paceline_moves_total` are absent where `paceline_strategy_runs` is.";
    MOVES Counter "paceline_moves_total" []
        "Entries or shards that were given to other cores."
        "Under `dyssect` shards, else entries of the indirection table.";
    UPDATES Counter "paceline_table_updates_total" []
        "Entries that have come to another core with their flows."
        "Under `rsspp` on several cores, and under `rss` where its cores can be parked. Elsewhere this and the next two are absent.";
    UPDATE_SECONDS Counter "paceline_table_update_seconds_total" []
        "Time until they had, from the change of the table on."
        "";
    UPDATE_LONGEST Gauge "paceline_table_update_longest_seconds" []
        "The longest of these times."
        "";
    SHARD_CORE Gauge "paceline_shard_core" ["shard"]
        "The core that has the shard."
        "By its number. This and the next three are there under `dyssect` alone.";
    SHARD_OFFLOADED Gauge "paceline_shard_offloaded_ratio" ["shard"]
        "Share of the shard that another core steps, 0 to 1."
        "By its buckets.";
    ROLE Gauge "paceline_core_role" ["core", "role"]
        "1 if the core has the role, else 0."
        "A `worker` has shards, an `offloader` steps flows for another; a core may be both.";
    RATIOS Counter "paceline_ratio_changes_total" []
        "How often another share of a shard came to be offloaded."
        "";
    PRIORITY Gauge "paceline_core_priority_packets" ["core"]
        "Packets with priority that each core got in the last period that was looked at."
        "Under `dyssect` with `[[class]]` in the chain file.";
    SLO Gauge "paceline_slo_p99_seconds" []
        "How long 99 in 100 packets may wait, as the chain file says."
        "With classes, those with priority. This and the next four are there under `dyssect` with `[slo]`, once packets have been timed.";
    SLO_PREDICTED Gauge "paceline_slo_predicted_p99_seconds" []
        "How long they wait on the busiest core, by the model that decides."
        "The model is M/M/1. It is no measurement. Absent where the model has no end, since the core has too much to do.";
    SLO_MEASURED Gauge "paceline_slo_measured_p99_seconds" []
        "How long 99 in 100 packets of the last period waited for their core."
        "Packets of all classes, from their stamp until their core began with their batch, rounded up to an eighth. Absent over a capture, whose packets bring their times along.";
    UTILISATION Gauge "paceline_slo_utilisation_ratio" []
        "Share of its time that the busiest core is used, 0 to 1."
        "For the last period's packets; above 1 it cannot keep up.";
    UTILISATION_MOST Gauge "paceline_slo_utilisation_limit_ratio" []
        "The most that a core may be used, 0 to 1."
        "";
    PROMOTED Gauge "paceline_promoted_values" []
        "Values of the hash whose flows are promoted now."
        "This and the next three are there under `hybrid` alone.";
    PROMOTED_SHARE Gauge "paceline_promoted_packets_ratio" []
        "Share of the last period's packets that are of promoted values, 0 to 1."
        "";
    PROMOTIONS Counter "paceline_promotions_total" []
        "Promotions of a value of the hash with its flows."
        "";
    DEMOTIONS Counter "paceline_demotions_total" []
        "Demotions of a value of the hash with its flows."
        "";
    CHANGES Counter "paceline_strategy_changes_total" []
        "Changes of strategy or number of cores."
        "This and the next three are there under `auto` alone.";
    DECIDED_MPPS Gauge "paceline_decision_predicted_mpps" []
        "Rate that what runs promised, million packets per second."
        "When it was decided on; absent before the first change.";
    OUTCOME_MPPS Gauge "paceline_decision_measured_mpps" []
        "Rate that its first epoch came to, million packets per second."
        "Absent before that is over.";
    CANDIDATES Gauge "paceline_candidate_predicted_mpps" ["strategy", "cores"]
        "Rate that a choice promises now, million packets per second."
        "";
    FUNCTION_PACKETS Counter "paceline_function_packets_total" ["core", "function"]
        "Packets that were a function's business and reached it."
        "";
    FUNCTION_VERDICTS Counter "paceline_function_verdicts_total" ["core", "function", "verdict"]
        "Packets by what a function made of them."
        "";
    FLOWS Gauge "paceline_flows" ["core", "function"]
        "Flows that have a state."
        "Dead ones that were not swept yet included. Absent for functions without states. States that all cores share are counted at core 0.";
    CAPACITY Gauge "paceline_table_capacity_flows" ["core", "function"]
        "Flows that the table can hold."
        "Functions that share a table say the same.";
    LOAD Gauge "paceline_table_load_ratio" ["core", "function"]
        "Flows over what the table can hold, 0 to 1."
        "At 1 new flows are rejected, or old ones evicted.";
    FLOW_CHANGES Counter "paceline_flow_changes_total" ["core", "function", "change"]
        "Flows that came, went, or were refused."
        "`created`; ended: `removed` by a packet, `expired` by time, `evicted` to make room; never begun: `rejected`, since the table was full.";
    EVENTS Counter "paceline_events_total" ["core", "function", "event"]
        "What a function counted beside packets and flows."
        "`paceline nfs NAME` says which.";
    RULES Counter "paceline_rule_decisions_total" ["function", "rule"]
        "How often a rule was the first that fits, where rules were asked; all cores together."
        "`rule` is its number in the chain file, or `default`. Of `firewall` and `access-list`, in runs on interfaces. Packets of known connections ask none. From 0 again where a reload changes rules.";
    IF_RECEIVED Counter "paceline_interface_received_packets_total" ["interface"]
        "Packets that an interface received."
        "This and the next ones are absent where packets come from a capture. They are a tenth of a second old at most.";
    IF_RECEIVED_BYTES Counter "paceline_interface_received_bytes_total" ["interface"]
        "Their bytes."
        "";
    IF_SENT Counter "paceline_interface_sent_packets_total" ["interface"]
        "Packets that an interface sent."
        "";
    IF_SENT_BYTES Counter "paceline_interface_sent_bytes_total" ["interface"]
        "Their bytes."
        "";
    IF_LOST Counter "paceline_interface_lost_packets_total" ["interface", "reason"]
        "Packets that did not come in or did not leave, by why."
        "";
}
