//! What a chain file may say about the balancer.

use core::fmt;
use core::net::IpAddr;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nf::{OptionDoc, OptionError};
use serde::Deserialize;
use wire::protocol;

use super::state::Phase;
use super::vip::{ServicePort, Vip};

/// Options of [`LoadBalancer`](super::LoadBalancer): see the [module's page](super).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// What to balance.
    pub services: Vec<ServiceOptions>,
    /// How a new flow finds its backend.
    pub policy: Policy,
    /// Whether packets from backends get the service's address and port as source.
    pub rewrite_answers: bool,
    /// How long a TCP flow of one packet is kept, s.
    pub syn_timeout_s: u32,
    /// How long an open TCP flow is kept without a packet, s.
    pub tcp_timeout_s: u32,
    /// How long a TCP flow is kept without a packet after a FIN or RST, s.
    pub closing_timeout_s: u32,
    /// How long a UDP flow is kept without a packet, s.
    pub udp_timeout_s: u32,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceOptions {
    /// The address that clients send to, or the addresses.
    pub vip: Vip,
    /// The port, or every one.
    pub port: ServicePort,
    /// Its protocol.
    #[serde(default)]
    pub protocol: ServiceProtocol,
    /// Who serves it.
    pub backends: Vec<BackendOptions>,
}

/// One backend of a service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendOptions {
    /// What becomes the destination address; if not given, it stays.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// What becomes the destination port; if not given, it stays.
    #[serde(default)]
    pub port: Option<u16>,
    /// What becomes the destination MAC address; if not given, it stays.
    #[serde(default)]
    pub mac: Option<Mac>,
    /// Its share, relative to the other backends'.
    #[serde(default = "one")]
    pub weight: u32,
    /// Whether it takes flows.
    #[serde(default)]
    pub state: BackendState,
}

fn one() -> u32 {
    1
}

/// How a new flow finds its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// By the consistent hash of its 5-tuple.
    Maglev,
    /// At random.
    Random,
    /// In turns, by weight.
    RoundRobin,
}

/// What a service speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServiceProtocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

impl ServiceProtocol {
    pub(super) fn number(self) -> u8 {
        match self {
            ServiceProtocol::Tcp => protocol::TCP,
            ServiceProtocol::Udp => protocol::UDP,
        }
    }
}

/// Whether a backend takes flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendState {
    /// It does.
    #[default]
    Active,
    /// It keeps those that it has.
    Drain,
    /// It keeps none.
    Down,
}

impl fmt::Display for BackendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BackendState::Active => "active",
            BackendState::Drain => "drain",
            BackendState::Down => "down",
        })
    }
}

/// A MAC address, as `02:00:00:00:00:0a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Mac(pub [u8; 6]);

impl TryFrom<String> for Mac {
    type Error = String;

    fn try_from(text: String) -> Result<Mac, String> {
        let no_mac = || format!("\"{text}\" is no MAC address; write one like \"02:00:00:00:00:0a\"");
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let is_byte =
                |part: &&str| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            let part = parts.next().filter(is_byte).ok_or_else(no_mac)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| no_mac())?;
        }
        match parts.next() {
            Some(_) => Err(no_mac()),
            None if mac[0] & 1 == 1 => Err(format!("\"{text}\" is a group's MAC address, not a backend's")),
            None => Ok(Mac(mac)),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            services: Vec::new(),
            policy: Policy::Maglev,
            rewrite_answers: false,
            syn_timeout_s: 60,
            tcp_timeout_s: 900,
            closing_timeout_s: 120,
            udp_timeout_s: 300,
        }
    }
}

pub(super) const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "services",
        default: "[]",
        help: "what to balance: tables of vip, port, protocol (\"tcp\" or \"udp\") and backends, which are \
               tables of address, port, mac, weight and state (\"active\", \"drain\" or \"down\")",
    },
    OptionDoc {
        name: "policy",
        default: "\"maglev\"",
        help: "how a new flow finds its backend: \"maglev\", by a consistent hash, \"round-robin\" or \"random\"",
    },
    OptionDoc {
        name: "rewrite_answers",
        default: "false",
        help: "give packets from backends the service's address and port as source",
    },
    OptionDoc {
        name: "syn_timeout_s",
        default: "60",
        help: "forget a TCP flow of one packet after this time",
    },
    OptionDoc {
        name: "tcp_timeout_s",
        default: "900",
        help: "forget an open TCP flow after this time without a packet",
    },
    OptionDoc { name: "closing_timeout_s", default: "120", help: "the same after a FIN or RST" },
    OptionDoc {
        name: "udp_timeout_s",
        default: "300",
        help: "forget a UDP flow after this time without a packet",
    },
];

/// The time-outs, checked, by [`Phase`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts([u64; 4]);

impl Timeouts {
    pub(super) fn new(options: &Options) -> Result<Timeouts, OptionError> {
        let ns = |option, timeout_s| match timeout_s {
            0 => Err(OptionError { option, message: "must be at least 1".into() }),
            _ => Ok(u64::from(timeout_s) * 1_000_000_000),
        };
        let mut by_phase = [0; 4];
        by_phase[Phase::Opening as usize] = ns("syn_timeout_s", options.syn_timeout_s)?;
        by_phase[Phase::Open as usize] = ns("tcp_timeout_s", options.tcp_timeout_s)?;
        by_phase[Phase::Closing as usize] = ns("closing_timeout_s", options.closing_timeout_s)?;
        by_phase[Phase::Datagrams as usize] = ns("udp_timeout_s", options.udp_timeout_s)?;
        Ok(Timeouts(by_phase))
    }

    #[inline]
    pub(super) fn of(&self, phase: Phase) -> u64 {
        self.0[phase as usize]
    }
}
