//! What a strategy decided last and why, and where one flow's packets go: for people and for programs.

use control::{BUCKETS, REGULAR_BUCKETS, Split};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Headers;

use crate::chain::Chain;
use crate::report::words::{count, percent, plural};
use crate::strategies::account::{
    ChoosingTold, Decision, MovedValue, NotPromoted, ObjectiveTally, ObjectiveTold, Place, PriorityTold,
    PromotionTold, SolverTold, Told, Why,
};
use crate::strategies::plan::Plan;

/// What a strategy decided last, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyReport {
    /// The strategy of the run.
    pub strategy: String,
    /// What is hashed to pick a core, in words; empty where nothing is.
    pub hashed: String,
    /// What the strategy says.
    pub told: Told,
    /// By entry or shard, the core that an operator pinned it to.
    pub pins: Vec<(u16, u16)>,
    /// The flow that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowPlace>,
}

/// Where a flow's packets go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowPlace {
    /// The flow in words.
    pub flow: String,
    /// The entry of the indirection table, the shard, or the value of the hash, as `told.unit` says; null where nothing is hashed.
    pub entry: Option<u16>,
    /// The bucket of a shard; those from 32 on are of flows with priority, where the chain has classes.
    pub bucket: Option<u16>,
    /// The core that has the flow; null where each core steps all packets.
    pub core: Option<u16>,
    /// The core that steps its packets, which is another one where they are offloaded.
    pub stepped_by: Option<u16>,
    /// The number of the first packet since when that is so, from 1; 0: from the beginning.
    pub since_packet: u64,
    /// When that came, ns since 1970; 0: from the beginning.
    pub since_ns: u64,
    /// Whether it is promoted: all cores have it.
    pub promoted: bool,
}

impl WhyReport {
    /// The report of a run under this plan.
    pub fn new(plan: &Plan) -> WhyReport {
        let told = plan.account.told();
        let pinned = |entry: u16| plan.pins.of(entry).map(|core| (entry, core));
        WhyReport {
            strategy: plan.strategy.name().to_owned(),
            hashed: plan.hash_fields.map(|fields| fields.to_string()).unwrap_or_default(),
            pins: (0..told.places.len() as u16).filter_map(pinned).collect(),
            told,
            flow: None,
        }
    }

    /// Adds a flow to the report, of which these are a packet's headers.
    pub fn with_flow(mut self, chain: &Chain, plan: &Plan, flow: String, headers: &Headers) -> WhyReport {
        let mut headers = *headers;
        chain.sides.iter().for_each(|sides| sides.mark(&mut headers));
        let place = FlowPlace { flow, ..FlowPlace::default() };
        self.flow = Some(match plan.hash_fields {
            None if plan.cores == 1 => FlowPlace { core: Some(0), stepped_by: Some(0), ..place },
            None => place,
            Some(_) => self.place(plan, plan.assign(chain).entry(&headers), place),
        });
        self
    }

    fn place(&self, plan: &Plan, entry: u16, place: FlowPlace) -> FlowPlace {
        let Told { unit, places, offloaders, promotion, .. } = &self.told;
        match unit.as_str() {
            "shard" => {
                // Under `auto` an entry is more bits of the hash than a strategy tells apart.
                let shards = places.len().max(1) as u16;
                let (shard, bucket) = (entry % shards, entry / shards % u16::from(BUCKETS));
                let Place { core, offloaded, mask, since_packet, since_ns, .. } = places[usize::from(shard)];
                let split = Split { buckets: offloaded, mask };
                let offloader = offloaders.get(usize::from(core)).copied().flatten();
                let stepped_by = offloader.filter(|_| split.has(bucket as u8)).or(Some(core));
                let (entry, bucket, core) = (Some(shard), Some(bucket), Some(core));
                FlowPlace { entry, bucket, core, stepped_by, since_packet, since_ns, ..place }
            }
            "value" => {
                let all = promotion.iter().flat_map(|promotion| &promotion.promoted);
                if let Some(promoted) = all.into_iter().find(|promoted| promoted.value == entry) {
                    let (since_packet, since_ns) = (promoted.since_packet, promoted.since_ns);
                    return FlowPlace { entry: Some(entry), promoted: true, since_packet, since_ns, ..place };
                }
                let moved = promotion.iter().flat_map(|promotion| &promotion.moved);
                if let Some(moved) = moved.into_iter().find(|moved| moved.value == entry) {
                    let MovedValue { core, since_packet, since_ns, .. } = *moved;
                    let core = Some(core);
                    return FlowPlace {
                        entry: Some(entry),
                        core,
                        stepped_by: core,
                        since_packet,
                        since_ns,
                        ..place
                    };
                }
                let owner = usize::from(entry) % plan.indirection_entries % self.told.cores.max(1);
                let core = Some(owner as u16);
                FlowPlace { entry: Some(entry), core, stepped_by: core, ..place }
            }
            _ => match places.get(usize::from(entry) % places.len().max(1)) {
                Some(Place { core, since_packet, since_ns, .. }) => FlowPlace {
                    entry: Some(entry % places.len() as u16),
                    core: Some(*core),
                    stepped_by: Some(*core),
                    since_packet: *since_packet,
                    since_ns: *since_ns,
                    ..place
                },
                None => place,
            },
        }
    }

    /// For people, in lines.
    pub fn text(&self) -> String {
        let WhyReport { strategy, hashed, told, pins, flow } = self;
        if let Some(flow) = flow {
            return flow.text(told, hashed);
        }
        let mut text = match told.runs.is_empty() {
            true => format!("{strategy} decides nothing while it runs\n"),
            false if told.runs == *strategy => {
                format!("{strategy} on {}\n", plural(told.cores as u64, "core"))
            }
            false => {
                format!("{strategy}, which has {} run on {}\n", told.runs, plural(told.cores as u64, "core"))
            }
        };
        if !hashed.is_empty() {
            text += &format!("a packet's {hashed} are hashed\n");
        }
        told.choosing.iter().for_each(|choosing| text += &choosing.text());
        told.promotion.iter().for_each(|promotion| text += &promotion.text());
        told.objective.iter().for_each(|objective| text += &objective.text(told.priority.is_some()));
        told.solver.iter().for_each(|solver| text += &format!("{}\n", solver.text()));
        told.priority.iter().for_each(|priority| text += &priority.text());
        let name = if told.unit == "shard" { "shard" } else { "entry" };
        if let Some(change) = &told.last_change {
            text +=
                &format!("the last change, ahead of packet {}: {}", count(change.packet), change.text(name));
        }
        match &told.last_look {
            Some(look) if told.last_change.as_ref() != Some(look) => {
                text +=
                    &format!("the last look, ahead of packet {}: {}", count(look.packet), look.text(name));
            }
            None if matches!(told.unit.as_str(), "shard" | "entry") && told.choosing.is_none() => {
                text += "nothing was looked at yet: everything is where it was at first\n";
            }
            _ => (),
        }
        for (core, to) in told.offloaders.iter().enumerate() {
            let Some(to) = to else { continue };
            let theirs = told.places.iter().enumerate();
            let theirs = theirs.filter(|(_, place)| usize::from(place.core) == core && place.offloaded > 0);
            let each = theirs.map(|(shard, place)| format!("{shard} ({} of 64 buckets)", place.offloaded));
            text += &format!("core {to} steps of core {core}'s shards: {}\n", list(each));
        }
        for (entry, core) in pins {
            text += &format!("{name} {entry} is pinned to core {core}\n");
        }
        text
    }
}

fn list(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

impl Decision {
    /// `packets by core were 90, 10; 4 entries went: ...`
    fn text(&self, name: &str) -> String {
        let loads = |loads: &[u64]| list(loads.iter().map(|load| count(*load)));
        let why = match self.why.as_str() {
            "loads" => "by their loads",
            "objective" => "by the objective of the chain file",
            "cores" => "since another number of cores gets packets",
            _ => "at random",
        };
        let mut text = format!("{why}, with {} packets by core", loads(&self.loads));
        if self.moved == 0 && self.ratios.is_empty() {
            return text + ": nothing has to go to another core\n";
        }
        text += &format!("; with this change it would have been {}\n", loads(&self.loads_after));
        for moved in &self.moves {
            let packets = plural(moved.packets, "packet");
            text +=
                &format!("  {name} {} from core {} to {}, {packets}\n", moved.entry, moved.from, moved.to);
        }
        if let Some(more) = self.moved.checked_sub(self.moves.len() + 1) {
            text += &format!("  and {} more\n", more + 1);
        }
        for ratio in &self.ratios {
            text += &format!(
                "  of shard {} another core steps {} of 64 buckets, {} before{}\n",
                ratio.shard,
                ratio.to,
                ratio.from,
                if ratio.is_reordered { ", and not the same" } else { "" }
            );
        }
        text
    }
}

impl SolverTold {
    /// In a sentence, without the end of the line.
    pub(super) fn text(&self) -> String {
        let SolverTold { name, answers, missed, overtaken, refused } = self;
        let mut text = format!(
            "solver {name}: {} came into force, {} had no answer in time",
            plural(*answers, "placement"),
            plural(*missed, "question"),
        );
        if *overtaken > 0 {
            text += &format!(", {} came too late for a change by hand", plural(*overtaken, "answer"));
        }
        if *refused > 0 {
            text += &format!(", {} could not be carried out", plural(*refused, "answer"));
        }
        text
    }
}

impl PriorityTold {
    fn text(&self) -> String {
        format!(
            "{} of {} had priority, and stay with the core of their shard; in the last period by core: {}\n",
            count(self.with_priority),
            plural(self.packets, "packet"),
            list(self.loads.iter().map(|load| count(*load))),
        )
    }
}

impl ObjectiveTold {
    /// How it was kept, without the end of the line.
    pub(super) fn over_the_run(&self, has_classes: bool) -> String {
        let ObjectiveTally { periods, kept, fewest, most, mean } = self.so_far;
        let packets = if has_classes { "packets with priority" } else { "packets" };
        let how = if self.measured_p99_us.is_some() { "as measured" } else { "by the model" };
        let cores = match fewest == most {
            true => format!("{} used", plural(most as u64, "core")),
            false => format!("{fewest} to {most} cores used, {mean:.1} in the mean"),
        };
        format!(
            "objective: 99 in 100 {packets} wait {} us at most: kept at the end of {kept} of {} ({how}); {cores}",
            if self.p99_us < 10.0 { format!("{:.3}", self.p99_us) } else { format!("{:.0}", self.p99_us) },
            plural(periods, "period"),
        )
    }

    fn text(&self, has_classes: bool) -> String {
        let (packets, busiest) = match has_classes {
            true => ("packets with priority", "the busiest worker of"),
            false => ("packets", "the busiest of"),
        };
        let predicted = match self.predicted_p99_us {
            Some(us) => format!("{us:.0} us"),
            None => "ever longer, since the core has too much to do".to_owned(),
        };
        let measured = self.measured_p99_us.map_or(String::new(), |us| {
            format!("; 99 in 100 of all waited {us:.0} us at most, as measured in the last period")
        });
        format!(
            "objective: 99 in 100 {packets} wait {:.0} us at most; by the model {predicted}, on {busiest} {}, which is used for {} of its time where {} is allowed; a packet takes {:.0} ns{measured}\n",
            self.p99_us,
            plural(self.used as u64, "core"),
            percent(self.utilisation),
            percent(self.most),
            self.service_ns,
        )
    }
}

impl PromotionTold {
    fn text(&self) -> String {
        let share = |packets: u64| percent(packets as f64 / self.packets.max(1) as f64);
        let mut text = format!(
            "{} and {} so far, {} of them to another core; in the last period {}, {} of them of promoted values; the others by core: {}\n",
            plural(self.promotions, "promotion"),
            plural(self.demotions, "demotion"),
            count(self.moves),
            plural(self.packets, "packet"),
            share(self.told),
            list(self.loads.iter().map(|load| count(*load))),
        );
        for promoted in &self.promoted {
            text += &format!(
                "value {} of the hash is promoted, with {} of packets, since packet {}\n",
                promoted.value,
                share(promoted.packets),
                count(promoted.since_packet),
            );
        }
        if let Some(NotPromoted { value, core, packets, why }) = self.next {
            let why = match why {
                Why::Small => "it has less than an eighth of a core's mean",
                Why::NoGain => {
                    "to replay its packets on all cores would take as much as its core would have less, and no other core has room for it"
                }
                Why::Full => "as many are promoted as can be",
                Why::Enough => "as many changes were made at once as may be: it is next",
            };
            text += &format!(
                "value {value}, the largest other one of core {core}, the busiest, with {} of packets, is not promoted: {why}\n",
                share(packets)
            );
        }
        text
    }
}

impl ChoosingTold {
    fn text(&self) -> String {
        let mut text = format!("{} of strategy or cores so far", plural(self.changes, "change"));
        if let (Some(predicted), Some(before)) = (self.predicted_mpps, self.before_mpps) {
            text += &format!(
                "; what runs since packet {} promised {predicted:.2} Mpps, where what ran before promised {before:.2}",
                count(self.since_packet)
            );
        }
        text += &match self.measured_mpps {
            Some(mpps) => format!("; its first epoch came to {mpps:.2} Mpps\n"),
            None => "; no epoch of it has been measured\n".to_owned(),
        };
        let mut candidates: Vec<_> = self.candidates.iter().collect();
        candidates.sort_by(|a, b| b.predicted_mpps.total_cmp(&a.predicted_mpps));
        for candidate in candidates {
            let cores = plural(candidate.cores as u64, "core");
            text += &format!(
                "  {} on {cores}: {:.2} Mpps predicted\n",
                candidate.strategy, candidate.predicted_mpps
            );
        }
        if let Some(packet_ns) = self.packet_ns {
            let replay = self.replay_ns.map_or("not measured".to_owned(), |ns| format!("{ns:.0} ns"));
            text += &format!(
                "a packet costs its core {packet_ns:.0} ns, one of another core a replica {replay}\n"
            );
        }
        let (gain, epochs) = self.hysteresis;
        text += &match &self.ahead {
            Some((strategy, so_far)) => format!(
                "{strategy} has promised at least {} more for {so_far} of the {} that a change takes\n",
                percent(gain),
                plural(epochs.into(), "epoch"),
            ),
            None => format!(
                "nothing promises {} more, which a change takes for {}\n",
                percent(gain),
                plural(epochs.into(), "epoch")
            ),
        };
        text
    }
}

impl FlowPlace {
    fn text(&self, told: &Told, hashed: &str) -> String {
        let since = match self.since_packet {
            0 => "from the beginning".to_owned(),
            packet => format!("since packet {}", count(packet)),
        };
        let name = if told.unit == "shard" { "shard" } else { "entry" };
        let way = match (self.entry, self.bucket) {
            (Some(value), _) if told.unit == "value" => format!("value {value} of the hash"),
            (Some(entry), Some(bucket)) => {
                let has_priority = told.priority.is_some() && bucket >= u16::from(REGULAR_BUCKETS);
                let class = if has_priority { ", with priority" } else { "" };
                format!("{name} {entry}, bucket {bucket}{class}")
            }
            (Some(entry), None) => format!("{name} {entry}"),
            (None, _) => "no entry".to_owned(),
        };
        match (self.core, self.stepped_by) {
            _ if self.promoted => {
                format!("{}: {way} is promoted {since}: all cores step its packets\n", self.flow)
            }
            (Some(core), Some(other)) if core != other => {
                format!(
                    "{}: {way} is core {core}'s {since}, which has core {other} step its packets\n",
                    self.flow
                )
            }
            (Some(core), _) if hashed.is_empty() => format!("{}: core {core} has all packets\n", self.flow),
            (Some(core), _) => format!("{}: {way} is core {core}'s {since}; by its {hashed}\n", self.flow),
            (None, _) => format!(
                "{}: its packets go to all cores in turn, under {}\n",
                self.flow,
                if told.runs.is_empty() { "this strategy" } else { &told.runs }
            ),
        }
    }
}
