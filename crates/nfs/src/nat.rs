//! `nat`: lets inside hosts share external IPv4 addresses, a port for each of their endpoints (NAPT).
//!
//! Written from RFC 4787 (UDP), RFC 5382 (TCP) and RFC 5508 (ICMP); RFC 3022 has the idea. Key: the inside
//! endpoint, which is address, port and protocol; an ICMP query's port is its identifier. State: the external
//! endpoint that stands for it.
//!
//! ```toml
//! [[function]]
//! use = "nat"
//! inside = ["10.0.0.0/8"]
//! external = ["203.0.113.1", "203.0.113.2"]
//! ```
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `inside` | | RFC 1918's | IPv4 prefixes of the hosts that are translated |
//! | `external` | | none, must be given | up to 256 IPv4 addresses that they share outside |
//! | `ports` | | `[1024, 65535]` | first and last port that mappings get, and identifier |
//! | `port_choice` | | `"random"` | or `"in-turn"`, or `"preserve"`: see below |
//! | `udp_ms` | ms | 300000 | forget a UDP mapping after this time; at least 120000 |
//! | `tcp_established_ms` | ms | 7440000 | forget a TCP mapping in use after this time; at least 7440000 |
//! | `tcp_transitory_ms` | ms | 240000 | the same while its connection opens or closes; at least 240000 |
//! | `tcp_opening_ms` | ms | 0 | the same while it opens; 0: as `tcp_transitory_ms`; else at least 1000 |
//! | `tcp_closing_ms` | ms | 0 | the same behind a FIN or RST from inside; 0: as `tcp_transitory_ms`; else at least 240000 |
//! | `icmp_ms` | ms | 60000 | forget the mapping of an ICMP query after this time; at least 60000 |
//! | `hairpinning` | | true | let inside hosts reach each other by their external addresses |
//! | `unmatched` | | `"drop"` | packets to an external address and port without a mapping |
//! | `other_protocols` | | `"drop"` | what is neither UDP, TCP nor ICMP; `"pass"`: as it is, and what goes out shows its inside address |
//! | `forwards` | | none | up to 4096 ports outside that lead to ports inside: `"tcp 203.0.113.1:443 to 10.0.0.5:8443"` |
//! | `one_to_one` | | none | up to 4096 further addresses outside, each of one host inside: `"203.0.113.9 to 10.0.0.9"` |
//! | `mss_clamp` | bytes | 0 | the largest segment that SYNs may announce, at least 536; 0: what they do |
//! | `ports_per_host` | | 0 | how many mappings an inside host may have at a time, up to 16384; 0: any number |
//!
//! The least time-outs are those that the RFCs say a NAT must not go below. RFC 7857 §2.1 lets `tcp_opening_ms` be less.
//!
//! # What becomes of a packet
//!
//! | from | to | |
//! |---|---|---|
//! | inside | outside | the source becomes the external endpoint of its mapping, made now if need be |
//! | outside | an external address | the destination becomes the inside endpoint that has this port |
//! | inside | an external address | both (hairpinning) |
//! | inside | inside | does not come here |
//! | outside | an inside address | passes; `access-list` keeps strangers from inside addresses, this does not |
//! | outside | elsewhere | does not come here |
//!
//! An ICMP error is of the packet that it quotes, and goes where that came from; see below. IPv6 and what is not IP
//! pass. TTL stays: this translates, and something else routes.
//!
//! A chain with a NAT has two directions: packets from inside meet its functions in the order of the file, packets from
//! outside in reverse. So what stands before the NAT sees inside addresses both ways, and what stands behind it external
//! ones. A hairpinned packet counts as one from inside, once: a tracker in the chain sees one direction of such a
//! connection, and drops its answers. Have `hairpinning = false` beside one.
//!
//! # What is fixed: forwards, and addresses of one host
//!
//! The external endpoint of a forward always stands for its inside endpoint, and an address of `one_to_one` for its host:
//! in both directions, whichever side begins, hairpinned too, and in what ICMP errors quote. Nothing is kept of it. So a full table
//! turns none of it away, no time-out ends it, and every core says the same of it.
//!
//! - A forward is for TCP or UDP. Its port is left out of the ports that mappings get. Its address is one of `external`; the
//!   inside host's other endpoints get mappings, at the address that the host has by its hash.
//! - An address of `one_to_one` is none of `external`. All protocols are translated by address there, with ports and
//!   identifiers as they are: pings from outside too, GRE, ESP, SCTP, and fragments. Not so: ICMP messages that are neither
//!   queries nor errors about TCP, UDP and queries.
//! - An inside endpoint has one external endpoint. Two forwards to one inside endpoint are refused, as answers could leave
//!   with one of the two alone.
//! - In a chain with other functions, what comes for a fixed end goes to the core of the inside end, where its answers come.
//!   A card or a program in front of cores' own ports cannot know that: one thread receives and spreads packets then.
//! - A reload that changes what is fixed begins mappings anew.
//!
//! # What it does, by requirement
//!
//! All requirements, with tests, are in `docs/reference/nat-requirements.md`.
//!
//! | RFC 4787 | RFC 5382 | |
//! |---|---|---|
//! | REQ-1 | REQ-1 | *Endpoint-independent mapping*: an inside endpoint has one external endpoint for all hosts that it talks to |
//! | REQ-2 | | *Paired*: all endpoints of a host get one external address, by a hash of the host's. When that has no port left for the protocol, new mappings of the host are refused; others' are not |
//! | REQ-3 | REQ-7 | *No overloading*: no two mappings share an external endpoint. REQ-3a is not followed: all source ports, those below 1024 too, get ports from `ports` |
//! | REQ-4 | | *Port parity* is preserved, for TCP too; when the core has free ports of the other parity alone, one of those is taken, and `parity-lost` counts it |
//! | REQ-5 | REQ-5 | time-outs as above |
//! | REQ-6 | | outbound packets refresh a mapping, hairpinned ones too, and those of its own endpoint that are dropped; inbound ones do not |
//! | REQ-8 | REQ-3 | *Endpoint-independent filtering*: any sender to a mapping's external endpoint gets in. Put an `access-list` beside it for less |
//! | REQ-9 | REQ-8 | *Hairpinning* with external source address and port |
//! | REQ-10 | REQ-6 | there are no application level gateways |
//! | REQ-11 | REQ-2 | a mapping never changes while it lives; connections may begin on either side, or on both at once |
//! | | REQ-4 | no packet is answered, least of all an unsolicited SYN: it is dropped in silence |
//! | REQ-12 | REQ-9, REQ-10 | ICMP errors are translated, and never end a mapping |
//!
//! | RFC 5508 | |
//! |---|---|
//! | REQ-1 | *Queries* from inside, echo and time stamp, get an external identifier, one for all hosts that the inside identifier asks. Identifiers are each address' own, apart from UDP's and TCP's ports |
//! | REQ-2 | time-out as above; requests refresh it, replies do not |
//! | REQ-3 | *Errors* are types 3, 4, 11 and 12. IPv4 options in the quote are stepped over, and its transport checksum is not judged. Neither are the error's own and the quoted header's: wrong ones stay wrong by as much |
//! | REQ-4 | An error from outside goes to the inside endpoint whose packet it quotes. The quoted source becomes what it was; type and code stay |
//! | REQ-5 | An error from the inside host for which the quoted packet was gets the external address as its source; the quoted destination becomes what it was outside |
//! | REQ-6 | Errors make, refresh and end no mapping |
//! | REQ-7 | Hairpinned errors: both. Hairpinned queries to addresses of `one_to_one`. A query to another external address names nobody: it is for the NAT itself, and `unmatched` |
//! | REQ-8 | no: nothing is answered with ICMP |
//! | REQ-11 | other messages, redirects among them, are dropped as `untranslated`, also with `other_protocols = "pass"` |
//!
//! All checksums are updated: of the outer IPv4 header, of the message, of the quoted IPv4 header, and of the quoted
//! transport if the quote reaches so far. An error whose quote cannot be read is `untranslated`:
//! [`IcmpPorts`](wire::IcmpPorts) says what it takes.
//!
//! Not done in this version: errors that a router inside sends about packets to a host behind it, which are dropped as
//! `no-mapping` (REQ-5 of RFC 5508), so that path MTU discovery from outside stops where such a router is the narrow
//! place; fragments that come before their first (REQ-14 of RFC 4787); other protocols than UDP, TCP and ICMP. Addresses of `one_to_one`
//! have the last two.
//!
//! # Fragments
//!
//! Where the chain file says `fragments = "follow"`, first fragments are translated as whole packets are, and later ones by the ports of
//! their first; these make no mapping. Elsewhere all fragments are dropped as `fragment`, since only the first has ports, but for
//! addresses of `one_to_one`.
//!
//! # Ports
//!
//! A port that becomes free goes to the end of a queue, so that late packets of its last owner's peers
//! meet nobody for as long as possible. With `"in-turn"` a mapping gets the port at the front. With
//! `"random"` it gets one of the front half, drawn by the chain's `seed`, so that outsiders, who do not know
//! it, cannot guess the next one (RFC 7857 §9, RFC 6056). With `"preserve"` it keeps the inside's own port if that is one of
//! `ports`, this core's, and nobody's at the host's external address; else it gets one as with `"random"`
//! (RFC 4787 §4.2.1: port preservation, without overloading).
//!
//! A mapping is dead at its deadline, whether or not the table has swept it. From then on nobody is let in by
//! it. When no port of a parity is free, the port of the mapping that has been dead for longest is given out:
//! as long as a core has a port without a live mapping at the host's address, for the protocol, a new mapping
//! gets one. When the table sweeps the old mapping later, the port stays with its new owner.
//!
//! Taking and giving back are `O(1)`. The search for dead mappings is paid for by the packets that went out
//! since the last one: no more turns, of 8 ports each, than such packets and mappings that ended.
//!
//! Memory is taken at the start alone: 5.3 MB for each external address with all its ports.
//!
//! # What outbound packets tell of TCP
//!
//! A mapping is of an endpoint, not of a connection, and its state steps with outbound packets alone:
//! anyone outside can send a FIN or RST to it, and that must not end what others have.
//!
//! - A mapping *opens* until an outbound packet that is no SYN follows the first one, and is in use then.
//! - It *closes* when a FIN or RST goes out, and stays so while its connection's last packets go out.
//!   With the next SYN it opens again.
//! - If it has seen packets to two peers or more, a FIN to one says nothing of the others: it is in use
//!   until it was idle for `tcp_established_ms`. An RST to a stranger does not make him a peer.
//! - What only the outside says remains unseen: a connection that it reset, or that it refused, keeps its
//!   mapping until the time-out.
//!
//! # Several cores
//!
//! Each core has its own share of each external address' ports: those for which packets from outside
//! come to this core. So an inbound packet finds its mapping on the core that made it, whichever hash
//! sharding uses, and no two cores give out one port. Three things follow:
//!
//! - A core may be out of ports, or of ports of one parity, while others have some: so `no-port` and `parity-lost` may count
//!   more than on one core. Under `rsspp` and `auto` each entry of the indirection table has a share of its own.
//! - With `port_choice = "preserve"` sharding hashes the inside port alone, which is the external one, too: so each core
//!   can keep the ports of its hosts. An endpoint whose port is taken gets another of the same core.
//! - Where sharding hashes addresses alone, an external address is one core's as a whole, and its hosts
//!   share the addresses of their core: have more addresses than cores. With ports in the hash, as when the
//!   NAT is alone in its chain, each core has ports of every address, and a host one address on all of them.
//!
//! The receiver of a hairpinned packet may be mapped by another core. The owners of ports are therefore
//! one table that all cores of a run read, each entry written by its owner. The packet meets the entry as
//! it is when its core comes to it: a mapping that another core made, or gave up, a moment ago may be
//! missing, or still be there. Promised is that the entry is whole, and that packets between two
//! mappings that live go to the right one. Inbound and outbound packets see the exact order of arrival.
//!
//! The hash of an ICMP message covers the identifier of a query and the ports that an error quotes as if they were the
//! packet's own, so that replies and errors come to the core that has the mapping, and order is exact as it is for
//! answers. That is so wherever this program spreads packets. Cards hash ICMP by its addresses alone: behind one
//! that hashes ports too, errors and replies would reach other cores, and find mappings as hairpinned packets do. Under
//! `scr` each core has all mappings, and it does not matter who gets what.
//!
//! Which port a mapping gets depends on the core's share: runs on different numbers of cores are equal up
//! to the allocation, and inbound packets of a capture, made for one allocation, fit no other, unless ports are
//! preserved. `verify` judges each run by this page, and compares both with external endpoints renamed.
//!
//! # A limit for each host
//!
//! Without `ports_per_host` one host can take all ports of its external address, and all room. With it a host at its limit is
//! refused further mappings as `ports-per-host`; those that it has go on, and so do other hosts. A mapping of any protocol counts
//! until its deadline, whether or not the table has swept it. What is fixed makes no mapping, and does not count.
//!
//! The count is one core's. So `single` and replicated strategies (`scr`, `scr-turns`) hold a host to exactly this number;
//! strategies that hash refuse the chain, as a hash of ports spreads a host over cores. Memory is 16 bytes for each inside
//! address, of which there may be 1,048,576, and 8 for each port. A refusal is `O(1)` unless a mapping of the host may be
//! dead; then the host's mappings are looked at, no more often than each can end.
//!
//! # Segment size
//!
//! With `mss_clamp` the maximum segment size that a SYN or SYN-ACK announces is lowered to it, in both directions, and the
//! checksum with it: for a line that takes less than a host's link, where ICMP errors of path MTU discovery get lost. One
//! that announces less, or none, stays as it is. It is `mss_clamp` = MTU - 40.
//!
//! # Drops, events, expiry, full table
//!
//! - `no-port`: the host's external address has no port left here. `no-mapping`: to an external endpoint
//!   that nobody has, and ICMP errors about packets that no mapping let through. `fragment`, `untranslated` (another
//!   protocol or ICMP message): see above. `ports-per-host`: the host has as many mappings as it may.
//!   `table-full`: see below.
//! - Events: `mappings-made`; `parity-lost`, mappings made with a port of the other parity; packets
//!   translated: `packets-out`, hairpinned ones too, `packets-in`, and `packets-hairpinned`; ICMP errors translated,
//!   `errors-translated`.
//! - When a mapping expires or is evicted its port becomes free; the next packet makes another.
//! - When the table is full a new mapping is refused and its packet dropped as `table-full`: to pass
//!   it untranslated would tell an inside address, and nobody could answer. Have `flows` at least as
//!   large as the number of ports, and `table_full = "reject"`: an evicted mapping is a connection cut.

use core::net::Ipv4Addr;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use nf::{
    About, Cx, EndedOf, Extras, FixedEnds, Flows, FullTable, FunctionReport, Guarantees, Hearing, InPlace,
    Judge, NetworkFunction, OptionError, Pooled, Reload, Reports, SrcEndpoint, StateValue, TwoSided, Verdict,
};
use wire::{Addr, Edits, Fields, Headers, Marks, Stamp, protocol};

use crate::PassOrDrop;
use crate::common::{REPORT_ROWS, keep_top};

mod endpoint;
mod fixed;
mod forwards;
mod icmp;
mod judge;
mod options;
mod ports;
mod state;

pub use options::{Options, PortChoice};
pub use ports::Pool;
pub use state::{Meta, Phase, State};

use endpoint::{External, Inside, PROTOCOLS};
use options::{PortRange, Sides, Timeouts};
use ports::{NoPort, PerHost, Wanted};
use state::{Message, Piece};

const NO_PORT: u8 = 0;
const NO_MAPPING: u8 = 1;
const FRAGMENT: u8 = 2;
const UNTRANSLATED: u8 = 3;
const TABLE_FULL: u8 = 4;
const HOST_HAS_MOST: u8 = 5;

const MAPPINGS_MADE: usize = 0;
const PARITY_LOST: usize = 1;
const PACKETS_OUT: usize = 2;
const PACKETS_IN: usize = 3;
const PACKETS_HAIRPINNED: usize = 4;
const ERRORS_TRANSLATED: usize = 5;

const ENDPOINTS: Fields = Fields::ADDRS.union(Fields::SRC_PORT).union(Fields::DST_PORT);

/// Lets inside hosts share external addresses: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct Nat {
    sides: Sides,
    ports: PortRange,
    port_choice: PortChoice,
    timeouts: Timeouts,
    hairpinning: bool,
    unmatched: PassOrDrop,
    other_protocols: PassOrDrop,
    /// External ends that stand for the same inside ends always.
    fixed: FixedEnds,
    /// The largest segment that SYNs may announce; 0: what they do.
    mss: u16,
    /// Whether there is anything of the last two.
    has_more: bool,
    /// The most mappings of an inside host; 0: any number.
    ports_per_host: u32,
    /// Whether later fragments come with what their first said, so that first ones need not be turned away.
    follows_fragments: bool,
}

/// Between which sides a packet goes, with the external address that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Out,
    In(u8),
    Hairpin(u8),
    /// Not across the NAT.
    Past,
}

impl NetworkFunction for Nat {
    const ABOUT: About = About {
        name: "nat",
        summary: "lets inside hosts share external IPv4 addresses, by ports",
        spec: "RFC 4787 (UDP), RFC 5382 (TCP), RFC 5508 (ICMP)",
        options: options::OPTIONS,
        drop_reasons: &["no-port", "no-mapping", "fragment", "untranslated", "table-full", "ports-per-host"],
        events: &[
            "mappings-made",
            "parity-lost",
            "packets-out",
            "packets-in",
            "packets-hairpinned",
            "errors-translated",
        ],
    };
    const READS: Fields =
        Fields::FIVE_TUPLE.union(Fields::TCP_FLAGS).union(Fields::TCP_SHAPE).union(Fields::MARKS);
    const EDITS: Fields = ENDPOINTS.union(Fields::MSS);
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a packet from inside; nothing that comes from outside, and nothing of `forwards` and \
                    `one_to_one`",
        pool: Pooled {
            make: Self::pool,
            divide: Self::pools,
            undivided: Self::undivided,
            // All of them: the source of what goes out is allocated, and what comes in goes to the host that it was
            // allocated to.
            allocates: |_| ENDPOINTS,
            judge: Some(Self::judge),
            without_allocation: Some(Self::without_allocation),
            allocation_events: |_| &[PARITY_LOST],
            empty: Some(NO_PORT),
            gone: Self::gone,
            ..Pooled::NONE
        },
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        sides: TwoSided { sides: Self::sides, ..TwoSided::NONE },
        has_address: |nat, address| {
            let is_fixed = || nat.fixed.inside(address, 0, 0).is_some();
            address.to_v4().is_some_and(|v4| nat.sides.external(v4).is_some()) || is_fixed()
        },
        guarantees: Guarantees { invariant: Self::invariant, ..Guarantees::NONE },
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        reload: Reload { keeps_flows: Self::keeps_flows, ..Reload::NONE },
        following_fragments: |nat| Some(Nat { follows_fragments: true, ..nat.clone() }),
        draws: |nat| nat.port_choice != PortChoice::InTurn,
        prefetch: Some(Self::prefetch),
        // Of 64 bytes each, a quarter of a second cache.
        prefetch_from_flows: 4_096,
        in_place: InPlace::Whole(Self::in_place),
        ..Extras::NONE
    };

    type Key = SrcEndpoint;
    type Meta = Meta;
    type State = State;
    type Pool = Pool;
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        let sides = Sides::new(&options)?;
        let fixed = forwards::fixed_ends(&options, &sides)?;
        let mss = options::mss(&options)?;
        Ok(Nat {
            ports_per_host: sides.ports_per_host(&options)?,
            has_more: !fixed.is_empty() || mss > 0,
            fixed,
            mss,
            sides,
            ports: PortRange::new(&options)?,
            port_choice: options.port_choice,
            timeouts: Timeouts::new(&options)?,
            hairpinning: options.hairpinning,
            unmatched: options.unmatched,
            other_protocols: options.other_protocols,
            follows_fragments: false,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Meta> {
        if !headers.marks.contains(Marks::IPV4) {
            return None;
        }
        let (message, protocol) = match headers.protocol {
            protocol::ICMP => Message::of(headers),
            other => (Message::None, other),
        };
        Some(Meta {
            src: headers.src.to_v4()?,
            dst: headers.dst.to_v4()?,
            src_port: headers.src_port,
            dst_port: headers.dst_port,
            protocol,
            tcp_flags: if headers.is_tcp() { headers.tcp_flags } else { 0 },
            fragment: Piece::of(headers),
            message,
        })
    }

    #[inline]
    fn key(meta: &Meta) -> SrcEndpoint {
        SrcEndpoint { addr: Addr::v4(meta.src), port: meta.src_port, protocol: meta.src_protocol(), zero: 0 }
    }

    #[inline]
    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        if self.has_more {
            return self.step_with_more(flow, meta, cx);
        }
        self.step_by_mapping(flow, meta, cx)
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        state.left_ns
    }
}

impl Nat {
    /// A packet of which no end is fixed.
    #[inline]
    fn step_by_mapping(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        let way = self.way(meta.src, meta.dst);
        if meta.message != Message::None {
            return self.icmp(way, flow, meta, cx);
        }
        let verdict = match way {
            Way::Past => Verdict::Forward,
            _ if !matches!(meta.protocol, protocol::UDP | protocol::TCP) => {
                self.other_protocols.verdict(UNTRANSLATED)
            }
            _ if self.refuses(meta.fragment) => Verdict::Drop(FRAGMENT),
            Way::Out => self.outbound(flow, meta, cx),
            Way::In(address) => self.inbound(address, meta, cx),
            Way::Hairpin(address) => self.hairpin(address, flow, meta, cx),
        };
        if let Some(state) = flow {
            self.refresh(state, meta, cx);
        }
        verdict
    }

    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        let State { packets, peer, peer_port, phase, .. } = state;
        let external = self.endpoint_text(state.external(0));
        let mut values: Vec<(&'static str, StateValue)> = vec![
            ("external", external.into()),
            ("phase", phase.name().into()),
            ("packets_out", (*packets).into()),
        ];
        if *peer_port > 0 {
            values.push(("peer", format!("{}:{peer_port}", Ipv4Addr::from(*peer)).into()));
        }
        values
    }

    fn pool(&self) -> Pool {
        self.pools(1, &|_| 0).remove(0)
    }

    fn pools(&self, cores: usize, core_of: &dyn Fn(&Headers) -> usize) -> Vec<Pool> {
        self.divide(cores, |External { address, protocol, port }| {
            // A forward's port is nobody's.
            let addr = self.sides.external_addr(address);
            if self.fixed.inside(addr, protocol, port).is_some() {
                return usize::MAX;
            }
            let dst = self.sides.external_addr(address);
            core_of(&Headers {
                // External addresses are not inside, so this is a packet from outside.
                src: dst,
                dst,
                dst_port: port,
                protocol,
                tcp_shape: if protocol == protocol::ICMP { Headers::ICMP_REPLY } else { 0 },
                marks: Marks::IPV4,
                ..Headers::default()
            })
        })
    }

    fn judge(&self, hearing: Hearing) -> Box<dyn Judge> {
        let sides = self.contract();
        let (first, last) = self.ports.bounds();
        judge::judge(
            judge::Rules {
                inside: sides.inside,
                external: self.sides.externals().to_vec(),
                ports: first..=last,
                preserves: self.port_choice == PortChoice::Preserve,
                udp_ns: self.timeouts.of(Phase::Datagrams),
                tcp_in_use_ns: self.timeouts.of(Phase::Established),
                tcp_opening_ns: self.timeouts.of(Phase::Opening),
                tcp_closing_ns: self.timeouts.of(Phase::Closing),
                icmp_ns: self.timeouts.of(Phase::Query),
                hairpinning: self.hairpinning,
                drops_unmatched: self.unmatched == PassOrDrop::Drop,
                drops_others: self.other_protocols == PassOrDrop::Drop,
                fixed: self.fixed.iter().collect(),
                mss: self.mss,
                ports_per_host: self.ports_per_host as usize,
                follows_fragments: self.follows_fragments,
            },
            hearing,
        )
    }

    fn sides(&self) -> Option<nf::Sides> {
        Some(self.contract())
    }

    fn contract(&self) -> nf::Sides {
        self.sides.contract(self.port_choice == PortChoice::Preserve, &self.fixed)
    }

    fn undivided(&self) -> Option<nf::Undivided> {
        (self.ports_per_host > 0).then_some(nf::Undivided {
            option: "ports_per_host",
            does: "counts what each inside host has",
            spreads: "a host",
        })
    }

    #[inline]
    fn prefetch(&self, flow: Option<&State>, meta: &Meta, pool: &Pool) -> *const u8 {
        let external = match flow {
            Some(state) => Some(state.external(meta.protocol)),
            None => self.sides.external(meta.dst).map(|address| meta.destination(address)),
        };
        external.map_or(core::ptr::null(), |external| pool.line(external))
    }

    fn rejected(&self, state: &State, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        cx.pool.give_back(state.taken(meta.protocol), (meta.src, meta.src_port));
        Verdict::Drop(TABLE_FULL)
    }

    fn gone(&self, key: &SrcEndpoint, state: &State, pool: &mut Pool) {
        if let Some(addr) = key.addr.to_v4() {
            pool.give_back(state.taken(key.protocol), (addr, key.port));
        }
    }

    /// Mappings are numbers of external addresses, and hold ports of their pool.
    fn keeps_flows(&self, old: &Self) -> Result<(), &'static str> {
        let is_same = self.sides == old.sides
            && self.ports == old.ports
            && self.fixed == old.fixed
            && self.ports_per_host == old.ports_per_host;
        match is_same {
            true => Ok(()),
            false => Err(
                "its pool of external ports is another (`inside`, `external`, `ports`, `forwards`, `one_to_one`, `ports_per_host`)",
            ),
        }
    }

    fn without_allocation(&self, state: &State) -> State {
        State { address: 0, port: 0, generation: 0, ..*state }
    }

    fn invariant(&self, flows: Flows<'_, '_, Self>) -> Result<(), String> {
        let mut taken: Vec<_> = flows.map(|(key, state)| (state.external(key.protocol), key)).collect();
        taken.sort_unstable_by_key(|(external, key)| (*external, key.addr, key.port));
        match taken.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            None => Ok(()),
            Some(pair) => {
                let external = self.endpoint_text(pair[0].0);
                Err(format!("{} and {} both have {external}", pair[0].1, pair[1].1))
            }
        }
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, _now: Stamp) -> Vec<FunctionReport> {
        let mut mappings: Vec<_> = flows.collect();
        // Before the longest are kept and the others thrown away.
        let ports = self.ports_report(&mappings);
        let live = mappings.len();
        keep_top(&mut mappings, REPORT_ROWS, |state| state.packets.into());
        let title = format!("Top {} of {live} mappings now, by packets", mappings.len());
        let row = |(key, state): &(&SrcEndpoint, &State)| {
            let external = self.endpoint_text(state.external(key.protocol));
            vec![key.to_string(), external, state.phase.name().to_string(), state.packets.to_string()]
        };
        let mappings = FunctionReport {
            title,
            columns: vec!["inside", "external", "phase", "packets_out"],
            rows: mappings.iter().map(row).collect(),
        };
        vec![ports, mappings]
    }

    fn divide(&self, cores: usize, core_of: impl Fn(External) -> usize) -> Vec<Pool> {
        let per_host = PerHost { inside: self.sides.inside(), most: self.ports_per_host };
        Pool::divide(self.sides.externals().len(), self.ports, per_host, cores, core_of)
    }

    #[inline]
    fn way(&self, src: [u8; 4], dst: [u8; 4]) -> Way {
        match (self.sides.is_inside(src), self.sides.external(dst)) {
            (true, Some(address)) => Way::Hairpin(address),
            (false, Some(address)) => Way::In(address),
            (true, None) if !self.sides.is_inside(dst) => Way::Out,
            (_, None) => Way::Past,
        }
    }

    /// A packet that goes out by the mapping that its sender has.
    #[inline]
    fn in_place(&self, state: &mut State, meta: &Meta, cx: &mut Cx<'_, Pool>) -> bool {
        let has_ports = meta.message == Message::None
            && meta.fragment == Piece::Whole
            && matches!(meta.protocol, protocol::UDP | protocol::TCP);
        if self.has_more || !has_ports || self.way(meta.src, meta.dst) != Way::Out {
            return false;
        }
        state.follow(meta);
        self.send_out(state, cx);
        self.refresh(state, meta, cx);
        true
    }

    /// Whether a fragment is turned away whatever its datagram is.
    #[inline]
    fn refuses(&self, piece: Piece) -> bool {
        match piece {
            Piece::Whole | Piece::Followed => false,
            Piece::First => !self.follows_fragments,
            Piece::Lone => true,
        }
    }

    /// Finds or makes the sender's mapping, and gives the packet its external source.
    #[inline]
    fn outbound(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        let state = match flow {
            Some(state) => {
                state.follow(meta);
                state
            }
            // Its first got no mapping, or that has ended.
            None if meta.fragment == Piece::Followed => return Verdict::Drop(FRAGMENT),
            None => {
                let phase = Phase::begin(meta);
                let now_ns = cx.stamp.time_ns;
                let wanted = Wanted {
                    protocol: meta.protocol,
                    inside: (meta.src, meta.src_port),
                    keeps_port: self.port_choice == PortChoice::Preserve,
                    random: (self.port_choice != PortChoice::InTurn).then(|| cx.random()),
                    now_ns,
                    deadline_ns: self.deadline_ns(phase, now_ns),
                };
                let taken = match cx.pool.take(&wanted) {
                    Ok(taken) => taken,
                    Err(NoPort::NoneLeft) => return Verdict::Drop(NO_PORT),
                    Err(NoPort::HostHasMost) => return Verdict::Drop(HOST_HAS_MOST),
                };
                cx.count(MAPPINGS_MADE);
                if phase != Phase::Query && taken.external.port % 2 != meta.src_port % 2 {
                    cx.count(PARITY_LOST);
                }
                flow.insert(State::new(taken, phase, meta))
            }
        };
        self.send_out(state, cx);
        Verdict::Forward
    }

    #[inline]
    fn send_out(&self, state: &State, cx: &mut Cx<'_, Pool>) {
        cx.edits.set_src(self.sides.external_addr(state.address));
        cx.edits.set_src_port(state.port);
        cx.count(PACKETS_OUT);
    }

    #[inline]
    fn inbound(&self, address: u8, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        let Some(inside) = cx.pool.inside(meta.destination(address), cx.stamp.time_ns) else {
            return self.unmatched.verdict(NO_MAPPING);
        };
        direct(inside, cx.edits);
        cx.count(PACKETS_IN);
        Verdict::Forward
    }

    /// RFC 4787 §6: out and in again. The receiver is looked up first, so that a packet to nobody takes
    /// no port; and once, since it may be another core's.
    fn hairpin(&self, address: u8, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        let receiver = cx.pool.inside(meta.destination(address), cx.stamp.time_ns);
        let Some(receiver) = receiver.filter(|_| self.hairpinning) else {
            return self.unmatched.verdict(NO_MAPPING);
        };
        let verdict = self.outbound(flow, meta, cx);
        if verdict == Verdict::Forward {
            direct(receiver, cx.edits);
            cx.count(PACKETS_HAIRPINNED);
        }
        verdict
    }

    /// A step of a mapping: it gets a deadline, which a look-up of its port finds.
    #[inline]
    fn refresh(&self, state: &mut State, meta: &Meta, cx: &mut Cx<'_, Pool>) {
        state.left_ns = self.timeouts.of(state.phase);
        let deadline_ns = self.deadline_ns(state.phase, cx.stamp.time_ns);
        cx.pool.set_deadline(state.external(meta.protocol), deadline_ns);
    }

    /// When a mapping that steps now is dead.
    #[inline]
    fn deadline_ns(&self, phase: Phase, now_ns: u64) -> u64 {
        now_ns.saturating_add(self.timeouts.of(phase))
    }

    fn endpoint_text(&self, external: External) -> String {
        format!("{}:{}", self.sides.external_addr(external.address), external.port)
    }

    /// How many ports of each external address are in use.
    fn ports_report(&self, mappings: &[(&SrcEndpoint, &State)]) -> FunctionReport {
        let mut used = vec![[0_u64; PROTOCOLS.len()]; self.sides.externals().len()];
        for (key, state) in mappings {
            if let Some(column) = PROTOCOLS.iter().position(|protocol| *protocol == key.protocol) {
                used[usize::from(state.address)][column] += 1;
            }
        }
        let row = |(addr, [udp, tcp, icmp]): (&[u8; 4], &[u64; 3])| {
            vec![
                Ipv4Addr::from(*addr).to_string(),
                udp.to_string(),
                tcp.to_string(),
                icmp.to_string(),
                self.ports.len().to_string(),
            ]
        };
        let total = |column: usize| used.iter().map(|used| used[column]).sum::<u64>();
        FunctionReport {
            title: format!(
                "Ports in use now: {} for UDP, {} for TCP, {} identifiers for ICMP",
                total(0),
                total(1),
                total(2)
            ),
            columns: vec!["external", "udp", "tcp", "icmp", "of_each"],
            rows: self.sides.externals().iter().zip(&used).map(row).collect(),
        }
    }
}

/// Lets a packet go to an inside endpoint.
#[inline]
fn direct((addr, port): Inside, edits: &mut Edits) {
    edits.set_dst(Addr::v4(addr));
    edits.set_dst_port(port);
}

#[cfg(test)]
mod tests;
