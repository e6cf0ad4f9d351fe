//! What is said over the control socket: a request and its answer, each a line of JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::report::{FlowReport, LoggedRule, ReloadReport, TraceReport, WhyReport};
use engine::{RuleCount, UpdateTimes};
use io::filter::{Filter, Instruction, Program};
use live::{InterfaceStatus, Lost};
use serde::{Deserialize, Serialize};

use super::flow::FlowWords;
use super::in_kernel::{KernelStatus, TableListing};
use super::wanted::FlowFilter;
use crate::input::MAX_TEXT_BYTES;
use crate::rule_log::LogEntry;

/// The longest request, bytes: a chain file with some room.
pub const REQUEST_MAX: u64 = MAX_TEXT_BYTES + (1 << 20);

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How the run goes on.
    Status,
    /// Have another chain take over.
    Reload {
        /// What errors call the chain file.
        name: String,
        /// What is in it.
        text: String,
    },
    /// Have so many of the cores get packets, and park the others.
    Cores {
        /// How many.
        cores: usize,
    },
    /// What the strategy decided last, and why; or where a flow's packets go.
    Why {
        /// The flow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flow: Option<FlowWords>,
    },
    /// Have an entry of the indirection table, or a shard, go to a core; then it goes on as loads ask for.
    Move {
        /// Its number.
        entry: u16,
        /// The core's.
        core: u16,
    },
    /// Have it go there, and stay.
    Pin {
        /// Its number.
        entry: u16,
        /// The core's.
        core: u16,
    },
    /// Have it go as loads ask for.
    Unpin {
        /// Its number.
        entry: u16,
    },
    /// Set a number that the strategy declares, and say what all of them are.
    Tune {
        /// Its name and its value; without it none is set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<(String, u64)>,
    },
    /// Change a set of addresses of the chain.
    Set {
        /// Its name.
        name: String,
        /// Prefixes that it is to have.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        add: Vec<String>,
        /// Prefixes that it has, and is to have no more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        remove: Vec<String>,
        /// How long it is to have those that are added; without it for good.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<u64>,
    },
    /// What is in the chain's sets.
    Sets {
        /// The set's name; without it all sets are listed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How many prefixes of each are listed at most.
        #[serde(default = "default_members")]
        most: usize,
    },
    /// Change backends of a function.
    Backend {
        /// Their name as the list has it, or their address.
        name: String,
        /// The service, as the list has it; without it all that they serve.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service: Option<String>,
        /// What is to become of them.
        change: BackendChange,
    },
    /// How backends of functions are.
    Backends {
        /// Their name, or their address; without it all are listed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Change a table of a program in the kernel.
    Table {
        /// A line as test files have it: `add`, `remove` or `setdefault`.
        line: String,
    },
    /// What is in the tables of a program in the kernel whose entries come from outside.
    Tables {
        /// The table's name, or how it ends; without it all tables are listed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How many entries of each are listed at most.
        #[serde(default = "default_members")]
        most: usize,
    },
    /// End, after the packets on their way.
    Stop,
    /// Show the way of packets through the chain: lines follow the answer.
    Trace {
        /// Which packets, for people: an expression of pcap-filter(7). Empty: all.
        #[serde(default)]
        filter: String,
        /// The filter, compiled for Ethernet to classic BPF: code, jt, jf and k of each instruction. Empty for all
        /// packets.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        program: Vec<[u32; 4]>,
        /// The most packets.
        #[serde(default = "default_count")]
        count: u64,
        /// The longest time, in seconds; without it until the count is reached or the connection is closed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<u64>,
    },
    /// Copy dropped packets: lines follow the answer.
    Drops {
        /// The most packets a second.
        #[serde(default = "default_per_second")]
        per_second: u64,
        /// The longest time, in seconds; without it until the connection is closed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<u64>,
    },
    /// Tell of packets that rules with `log` drop: lines follow the answer.
    Log {
        /// The most packets a second.
        #[serde(default = "default_per_second")]
        per_second: u64,
        /// The longest time, in seconds; without it until the connection is closed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<u64>,
    },
    /// List flows: lines follow the answer.
    Flows {
        /// Which.
        #[serde(default)]
        filter: FlowFilter,
        /// The most flows; without it all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
    },
    /// How often the rules of functions have decided.
    Rules,
    /// Remove flows.
    KillFlows {
        /// Which: it has to say something.
        filter: FlowFilter,
    },
}

/// The most packets of a trace where nobody says.
pub const COUNT: u64 = 100;

/// The most packets of one trace.
pub const COUNT_MAX: u64 = 100_000;

/// The most dropped packets a second where nobody says.
pub const PER_SECOND: u64 = 1_000;

fn default_count() -> u64 {
    COUNT
}

fn default_per_second() -> u64 {
    PER_SECOND
}

/// The most prefixes of a set that are listed where nobody says.
pub const MEMBERS: usize = 100;

/// The most prefixes of a set that are listed.
pub const MEMBERS_MAX: usize = 10_000;

fn default_members() -> usize {
    MEMBERS
}

/// A filter's program, for a request.
pub fn program_of(filter: &Filter) -> Vec<[u32; 4]> {
    let program = filter.program(wire::LinkType::Ethernet);
    let instructions = program.filter(|_| !filter.expression().trim().is_empty()).map(Program::instructions);
    let numbers = |Instruction { code, jt, jf, k }: Instruction| [code.into(), jt.into(), jf.into(), k];
    instructions.unwrap_or_default().iter().copied().map(numbers).collect()
}

/// The filter of a request.
pub fn filter_of(expression: &str, program: &[[u32; 4]]) -> Result<Filter, String> {
    if expression.trim().is_empty() && program.is_empty() {
        return Filter::compile("").map_err(|error| error.to_string());
    }
    let number = |[code, jt, jf, k]: [u32; 4]| {
        let (code, jt, jf) = (u16::try_from(code).ok()?, u8::try_from(jt).ok()?, u8::try_from(jf).ok()?);
        Some(Instruction { code, jt, jf, k })
    };
    let instructions = program.iter().copied().map(number).collect::<Option<Vec<_>>>();
    let program =
        instructions.ok_or_else(|| "an instruction of `program` is none of classic BPF".to_owned())?;
    let program = Program::new(program).map_err(|error| {
        format!("{error}; `program` is the filter compiled for Ethernet, as `tcpdump -ddd` prints it")
    })?;
    Ok(Filter::of_ethernet(expression.to_owned(), program))
}

/// A line behind the answer to `trace`, `drops`, `log` or `flows`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Line {
    /// A packet's way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traced: Option<TraceReport>,
    /// A packet that was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<DroppedLine>,
    /// A packet that a rule with `log` dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged: Option<LogEntry>,
    /// A flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowReport>,
    /// There are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// A packet that was dropped.
#[derive(Debug, Serialize, Deserialize)]
pub struct DroppedLine {
    /// Its number in the run, from 1.
    pub packet: u64,
    /// When it came, ns since 1970.
    pub time_ns: u64,
    /// The interface by which it came.
    pub interface: String,
    /// Its bytes on the wire.
    pub bytes: u32,
    /// Who dropped it: a function, `malformed`, `router`, `port`, `engine`.
    pub by: String,
    /// Why.
    pub reason: String,
    /// The rule that dropped it, if that asks for a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<LoggedRule>,
    /// Its bytes, in hexadecimal: as it came in, or behind the chain as the chain left it.
    pub data: String,
}

/// What came of it all.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct End {
    /// Packets or flows that were told.
    pub told: u64,
    /// To the end of a trace: packets that matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// Packets that were not told: a trace had not been read, or a second was full. No flow is missed for that.
    pub missed: u64,
    /// What is to be known of a list of flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<ListEnd>,
}

/// How exact a list of flows is, and what it cost.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ListEnd {
    /// Flows that went from core to core meanwhile: so many may be in the list twice, or not at all.
    pub moved: u64,
    /// Whether another chain or strategy took over meanwhile, or the run ended: the list may lack flows then.
    pub changed: bool,
    /// Whether there may be more flows: the limit was reached, or the connection's sending half was closed.
    pub limited: bool,
    /// How long cores worked on it, all together.
    pub worked_ns: u64,
}

/// What is answered.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// To `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// To `reload`: in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// To `reload`: the report as data; see `reloads` in `run.schema.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<serde_json::Value>,
    /// To `rules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleLine>>,
    /// To `tune`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunables: Option<Vec<TunableLine>>,
    /// To `why`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Box<WhyReport>>,
    /// To `sets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sets: Option<Vec<SetStatus>>,
    /// To `backends`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<BackendStatus>>,
    /// To `tables`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<TableListing>>,
}

impl Answer {
    /// It was done.
    pub fn done() -> Answer {
        Answer { ok: true, ..Answer::default() }
    }

    /// It was not.
    pub fn refused(error: impl ToString) -> Answer {
        Answer { error: Some(error.to_string()), ..Answer::default() }
    }

    /// It was done, and is told in words; or it was not.
    pub fn told(told: Result<String, String>) -> Answer {
        match told {
            Ok(told) => Answer { told: Some(told), ..Answer::done() },
            Err(why) => Answer::refused(why),
        }
    }

    /// A chain took over.
    pub fn reloaded(report: &ReloadReport) -> Answer {
        Answer {
            told: Some(report.text().trim_end().to_owned()),
            reload: serde_json::to_value(report).ok(),
            ..Answer::done()
        }
    }
}

/// A number that the strategy lets its user set.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunableLine {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// The least and the most that it may be.
    pub range: (u64, u64),
    /// Whether it may change while the strategy runs.
    pub live: bool,
    /// What it is.
    pub help: String,
}

impl TunableLine {
    /// For people: one line.
    pub fn text(&self) -> String {
        let TunableLine { name, value, range: (least, most), live, help } = self;
        let when = if *live { "" } else { ", set when the run begins" };
        format!("{name} = {value}  {help} ({least} to {most}{when})\n")
    }
}

/// What is in a set.
#[derive(Debug, Serialize, Deserialize)]
pub struct SetStatus {
    /// Its name.
    pub name: String,
    /// The function of the chain that has it.
    pub function: String,
    /// How many prefixes it has.
    pub prefixes: usize,
    /// The first of them.
    pub members: Vec<Member>,
}

/// A prefix in a set.
#[derive(Debug, Serialize, Deserialize)]
pub struct Member {
    /// As it was written.
    pub prefix: String,
    /// For how long it stays; absent if it does for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

impl SetStatus {
    /// For people.
    pub fn text(&self) -> String {
        let SetStatus { name, function, prefixes, members } = self;
        let mut text = format!(
            "{name} of {function}: {}\n",
            crate::output::plural_of(*prefixes as u64, "prefix", "prefixes")
        );
        for Member { prefix, seconds } in members {
            let lasts = seconds.map_or_else(String::new, |seconds| format!("  for {seconds} s"));
            text += &format!("  {prefix}{lasts}\n");
        }
        match prefixes - members.len() {
            0 => text,
            more => format!("{text}  and {more} more\n"),
        }
    }
}

/// What is to become of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendChange {
    /// It takes new flows again.
    Up,
    /// It takes no new flows, and keeps those that it has.
    Drain,
    /// It takes none.
    Down,
    /// Its share of new flows.
    Weight(u32),
}

/// A backend, and how it is.
#[derive(Debug, Serialize, Deserialize)]
pub struct BackendStatus {
    /// The function of the chain that has it.
    pub function: String,
    /// The service that it serves.
    pub service: String,
    /// Its name.
    pub backend: String,
    /// As the chain file or a hand has it: `active`, `drain` or `down`.
    pub state: String,
    /// Its share of new flows, relative to the others'.
    pub weight: u32,
    /// What its checks found, `good` or `failed`; absent if it is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    /// Why the last check was a bad one, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl BackendStatus {
    /// For people: a line for each, behind one for each service.
    pub fn text(all: &[BackendStatus]) -> String {
        let mut text = String::new();
        let width = all.iter().map(|own| own.backend.len()).max().unwrap_or(0);
        let mut before = None;
        for BackendStatus { function, service, backend, state, weight, health, why } in all {
            if before.replace((function, service)) != Some((function, service)) {
                text += &format!("{function}: {service}\n");
            }
            let health = health.as_ref().map_or_else(String::new, |health| format!("  {health}"));
            let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            let line = format!("  {backend:width$}  {state:<6}  weight {weight:<4}{health}{why}");
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// A rule of a function.
#[derive(Debug, Serialize, Deserialize)]
pub struct RuleLine {
    /// The function's name.
    pub function: String,
    /// Its number in the chain file, or `default`.
    pub rule: String,
    /// As the chain file has it.
    pub text: String,
    /// How often it was the first that fits, where rules were asked.
    pub decided: u64,
}

impl RuleLine {
    pub fn new(RuleCount { function, rule, text, decided }: RuleCount) -> RuleLine {
        RuleLine { function, rule, text, decided }
    }
}

/// How a run goes on.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    /// Version of Paceline.
    pub paceline: String,
    /// The chain that runs.
    pub chain: String,
    /// Its functions, in order.
    pub functions: Vec<String>,
    /// How packets are spread.
    pub strategy: String,
    /// The interfaces.
    pub interfaces: Vec<String>,
    /// Since the run began.
    pub uptime_seconds: f64,
    /// Chains that took over so far.
    pub reloads: u64,
    /// Packets so far.
    pub packets: u64,
    /// Each core.
    pub cores: Vec<CoreStatus>,
    /// How many of them get packets; the others are parked.
    #[serde(default)]
    pub active_cores: usize,
    /// Where entries of the indirection table move: how long updates took to act.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<UpdatesStatus>,
    /// Each interface, in the order of `interfaces`.
    #[serde(default)]
    pub counters: Vec<InterfaceCounts>,
    /// Captures of the run that could not be written, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<String>,
    /// With `--backend xdp`: what else there is to say of a program in the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelStatus>,
}

/// Entries of the indirection table that went to other cores while packets came.
#[derive(Debug, Serialize, Deserialize)]
pub struct UpdatesStatus {
    /// Entries that have come to their new core, with their flows.
    pub entries: u64,
    /// From the change of the table until they had, on average.
    pub mean_microseconds: f64,
    /// The longest.
    pub longest_microseconds: f64,
}

impl From<UpdateTimes> for UpdatesStatus {
    fn from(UpdateTimes { entries, mean, longest, .. }: UpdateTimes) -> UpdatesStatus {
        let microseconds = |time: Duration| time.as_nanos() as f64 / 1e3;
        UpdatesStatus {
            entries,
            mean_microseconds: microseconds(mean),
            longest_microseconds: microseconds(longest),
        }
    }
}

/// One interface of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceCounts {
    pub name: String,
    /// What was chosen for it; `gone` if there is none of that name.
    pub socket: String,
    pub received: u64,
    pub received_bytes: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    /// Received packets of which a checksum was left to a card, and was computed here.
    pub completed: u64,
    /// By reason, those that are not 0.
    pub lost: BTreeMap<String, u64>,
}

impl InterfaceCounts {
    pub fn new(status: InterfaceStatus) -> InterfaceCounts {
        let InterfaceStatus { name, socket, counters } = status;
        let lost = Lost::ALL.iter().zip(counters.lost).filter(|(_, count)| *count > 0);
        InterfaceCounts {
            name,
            socket,
            received: counters.received,
            received_bytes: counters.received_bytes,
            sent: counters.sent,
            sent_bytes: counters.sent_bytes,
            completed: counters.completed,
            lost: lost.map(|(why, count)| (why.name().to_owned(), count)).collect(),
        }
    }

    fn text(&self) -> String {
        let InterfaceCounts { name, received, received_bytes, sent, sent_bytes, lost, .. } = self;
        let lost: Vec<String> = lost.iter().map(|(why, count)| format!(", {count} {why}")).collect();
        let is_gone = if self.socket == "gone" { " (gone)" } else { "" };
        format!(
            "{name}{is_gone}: {received} packets, {received_bytes} bytes received, {sent} packets, {sent_bytes} bytes sent{}\n",
            lost.concat()
        )
    }
}

/// One core of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct CoreStatus {
    pub packets: u64,
    pub bytes: u64,
    pub forward: u64,
    pub transmit_back: u64,
    pub host: u64,
    pub dropped: u64,
}

impl Status {
    /// For people.
    pub fn text(&self) -> String {
        let Status { chain, strategy, functions, interfaces, uptime_seconds, reloads, packets, .. } = self;
        let mut text = format!(
            "{chain} on {} for {uptime_seconds:.0} s, strategy {strategy} on {}: {}\n",
            interfaces.join(" and "),
            crate::output::plural(self.cores.len() as u64, "core"),
            crate::output::plural(*packets, "packet"),
        );
        match &self.kernel {
            None => text += &format!("functions: {}\n", functions.join(", ")),
            Some(kernel) => text += &kernel.text(),
        }
        if *reloads > 0 {
            text += &format!("{} took over so far\n", crate::output::plural(*reloads, "chain"));
        }
        if let Some(UpdatesStatus { entries, mean_microseconds, longest_microseconds }) = &self.updates {
            text += &format!(
                "{} of entries to other cores; until their flows were there: {mean_microseconds:.0} us on average, {longest_microseconds:.0} us at most\n",
                crate::output::plural(*entries, "move"),
            );
        }
        for (number, core) in self.cores.iter().enumerate() {
            let parked = if number < self.active_cores { "" } else { " (parked)" };
            text += &format!(
                "core {number}{parked}: {} packets, {} bytes, {} forwarded, {} sent back, {} to the host, {} dropped\n",
                core.packets, core.bytes, core.forward, core.transmit_back, core.host, core.dropped
            );
        }
        self.counters.iter().for_each(|interface| text += &interface.text());
        self.unwritten.iter().for_each(|why| text += &format!("{why}\n"));
        text
    }
}
