//! `load-balancer`: spreads the flows to a service over its backends; a flow stays with its backend.
//!
//! FAJITA (CoNEXT'24) App. A.1, "Load Balancer": key 5-tuple of the packets to the service, state the
//! backend chosen for the first of them, there in round-robin order. The consistent hash is that of
//! Maglev (NSDI'16) §3.4.
//!
//! ```toml
//! [[function]]
//! use = "load-balancer"
//!
//! [[function.services]]
//! vip = "192.0.2.80"          # what clients send to ...
//! port = 80
//! protocol = "tcp"            # ... or "udp"
//! backends = [
//!     { address = "198.51.100.10", port = 8080 },
//!     { address = "198.51.100.11", port = 8080, weight = 2 },
//!     { address = "198.51.100.12", port = 8080, state = "drain" },
//! ]
//! ```
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `services` | | none | what to balance, and over what: see below. What goes elsewhere passes |
//! | `policy` | | `"maglev"` | how a new flow finds its backend: `"maglev"`, `"round-robin"` or `"random"` |
//! | `hash` | | `"5-tuple"` | what the hash is of: `"5-tuple"`, or `"3-tuple"`: addresses and protocol |
//! | `when_down` | | `"drop"` | open TCP connections to a backend that is down: `"drop"`, `"stay"` or `"move"`; see below |
//! | `tunnel_sources` | | none | where tunnels to backends begin: an address of this host for each IP version of backends |
//! | `gue_port` | | 6080 | the UDP port to which `forward = "gue"` sends |
//! | `answer_pings` | | true | answer pings to a VIP that is one address, as long as one of its services has an active backend |
//! | `rewrite_answers` | | false | give packets from backends the service's address and port as source |
//! | `syn_timeout_s` | s | 60 | forget a TCP flow of one packet after this time |
//! | `tcp_timeout_s` | s | 900 | forget an open TCP flow after this time without a packet |
//! | `closing_timeout_s` | s | 120 | the same after a FIN or RST |
//! | `udp_timeout_s` | s | 300 | forget a UDP flow after this time without a packet |
//! | `check_interval_ms` | ms | 2000 | on interfaces, check each backend of a service with `check` as often, at least 50 |
//! | `check_timeout_ms` | ms | 1000 | a check that takes longer is a bad one; at most the interval |
//! | `check_rise` | | 2 | after so many good checks in a row a backend that failed takes flows again |
//! | `check_fall` | | 3 | after so many bad checks in a row a backend has failed |
//!
//! The time-outs are those of Linux IPVS.
//!
//! | of a service | default | |
//! |---|---|---|
//! | `vip` | | the address that clients send to, IPv4 or IPv6; or a prefix, such as `"198.18.0.0/15"` |
//! | `port` | | its port, or `"any"` |
//! | `protocol` | `"tcp"` | `"tcp"` or `"udp"` |
//! | `forward` | `"rewrite"` | how packets come to its backends: `"rewrite"`, `"mac"`, `"ipip"` or `"gue"`; see below |
//! | `check` | none | `"tcp"`, `"http /health"` or `"http www.example.org/health"`: see below |
//! | `backends` | | 1 to 512 of them |
//!
//! | of a backend | default | |
//! |---|---|---|
//! | `address` | the VIP | becomes the destination address, which is of the VIP's family; or where the tunnel ends, of either |
//! | `port` | the service's | becomes the destination port; of a service with `"any"` it stays. With `"rewrite"` alone |
//! | `mac` | unchanged | becomes the destination MAC address, such as `"02:00:00:00:00:0a"`; with a tunnel that of the next hop |
//! | `weight` | 1 | its share, 0 to 1000, relative to the other backends'. 0: no new flows, as `"drain"` |
//! | `state` | `"active"` | `"drain"`: no new flows. `"down"`: none at all, and `when_down` says what becomes of live ones |
//! | `check_at` | its address and port | where it is checked: `"192.0.2.7:80"`, for one with a `mac` alone |
//! | `health` | `"good"` | a run that checks writes `"failed"` here, for the chain that takes over; leave it out |
//!
//! A packet goes to the service of its very address and port; else to the first in the list that is a
//! range and holds them. `vip = "0.0.0.0/0"` with `port = "any"` takes whatever else comes.
//!
//! # Backends that come and go
//!
//! `paceline ctl backend drain`, `up`, `down` and `weight` change a run on interfaces; a reload of the chain file does what they do.
//!
//! - `"drain"`, or weight 0 (IPVS's quiescent server): new flows go elsewhere, and those that it has go on.
//! - `"down"`: new flows go elsewhere; so does UDP that goes on, and a SYN that is sent again. What TCP sends besides is dropped as
//!   `backend-down`, and goes on if the backend comes back before the time-out: so IPVS has it, too (`expire_nodest_conn = 0`). With
//!   `when_down = "stay"` it goes on to the backend; with `"move"` it chooses again, and the other backend resets it.
//! - A backend that is in the list no more is not known as one that is down: its flows choose again. Drain it first.
//!
//! **Checks.** On interfaces a run checks backends of a service with `check` from the host that it runs on, as of `check_interval_ms`, in
//! a thread of its own, 64 at a time. `"tcp"` opens a connection; `"http ..."` asks for a page, and takes a status from 200 to 399. HTTPS
//! is refused: there is no TLS here. A backend begins as good. After `check_fall` bad checks in a row it has *failed*: it is treated
//! as one that is down, whatever its state; after `check_rise` good ones it is as its state says. Hand and checks have to allow new
//! flows, both. Over captures nobody checks.
//!
//! # The way back
//!
//! A client waits for an answer from the VIP. Two ways to give it one:
//!
//! - *Direct server return*: every backend has the VIP on a loopback interface. Addresses and ports stay as they are, and answers need not
//!   come by here. With `forward = "mac"`, or a `mac` alone, a backend in the same network gets the frame. With `"ipip"` (RFC 2003,
//!   RFC 2473) and `"gue"` (UDP, variant 1 of GUE) the packet goes through a tunnel to the backend's `address`, IPv4 or IPv6 in either:
//!   [`wire::Tunnel`] has the outer header. Functions behind the balancer see the packet inside. A router that finds it too long then
//!   tells the sender how long it may be, less the outer header. `policy = "round-robin"` is refused with tunnels.
//! - *Rewriting*: backends are given by `address`, answers come by here, and `rewrite_answers = true`.
//!   A backend's address and port say which service it answers for, and two
//!   services that share one are refused, and so are ranges.
//!
//! With rewriting, clients may also connect to a backend's own address. Answers of such a *direct* connection leave as they
//! come. Nothing in an answer says which kind it is of, so the balancer then follows connections, both directions
//! with one key, and remembers what a client opens to a backend: by a SYN that the backend answers with SYN and ACK, or by
//! a datagram. What it does not remember, since the table was full or the connection is older than the run, it takes for a
//! service's. A forged SYN changes nothing for a client that talks to the service: its backend has that connection already, and
//! answers otherwise (RFC 9293 §3.10.7.4). A forged datagram does: until `udp_timeout_s` without one, answers to that client's
//! port come from the backend's address. Keep strangers from backends' addresses, by an `access-list` or by routes.
//!
//! Put the balancer last in its chain. To functions after it a packet is addressed as it left here,
//! while cores are picked as it arrived; `rss` refuses chains in which that matters. A function that
//! follows connections (`conntrack`, `access-list`) sees the VIP in one direction and, unless the
//! backends keep the VIP, their own addresses in the other.
//!
//! # Which backend
//!
//! Each service has a Maglev table of 65,537 entries, filled by its active backends to their weights.
//! With *B* backends, one of weight *w* of *W* fills the share *w/W* of it to within
//! (*B w/W* + 1) entries; where weights are equal, all are within one entry of each other.
//!
//! - `"maglev"` looks there by the hash of the flow's 5-tuple, or with `hash = "3-tuple"` of its addresses and protocol: then all
//!   that a client opens to one address goes to one backend, as far as that stays, whatever the ports. It is the same on every core,
//!   machine and start, so that several balancers beside each other agree, in whatever order they list their
//!   backends. When one of ten backends goes, its share is spread over the others, and less than
//!   0.5% of all entries move between those (of 400: 1%); flows that are remembered do not move.
//! - `"random"` looks there by a hash of the 5-tuple under the chain's `seed`: the same on every core, another for
//!   another seed. Without a seed in the chain file one is drawn for each run. Clients do not know it, and cannot choose ports
//!   that all lead to one backend.
//!   *N* flows give a backend of share *p*, under either policy, *N p* ± √(*N p* (1 - *p*)), 1σ.
//! - `"round-robin"` lets the active backends take new flows in turns, as FAJITA's balancer does:
//!   those of greater weight more often, their turns spread out. Of the first *N* flows of a service
//!   each gets *N w/W* to within less than one, at any *N*; see `round_robin.rs`.
//!
//! Whose turn it is, is state that no key owns: a core that sees a part of the flows has its own, and
//! gives other answers than one core would. So under sharding `verify` judges each run, and compares packets with what a backend
//! is written to renamed to the service: destination address, port and MAC address. With *k* cores shares are *N w/W* to within
//! *k*; the cores begin at places spread over the round. Where that must not be, take `"maglev"`. The
//! packets' sequence number modulo the backends would be alike on all cores, and no round robin: clients that send
//! 4 packets per flow would all go to one of 4 backends.
//!
//! # Flows
//!
//! - The choice is made for the first packet, and remembered.
//! - **A connection stays with its backend whether or not the table has room for it.** Under `"maglev"` and `"random"`
//!   its 5-tuple decides, so a flow that was refused, evicted or forgotten goes where it went before. Under
//!   `"round-robin"` a turn is taken only by what can begin a flow: a SYN, or UDP. TCP in the middle goes by the hash, as
//!   `"maglev"` has it. A new flow that finds the table full goes by the hash too, and so does all that it sends
//!   later: for the length of its time-out 2,048 places, chosen by the hash, remember that. Another flow with such a
//!   place goes by the hash as well, so turns are less even for as long. A table that evicts would forget turns that
//!   nothing else knows, so `table_full = "evict-oldest"` is refused with `"round-robin"`.
//! - Under `rsspp` and `"round-robin"`, a flow that moves to a core whose table is full is forgotten; TCP then goes by the
//!   hash.
//! - After a FIN or RST, from this direction, the time-out is short; each further packet begins it
//!   anew, for the other direction may still be open. A SYN is then another connection, and chooses
//!   again. An RST of no known flow goes by the hash, and leaves no state.
//! - State says which backend of which service by what they are, not by their places in the lists. A flow therefore
//!   keeps its backend whatever happens to the others; if that one is gone, it chooses again, and so it does if
//!   a reload gives its service another address, prefix, port or protocol. A flow that the table does not have goes by the hash.
//! - Fragments go to their flow's backend where the chain file says `fragments = "follow"`. Elsewhere the first of several is
//!   dropped (later ones have no ports and could not follow it); later ones pass as they are, and no host makes anything of them.
//! - ICMP errors about a flow's packets go to the end that sent the packet, and read as that end knows the flow, with what
//!   they quote (RFC 792, RFC 4443; RFC 5508 §4 has the rules). Those that come to the VIP, from a client or a router, go
//!   to the backend: which one the hash says. Under `"round-robin"` that may be another backend than the flow's, which takes no
//!   notice of it; with `rewrite_answers` a client's errors over IPv4 go to the flow's backend. With `rewrite_answers`, errors from
//!   a backend or a router before it come from the VIP; over IPv4 a backend's about a direct connection pass as they are. So path MTU discovery works both ways. An error that quotes neither TCP nor UDP, or too little
//!   of it, and other ICMP but pings pass as they are.
//!
//! # Pings
//!
//! An echo request to a VIP that is one address is dropped as `ping-answered`, and where packets leave its sender gets the reply, as
//! often as [rejected packets are answered](fn@wire::answer) at most (`--answers-per-second`). Where no service of the VIP has a
//! backend that takes flows, it is dropped as `no-backend`. Fragments of pings pass as they are, and pings leave no state.
//!
//! # Drops, events, expiry, full table
//!
//! - `no-backend`: a flow to a service that has no active backend. `fragment`, `backend-down`, `ping-answered`: see above.
//! - Events: `flows-opened`; `flows-picked-up`, TCP in the middle; `flows-moved`, since their backend
//!   is gone, or is down and lets them go; `packets-without-flow`, sent by the hash alone; `answers-rewritten`; `errors-translated`, ICMP;
//!   `direct-flows`, opened to a backend itself.
//! - A forgotten flow's next packet chooses again.
//! - When the table is full, new flows go by the hash, take no turn and are not remembered. Nothing is dropped.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use core::marker::PhantomData;

use nf::{
    About, Cx, EndedOf, Extras, FiveTuple, Flows, FullTable, FunctionReport, Hearing, InPlace, Judge,
    NetworkFunction, OptionError, Pooled, Reload, Reports, Role, StateValue, Verdict,
};
use wire::{Addr, AnswerTo, Edits, Fields, Headers, Stamp, protocol, tcp_flags};
use zerocopy::IntoBytes;

mod checks;
mod direct;
mod judge;
mod maglev;
mod options;
mod round_robin;
mod service;
mod state;
mod vip;

pub use options::{
    BackendOptions, BackendState, CheckBy, Forward, HashOf, Health, Mac, Options, Policy, ServiceOptions,
    ServiceProtocol, WhenDown,
};
pub use state::{Followed, Meta, Phase, State};
pub use vip::{ServicePort, Vip};

use checks::Checks;
use options::Timeouts;
use round_robin::{Cursor, Turns};
use service::{Service, Services};
use state::{OF_CONNECTION, fragment_mark, hash_of_flow};

const NO_BACKEND: u8 = 0;
const FRAGMENT: u8 = 1;
const BACKEND_DOWN: u8 = 2;
const PING_ANSWERED: u8 = 3;

const FLOWS_OPENED: usize = 0;
const FLOWS_PICKED_UP: usize = 1;
const FLOWS_MOVED: usize = 2;
const PACKETS_WITHOUT_FLOW: usize = 3;
const ANSWERS_REWRITTEN: usize = 4;
const ERRORS_TRANSLATED: usize = 5;
const DIRECT_FLOWS: usize = 6;

/// What a packet to a backend is written to.
const TO_A_BACKEND: Fields = Fields::DST_ADDR.union(Fields::DST_PORT).union(Fields::DST_MAC);

/// Spreads the flows to a service over its backends: see the [module's page](self).
///
/// `K` is what it follows: one direction, or, where it has to know whether an answer is a service's, a
/// [`Connection`](nf::Connection) with both.
#[derive(Clone, Debug)]
pub struct LoadBalancer<K = FiveTuple> {
    services: Services,
    policy: Policy,
    timeouts: Timeouts,
    hash_of: HashOf,
    when_down: WhenDown,
    checks: Checks,
    /// Whether later fragments come with the ports of their first, so that first ones need not be turned away.
    follows_fragments: bool,
    followed: PhantomData<K>,
}

impl<K: Followed> NetworkFunction for LoadBalancer<K> {
    const ABOUT: About = About {
        name: "load-balancer",
        summary: "spreads the flows to a service over its backends",
        spec: "FAJITA (CoNEXT'24) App. A.1: load balancer; Maglev (NSDI'16) §3.4",
        options: options::OPTIONS,
        drop_reasons: &["no-backend", "fragment", "backend-down", "ping-answered"],
        events: &[
            "flows-opened",
            "flows-picked-up",
            "flows-moved",
            "packets-without-flow",
            "answers-rewritten",
            "errors-translated",
            "direct-flows",
        ],
    };
    const READS: Fields = Fields::FIVE_TUPLE
        .union(Fields::TCP_FLAGS)
        .union(Fields::TCP_SHAPE)
        .union(Fields::ACK)
        // What kind of ICMP message it is.
        .union(Fields::SEQ)
        .union(Fields::MARKS);
    const EDITS: Fields = TO_A_BACKEND.union(Fields::SRC_ADDR).union(Fields::SRC_PORT).union(Fields::TUNNEL);
    const EXTRAS: Extras<Self> = Extras {
        filled_by: "a packet of a new flow to a VIP; with `rewrite_answers` a SYN or datagram to a backend \
                    itself, too",
        pool: Pooled {
            make: Self::pool,
            divide: Self::pools,
            steps_in_order: Self::steps_in_order,
            allocates: Self::allocates,
            judge: Some(Self::judge),
            // Answers that are not rewritten need not come by here.
            role: if K::BOTH_WAYS { Some(Self::role) } else { None },
            without_allocation: Some(Self::without_allocation),
            allocation_events: Self::allocation_events,
            ..Pooled::NONE
        },
        full_table: FullTable { rejected: Self::rejected, refuses_eviction: Self::refuses_eviction },
        has_address: |balancer, address| balancer.services.have_address(address),
        reports: Reports { report: Self::report, state: Self::state, ..Reports::NONE },
        reload: Reload { keeps_flows: Self::keeps_flows, keeps_pool: Self::keeps_pool, ..Reload::ANY },
        backends: Self::backends,
        answers: |_, reason| (reason == PING_ANSWERED).then_some(AnswerTo::Ping),
        following_fragments: |balancer| Some(LoadBalancer { follows_fragments: true, ..balancer.clone() }),
        draws: |balancer| balancer.policy == Policy::Random,
        in_place: InPlace::Flow(Self::in_place),
        ..Extras::NONE
    };

    type Key = K;
    type Meta = Meta;
    type State = State;
    /// Whose turn it is in each service; empty unless that is the policy.
    type Pool = Turns;
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        Ok(LoadBalancer {
            timeouts: Timeouts::new(&options)?,
            policy: options.policy,
            services: Services::new(&options)?,
            hash_of: options.hash,
            when_down: options.when_down,
            checks: checks::checks(&options)?,
            follows_fragments: false,
            followed: PhantomData,
        })
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Meta> {
        if !matches!(headers.protocol, protocol::TCP | protocol::UDP) {
            return Meta::of_error(headers).or_else(|| Meta::of_ping(headers));
        }
        headers.has_flow().then(|| Meta {
            src: headers.src,
            dst: headers.dst,
            src_port: headers.src_port,
            dst_port: headers.dst_port,
            protocol: headers.protocol,
            tcp_flags: headers.tcp_flags,
            marks: fragment_mark(headers),
            about: 0,
            quoted: 0,
        })
    }

    #[inline]
    fn key(meta: &Meta) -> K {
        K::of_meta(meta)
    }

    fn step(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Self::Pool>) -> Verdict {
        if let Some(state) = flow
            && self.in_place(state, meta, cx.stamp, cx.edits)
        {
            return Verdict::Forward;
        }
        let to = self.services.to(flow.as_ref(), &meta.dst, meta.dst_port, meta.protocol);
        let Some((at, service)) = to else { return self.answer(flow, meta, cx) };
        if self.refuses(meta) {
            return Verdict::Drop(FRAGMENT);
        }
        if let Some(state) = flow
            && !meta.reopens(state.phase)
            && let Some((position, backend)) = service.find(state)
        {
            backend.direct(cx.edits);
            let phase = meta.next_phase(Some(state.phase));
            *state = State { packets: state.packets + 1, backend: position, service: at, phase, ..*state };
            return Verdict::Forward;
        }
        if meta.is_followed() {
            return self.without_flow(service, meta, cx);
        }
        self.begin(flow, at, service, meta, cx)
    }

    #[inline]
    fn idle_timeout_ns(&self, state: &State) -> u64 {
        self.timeouts.of(state.phase)
    }
}

impl<K: Followed> LoadBalancer<K> {
    /// A flow whose service and backend are where they were.
    #[inline(always)]
    fn in_place(&self, state: &mut State, meta: &Meta, _: Stamp, edits: &mut Edits) -> bool {
        let is_known = !self.refuses(meta) && !meta.reopens(state.phase);
        // The key of one direction says that the packet goes where the flow does.
        let goes_there =
            |service: &Service| !K::BOTH_WAYS || service.has(&meta.dst, meta.dst_port, meta.protocol);
        let backend = match self.services.get(state.service) {
            Some(service) if is_known && goes_there(service) => service.goes_on(state),
            _ => None,
        };
        let Some(backend) = backend else { return false };
        backend.direct(edits);
        state.packets += 1;
        state.phase = meta.next_phase(Some(state.phase));
        true
    }

    fn state(&self, state: &State) -> Vec<(&'static str, StateValue)> {
        let service = self.services.get(state.service);
        let backend = service.and_then(|service| service.had(state)).map(|(at, _)| usize::from(at));
        let backend = service.zip(backend).map(|(service, at)| service.describe(at).0);
        let phase = match state.phase {
            Phase::Opening => "opening",
            Phase::Open => "open",
            Phase::Closing => "closing",
            Phase::Datagrams => "datagrams",
        };
        let none = if state.is_direct() { "direct" } else { "none" };
        let backend = backend.unwrap_or_else(|| none.to_string());
        vec![("phase", phase.into()), ("backend", backend.into()), ("packets", state.packets.into())]
    }

    /// A flow knows its backend by a hash of its address, wherever it stands in whichever list.
    fn keeps_flows(&self, old: &Self) -> Result<(), &'static str> {
        match self.policy == old.policy {
            true => Ok(()),
            false => Err("its `policy` is another"),
        }
    }

    /// Whose turn it is, is a number of these very turns.
    fn keeps_pool(&self, old: &Self) -> bool {
        let turns =
            |all: &Services| all.iter().map(|service| service.round_robin.clone()).collect::<Vec<_>>();
        self.policy == old.policy && turns(&self.services) == turns(&old.services)
    }

    fn pool(&self) -> Turns {
        self.turns(0, 1)
    }

    fn pools(&self, cores: usize, _: &dyn Fn(&Headers) -> usize) -> Vec<Turns> {
        (0..cores).map(|core| self.turns(core, cores)).collect()
    }

    fn refuses_eviction(&self) -> Option<&'static str> {
        (self.policy == Policy::RoundRobin).then_some(
            "under `policy = \"round-robin\"` a flow's backend is known to the table alone, and an evicted flow \
             would change it",
        )
    }

    fn allocates(&self) -> Fields {
        if self.policy == Policy::RoundRobin { TO_A_BACKEND } else { Fields::empty() }
    }

    fn judge(&self, hearing: Hearing) -> Box<dyn Judge> {
        let rules = judge::Rules {
            services: self.services.iter().map(Service::rule).collect(),
            rewrites: K::BOTH_WAYS,
            opening_ns: self.timeouts.of(Phase::Opening),
            open_ns: self.timeouts.of(Phase::Open),
            closing_ns: self.timeouts.of(Phase::Closing),
            datagrams_ns: self.timeouts.of(Phase::Datagrams),
            follows_fragments: self.follows_fragments,
        };
        judge::judge(rules, hearing)
    }

    /// Backends answer what comes to a service, and what comes to one of them directly.
    fn role(&self, headers: &Headers) -> Role {
        let Some(meta) = Self::project(headers) else { return Role::Other };
        let (asks, answers) = match meta.about {
            0 => {
                let service = self.services.to(None, &meta.dst, meta.dst_port, meta.protocol);
                let asks = service.is_some() || self.services.is_to_backend(&meta);
                (asks, self.services.answered_by(&meta).is_some())
            }
            _ => (false, self.services.asked_by_quoted(&meta).is_some()),
        };
        match (asks, answers) {
            (true, _) => Role::Asks,
            (false, true) => Role::Answers,
            (false, false) => Role::Other,
        }
    }

    fn steps_in_order(&self) -> bool {
        self.policy == Policy::RoundRobin
    }

    /// The flow goes by the hash, now and as long as it lives: see the module's page. A turn that it took is not used.
    fn rejected(&self, state: &State, meta: &Meta, cx: &mut Cx<'_, Turns>) -> Verdict {
        let Some(service) = self.services.get(state.service) else { return Verdict::Forward };
        if self.policy == Policy::RoundRobin {
            if self.takes_turn(meta, cx) {
                service.round_robin.give_back(&mut cx.pool.cursors[usize::from(state.service)]);
            }
            let until_ns = cx.stamp.time_ns.saturating_add(self.timeouts.of(state.phase));
            cx.pool.refuse(meta.hash(), until_ns);
        }
        self.without_flow(service, meta, cx)
    }

    /// A packet that goes where the hash says: its flow found no room.
    fn without_flow(&self, service: &Service, meta: &Meta, cx: &mut Cx<'_, Turns>) -> Verdict {
        match self.by_hash(service, meta, cx).and_then(|position| service.get(position)) {
            Some((_, backend)) => {
                backend.direct(cx.edits);
                cx.count(PACKETS_WITHOUT_FLOW);
                Verdict::Forward
            }
            None => Verdict::Drop(NO_BACKEND),
        }
    }

    /// Whether it is a first fragment that is turned away.
    #[inline]
    fn refuses(&self, meta: &Meta) -> bool {
        meta.is_first_fragment() && !self.follows_fragments
    }

    /// How many flows a backend has that is gone follows from the turns of each core.
    fn allocation_events(&self) -> &'static [usize] {
        match self.policy {
            Policy::RoundRobin => &[FLOWS_MOVED],
            Policy::Maglev | Policy::Random => &[],
        }
    }

    /// Without the backend, whose turn it is on each core for itself.
    fn without_allocation(&self, state: &State) -> State {
        match self.policy {
            Policy::RoundRobin => State { backend: 0, backend_id: 0, ..*state },
            Policy::Maglev | Policy::Random => *state,
        }
    }

    fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, _now: Stamp) -> Vec<FunctionReport> {
        self.services
            .iter()
            .zip(self.counts(flows))
            .map(|(service, counts)| report(service, &counts))
            .collect()
    }

    fn backends(&self) -> Vec<nf::Backend> {
        let services = self.services.iter().enumerate().zip(&self.checks);
        services.flat_map(|((at, service), checks)| service.list(at, checks)).collect()
    }

    fn turns(&self, core: usize, cores: usize) -> Turns {
        let start = |service: &Service| -> Cursor { service.round_robin.start(core, cores) };
        match self.policy {
            Policy::RoundRobin => Turns::new(self.services.iter().map(start).collect()),
            Policy::Maglev | Policy::Random => Turns::default(),
        }
    }

    /// A packet that goes to no service.
    #[inline(never)]
    fn answer(&self, flow: &mut Option<State>, meta: &Meta, cx: &mut Cx<'_, Turns>) -> Verdict {
        if meta.about != 0 {
            return self.error(flow.as_ref(), meta, cx);
        }
        if meta.is_ping() {
            return match self.services.answers_ping(meta.dst) {
                Some(true) => Verdict::Drop(PING_ANSWERED),
                Some(false) => Verdict::Drop(NO_BACKEND),
                None => Verdict::Forward,
            };
        }
        if K::BOTH_WAYS && self.is_direct(flow, meta, cx) {
            return Verdict::Forward;
        }
        let Some((vip, port)) = self.services.answered_by(meta) else { return Verdict::Forward };
        if self.refuses(meta) {
            return Verdict::Drop(FRAGMENT);
        }
        cx.edits.set_src(vip);
        cx.edits.set_src_port(port);
        cx.count(ANSWERS_REWRITTEN);
        Verdict::Forward
    }

    /// An ICMP error. The edits are of what it quotes, too: see [`wire::Edits`].
    fn error(&self, flow: Option<&State>, meta: &Meta, cx: &mut Cx<'_, Turns>) -> Verdict {
        // Over IPv6 not all errors know their flow: they go by the hash alone, so that all say the same.
        let flow = flow.filter(|_| meta.marks & OF_CONNECTION != 0 && meta.dst.to_v4().is_some());
        if flow.is_some_and(State::is_direct) {
            return Verdict::Forward;
        }
        let service = self.services.to(flow, &meta.dst, meta.dst_port, meta.about);
        let asked = self.services.asked_by_quoted(meta);
        if self.refuses(meta) && (service.is_some() || asked.is_some()) {
            return Verdict::Drop(FRAGMENT);
        }
        match (service, asked) {
            (Some((_, service)), _) => {
                let by_hash = || self.by_hash(service, meta, cx).and_then(|position| service.get(position));
                let backend = flow.and_then(|state| service.find(state)).or_else(by_hash);
                let Some((_, backend)) = backend else { return Verdict::Drop(NO_BACKEND) };
                backend.direct(cx.edits);
            }
            (None, Some((vip, port))) => {
                cx.edits.set_src(vip);
                cx.edits.set_src_port(port);
            }
            (None, None) => return Verdict::Forward,
        }
        cx.count(ERRORS_TRANSLATED);
        Verdict::Forward
    }

    /// A packet of a flow that has no backend: a new one, another of the same 5-tuple, or one whose
    /// backend is gone.
    #[inline(never)]
    fn begin(
        &self,
        flow: &mut Option<State>,
        at: u8,
        service: &Service,
        meta: &Meta,
        cx: &mut Cx<'_, Turns>,
    ) -> Verdict {
        let known = flow.filter(|state| !meta.reopens(state.phase));
        if let Some(state) = known
            && self.when_down == WhenDown::Drop
            && !meta.is_opening()
            && service.had(&state).is_some_and(|(_, backend)| !backend.keeps_flows())
        {
            *flow = Some(State { phase: meta.next_phase(Some(state.phase)), ..state });
            return Verdict::Drop(BACKEND_DOWN);
        }
        let chosen = self.choose(at, service, meta, cx);
        let Some((position, backend)) = chosen.and_then(|position| service.get(position)) else {
            *flow = None;
            return Verdict::Drop(NO_BACKEND);
        };
        backend.direct(cx.edits);
        if known.is_none() && meta.has(tcp_flags::RST) {
            *flow = None;
            cx.count(PACKETS_WITHOUT_FLOW);
            return Verdict::Forward;
        }
        match known {
            Some(_) => cx.count(FLOWS_MOVED),
            None if meta.is_opening() => cx.count(FLOWS_OPENED),
            None => cx.count(FLOWS_PICKED_UP),
        }
        *flow = Some(State {
            packets: known.map_or(0, |state| state.packets) + 1,
            backend_id: backend.id,
            backend: position,
            phase: meta.next_phase(known.map(|state| state.phase)),
            service: at,
        });
        Verdict::Forward
    }

    /// A backend for a flow that has none, by its position.
    fn choose(&self, at: u8, service: &Service, meta: &Meta, cx: &mut Cx<'_, Turns>) -> Option<u16> {
        match self.takes_turn(meta, cx) {
            true => service.round_robin.take(&mut cx.pool.cursors[usize::from(at)]),
            false => self.by_hash(service, meta, cx),
        }
    }

    /// Whether the flow may begin with this packet and has not begun by the hash. What leaves no state takes no turn.
    fn takes_turn(&self, meta: &Meta, cx: &Cx<'_, Turns>) -> bool {
        self.policy == Policy::RoundRobin
            && meta.is_opening()
            && !meta.has(tcp_flags::RST)
            && !cx.pool.goes_by_hash(meta.hash(), cx.stamp.time_ns)
    }

    /// The backend that the hash alone decides.
    fn by_hash(&self, service: &Service, meta: &Meta, cx: &Cx<'_, Turns>) -> Option<u16> {
        let hashed = match self.hash_of {
            HashOf::FiveTuple => meta.hashed(),
            HashOf::ThreeTuple => FiveTuple { src_port: 0, dst_port: 0, ..meta.hashed() },
        };
        service.maglev.at(match self.policy {
            Policy::Random => cx.hash(hashed.as_bytes()),
            Policy::Maglev | Policy::RoundRobin => hash_of_flow(&hashed),
        })
    }

    /// Flows and packets by service and backend.
    fn counts<'a>(&self, flows: &mut dyn Iterator<Item = (&'a K, &'a State)>) -> Vec<Vec<[u64; 2]>> {
        let mut counts: Vec<_> = self.services.iter().map(|service| vec![[0; 2]; service.len()]).collect();
        for (key, state) in flows {
            let to = |(addr, port): (Addr, u16)| self.services.to(Some(state), &addr, port, key.protocol());
            if let Some((at, service)) = key.ends().into_iter().find_map(to)
                && let Some((position, _)) = service.had(state)
            {
                let [flows, packets] = &mut counts[usize::from(at)][usize::from(position)];
                *flows += 1;
                *packets += state.packets;
            }
        }
        counts
    }
}

/// One service's table: flows and packets of each backend, beside what it should have.
fn report(service: &Service, counts: &[[u64; 2]]) -> FunctionReport {
    let total = |column: usize| counts.iter().map(|count| count[column]).sum::<u64>();
    let (flows_total, packets_total) = (total(0), total(1));
    let row = |(backend, [flows, packets]): (usize, &[u64; 2])| {
        let (name, state, weight) = service.describe(backend);
        vec![
            name,
            state.to_string(),
            percent(weight, service.weight_total()),
            flows.to_string(),
            percent(*flows, flows_total),
            packets.to_string(),
            percent(*packets, packets_total),
        ]
    };
    FunctionReport {
        title: format!("{service}: {flows_total} flows now, {packets_total} packets"),
        columns: vec![
            "backend",
            "state",
            "share_percent",
            "flows",
            "flows_percent",
            "packets",
            "packets_percent",
        ],
        rows: counts.iter().enumerate().map(row).collect(),
    }
}

/// With one decimal; of nothing, nothing.
fn percent(part: u64, whole: u64) -> String {
    let tenths =
        (u128::from(part) * 1000 + u128::from(whole / 2)).checked_div(u128::from(whole)).unwrap_or(0);
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests;
