//! The options of the firewall, as a chain file has them and as checked.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nf::{OptionDoc, OptionError};
use serde::Deserialize;
use wire::protocol;

use super::rule::Action;
use crate::PassOrDrop;
use crate::conntrack::{self, Gaps, MAX_TIMEOUT_S, Settings};

/// What a chain file may say about the firewall.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The first that matches decides.
    pub rules: Vec<String>,
    /// Sets of addresses by their names, which rules write as `@name`.
    pub sets: BTreeMap<String, Vec<String>>,
    /// Prefixes of the hosts of each side inside, by its name, which rules write as `in NAME` and `out NAME`.
    pub sides: BTreeMap<String, Vec<String>>,
    /// What happens where no rule matches.
    pub default: Action,
    /// What happens to new connections that a rule accepts while the table is full.
    pub when_full: PassOrDrop,
    /// Whether an ACK begins a TCP connection whose handshake was not seen.
    pub pick_up: bool,
    /// Whether TCP that lies outside of its connection's window is of the connection all the same.
    pub liberal: bool,
    /// What becomes of a TCP connection of which packets were missed.
    pub gaps: Gaps,
    /// How long a TCP connection is kept after its first SYN, s.
    pub syn_sent_timeout_s: u32,
    /// How long an open TCP connection is kept without a packet, s.
    pub established_timeout_s: u32,
    /// How long a UDP flow is kept without an answer, s.
    pub udp_timeout_s: u32,
    /// How long a UDP flow is kept that was answered, s.
    pub udp_stream_timeout_s: u32,
    /// How long an ICMP query is kept, s.
    pub icmp_timeout_s: u32,
    /// How long a flow of another protocol is kept, s.
    pub generic_timeout_s: u32,
}

impl Default for Options {
    fn default() -> Options {
        let tcp = conntrack::Options::default();
        Options {
            rules: Vec::new(),
            sets: BTreeMap::new(),
            sides: BTreeMap::new(),
            default: Action::Drop,
            when_full: PassOrDrop::Drop,
            pick_up: tcp.pick_up,
            liberal: tcp.liberal,
            gaps: tcp.gaps,
            syn_sent_timeout_s: tcp.tcp_timeout_syn_sent,
            established_timeout_s: tcp.tcp_timeout_established,
            udp_timeout_s: 30,
            udp_stream_timeout_s: 120,
            icmp_timeout_s: 30,
            generic_timeout_s: 600,
        }
    }
}

impl Options {
    /// How TCP is followed.
    pub(super) fn tracking(&self) -> Result<Settings, OptionError> {
        Settings::new(conntrack::Options {
            pick_up: self.pick_up,
            liberal: self.liberal,
            gaps: self.gaps,
            tcp_timeout_syn_sent: self.syn_sent_timeout_s,
            tcp_timeout_established: self.established_timeout_s,
            ..conntrack::Options::default()
        })
        .map_err(|error| {
            let option = match error.option {
                "tcp_timeout_syn_sent" => "syn_sent_timeout_s",
                "tcp_timeout_established" => "established_timeout_s",
                other => other,
            };
            OptionError { option, ..error }
        })
    }
}

/// The time-outs of what is not TCP, ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    udp_ms: u32,
    udp_stream_ms: u32,
    icmp_ms: u32,
    generic_ms: u32,
}

impl Timeouts {
    pub(super) fn new(options: &Options) -> Result<Timeouts, OptionError> {
        let ms = |option: &'static str, timeout_s: u32| match timeout_s {
            1..=MAX_TIMEOUT_S => Ok(timeout_s * 1_000),
            _ => Err(OptionError { option, message: format!("must be 1 to {MAX_TIMEOUT_S} seconds") }),
        };
        Ok(Timeouts {
            udp_ms: ms("udp_timeout_s", options.udp_timeout_s)?,
            udp_stream_ms: ms("udp_stream_timeout_s", options.udp_stream_timeout_s)?,
            icmp_ms: ms("icmp_timeout_s", options.icmp_timeout_s)?,
            generic_ms: ms("generic_timeout_s", options.generic_timeout_s)?,
        })
    }

    #[inline]
    pub(super) fn of(&self, protocol: u8, is_answered: bool) -> u32 {
        match protocol {
            protocol::UDP if is_answered => self.udp_stream_ms,
            protocol::UDP => self.udp_ms,
            protocol::ICMP | protocol::ICMPV6 => self.icmp_ms,
            _ => self.generic_ms,
        }
    }
}

pub(super) const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "rules",
        default: "[]",
        help: "the first that matches decides: \"accept|drop|reject PROTOCOL from ADDRESSES [port PORTS] to ADDRESSES \
               [port PORTS] [in SIDE] [out SIDE] [type TYPES] [flags FLAGS] [state STATES] [rate [over] RATE] [burst PACKETS] [log]\"",
    },
    OptionDoc {
        name: "sets",
        default: "{}",
        help: "sets of addresses by name, which rules write as @name: { office = [\"10.0.0.0/8\"] }",
    },
    OptionDoc {
        name: "sides",
        default: "{}",
        help: "hosts of each side inside, which rules write as in NAME and out NAME; where nothing is said, those of the chain's \
               [[interface]]: { dmz = [\"10.0.1.0/24\"] }",
    },
    OptionDoc {
        name: "default",
        default: "\"drop\"",
        help: "what happens where no rule matches: \"drop\", \"reject\" or \"accept\"",
    },
    OptionDoc {
        name: "when_full",
        default: "\"drop\"",
        help: "new connections that a rule accepts while the table is full: \"drop\", or \"pass\" unknown",
    },
    OptionDoc {
        name: "pick_up",
        default: "true",
        help: "whether any ACK is new that belongs to no known connection; false makes it invalid",
    },
    OptionDoc {
        name: "liberal",
        default: "false",
        help: "whether TCP outside of its connection's window is established; false makes it invalid",
    },
    OptionDoc {
        name: "gaps",
        default: "\"auto\"",
        help: "what happens to a TCP connection that misses packets: \"resync\", \"strict\" or \"auto\"; conntrack's page explains them",
    },
    OptionDoc {
        name: "syn_sent_timeout_s",
        default: "120",
        help: "a TCP connection whose SYN has no answer is forgotten after this time",
    },
    OptionDoc {
        name: "established_timeout_s",
        default: "432000",
        help: "an open TCP connection without packets is forgotten after this time",
    },
    OptionDoc { name: "udp_timeout_s", default: "30", help: "the same for a UDP flow that has no answer" },
    OptionDoc {
        name: "udp_stream_timeout_s",
        default: "120",
        help: "the same for a UDP flow with an answer",
    },
    OptionDoc { name: "icmp_timeout_s", default: "30", help: "the same for an ICMP query" },
    OptionDoc { name: "generic_timeout_s", default: "600", help: "the same for other protocols" },
];
