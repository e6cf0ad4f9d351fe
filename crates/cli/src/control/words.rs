//! What is said over the control socket: a request and its answer, each a line of JSON.

use std::collections::BTreeMap;

use engine::report::ReloadReport;
use live::{InterfaceStatus, Lost};
use serde::{Deserialize, Serialize};

/// The longest request, bytes: a chain file with some room.
pub const REQUEST_MAX: u64 = 16 << 20;

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
    /// End, after the packets on their way.
    Stop,
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
    /// The same as data; see `reloads` in `run.schema.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<serde_json::Value>,
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

    /// A chain took over.
    pub fn reloaded(report: &ReloadReport) -> Answer {
        Answer {
            told: Some(report.text().trim_end().to_owned()),
            reload: serde_json::to_value(report).ok(),
            ..Answer::done()
        }
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
    /// Each interface, in the order of `interfaces`.
    #[serde(default)]
    pub counters: Vec<InterfaceCounts>,
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
        text += &format!("functions: {}\n", functions.join(", "));
        if *reloads > 0 {
            text += &format!("{} took over so far\n", crate::output::plural(*reloads, "chain"));
        }
        for (number, core) in self.cores.iter().enumerate() {
            text += &format!(
                "core {number}: {} packets, {} bytes, {} forwarded, {} sent back, {} to the host, {} dropped\n",
                core.packets, core.bytes, core.forward, core.transmit_back, core.host, core.dropped
            );
        }
        self.counters.iter().for_each(|interface| text += &interface.text());
        text
    }
}
