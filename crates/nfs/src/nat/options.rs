//! What a chain file may say about the NAT, and what is made of it.

use core::net::{IpAddr, Ipv4Addr};

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nf::{FixedEnds, OptionDoc, OptionError};
use serde::Deserialize;
use wire::Addr;

use super::ports::hosts::{self, HOSTS_MAX};
use super::state::Phase;
use crate::PassOrDrop;
use crate::common::ns_from_ms;
use crate::prefix::PrefixSet;

/// The most external addresses: a mapping's state has one byte for which it is.
pub(super) const EXTERNAL_MAX: usize = 256;

/// RFC 4787 REQ-5: "MUST NOT expire in less than two minutes".
const UDP_MIN_MS: u64 = 2 * 60 * 1_000;
/// RFC 5382 REQ-5: "MUST NOT be less than 2 hours 4 minutes".
const TCP_ESTABLISHED_MIN_MS: u64 = (2 * 60 + 4) * 60 * 1_000;
/// RFC 5382 REQ-5: "MUST NOT be less than 4 minutes".
const TCP_TRANSITORY_MIN_MS: u64 = 4 * 60 * 1_000;
/// RFC 5508 REQ-2: "MUST NOT expire in less than 60 seconds".
const ICMP_MIN_MS: u64 = 60 * 1_000;

/// RFC 7857 §2.1 lets a connection that opens have less than four minutes.
const TCP_OPENING_MIN_MS: u64 = 1_000;
/// A refused packet may look at as many mappings.
const PORTS_PER_HOST_MAX: u32 = 16_384;
/// RFC 9293 §3.7.1: what each host takes that announces nothing.
const MSS_MIN: u16 = 536;

/// Options of [`Nat`](super::Nat): see the [module's page](super).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Prefixes of the inside.
    pub inside: Vec<String>,
    /// The NAT's own addresses, which the outside sees.
    pub external: Vec<String>,
    /// First and last port that mappings get.
    pub ports: Vec<u16>,
    /// Which of the free ports a new mapping gets.
    pub port_choice: PortChoice,
    /// How long a UDP mapping is kept without an outbound packet, ms.
    pub udp_ms: u64,
    /// How long a TCP mapping in use is kept without an outbound packet, ms.
    pub tcp_established_ms: u64,
    /// How long a TCP mapping whose connection opens or closes is kept without an outbound packet, ms.
    pub tcp_transitory_ms: u64,
    /// How long it is kept while a connection opens, ms; 0: as `tcp_transitory_ms`.
    pub tcp_opening_ms: u64,
    /// How long it is kept while a connection closes, ms; 0: as `tcp_transitory_ms`.
    pub tcp_closing_ms: u64,
    /// How long a mapping of an ICMP query is kept without an outbound packet, ms.
    pub icmp_ms: u64,
    /// Whether inside hosts reach each other by external addresses.
    pub hairpinning: bool,
    /// What happens to packets to external addresses for which there is no mapping.
    pub unmatched: PassOrDrop,
    /// What happens to packets of protocols other than UDP, TCP and ICMP.
    pub other_protocols: PassOrDrop,
    /// External ports that lead to inside ports: `tcp 203.0.113.1:443 to 10.0.0.5:8443`.
    pub forwards: Vec<String>,
    /// External addresses that are of one inside host each: `203.0.113.9 to 10.0.0.9`.
    pub one_to_one: Vec<String>,
    /// The largest segment that SYNs may announce, bytes; 0: what they do.
    pub mss_clamp: u16,
    /// How many mappings an inside host may have; 0: any number.
    pub ports_per_host: u32,
}

/// Which of the free ports a new mapping gets: one of its parity, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortChoice {
    /// One of the half that has been free for longest.
    Random,
    /// The one that has been free for longest.
    InTurn,
    /// The inside endpoint's own, if it is free and the core's; else as [`PortChoice::Random`].
    Preserve,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            inside: ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"].map(String::from).to_vec(),
            external: Vec::new(),
            ports: [1024, 65_535].to_vec(),
            port_choice: PortChoice::Random,
            udp_ms: 300_000,
            tcp_established_ms: TCP_ESTABLISHED_MIN_MS,
            tcp_transitory_ms: TCP_TRANSITORY_MIN_MS,
            tcp_opening_ms: 0,
            tcp_closing_ms: 0,
            icmp_ms: ICMP_MIN_MS,
            hairpinning: true,
            unmatched: PassOrDrop::Drop,
            other_protocols: PassOrDrop::Drop,
            forwards: Vec::new(),
            one_to_one: Vec::new(),
            mss_clamp: 0,
            ports_per_host: 0,
        }
    }
}

pub(super) const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "inside",
        default: r#"["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]"#,
        help: "IPv4 prefixes of the hosts that are translated",
    },
    OptionDoc {
        name: "external",
        default: "[]",
        help: "the IPv4 addresses that they share outside; at least one",
    },
    OptionDoc { name: "ports", default: "[1024, 65535]", help: "first and last port that mappings get" },
    OptionDoc {
        name: "port_choice",
        default: r#""random""#,
        help: "\"random\" among those free for longest; \"in-turn\": the one free for longest; \"preserve\": the \
               inside's own port if it is free, else as \"random\"",
    },
    OptionDoc {
        name: "udp_ms",
        default: "300_000",
        help: "forget a UDP mapping after this time without an outbound packet; at least 120000",
    },
    OptionDoc {
        name: "tcp_established_ms",
        default: "7_440_000",
        help: "forget a TCP mapping in use after this time without an outbound packet; at least 7440000",
    },
    OptionDoc {
        name: "tcp_transitory_ms",
        default: "240_000",
        help: "the same while its connection opens or closes; at least 240000",
    },
    OptionDoc {
        name: "tcp_opening_ms",
        default: "0",
        help: "the same while its connection opens, at least 1000 (RFC 7857 §2.1); 0: as tcp_transitory_ms",
    },
    OptionDoc {
        name: "tcp_closing_ms",
        default: "0",
        help: "the same behind a FIN or RST from inside, at least 240000; 0: as tcp_transitory_ms",
    },
    OptionDoc { name: "icmp_ms", default: "60_000", help: "the same for an ICMP query; at least 60000" },
    OptionDoc {
        name: "hairpinning",
        default: "true",
        help: "let inside hosts reach each other by their external addresses",
    },
    OptionDoc {
        name: "unmatched",
        default: r#""drop""#,
        help: "packets to an external address and port without a mapping: \"drop\" or \"pass\"",
    },
    OptionDoc {
        name: "other_protocols",
        default: r#""drop""#,
        help: "packets of other protocols than UDP, TCP and ICMP: \"drop\", or \"pass\" as they are, which shows inside addresses",
    },
    OptionDoc {
        name: "forwards",
        default: "[]",
        help: "ports of external addresses that lead to a host inside: \"tcp 203.0.113.1:443 to 10.0.0.5:8443\"",
    },
    OptionDoc {
        name: "one_to_one",
        default: "[]",
        help: "further external addresses, each of one host inside with all its ports and protocols: \"203.0.113.9 to \
               10.0.0.9\"",
    },
    OptionDoc {
        name: "mss_clamp",
        default: "0",
        help: "lower the segment size that SYNs announce, both ways, to this, such as 1452 before PPPoE; 0: as they are",
    },
    OptionDoc {
        name: "ports_per_host",
        default: "0",
        help: "how many mappings an inside host may have at a time, over all protocols, up to 16384; 0: any number. For \
               `single` and replicated strategies",
    },
];

/// Inside and outside, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sides {
    inside: PrefixSet,
    /// Ascending; a mapping's state says which by its index.
    external: Vec<[u8; 4]>,
}

impl Sides {
    pub(super) fn new(options: &Options) -> Result<Sides, OptionError> {
        let error = |option, message| Err(OptionError { option, message });
        if let Some(prefix) = options.inside.iter().find(|prefix| prefix.contains(':')) {
            return error("inside", format!("has \"{prefix}\"; only IPv4 is translated"));
        }
        if options.inside.is_empty() {
            return error(
                "inside",
                "is empty; name the prefixes to translate, such as \"10.0.0.0/8\"".into(),
            );
        }
        let inside = PrefixSet::parse("inside", &options.inside)?;
        if options.external.is_empty() {
            return error(
                "external",
                "is empty; name the IPv4 addresses that the inside hosts share outside, such as \"203.0.113.1\""
                    .into(),
            );
        }
        if options.external.len() > EXTERNAL_MAX {
            let count = options.external.len();
            return error("external", format!("has {count} addresses; at most {EXTERNAL_MAX} are possible"));
        }
        let mut external = Vec::with_capacity(options.external.len());
        for text in &options.external {
            let Ok(ip) = text.parse::<Ipv4Addr>() else {
                return error("external", not_ipv4(text));
            };
            if ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() || ip.is_loopback() {
                return error(
                    "external",
                    format!("has {ip}, to which no answer comes; name unicast addresses"),
                );
            }
            if inside.contains(Addr::v4(ip.octets())) {
                return error(
                    "external",
                    format!("has {ip}, which is inside too; take it out of one of them"),
                );
            }
            external.push(ip.octets());
        }
        external.sort_unstable();
        if let Some(twice) = external.windows(2).find(|pair| pair[0] == pair[1]) {
            return error("external", format!("has {} twice", Ipv4Addr::from(twice[0])));
        }
        Ok(Sides { inside, external })
    }

    #[inline]
    pub(super) fn is_inside(&self, addr: [u8; 4]) -> bool {
        self.inside.contains(Addr::v4(addr))
    }

    /// Which external address this is, if it is one.
    #[inline]
    pub(super) fn external(&self, addr: [u8; 4]) -> Option<u8> {
        let (first, last) = (self.external.first()?, self.external.last()?);
        // Most packets are for nobody near.
        if !(*first..=*last).contains(&addr) {
            return None;
        }
        self.external.binary_search(&addr).ok().map(|index| index as u8)
    }

    #[inline]
    pub(super) fn external_addr(&self, index: u8) -> Addr {
        Addr::v4(self.external[usize::from(index)])
    }

    /// As others see them.
    pub(super) fn contract(&self, keeps_ports: bool, fixed: &FixedEnds) -> nf::Sides {
        let own = self.external.iter().map(|addr| Addr::v4(*addr));
        let external = PrefixSet::of(own.chain(fixed.iter().map(|end| end.external.addr)));
        nf::Sides { inside: self.inside.clone(), external, keeps_ports, fixed: fixed.clone() }
    }

    pub(super) fn inside(&self) -> &PrefixSet {
        &self.inside
    }

    /// The most mappings of an inside host, checked; 0: any number.
    pub(super) fn ports_per_host(&self, options: &Options) -> Result<u32, OptionError> {
        let wrong = |message| Err(OptionError { option: "ports_per_host", message });
        let (most, hosts) = (options.ports_per_host, hosts::addresses(&self.inside));
        if most > PORTS_PER_HOST_MAX {
            return wrong(format!(
                "is {most}; at most {PORTS_PER_HOST_MAX} can be counted, and 0 is no limit"
            ));
        }
        if most > 0 && hosts > HOSTS_MAX {
            return wrong(format!(
                "is for {hosts} inside addresses, and at most {HOSTS_MAX} can be counted for; name in `inside` the \
                 prefixes in which hosts are, such as \"10.0.0.0/16\""
            ));
        }
        Ok(most)
    }

    pub(super) fn externals(&self) -> &[[u8; 4]] {
        &self.external
    }
}

fn not_ipv4(text: &str) -> String {
    match text.parse::<IpAddr>() {
        Ok(_) => format!("has \"{text}\"; only IPv4 is translated"),
        Err(_) => format!("has \"{text}\", which is no IPv4 address; write one like \"203.0.113.1\""),
    }
}

/// The largest segment that SYNs may announce; 0: what they do.
pub(super) fn mss(options: &Options) -> Result<u16, OptionError> {
    match options.mss_clamp {
        mss @ (0 | MSS_MIN..) => Ok(mss),
        mss => Err(OptionError {
            option: "mss_clamp",
            message: format!(
                "is {mss}; write at least {MSS_MIN}, which each host takes (RFC 9293 §3.7.1), such as 1452 before PPPoE"
            ),
        }),
    }
}

/// The ports of one external address, for one protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    pub(super) fn new(options: &Options) -> Result<PortRange, OptionError> {
        let wrong = |message: String| Err(OptionError { option: "ports", message });
        let [first, last] = options.ports[..] else {
            return wrong(format!(
                "has {} ports; write the first and the last, such as [1024, 65535]",
                options.ports.len()
            ));
        };
        if first == 0 || first > last {
            return wrong(format!(
                "are {first} to {last}; write the first and then the last, from 1 to 65535, such as [1024, 65535]"
            ));
        }
        Ok(PortRange { first, last })
    }

    /// First and last.
    pub(super) fn bounds(self) -> (u16, u16) {
        (self.first, self.last)
    }

    pub(super) fn len(self) -> usize {
        usize::from(self.last - self.first) + 1
    }

    /// Where a port is in the range, from 0.
    #[inline]
    pub(super) fn offset(self, port: u16) -> Option<usize> {
        (self.first..=self.last).contains(&port).then(|| usize::from(port - self.first))
    }

    /// Where a port of the range is if even ones come first, and then odd ones.
    #[inline]
    pub(super) fn place_by_parity(self, port: u16) -> usize {
        let evens = (self.len() + usize::from(self.first.is_multiple_of(2))) / 2;
        usize::from(port - self.first) / 2 + usize::from(port % 2) * evens
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u16> {
        self.first..=self.last
    }
}

/// The time-outs, checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    udp_ns: u64,
    tcp_established_ns: u64,
    tcp_opening_ns: u64,
    tcp_closing_ns: u64,
    icmp_ns: u64,
}

impl Timeouts {
    pub(super) fn new(options: &Options) -> Result<Timeouts, OptionError> {
        let ns = |option, ms: u64, min_ms: u64, source: &str| {
            if ms < min_ms {
                return Err(OptionError { option, message: format!("must be at least {min_ms} ({source})") });
            }
            Ok(ns_from_ms(ms))
        };
        let tcp = "RFC 5382 REQ-5";
        let tcp_transitory_ns =
            ns("tcp_transitory_ms", options.tcp_transitory_ms, TCP_TRANSITORY_MIN_MS, tcp)?;
        Ok(Timeouts {
            udp_ns: ns("udp_ms", options.udp_ms, UDP_MIN_MS, "RFC 4787 REQ-5")?,
            tcp_established_ns: ns(
                "tcp_established_ms",
                options.tcp_established_ms,
                TCP_ESTABLISHED_MIN_MS,
                tcp,
            )?,
            tcp_opening_ns: match options.tcp_opening_ms {
                0 => tcp_transitory_ns,
                ms => ns("tcp_opening_ms", ms, TCP_OPENING_MIN_MS, "or 0, as `tcp_transitory_ms`")?,
            },
            tcp_closing_ns: match options.tcp_closing_ms {
                0 => tcp_transitory_ns,
                ms => ns("tcp_closing_ms", ms, TCP_TRANSITORY_MIN_MS, tcp)?,
            },
            icmp_ns: ns("icmp_ms", options.icmp_ms, ICMP_MIN_MS, "RFC 5508 REQ-2")?,
        })
    }

    #[inline]
    pub(super) fn of(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Datagrams => self.udp_ns,
            Phase::Query => self.icmp_ns,
            Phase::Opening => self.tcp_opening_ns,
            Phase::Closing => self.tcp_closing_ns,
            Phase::Established => self.tcp_established_ns,
        }
    }
}
