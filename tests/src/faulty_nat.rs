//! A NAT that can be told to go wrong where ports are shared out among cores, to see that `verify` finds it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nf::{
    About, Cx, Extras, FiveTuple, FlowKey, FullTable, Guarantees, NetworkFunction, OptionError, Pooled,
    SrcEndpoint, TwoSided, Verdict,
};
use nfs::Nat;
use nfs::nat::{Options, Pool, State};
use wire::{Addr, Fields, Headers, IcmpPorts, Marks, protocol};

/// The stock NAT, with one fault in runs where several cores give out ports.
pub struct FaultyNat<const FAULT: u8> {
    nat: Nat,
    is_many: AtomicBool,
    known: Mutex<Known>,
}

/// No fault.
pub const WELL: u8 = 0;
/// Some packets go out as they came.
pub const UNTRANSLATED: u8 = 1;
/// Some go out with another port than their mapping's.
pub const OTHER_PORT: u8 = 2;
/// Some come in to another inside host.
pub const OTHER_HOST: u8 = 3;
/// Answers to mappings that have ended come in.
pub const DEAD_ANSWERED: u8 = 4;
/// One inside endpoint has the external endpoint of another.
pub const TAKEN_PORT: u8 = 5;
/// What an ICMP error quotes keeps the port that it came with, or has another where that would be right.
pub const QUOTE: u8 = 6;
/// Two mappings that live change their external endpoints with each other.
pub const SWAPPED: u8 = 7;

/// Some hairpinned packets go to another inside host.
pub const HAIRPIN_ELSEWHERE: u8 = 8;
/// Some hairpinned packets keep their inside source.
pub const HAIRPIN_SOURCE: u8 = 9;
/// What a hairpinned ICMP error quotes has another port than the receiver sent from.
pub const HAIRPIN_QUOTE: u8 = 10;
/// Some hairpinned packets are dropped, as if nobody had the endpoint.
pub const HAIRPIN_MISSED: u8 = 11;

/// Hosts from 10.0.0.20 on get the external port of another's forward.
pub const FORWARDS_PORT: u8 = 12;
/// That port, of 203.0.113.1.
pub const HIS_FORWARDS_PORT: u16 = 2_053;

/// Each of them, but for those of hairpinned packets.
pub const FAULTS: [u8; 7] = [UNTRANSLATED, OTHER_PORT, OTHER_HOST, DEAD_ANSWERED, TAKEN_PORT, QUOTE, SWAPPED];
/// Each of those.
pub const HAIRPIN_FAULTS: [u8; 4] = [HAIRPIN_ELSEWHERE, HAIRPIN_SOURCE, HAIRPIN_QUOTE, HAIRPIN_MISSED];

/// The packet from which on two mappings are swapped.
const SWAPPED_FROM: u64 = 300;

type Endpoint = (Addr, u16);

/// What was translated so far, by all cores.
#[derive(Default)]
struct Known {
    /// By external endpoint and protocol: whose it was last.
    inside: HashMap<(Endpoint, u8), Endpoint>,
    /// UDP's inside endpoints with their external ones, as they came.
    first: Vec<(Endpoint, Endpoint)>,
}

/// What is read of a packet.
#[derive(Clone, Copy, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::TryFromBytes)]
#[repr(C)]
pub struct Meta {
    nat: nfs::nat::Meta,
    flow: FiveTuple,
    is_error: u32,
}

impl<const FAULT: u8> NetworkFunction for FaultyNat<FAULT> {
    const ABOUT: About = Nat::ABOUT;
    const READS: Fields = Nat::READS;
    const EDITS: Fields = Nat::EDITS;
    const EXTRAS: Extras<Self> = Extras {
        pool: Pooled {
            make: |faulty| {
                faulty.is_many.store(false, Ordering::Relaxed);
                (Nat::EXTRAS.pool.make)(&faulty.nat)
            },
            divide: |faulty, cores, core_of| {
                faulty.is_many.store(cores > 1, Ordering::Relaxed);
                (Nat::EXTRAS.pool.divide)(&faulty.nat, cores, core_of)
            },
            allocates: |faulty| (Nat::EXTRAS.pool.allocates)(&faulty.nat),
            judge: Some(|faulty, hearing| Nat::EXTRAS.pool.judge.expect("it has one")(&faulty.nat, hearing)),
            without_allocation: Some(|faulty, state| {
                Nat::EXTRAS.pool.without_allocation.expect("it has one")(&faulty.nat, state)
            }),
            allocation_events: |faulty| (Nat::EXTRAS.pool.allocation_events)(&faulty.nat),
            empty: Nat::EXTRAS.pool.empty,
            gone: |faulty, key, state, pool| (Nat::EXTRAS.pool.gone)(&faulty.nat, key, state, pool),
            ..Pooled::NONE
        },
        full_table: FullTable {
            rejected: |faulty, state, meta, cx| {
                (Nat::EXTRAS.full_table.rejected)(&faulty.nat, state, &meta.nat, cx)
            },
            ..FullTable::NONE
        },
        sides: TwoSided { sides: |faulty| (Nat::EXTRAS.sides.sides)(&faulty.nat), ..TwoSided::NONE },
        has_address: |faulty, address| (Nat::EXTRAS.has_address)(&faulty.nat, address),
        // With it, what no two mappings may share is found without a judge.
        guarantees: Guarantees::NONE,
        draws: |faulty| (Nat::EXTRAS.draws)(&faulty.nat),
        ..Extras::NONE
    };
    type Key = SrcEndpoint;
    type Meta = Meta;
    type State = State;
    type Pool = Pool;
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        Ok(FaultyNat { nat: Nat::new(options)?, is_many: AtomicBool::new(false), known: Mutex::default() })
    }

    fn project(headers: &Headers) -> Option<Meta> {
        let is_error = matches!(headers.icmp_ports(), Some(IcmpPorts::Error { .. })).into();
        Some(Meta { nat: Nat::project(headers)?, flow: FiveTuple::of(headers), is_error })
    }

    fn key(meta: &Meta) -> SrcEndpoint {
        Nat::key(&meta.nat)
    }

    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        let was_mapped = flow.is_some();
        let verdict = self.nat.step(flow, &meta.nat, cx);
        if FAULT == WELL || !self.is_many.load(Ordering::Relaxed) {
            return verdict;
        }
        self.spoil(verdict, was_mapped, meta, cx)
    }

    fn idle_timeout_ns(&self, state: &State) -> u64 {
        self.nat.idle_timeout_ns(state)
    }
}

impl<const FAULT: u8> FaultyNat<FAULT> {
    /// What becomes of the right answer.
    fn spoil(&self, verdict: Verdict, was_mapped: bool, meta: &Meta, cx: &mut Cx<'_, Pool>) -> Verdict {
        let edited = cx.edits.fields();
        let (goes_out, comes_in) = (edited.contains(Fields::SRC_ADDR), edited.contains(Fields::DST_ADDR));
        let mut answer = Headers { marks: Marks::IPV4, protocol: protocol::UDP, ..Headers::default() };
        cx.edits.apply_to_headers(&mut answer);
        let FiveTuple { src, dst, src_port, dst_port, protocol: of, .. } = meta.flow;
        let is_hit = cx.stamp.seq % 8 < 3;
        let is_of_others = src.to_v4().is_some_and(|[.., host]| host >= 20);
        let is_error = meta.is_error != 0;
        let mut known = self.known.lock().expect("no core panics");
        let inside = (src, src_port);
        if goes_out && !is_error {
            let external = (answer.src, answer.src_port);
            known.inside.insert((external, of), inside);
            if of == protocol::UDP && known.first.iter().all(|(of, _)| *of != inside) {
                known.first.push((inside, external));
            }
        }
        let index_of = |endpoint: Endpoint| known.first.iter().position(|(inside, _)| *inside == endpoint);
        match FAULT {
            UNTRANSLATED if goes_out && is_hit => cx.edits.clear(),
            OTHER_PORT if goes_out && was_mapped && is_hit && !is_error => {
                cx.edits.set_src_port(answer.src_port ^ 2);
            }
            OTHER_HOST if comes_in && is_hit && !is_error => cx.edits.set_dst(Addr::v4([10, 0, 0, 200])),
            DEAD_ANSWERED if verdict == Verdict::Drop(1) && !is_error => {
                let Some((addr, port)) = known.inside.get(&((dst, dst_port), of)) else { return verdict };
                cx.edits.set_dst(*addr);
                cx.edits.set_dst_port(*port);
                return Verdict::Forward;
            }
            TAKEN_PORT if goes_out && of == protocol::UDP && index_of(inside) == Some(1) => {
                let (_, (addr, port)) = known.first[0];
                cx.edits.set_src(addr);
                cx.edits.set_src_port(port);
            }
            FORWARDS_PORT if goes_out && of == protocol::UDP && is_of_others => {
                cx.edits.set_src(Addr::v4([203, 0, 113, 1]));
                cx.edits.set_src_port(HIS_FORWARDS_PORT);
            }
            QUOTE if comes_in && is_error => {
                // Where the port is the mapping's own, it is another that it keeps.
                let port = if dst_port == answer.dst_port { dst_port ^ 1 } else { dst_port };
                cx.edits.set_dst_port(port);
            }
            HAIRPIN_ELSEWHERE if goes_out && comes_in && is_hit && !is_error => {
                cx.edits.set_dst(Addr::v4([10, 0, 0, 200]));
            }
            HAIRPIN_SOURCE if goes_out && comes_in && is_hit && !is_error => {
                cx.edits.set_src(src);
                cx.edits.set_src_port(src_port);
            }
            HAIRPIN_QUOTE if goes_out && comes_in && is_error => cx.edits.set_dst_port(answer.dst_port ^ 1),
            HAIRPIN_MISSED if goes_out && comes_in && is_hit => {
                cx.edits.clear();
                return Verdict::Drop(1);
            }
            SWAPPED if cx.stamp.seq >= SWAPPED_FROM && of == protocol::UDP && known.first.len() > 1 => {
                match (goes_out, comes_in) {
                    (true, false) => {
                        if let Some(index @ 0..2) = index_of(inside) {
                            let (_, (addr, port)) = known.first[1 - index];
                            cx.edits.set_src(addr);
                            cx.edits.set_src_port(port);
                        }
                    }
                    (false, true) => {
                        if let Some(index @ 0..2) = index_of((answer.dst, answer.dst_port)) {
                            let ((addr, port), _) = known.first[1 - index];
                            cx.edits.set_dst(addr);
                            cx.edits.set_dst_port(port);
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        verdict
    }
}
