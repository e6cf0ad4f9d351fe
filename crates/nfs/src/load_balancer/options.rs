//! What a chain file may say about the balancer.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nf::{HttpCheck, OptionDoc, OptionError};
use serde::Deserialize;
use wire::{TunnelVia, protocol};

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
    /// Which fields are hashed.
    pub hash: HashOf,
    /// What becomes of open TCP connections to a backend that is down.
    pub when_down: WhenDown,
    /// Where tunnels to backends begin: at most one address of each IP version.
    pub tunnel_sources: Vec<IpAddr>,
    /// The UDP port to which `forward = "gue"` sends.
    pub gue_port: u16,
    /// Whether pings to a VIP are answered.
    pub answer_pings: bool,
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
    /// From one check of a backend to the next, ms.
    pub check_interval_ms: u32,
    /// How long a check may take, ms.
    pub check_timeout_ms: u32,
    /// After how many good checks in a row a backend that failed takes flows again.
    pub check_rise: u32,
    /// After how many bad checks in a row a backend has failed.
    pub check_fall: u32,
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
    /// How packets come to its backends.
    #[serde(default)]
    pub forward: Forward,
    /// How its backends are checked while a run on interfaces goes on.
    #[serde(default)]
    pub check: Option<CheckBy>,
    /// Who serves it.
    pub backends: Vec<BackendOptions>,
}

/// One backend of a service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendOptions {
    /// What becomes the destination address, or where the tunnel ends; if not given, it stays.
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
    /// What its checks found last: a run that checks writes it.
    #[serde(default)]
    pub health: Health,
    /// Where it is checked; if not given, at its address and port.
    #[serde(default)]
    pub check_at: Option<SocketAddr>,
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

/// Which fields are hashed to find a new flow its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum HashOf {
    /// Addresses, ports and protocol.
    #[serde(rename = "5-tuple")]
    FiveTuple,
    /// Addresses and protocol.
    #[serde(rename = "3-tuple")]
    ThreeTuple,
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

/// How packets come to a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forward {
    /// Rewritten: to its address, port and MAC address, as far as it has them.
    #[default]
    Rewrite,
    /// To its MAC address, else as they came.
    Mac,
    /// As they came, in IP to its address.
    Ipip,
    /// As they came, in UDP to its address.
    Gue,
}

impl Forward {
    /// As chain files have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Forward::Rewrite => "rewrite",
            Forward::Mac => "mac",
            Forward::Ipip => "ipip",
            Forward::Gue => "gue",
        }
    }

    /// What stands between the outer IP header and the packet, if it goes through a tunnel.
    pub(super) fn via(self, gue_port: u16) -> Option<TunnelVia> {
        match self {
            Forward::Rewrite | Forward::Mac => None,
            Forward::Ipip => Some(TunnelVia::Ip),
            Forward::Gue => Some(TunnelVia::Udp(gue_port)),
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

impl BackendState {
    /// As chain files have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            BackendState::Active => "active",
            BackendState::Drain => "drain",
            BackendState::Down => "down",
        }
    }
}

/// What checks found a backend to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// It answers, or nobody has asked.
    #[default]
    Good,
    /// It does not.
    Failed,
}

/// What becomes of open TCP connections to a backend that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenDown {
    /// Their packets are dropped until the backend is back.
    Drop,
    /// They go on to the backend.
    Stay,
    /// They choose again.
    Move,
}

/// How backends are checked: `tcp`, `http /health`, `http www.example.org/health`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum CheckBy {
    /// A connection is opened, and closed.
    Tcp,
    /// A page is asked for.
    Http(HttpCheck),
}

impl TryFrom<String> for CheckBy {
    type Error = String;

    fn try_from(text: String) -> Result<CheckBy, String> {
        let wrong = |why: &str| {
            Err(format!(
                "\"{text}\" is no check: {why}; write \"tcp\", \"http /health\" or \"http www.example.org/health\""
            ))
        };
        let (by, what) = text.split_once(' ').unwrap_or((&text, ""));
        match by {
            "tcp" if what.is_empty() => Ok(CheckBy::Tcp),
            "https" => {
                wrong("Paceline speaks no TLS, and a connection that is opened says that a server listens")
            }
            "http" => match what.find('/') {
                // The line is one, and what is asked for ends where it is meant to.
                Some(at) if what.len() <= HTTP_MAX && what.bytes().all(|byte| byte.is_ascii_graphic()) => {
                    Ok(CheckBy::Http(HttpCheck { host: what[..at].into(), path: what[at..].into() }))
                }
                Some(_) => wrong("what is asked for has at most 255 visible ASCII characters, and no space"),
                None => wrong("behind \"http \" comes what to ask for, with a /"),
            },
            _ => wrong("it is neither"),
        }
    }
}

/// The longest host and path of a check.
const HTTP_MAX: usize = 255;

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
            hash: HashOf::FiveTuple,
            when_down: WhenDown::Drop,
            tunnel_sources: Vec::new(),
            gue_port: 6_080,
            answer_pings: true,
            rewrite_answers: false,
            syn_timeout_s: 60,
            tcp_timeout_s: 900,
            closing_timeout_s: 120,
            udp_timeout_s: 300,
            check_interval_ms: 2_000,
            check_timeout_ms: 1_000,
            check_rise: 2,
            check_fall: 3,
        }
    }
}

pub(super) const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "services",
        default: "[]",
        help: "what to balance: tables of vip, port, protocol (\"tcp\" or \"udp\"), forward (\"rewrite\", \"mac\", \"ipip\" or \
               \"gue\"), check (\"tcp\", \"http /health\") and backends, which are tables of address, port, mac, weight, state (\"active\", \"drain\" or \
               \"down\") and check_at",
    },
    OptionDoc {
        name: "policy",
        default: "\"maglev\"",
        help: "how a new flow finds its backend: \"maglev\", by a consistent hash, \"round-robin\" or \"random\"",
    },
    OptionDoc {
        name: "hash",
        default: "\"5-tuple\"",
        help: "what the hash is of: \"5-tuple\", or \"3-tuple\", addresses and protocol: then all that a client opens to an \
               address goes to one backend",
    },
    OptionDoc {
        name: "when_down",
        default: "\"drop\"",
        help: "open TCP connections to a backend that is down: \"drop\" their packets until it is back, let them \
               \"stay\" with it, or \"move\" them to another, which resets them",
    },
    OptionDoc {
        name: "tunnel_sources",
        default: "[]",
        help: "the addresses that tunnels to backends come from, where a service has forward = \"ipip\" or \"gue\": one of \
               this host's for each IP version of backends",
    },
    OptionDoc { name: "gue_port", default: "6080", help: "the UDP port to which forward = \"gue\" sends" },
    OptionDoc {
        name: "answer_pings",
        default: "true",
        help: "answer pings to a vip that is one address, as long as one of its services has an active backend; over captures \
               the answers are in --out",
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
    OptionDoc {
        name: "check_interval_ms",
        default: "2000",
        help: "on interfaces, check each backend of a service with `check` as often, at least 50",
    },
    OptionDoc {
        name: "check_timeout_ms",
        default: "1000",
        help: "a check that takes longer is a bad one; at most the interval",
    },
    OptionDoc {
        name: "check_rise",
        default: "2",
        help: "after so many good checks in a row a backend that failed takes flows again",
    },
    OptionDoc {
        name: "check_fall",
        default: "3",
        help: "after so many bad checks in a row a backend has failed, and is down",
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
