//! `firewall`: judges packets by rules and the state of their connection.
//!
//! ```toml
//! [[function]]
//! use = "firewall"
//! sets = { office = ["10.0.0.0/24", "2001:db8:64::/64"], blocklist = ["203.0.113.66"] }
//! rules = [
//!     "drop   any    from @blocklist to any",
//!     "accept any    from any to any state established,related",
//!     "drop   any    from any to any state invalid",
//!     "accept any    from @office to any state new",
//!     "accept tcp    from any to 198.51.100.10 port 80,443 flags syn,!ack state new",
//!     "accept icmp   from any to any type echo-request state new",
//!     "accept icmpv6 from any to any type packet-too-big,time-exceeded,destination-unreachable",
//! ]
//! ```
//!
//! | page | what it is |
//! |---|---|
//! | this | the function: rules, states, drops, events, report |
//! | `meta` | what is read of a packet |
//! | `rule` | one rule |
//! | `rate` | how many packets a rule matches in how much time |
//! | `rules` | all rules, and the first that matches |
//! | `classifier` | how that is found among 10,000 |
//! | `state` | what is kept of a connection |
//! | `options` | options and time-outs |
//!
//! `paceline nfs firewall` lists the options. Time-outs are in seconds, 1 to 2,147,483; the clock ticks in milliseconds.
//!
//! # Rules
//!
//! ```text
//! accept|drop|reject  PROTOCOL  from ADDRESSES [port PORTS]  to ADDRESSES [port PORTS]
//!                     [in SIDE] [out SIDE] [type TYPES] [flags FLAGS] [state STATES] [rate [over] RATE] [burst PACKETS] [log]
//! ```
//!
//! - PROTOCOL is `any`, `tcp`, `udp`, `icmp` (ICMP and ICMPv6), `icmpv6` (ICMPv6 alone), `sctp`, `dccp`, or a number.
//! - ADDRESSES are `any`, or prefixes and sets: `10.0.0.0/8`, `2001:db8::1,@office`.
//! - PORTS are ports and ranges: `80,443`, `6000-6063`. Only tcp, udp, sctp and dccp have them.
//! - SIDE is `inside`, `outside`, or a name of `sides`. `in` is where the packet comes from, in a chain that has an inside; `out`
//!   is where it goes, told by its destination as this function sees it: in front of a NAT that is the host inside. `sides` names
//!   the hosts of each side inside, and `outside` is all others; a chain with `[[interface]]` tables fills it in. `out` needs it: a
//!   packet is judged before it is routed, and over a capture no interface is known. Where `sides` has no `inside`, that is all of
//!   them.
//! - TYPES are ICMP's, by name (`echo-request`), and by number where the protocol is `1` (ICMP) or `icmpv6`: `8,128-137`.
//! - FLAGS are TCP's: `syn,!ack` matches where SYN is set and ACK is not. The names are `fin`, `syn`, `rst`, `psh`,
//!   `ack`, `urg` and `ece`.
//! - STATES are any of the five below. A rule without any is for all of them; one with FLAGS for all but `established`.
//! - RATE is packets in a time: `10/s`, or by `/minute`, `/hour`, `/day`; PACKETS of `burst`, 5 where nothing is said, is how many may
//!   come at once. A packet that all else matches takes a token from the rule's bucket; where that is empty the rules behind are
//!   looked at. `rate over 10/s` matches what finds the bucket empty. At most 256 rules may have a rate: see below.
//! - `reject` drops a packet, and has its sender told at once: TCP gets a reset (RFC 9293 §3.10.7.1), all else an ICMP error,
//!   administratively prohibited: type 3, code 13, or over IPv6 type 1, code 1. The answer is made where packets leave
//!   (`wire::answer`), and comes from the address that the packet was sent to. What may not be answered is dropped and no
//!   more: resets, ICMP errors, later fragments, packets with a wrong checksum, to or from a group or nobody (RFC 1122 §3.2.2).
//! - `log` has each packet that the rule drops or rejects name it: see below. At most 16 rules may have it; one at the end,
//!   `drop any from any to any log`, logs what no other rule decides.
//! - Lists are written with commas and without spaces; as many spaces as you like elsewhere.
//!
//! The first rule that matches a packet decides. As in nftables, a rule is about packets, not about connections: answers
//! pass only if a rule accepts them, such as `accept any from any to any state established,related`.
//!
//! There are at most 10,000 rules, 100 sets and 1,000,000 prefixes in a set. Packets of a known connection cost the same however many
//! rules there are: what the rules say of them is kept with the connection, once for each direction. Rules are asked for packets
//! that begin a connection, for those that are dropped without one or that a rate had a say about, for ICMP and for later
//! fragments, and where a rule has FLAGS for TCP packets of a connection without an answer. The first that matches is found by
//! bit vectors (Lakshman and Stiliadis, SIGCOMM 1998): some bits a rule, whatever the rules are. Rules whose tables
//! would take more than 256 MiB are refused.
//!
//! Prefixes of a set come and go while a run on interfaces goes on: `paceline ctl set add blocklist 203.0.113.7`.
//!
//! # Rates
//!
//! As in nftables (`limit rate`), a rate is about the packets that come to its rule: not those of a connection that a rule before
//! accepts as `established`; all of them, if none does. A ruling that a rate had a say in is kept with no connection, so such packets
//! cost what those cost that begin one. Later fragments take tokens as all packets do. A bucket is one for all that the rule matches: what
//! each source or flow may send is for [`rate_limiter`](crate::rate_limiter), [`policer`](crate::policer) and [`ddos`](crate::ddos).
//!
//! Buckets are one state for all packets. One core has them, or each replica (`scr`, `scr-turns`), which answers as one core does;
//! under `shared` all cores take from the same ones, and which packets find a token follows the order in which they get there.
//! Strategies that have each core judge alone refuse a chain with a rate. After a reload a bucket goes on where a rule's words are
//! the same, and is full elsewhere; with the first rate that comes, and the last that goes, connections begin anew.
//!
//! A token is the unit divided by the rate, cut to nanoseconds; times are those of packets. A packet may take tokens of all 256 rules,
//! and each of these that does not decide costs one more search.
//!
//! # States
//!
//! | state | a packet |
//! |---|---|
//! | `new` | that begins a connection, or comes from the end that began it while there is no answer |
//! | `established` | of a connection of which both directions were seen |
//! | `related` | an ICMP or ICMPv6 error that quotes a packet of a known connection |
//! | `invalid` | that no connection explains |
//! | `untracked` | whose connection cannot be looked up: see below |
//!
//! - TCP is followed as [`conntrack`] follows it: `invalid` is what it would drop, for flags that no TCP
//!   sends, sequence numbers out of the window, resets that prove too little, or with `pick_up = false` an ACK of no known
//!   connection. What `conntrack` passes is `new` or `established`.
//! - UDP, SCTP, DCCP and all other protocols: any packet begins a connection.
//! - ICMP and ICMPv6 echo and ICMP timestamp requests begin a connection, by the identifier over IPv4 and by the addresses over
//!   IPv6. A reply without a request is `invalid`.
//! - A connection is remembered when a rule accepts its first packet. A packet that is dropped takes no room.
//! - An ICMP error (RFC 792: types 3, 4, 11, 12; RFC 4443: types 1 to 4) is `related` if the packet that it quotes was sent by the host
//!   that the error goes to, between the addresses and ports of a known connection, and the error comes from the other end or, over
//!   IPv4 in a chain with `nat`, which has packets spread by their inside end, from any router outside to a host inside that talks to
//!   one outside. It lets the connection live no longer (RFC 5927: anyone can send errors).
//!   Rules judge the error itself, by its sender and type. An error about an unknown connection is `invalid`. Whether
//!   the quoted sequence number is in flight is for the receiver to check (RFC 5927 §4.1).
//! - `untracked` are all other errors from routers; errors whose quote cannot be read, such as that of an IPv6 packet with extension
//!   headers; and ICMP messages that are neither errors nor queries.
//!   A router's error, such as `packet-too-big`, comes to the core that its addresses ask for, which may be another than has the
//!   connection; and over IPv6 three addresses matter, and what is read of a packet has room for two. A rule has to accept it by its type, as
//!   RFC 4890 §4.3.1 advises.
//! - A later fragment is a packet of its first's connection where the chain file says `fragments = "follow"`: it meets the ruling that its
//!   first met, and the connection stays as it is. Elsewhere it has no ports. It passes if the rules could accept a `new` packet of its protocol between its
//!   two addresses, in one direction or the other: rules that accept match without ports, types and flags, and rules that drop
//!   some of these do not match. Without the first fragment, which has ports and is treated like any
//!   packet, no host makes anything of it (RFC 1858 §2). It leaves no state.
//! - What is not IP passes, such as ARP; so do neighbour solicitations and advertisements (RFC 4861 §7.1,
//!   hop limit 255), its like in IPv6.
//!
//! # Drops, events, reload, full table
//!
//! - `dropped-by-rule`, `dropped-by-default`; `table-full`: see below. `rejected`: by a rule that rejects, or `default = "reject"`.
//! - `logged-01` to `logged-16`: dropped or rejected by a rule with `log`, by its number among these. `paceline run --log FILE` writes such packets as
//!   lines of JSON, with the rule and both ends; `--drops` and `paceline ctl drops` name the rule. How many are written is bounded there, by
//!   the second; a step costs what that of any denied packet costs, and the rules are asked for each one.
//! - Events: `accepted`, a connection that began; `related`, `invalid`, `untracked`: packets in these states, whatever the
//!   rules said. The report says which rule accepted the connections that are remembered now.
//! - After a reload with other rules each connection is kept, and its next packet in each direction meets the new rules: one that they
//!   drop stops at once, as with nftables.
//! - When the table is full a new connection that a rule accepts is dropped as `table-full`, since its answers could not be told
//!   from anything else. With `when_full = "pass"` it passes, and so do all packets that the rules accept as `new`. `table_full = "evict-oldest"` lets unanswered
//!   connections go first, since their time-out is the shortest.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use nf::{
    About, Connection, Cx, EndedOf, Extras, Flows, FullTable, FunctionReport, InPlace, NetworkFunction,
    OptionError, Pooled, Reload, Reports, StateValue, TwoSided, Undivided, Verdict,
};
use wire::{AnswerTo, Edits, Fields, Headers, Stamp, protocol};

use crate::PassOrDrop;
use crate::conntrack::{self, Fate, Kind, Segment, Settings, Side, now_ms};

mod classifier;
mod meta;
mod options;
mod rate;
mod rule;
mod rules;
mod state;

#[cfg(test)]
mod tests;

pub use meta::Meta;
pub use options::Options;
pub use rate::Buckets;
pub use rule::{Action, FLAGS};
pub use rules::MEMBERS_MAX;
pub use state::State;

use meta::{ERROR, FLOW, FOLLOWED, LATER_FRAGMENT, UNTRACKED};
use options::Timeouts;
use rule::States;
use rules::Rules;
use state::{OF_NEW, REJECTED, Ruling, asked};

const TABLE_FULL: u8 = 2;

#[rustfmt::skip]
const DROP_REASONS: &[&str] = &[
    "dropped-by-rule", "dropped-by-default", "table-full",
    "logged-01", "logged-02", "logged-03", "logged-04", "logged-05", "logged-06", "logged-07", "logged-08",
    "logged-09", "logged-10", "logged-11", "logged-12", "logged-13", "logged-14", "logged-15", "logged-16",
    "rejected",
];

const _: () = assert!(DROP_REASONS.len() == 1 + REJECTED as usize);

/// Indices into the events.
mod event {
    pub(super) const ACCEPTED: usize = 0;
    pub(super) const RELATED: usize = 1;
    pub(super) const INVALID: usize = 2;
    pub(super) const UNTRACKED: usize = 3;
}

/// Judges packets by rules and by their connection's state: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct Firewall {
    rules: Rules,
    tracking: Settings,
    timeouts: Timeouts,
    /// Whether an ACK begins a connection.
    picks_up: bool,
    /// Whether a rule asks for TCP flags.
    asks_for_flags: bool,
    when_full: PassOrDrop,
}

impl NetworkFunction for Firewall {
    const ABOUT: About = About {
        name: "firewall",
        summary: "judges packets by rules and the state of their connection",
        spec: "RFC 9293; RFC 5927; RFC 1858; Linux nf_conntrack and nftables",
        options: options::OPTIONS,
        drop_reasons: DROP_REASONS,
        events: &["accepted", "related", "invalid", "untracked"],
    };
    const READS: Fields = Meta::READS;
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a packet that the rules accept as `new`; dropped packets make none, nor do ICMP errors \
                    and what is `invalid` or `untracked`",
        pool: Pooled {
            make: Self::buckets,
            steps_in_order: |firewall| firewall.rules.have_rates(),
            undivided: Self::undivided,
            ..Pooled::NONE
        },
        full_table: FullTable { rejected: Self::rejected, ..FullTable::NONE },
        sides: TwoSided { wants: Self::wants_sides, ..TwoSided::NONE },
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        reload: Reload { following: Self::following, ..Reload::ANY },
        live: Self::live,
        in_place: InPlace::Flow(Self::in_place),
        rules: Some(Self::rules_in_words),
        logged_rule: Self::logged_rule,
        answers: Self::answers,
        ..Extras::NONE
    };

    type Key = Connection;
    type Meta = Meta;
    type State = State;
    type Pool = Buckets;
    type Options = Options;

    fn new(options: Options) -> Result<Firewall, OptionError> {
        let rules = Rules::new(&options)?;
        Ok(Firewall {
            asks_for_flags: rules.ask_for_flags(),
            rules,
            tracking: options.tracking()?,
            timeouts: Timeouts::new(&options)?,
            picks_up: options.pick_up,
            when_full: options.when_full,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Meta> {
        Meta::of(headers)
    }

    #[inline]
    fn key(meta: &Meta) -> Connection {
        meta.connection()
    }

    #[inline]
    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Buckets>) -> Verdict {
        let now_ms = now_ms(cx.stamp);
        if let Some(state) = flow
            && self.passes(state, meta, now_ms)
        {
            return Verdict::Forward;
        }
        self.step_any(flow, meta, now_ms, &mut cx.reborrow())
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        u64::from(state.tracked.remaining_ms()) * 1_000_000
    }
}

/// What a packet is to its connection.
enum Place {
    /// It begins one.
    First,
    /// It goes on with it.
    Later,
    /// It goes on with it and ends it: the other end never took part.
    Last,
    /// It does not fit it.
    Invalid,
}

impl Firewall {
    #[inline]
    fn in_place(&self, state: &mut State, meta: &Meta, stamp: Stamp, _: &mut Edits) -> bool {
        self.passes(state, meta, now_ms(stamp))
    }

    /// Steps most packets of connections that are known: those that fit them, and that the rules are known to accept. If
    /// the packet is another nothing changes: `false`.
    #[inline(always)]
    fn passes(&self, state: &mut State, meta: &Meta, now_ms: u32) -> bool {
        let side = state.tracked.side(meta.packet.is_from_low());
        let ruling = state.ruling(side as usize, meta.packet.is_from_outside());
        let is_known = ruling == Ruling::Accept && state.rules == self.rules.number;
        if !is_known || meta.kind != FLOW {
            return false;
        }
        if meta.protocol == protocol::TCP {
            if !self.tracking.passes(&mut state.tracked, &meta.packet, now_ms) {
                return false;
            }
        } else {
            // Where there is a ruling on what is established there was an answer.
            state.tracked.renew(now_ms, self.timeouts.of(meta.protocol, true));
        }
        state.packets = state.packets.saturating_add(1);
        true
    }

    /// Steps any packet.
    #[inline(never)]
    fn step_any(
        &self,
        flow: &mut Option<State>,
        meta: &Meta,
        now_ms: u32,
        cx: &mut Cx<'_, Buckets>,
    ) -> Verdict {
        if let Some(state) = flow {
            state.tracked.count_down(now_ms);
        }
        match meta.kind {
            FLOW => {}
            LATER_FRAGMENT => {
                let judged = meta.judged(States::NEW);
                let found = self.rules.judge_later_fragment(
                    &judged.packet,
                    judged.is_from_outside,
                    cx.stamp.time_ns,
                    cx.pool,
                );
                cx.count_rule(Self::ABOUT.events, found.index);
                return found.verdict();
            }
            ERROR if flow.is_some() => return self.judge_apart(meta, States::RELATED, event::RELATED, cx),
            ERROR => return self.judge_apart(meta, States::INVALID, event::INVALID, cx),
            FOLLOWED => return self.judge_followed(flow.as_mut(), meta, cx),
            UNTRACKED.. => return self.judge_apart(meta, States::UNTRACKED, event::UNTRACKED, cx),
        }
        match self.follow(flow.as_mut(), meta, now_ms) {
            Place::First => self.open(flow, meta, now_ms, cx),
            Place::Invalid => self.judge_apart(meta, States::INVALID, event::INVALID, cx),
            place => {
                let verdict =
                    flow.as_mut().map_or(Verdict::Forward, |state| self.judge_known(state, meta, cx));
                if matches!(place, Place::Last) {
                    *flow = None;
                }
                verdict
            }
        }
    }

    /// Moves a connection on by a packet, and says what the packet is to it.
    fn follow(&self, flow: Option<&mut State>, meta: &Meta, now_ms: u32) -> Place {
        let from_low = meta.packet.is_from_low();
        if meta.protocol == protocol::TCP {
            let Some(kind) = Kind::of(meta.packet.tcp_flags) else { return Place::Invalid };
            let Some(state) = flow else {
                let begins = kind == Kind::Syn || (kind == Kind::Ack && self.picks_up);
                return if begins { Place::First } else { Place::Invalid };
            };
            let segment = Segment::new(&meta.packet, kind);
            return match self.tracking.follow(&mut state.tracked, &segment, from_low, now_ms) {
                Fate::Pass | Fate::Ignore | Fate::Resync => Place::Later,
                Fate::Refuse(_) => Place::Invalid,
                Fate::Remove => Place::Last,
                Fate::Reopen => Place::First,
            };
        }
        let Some(state) = flow else {
            return if meta.is_icmp() && !meta.is_request() { Place::Invalid } else { Place::First };
        };
        let side = state.tracked.side(from_low);
        if meta.is_icmp() {
            let asker = match (meta.is_request(), side) {
                (true, side) => side,
                (false, Side::Originator) => Side::Responder,
                (false, Side::Responder) => Side::Originator,
            };
            match (state.marks & asked(asker) != 0, meta.is_request()) {
                (true, _) => {}
                (false, true) => return Place::First,
                (false, false) => return Place::Invalid,
            }
        }
        if side == Side::Responder {
            state.tracked.answer();
        }
        state.tracked.renew(now_ms, self.timeouts.of(meta.protocol, state.tracked.is_answered()));
        Place::Later
    }

    /// Begins a connection, if the rules accept its first packet; otherwise all stays as it is.
    fn open(&self, flow: &mut Option<State>, meta: &Meta, now_ms: u32, cx: &mut Cx<'_, Buckets>) -> Verdict {
        let found = self.rules.judge(&meta.judged(States::NEW), cx.stamp.time_ns, cx.pool);
        cx.count_rule(Self::ABOUT.events, found.index);
        if found.ruling != Ruling::Accept {
            return found.verdict();
        }
        cx.count(event::ACCEPTED);
        let from_low = meta.packet.is_from_low();
        if let Some(state) = flow
            && meta.is_icmp()
        {
            // The other end has a request of its own.
            state.marks |= asked(state.tracked.side(from_low));
            state.packets = state.packets.saturating_add(1);
            state.tracked.answer();
            state.tracked.renew(now_ms, self.timeouts.of(meta.protocol, true));
            return Verdict::Forward;
        }
        let tracked = match Kind::of(meta.packet.tcp_flags) {
            Some(kind) if meta.protocol == protocol::TCP => {
                let segment = Segment::new(&meta.packet, kind);
                let mut tracked = conntrack::State::open(&segment, from_low);
                self.tracking.follow(&mut tracked, &segment, from_low, now_ms);
                tracked
            }
            _ => {
                let mut tracked = conntrack::State::open_other(from_low);
                tracked.renew(now_ms, self.timeouts.of(meta.protocol, false));
                tracked
            }
        };
        let mut state = State {
            tracked,
            packets: 1,
            rules: self.rules.number,
            rule: found.index as u16,
            rulings: [Ruling::Open; 3],
            marks: asked(Side::Originator),
        };
        if !meta.is_icmp() && !found.is_on_one() {
            state.set_ruling(OF_NEW, meta.packet.is_from_outside(), found.ruling);
        }
        *flow = Some(state);
        Verdict::Forward
    }

    /// The verdict for a packet of a connection that is known. It is kept with the connection; but packets of ICMP are judged one by
    /// one, as rules ask for their type.
    fn judge_known(&self, state: &mut State, meta: &Meta, cx: &mut Cx<'_, Buckets>) -> Verdict {
        state.packets = state.packets.saturating_add(1);
        let (index, of_rules) = state.asked_of(meta.packet.is_from_low());
        let is_other = state.forget_rulings_of_others(self.rules.number);
        let is_from_outside = meta.packet.is_from_outside();
        let ruling = state.ruling(index, is_from_outside);
        // Until there is an answer the flags of each packet count, and those of the first say nothing of the next.
        let is_by_flags = index == OF_NEW && self.asks_for_flags && meta.protocol == protocol::TCP;
        if ruling != Ruling::Open && !is_by_flags {
            return ruling.verdict();
        }
        let found = self.rules.judge(&meta.judged(of_rules), cx.stamp.time_ns, cx.pool);
        cx.count_rule(Self::ABOUT.events, found.index);
        if is_other {
            state.rule = found.index as u16;
        }
        if !meta.is_icmp() && !found.is_on_one() {
            state.set_ruling(index, is_from_outside, found.ruling);
        }
        found.verdict()
    }

    /// The verdict for a later fragment whose first has moved its connection on, or found none: that of the first, as far as it can be
    /// told without flags and sequence numbers.
    fn judge_followed(&self, flow: Option<&mut State>, meta: &Meta, cx: &mut Cx<'_, Buckets>) -> Verdict {
        let Some(state) = flow else {
            // As `follow` says it of a first packet.
            let is_invalid = meta.protocol == protocol::TCP || meta.is_icmp() && !meta.is_request();
            let as_of = if is_invalid { States::INVALID } else { States::NEW };
            let found = self.rules.judge(&meta.judged(as_of), cx.stamp.time_ns, cx.pool);
            cx.count_rule(Self::ABOUT.events, found.index);
            return match found.ruling {
                // There was no room for the connection.
                Ruling::Accept if !is_invalid => self.when_full.verdict(TABLE_FULL),
                _ => found.verdict(),
            };
        };
        state.packets = state.packets.saturating_add(1);
        let is_from_outside = meta.packet.is_from_outside();
        let (index, of_rules) = state.asked_of(meta.packet.is_from_low());
        let ruling = match state.rules == self.rules.number {
            true => state.ruling(index, is_from_outside),
            false => Ruling::Open,
        };
        if ruling != Ruling::Open {
            return ruling.verdict();
        }
        let judged = meta.judged(of_rules);
        let (now_ns, buckets) = (cx.stamp.time_ns, &mut *cx.pool);
        let found = match self.asks_for_flags && meta.protocol == protocol::TCP {
            true => self.rules.judge_later_fragment(&judged.packet, is_from_outside, now_ns, buckets),
            false => self.rules.judge(&judged, now_ns, buckets),
        };
        cx.count_rule(Self::ABOUT.events, found.index);
        found.verdict()
    }

    /// The verdict for a packet that goes on with no connection.
    fn judge_apart(&self, meta: &Meta, state: States, event: usize, cx: &mut Cx<'_, Buckets>) -> Verdict {
        cx.count(event);
        let found = self.rules.judge(&meta.judged(state), cx.stamp.time_ns, cx.pool);
        cx.count_rule(Self::ABOUT.events, found.index);
        found.verdict()
    }

    fn rules_in_words(&self) -> Vec<(String, String)> {
        (0..self.rules.len()).map(|index| (self.rules.name(index), self.rules.text(index))).collect()
    }

    fn logged_rule(&self, reason: u8) -> Option<(String, String)> {
        let index = self.rules.logged(state::log_of(reason)?)?;
        Some((self.rules.name(index), self.rules.text(index)))
    }

    fn answers(&self, reason: u8) -> Option<AnswerTo> {
        let is_rejected =
            reason == REJECTED || state::log_of(reason).is_some_and(|log| self.rules.rejects(log));
        is_rejected.then_some(AnswerTo::Rejected)
    }

    fn rejected(&self, _: &State, _: &Meta, _: &mut Cx<'_, Buckets>) -> Verdict {
        self.when_full.verdict(TABLE_FULL)
    }

    fn buckets(&self) -> Buckets {
        if self.rules.have_rates() { Buckets::full() } else { Buckets::default() }
    }

    fn undivided(&self) -> Option<Undivided> {
        self.rules.have_rates().then_some(Undivided {
            option: "rate",
            does: "has one bucket of tokens for all packets that a rule matches",
            spreads: "these",
        })
    }

    fn wants_sides(&self) -> Option<&'static str> {
        self.rules.ask_for_side().then_some("a rule with `in`")
    }

    /// What packets that were missed look like is what a forger's look like: only captures are given the benefit of doubt.
    fn live(&self) -> Option<Firewall> {
        self.tracking.live().map(|tracking| Firewall { tracking, ..self.clone() })
    }

    fn following(&self, old: &Firewall) -> Option<Firewall> {
        Some(Firewall { rules: self.rules.following(&old.rules), ..self.clone() })
    }

    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        let rule = match state.rules == self.rules.number {
            true => self.rules.text(state.rule.into()),
            false => "one of an earlier chain file".to_string(),
        };
        let mut values: Vec<(&'static str, StateValue)> =
            vec![("rule", rule.into()), ("packets", state.packets.into())];
        values.extend(state.tracked.shown());
        values
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, _now: Stamp) -> Vec<FunctionReport> {
        // Behind the default are connections that no packet came of since the rules have changed.
        let mut counts = vec![[0_u64; 2]; self.rules.len() + 1];
        for (_, state) in flows {
            let is_of_now = state.rules == self.rules.number;
            let index = if is_of_now { usize::from(state.rule) } else { self.rules.len() };
            if let Some([connections, packets]) = counts.get_mut(index) {
                *connections += 1;
                *packets += u64::from(state.packets);
            }
        }
        let live: u64 = counts.iter().map(|[connections, _]| connections).sum();
        let row = |(index, [connections, packets]): (usize, [u64; 2])| {
            let (name, text) = match index < self.rules.len() {
                true => (self.rules.name(index), self.rules.text(index)),
                false => ("earlier".to_string(), "rules of an earlier chain file".to_string()),
            };
            (index < self.rules.len() || connections > 0)
                .then(|| vec![name, text, connections.to_string(), packets.to_string()])
        };
        vec![FunctionReport {
            title: format!("Connections now: {live}, by the rule that accepted them"),
            columns: vec!["rule", "text", "connections", "packets"],
            rows: counts.into_iter().enumerate().filter_map(row).collect(),
        }]
    }
}
