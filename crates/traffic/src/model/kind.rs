//! The kinds of traffic models, by name.

use super::share::Share;

/// What kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// UDP; each flow as likely as any other.
    Uniform,
    /// UDP; the flow of rank *r* with a probability in proportion to *r* to the power of minus the exponent.
    Zipf {
        /// 0 to 10.
        exponent: f64,
    },
    /// UDP; one flow among many small ones.
    Elephant {
        /// The share of packets that is its own, above 0 and below 1.
        share: Share,
    },
    /// TCP connections, both directions, with DCTCP's sizes of a web search's flows.
    Datacenter,
    /// TCP flows, one direction, with the skew of a backbone link.
    Backbone,
    /// TCP connections, both directions, with the skew of a university's data centre.
    University,
    /// One TCP connection.
    SingleFlow {
        /// Only what the client sends.
        one_way: bool,
    },
    /// SYNs from random sources to one service.
    SynFlood {
        /// The share of packets of connections that mean it; below 1.
        legit: Share,
        /// Sources to draw from; `None` for a new one with each SYN.
        sources: Option<u64>,
    },
    /// Sources that probe ports of hosts, among others' connections.
    PortScan {
        /// The share of packets that are probes and the resets that answer, above 0.
        share: Share,
        /// How many sources.
        scanners: u32,
    },
}

impl Kind {
    /// The models' names.
    pub const NAMES: [&'static str; 9] = [
        "uniform",
        "zipf",
        "elephant",
        "datacenter",
        "backbone",
        "university",
        "single-flow",
        "syn-flood",
        "port-scan",
    ];

    /// The model of this name, with its defaults.
    pub fn named(name: &str) -> Option<Kind> {
        const fn share(millionths: u32) -> Share {
            Share::from_millionths(millionths).expect("below 1")
        }
        Some(match name {
            "uniform" => Kind::Uniform,
            "zipf" => Kind::Zipf { exponent: 1.1 },
            "elephant" => Kind::Elephant { share: const { share(500_000) } },
            "datacenter" => Kind::Datacenter,
            "backbone" => Kind::Backbone,
            "university" => Kind::University,
            "single-flow" => Kind::SingleFlow { one_way: false },
            "syn-flood" => Kind::SynFlood { legit: Share::NONE, sources: None },
            "port-scan" => Kind::PortScan { share: const { share(100_000) }, scanners: 4 },
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let index = match self {
            Kind::Uniform => 0,
            Kind::Zipf { .. } => 1,
            Kind::Elephant { .. } => 2,
            Kind::Datacenter => 3,
            Kind::Backbone => 4,
            Kind::University => 5,
            Kind::SingleFlow { .. } => 6,
            Kind::SynFlood { .. } => 7,
            Kind::PortScan { .. } => 8,
        };
        Kind::NAMES[index]
    }

    /// Whether flows are drawn for each packet; else they are connections that begin and end.
    pub(super) fn is_drawn(self) -> bool {
        matches!(self, Kind::Uniform | Kind::Zipf { .. } | Kind::Elephant { .. })
    }

    /// Whether packets come from several connections at a time, and which: all, or those beside the attack.
    pub(super) fn has_connections(self) -> bool {
        match self {
            Kind::SynFlood { legit, .. } => legit > Share::NONE,
            other => !other.is_drawn(),
        }
    }
}
