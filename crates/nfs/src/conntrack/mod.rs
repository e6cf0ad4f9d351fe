//! Connection tracker: a stateful firewall's idea of which packets belong.
//!
//! | page | what it is |
//! |---|---|
//! | this | the function: options, verdicts, events, report |
//! | `segment` | what is read of a packet (SCR's *f(p)*) |
//! | `state` | what is kept of a connection |
//! | `tcp` | TCP's states, the two sides of a connection, kinds of packets |
//! | `transition` | the table of TCP states |
//! | `follow` | one packet on one connection: the table's answer, and its exceptions |
//! | `window` | whether sequence numbers fit the connection |
//! | `resume` | numbers after a gap in what was seen |
//! | `record` | a record of each connection, for `paceline run --connections` |
//! | `zeek` | such a record as a line of JSON |
//! | `tables` | how many connections there are |
//! | `part` | what packets that are not TCP are, and their time-outs |
//! | `other` | UDP, ICMP, and all that is not TCP |

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nf::{
    About, Connection, Cx, EndedOf, Extras, Flows, FullTable, FunctionReport, InPlace, NetworkFunction,
    OptionError, Reload, Reports, StateValue, TwoSided, Verdict,
};
use wire::{Fields, Headers, Stamp};

use crate::PassOrDrop;

mod counts;
mod follow;
mod options;
mod other;
mod part;
mod record;
mod resume;
mod segment;
mod state;
mod tables;
mod tcp;
mod transition;
mod window;
mod zeek;

#[cfg(test)]
mod tests;

pub use options::{Gaps, OpenFrom, Options};
pub use record::{RECORDS_TITLE, Recorded, Recorder};
pub use segment::Meta;
pub use state::State;
pub use tcp::TcpState;

pub(crate) use follow::Fate;
pub(crate) use options::{MAX_TIMEOUT_S, Settings};
pub(crate) use segment::Segment;
pub(crate) use tcp::{Kind, Side};

use counts::{event, reason};
use part::{Other, Part};

/// Follows connections, and drops what cannot belong to one.
///
/// A TCP connection's state is one for both directions, from packets that pass in the middle, in the way of Linux's
/// connection tracker: RFC 9293's states, and its windows as seen by neither end (van Rooij). A test
/// holds it to verdicts, states and time-outs that a Linux kernel gave for the same packets.
///
/// - UDP, and what is neither TCP nor ICMP: any packet begins a connection, by addresses and ports (UDP, SCTP, DCCP) or
///   addresses. UDP is kept for `udp_timeout`; for `udp_timeout_stream` from the first packet on that comes more than two seconds
///   after it began, and after an answer. GRE is one connection for two addresses, and has times of its own. Chunks of SCTP
///   are not looked at.
/// - ICMP echo and timestamp, and ICMPv6 echo: a request begins a connection, by its identifier over IPv4 and by the
///   addresses over IPv6; a reply without one is `reply-without-request`.
/// - ICMP errors are of the connection that they quote (event `related`), and let it live no longer. One about an
///   unknown connection is `unrelated-error`. A router's error is followed over IPv4 in a chain with `nat`, if it comes from outside
///   for a host inside that talks to one outside: only there it comes to the core of the connection. All other errors of
///   routers, and those whose quote cannot be read, pass untouched; so do all other ICMP messages, such as neighbour discovery.
/// - Later fragments: with `fragments = "follow"` in the chain file they pass as packets of their first's connection, which they do not move
///   on; one whose connection is not known is `no-connection`. Elsewhere they are forwarded untouched, as is what is not IP. A first fragment of TCP counts as a segment of
///   any length that the receiver's window allows (Linux reassembles before it tracks).
/// - Full table: see the option `when_full`; by default new connections are dropped, as a firewall
///   fails closed. Connections that exist go on.
/// - Invalid packets are dropped, or only counted: options `invalid` and `out_of_window`. Neither
///   they nor packets that are ignored keep a connection alive.
/// - In a chain with an inside, `open_from = "inside"` lets nobody outside begin a connection, nor pick one up, of any protocol:
///   `opened-from-outside` counts what tried. Packets of connections that exist pass both ways.
/// - With `records`, `paceline run --connections FILE` writes a line of JSON for each connection, with the names of Zeek's
///   `conn.log`.
/// - Time-outs have Linux's names, without `nf_conntrack_`, and its defaults. They are in seconds, 1 to 2,147,483. The clock
///   ticks in milliseconds.
/// - It must see both directions, and each packet. Where a capture has gaps, what follows acknowledges data never
///   seen, and is out of the window from there on. With `gaps = "resync"` the tracker finds its footing again, as Zeek
///   does: a segment out of the window is refused and remembered, and when the other end's next segment is out of the
///   window too and agrees with it (each acknowledges what the other sends, to within a window), both ends mean the
///   numbers that they say, and these are taken up; event `resynchronised`. Who forges the packets of one end cannot do
///   that; who forges both can, so inline one wants `"strict"`, which is Linux's way. `"auto"`, the default, is
///   strict on interfaces, and resync on captures.
/// - Where a capture has one direction only, set `liberal`, and `invalid = "pass"`: the connection stays at its SYN.
#[derive(Clone, Debug)]
pub struct Conntrack {
    settings: Settings,
}

/// One packet out of so many out of the window is a great share: see [`nf::Reports::hint`].
const HINT_PACKETS: u64 = 20;

impl NetworkFunction for Conntrack {
    const ABOUT: About = About {
        name: "conntrack",
        summary: "follows connections, and drops what cannot belong to one",
        spec: "RFC 9293; RFC 7323; RFC 5961; RFC 5927; van Rooij, \"Real Stateful TCP Packet Filtering in IP \
         Filter\" (2001); Linux nf_conntrack; SCR (NSDI'25) Table 1",
        options: options::OPTIONS,
        drop_reasons: counts::DROP_REASONS,
        events: counts::EVENTS,
    };
    const READS: Fields = Meta::READS;
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a SYN, any ACK with `pick_up`, an ICMP request, any packet of UDP or another protocol; with \
                    `open_from = \"inside\"` from inside alone. What it refuses makes none",
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        sides: TwoSided { wants: Self::wants_sides, ..TwoSided::NONE },
        reports: Reports { report: Self::report, hint: Self::hint, state: Self::state },
        reload: Reload::ANY,
        live: Self::live,
        in_place: InPlace::Whole(Self::in_place),
        ..Extras::NONE
    };

    type Key = Connection;
    type Meta = Meta;
    type State = State;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Conntrack, OptionError> {
        Ok(Conntrack { settings: Settings::new(options)? })
    }

    fn project(headers: &Headers) -> Option<Meta> {
        Meta::of(headers)
    }

    fn key(meta: &Meta) -> Connection {
        meta.connection(meta.protocol())
    }

    #[inline(always)]
    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        let now_ms = now_ms(cx.stamp);
        if let Some(state) = flow
            && self.settings.passes(state, meta, now_ms)
        {
            return Verdict::Forward;
        }
        self.step_any(flow, meta, now_ms, &mut cx.reborrow())
    }

    #[inline(always)]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        u64::from(state.remaining_ms()) * 1_000_000
    }
}

impl Conntrack {
    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        state.shown()
    }

    fn wants_sides(&self) -> Option<&'static str> {
        (self.settings.options.open_from == OpenFrom::Inside).then_some("open_from = \"inside\"")
    }

    /// What packets that were missed look like is what a forger's look like: only captures are given the benefit of doubt.
    fn live(&self) -> Option<Conntrack> {
        self.settings.live().map(|settings| Conntrack { settings })
    }

    fn rejected(&self, _: &State, _: &Meta, _: &mut Cx<'_, ()>) -> Verdict {
        match self.settings.options.when_full {
            PassOrDrop::Drop => Verdict::Drop(reason::TABLE_FULL),
            PassOrDrop::Pass => Verdict::Forward,
        }
    }

    fn hint(&self, packets: u64, dropped: &dyn Fn(&str) -> u64) -> Option<String> {
        let outside = dropped("seq-out-of-window") + dropped("ack-out-of-window");
        (outside >= 10 && outside * HINT_PACKETS >= packets).then(|| {
            format!(
                "{outside} of {packets} packets were dropped as out of their connection's window; if the capture has \
                 gaps, or not all packets of both directions, set `liberal = true` (see `paceline nfs conntrack`)"
            )
        })
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, _now: Stamp) -> Vec<FunctionReport> {
        tables::of(flows)
    }

    /// A step of a connection that exists, where its state is.
    #[inline(always)]
    fn in_place(&self, state: &mut State, meta: &Meta, cx: &mut Cx<'_, ()>) -> bool {
        let now_ms = now_ms(cx.stamp);
        self.settings.passes(state, meta, now_ms)
            || self.passes_otherwise(state, meta, now_ms, &mut cx.reborrow())
    }

    /// A step of a connection that exists, for packets that pass in another way, such as those of handshakes.
    #[inline(never)]
    fn passes_otherwise(&self, state: &mut State, meta: &Meta, now_ms: u32, cx: &mut Cx<'_, ()>) -> bool {
        if let Some(other) = meta.other() {
            let may_ask = self.may_begin(meta);
            let is_done =
                self.settings.follow_other(state, other, meta.is_from_low(), may_ask, now_ms).is_ok();
            if is_done && other.part == Part::Error {
                cx.count(event::RELATED);
            }
            return is_done;
        }
        let Some(kind) = Kind::of(meta.tcp_flags) else { return false };
        let mut after = *state;
        after.count_down(now_ms);
        let fate = self.settings.follow(&mut after, &Segment::new(meta, kind), meta.is_from_low(), now_ms);
        let is_done = matches!(fate, Fate::Pass | Fate::Ignore | Fate::Resync);
        if is_done {
            count_transition(state.tcp(), after.tcp(), cx);
            count_passed(fate, cx);
            *state = after;
        }
        is_done
    }

    /// A step of any packet.
    #[inline(never)]
    fn step_any(&self, flow: &mut Option<State>, meta: &Meta, now_ms: u32, cx: &mut Cx<'_, ()>) -> Verdict {
        if let Some(state) = flow {
            state.count_down(now_ms);
        }
        if let Some(other) = meta.other() {
            return self.step_other(flow, other, meta, now_ms, cx);
        }
        let Some(kind) = Kind::of(meta.tcp_flags) else { return self.refuse(reason::FLAGS, cx) };
        let segment = Segment::new(meta, kind);

        let Some(state) = flow else { return self.open(flow, &segment, meta, now_ms, cx) };
        let tcp = state.tcp();
        let fate = self.settings.follow(state, &segment, meta.is_from_low(), now_ms);
        count_transition(tcp, state.tcp(), cx);
        match fate {
            Fate::Pass | Fate::Ignore | Fate::Resync => {
                count_passed(fate, cx);
                Verdict::Forward
            }
            Fate::Refuse(reason) => self.refuse(reason, cx),
            Fate::Remove => {
                *flow = None;
                Verdict::Forward
            }
            Fate::Reopen => {
                cx.count(event::REOPENED);
                self.open(flow, &segment, meta, now_ms, cx)
            }
        }
    }

    /// A step of a packet that is not TCP.
    fn step_other(
        &self,
        flow: &mut Option<State>,
        other: Other,
        meta: &Meta,
        now_ms: u32,
        cx: &mut Cx<'_, ()>,
    ) -> Verdict {
        let (from_low, may_begin) = (meta.is_from_low(), self.may_begin(meta));
        let followed = match flow {
            Some(state) => self.settings.follow_other(state, other, from_low, may_begin, now_ms),
            // The first passed without a connection, as there was no room for one.
            None if other.part == Part::Later && self.settings.options.when_full == PassOrDrop::Pass => {
                Ok(())
            }
            None if !may_begin && other.part != Part::Error => Err(reason::FROM_OUTSIDE),
            None => self.settings.open_other(other, from_low, now_ms).map(|state| {
                cx.count(event::OPENED);
                *flow = Some(state);
            }),
        };
        match followed {
            Ok(()) if other.part == Part::Error => cx.count(event::RELATED),
            Ok(()) => {}
            Err(reason) => return self.refuse(reason, cx),
        }
        Verdict::Forward
    }

    /// Whether the sender of a packet may begin a connection.
    fn may_begin(&self, meta: &Meta) -> bool {
        self.settings.options.open_from == OpenFrom::Both || !meta.is_from_outside()
    }

    /// Begins a connection with `segment`, if it may.
    fn open(
        &self,
        flow: &mut Option<State>,
        segment: &Segment,
        meta: &Meta,
        now_ms: u32,
        cx: &mut Cx<'_, ()>,
    ) -> Verdict {
        if !self.may_begin(meta) {
            return self.refuse(reason::FROM_OUTSIDE, cx);
        }
        *flow = None;
        match segment.kind {
            Kind::Syn => cx.count(event::OPENED),
            Kind::Ack if self.settings.options.pick_up => cx.count(event::PICKED_UP),
            _ => return self.refuse(reason::NO_CONNECTION, cx),
        }
        let mut state = State::open(segment, meta.is_from_low());
        self.settings.follow(&mut state, segment, meta.is_from_low(), now_ms);
        *flow = Some(state);
        Verdict::Forward
    }

    /// The verdict for a packet that is not valid, for `reason`.
    fn refuse(&self, reason: u8, cx: &mut Cx<'_, ()>) -> Verdict {
        let (policy, passed) = match reason {
            reason::SEQ | reason::ACK => (self.settings.options.out_of_window, event::PASSED_OUT_OF_WINDOW),
            _ => (self.settings.options.invalid, event::PASSED_INVALID),
        };
        match policy {
            PassOrDrop::Drop => Verdict::Drop(reason),
            PassOrDrop::Pass => {
                cx.count(passed);
                Verdict::Forward
            }
        }
    }
}

/// When a packet came, ms. It wraps around: see [`State::count_down`].
#[inline(always)]
pub(crate) fn now_ms(stamp: Stamp) -> u32 {
    (stamp.time_ns / 1_000_000) as u32
}

/// Counts what comes of a packet that passes.
fn count_passed(fate: Fate, cx: &mut Cx<'_, ()>) {
    match fate {
        Fate::Ignore => cx.count(event::IGNORED),
        Fate::Resync => cx.count(event::RESYNCHRONISED),
        _ => {}
    }
}

fn count_transition(from: TcpState, to: TcpState, cx: &mut Cx<'_, ()>) {
    if from == to {
        return;
    }
    match to {
        TcpState::Established => cx.count(event::ESTABLISHED),
        TcpState::TimeWait => cx.count(event::CLOSED_BY_FIN),
        TcpState::Closed => cx.count(event::CLOSED_BY_RESET),
        _ => {}
    }
}
