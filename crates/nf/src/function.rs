//! The trait of network functions, and the extras, guarantees and promises that a function may declare beside it.

#![expect(
    clippy::type_complexity,
    reason = "a field's type is the signature of the function that goes there"
)]

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use wire::{Addr, AnswerTo, Edits, Fields, Headers, Stamp};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

use crate::{
    Backend, Cx, Ended, FlowKey, FunctionReport, Hearing, Judge, OptionDoc, OptionError, Role, Sides,
    StateValue, Verdict,
};

/// A network function: a deterministic state machine per flow.
///
/// Written once, run by every strategy. The crate's page has a whole one in 40 lines. These items are what every
/// function says. What only some have, such as a pool or a report, is in [`NetworkFunction::EXTRAS`], which is empty
/// by default.
pub trait NetworkFunction: Sized + Send + Sync + 'static {
    /// Its name, and the names of all that it counts.
    const ABOUT: About;

    /// The header fields that [`NetworkFunction::project`] reads, those too that only decide whether a packet
    /// is its business: SCR's *f(p)* (§3.1). History holds these of a packet and no others, so a replica would
    /// find 0 in what is read and not said here. [`check_reads`](crate::check_reads) finds out, both ways.
    ///
    /// What the key is made of must be among them; where it is not, a function that is used does not compile.
    /// [`Fields::MALFORMED`] need not be: malformed packets never come here, and history always says which
    /// they are. Methods of [`Headers`] read
    ///
    /// | method | fields |
    /// |---|---|
    /// | `is_ip`, `is_fragment`, `has_transport` | `MARKS` |
    /// | `is_tcp` | `MARKS`, `PROTOCOL` |
    /// | `icmp` | `MARKS`, `PROTOCOL`, `SEQ` |
    /// | `window_scale` | `MARKS`, `PROTOCOL`, `TCP_SHAPE` |
    /// | `payload_offset` | `L4_OFFSET`, `TCP_SHAPE` |
    /// | `payload_len` | those, `L3_OFFSET`, `L3_LEN`, `PROTOCOL`, of UDP also `MARKS` and `SEQ` |
    const READS: Fields;

    /// The header fields that its edits may change. Sharding relies on it.
    const EDITS: Fields = Fields::empty();

    /// What it has beyond this, by default nothing: see [`Extras`].
    const EXTRAS: Extras<Self> = Extras::NONE;

    /// Selects the state; [`Stateless`](crate::Stateless) for a function that has none.
    type Key: FlowKey;
    /// The header fields that key and step read (SCR §3.1, *f(p)*): plain bytes without padding, which go over wires to
    /// replicas as they are in memory. A step panics on none of its values, also where no headers would give it: frames
    /// may be damaged.
    type Meta: Copy + IntoBytes + TryFromBytes + Immutable + Send + Sync + 'static;
    /// One flow's state: plain bytes without padding, so that replicas can be compared bit by bit.
    type State: Copy + IntoBytes + Immutable + Send + 'static;
    /// State that no key owns, such as a NAT's free ports; `()` for nearly all. See [`Pooled`].
    ///
    /// A clone shares nothing with it that a step changes: a replica that has fallen behind goes on with a clone of
    /// another's.
    type Pool: Clone + Default + Send + 'static;
    /// What a chain file may say; derive `Deserialize` with `default, deny_unknown_fields`.
    type Options: DeserializeOwned;

    /// Makes a function from its options.
    ///
    /// # Errors
    /// [`OptionError`] names the option that makes no sense, and says what would.
    fn new(options: Self::Options) -> Result<Self, OptionError>;

    /// Reads the fields that the function needs, which [`NetworkFunction::READS`] names; `None` if the packet is not
    /// its business, which forwards the packet and leaves no trace. Malformed packets never come here.
    fn project(headers: &Headers) -> Option<Self::Meta>;

    /// The key of a packet: [`FlowKey::of`] its headers, which the meta must hold enough of.
    fn key(meta: &Self::Meta) -> Self::Key;

    /// One state transition. `flow` is `None` for a flow not seen, or expired; leaving `Some` creates
    /// or keeps it, leaving `None` removes it.
    fn step(&self, flow: &mut Option<Self::State>, meta: &Self::Meta, cx: &mut Cx<'_, Self::Pool>)
    -> Verdict;

    /// How long the flow may stay without a step before it expires, ns; asked after each step.
    /// `u64::MAX` is never.
    fn idle_timeout_ns(&self, state: &Self::State) -> u64;
}

/// What people and chain files call a function, and what it counts. Write what there is, and `..About::NONE`.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// What chain files call it: lower case, words joined by `-`.
    pub name: &'static str,
    /// One line on what it does, for `paceline nfs`.
    pub summary: &'static str,
    /// What it is written from: RFCs, papers.
    pub spec: &'static str,
    /// Its options in the order in which people want to read them.
    pub options: &'static [OptionDoc],
    /// Names of the reasons for which it drops: [`Verdict::Drop`] holds an index into them.
    pub drop_reasons: &'static [&'static str],
    /// Names of the events that it counts: [`Cx::count`] takes an index into them.
    pub events: &'static [&'static str],
}

impl About {
    /// No names, no options, no reasons, no events.
    pub const NONE: About =
        About { name: "", summary: "", spec: "", options: &[], drop_reasons: &[], events: &[] };
}

/// What only some functions have, by theme. Each theme is a struct of constants and functions with a `NONE`, so that
/// a function names what it has and nothing else. Here one reports how many flows it has:
///
/// ```
/// # use paceline_nf as nf;
/// # use nf::{About, Cx, FiveTuple, FlowKey, NetworkFunction, OptionError, Rig, Verdict};
/// use nf::{EndedOf, Extras, Flows, FunctionReport, Reports};
/// # use wire::{Edits, Fields, Headers, Stamp};
/// # #[derive(serde::Deserialize)] struct Options {}
///
/// struct Census;
///
/// impl Census {
///     fn report(&self, flows: Flows<'_, '_, Self>, _: &EndedOf<Self>, _: Stamp) -> Vec<FunctionReport> {
///         let title = format!("{} flows now", flows.count());
///         vec![FunctionReport { title, columns: vec![], rows: vec![] }]
///     }
/// }
///
/// impl NetworkFunction for Census {
///     const EXTRAS: Extras<Self> =
///         Extras { reports: Reports { report: Self::report, ..Reports::NONE }, ..Extras::NONE };
///     // ... and what every function says.
/// #     const ABOUT: About = About { name: "census", ..About::NONE };
/// #     const READS: Fields = Fields::FIVE_TUPLE;
/// #     type Key = FiveTuple; type Meta = FiveTuple; type State = u8; type Pool = (); type Options = Options;
/// #     fn new(_: Options) -> Result<Self, OptionError> { Ok(Census) }
/// #     fn project(headers: &Headers) -> Option<FiveTuple> { Some(FiveTuple::of(headers)) }
/// #     fn key(meta: &FiveTuple) -> FiveTuple { *meta }
/// #     fn step(&self, flow: &mut Option<u8>, _: &FiveTuple, _: &mut Cx<'_, ()>) -> Verdict {
/// #         *flow = Some(0);
/// #         Verdict::Forward
/// #     }
/// #     fn idle_timeout_ns(&self, _: &u8) -> u64 { 1_000 }
/// }
///
/// let mut rig = Rig::new(Census);
/// rig.packet(0, &Headers::default());
/// assert_eq!(rig.report()[0].title, "1 flows now");
/// ```
///
/// All of it is constant: a call goes straight to the function that is named, and is inlined like any other. A method
/// that is not named here is never called; the compiler says that it is unused.
pub struct Extras<F: NetworkFunction> {
    /// State that no key owns.
    pub pool: Pooled<F>,
    /// What makes an entry in its table, for people: a flood of such packets fills it. Empty for a function that says nothing.
    pub filled_by: &'static str,
    /// A full table.
    pub full_table: FullTable<F>,
    /// An inside and an outside.
    pub sides: TwoSided<F>,
    /// Whether packets to this address are the function's, though it may be an address of the host that the function runs
    /// on: an external address of a NAT, the address of a balancer's service.
    pub has_address: fn(&F, Addr) -> bool,
    /// States that add up, and what is kept of those that have ended.
    pub records: Records<F>,
    /// What `verify` may hold it to, beside its answers.
    pub guarantees: Guarantees<F>,
    /// What people are told after a run.
    pub reports: Reports<F>,
    /// What becomes of its flows when its options change while it runs.
    pub reload: Reload<F>,
    /// The function as it is on interfaces, for one whose options leave something to where packets come from. `NONE`: as
    /// it is on captures.
    pub live: fn(&F) -> Option<F>,
    /// The function as it is in a chain where later fragments come with what their first said of their flow
    /// ([`Headers::is_followed`]), for one that elsewhere turns fragments away since the later ones have no ports. `NONE`: it makes no
    /// difference between the two.
    pub following_fragments: fn(&F) -> Option<F>,
    /// Whether a packet lets a flow live longer that it finds. One that does not leaves the flow's deadline where it was;
    /// a flow that it begins has its time-out. Not for functions with [`Extras::in_place`] or [`Extras::leap`], or whose
    /// states cores share. `NONE`: every packet does.
    pub refreshes: fn(&F::Meta) -> bool,
    /// Its rules that decide on packets: for each the name, which is short, and the text. Steps count them by their index
    /// ([`Cx::count_rule`](crate::Cx::count_rule)), own packets alone. `None`: it has no such rules.
    pub rules: Option<fn(&F) -> Vec<(String, String)>>,
    /// Its backends, to be listed, changed and checked. `NONE`: it has none.
    pub backends: fn(&F) -> Vec<Backend>,
    /// Name and text, as [`Extras::rules`] has them, of the rule for which a drop reason stands, by its index: one that asks for a log
    /// of what it drops. `NONE`: no reason stands for a rule.
    pub logged_rule: fn(&F, reason: u8) -> Option<(String, String)>,
    /// What the sender of a packet that is dropped for this reason is told, by its index: where packets leave it gets a TCP reset or
    /// an ICMP error, or the reply to its ping ([`AnswerTo`]). Reasons from 64 on are never answered. `NONE`: no sender is told.
    pub answers: fn(&F, reason: u8) -> Option<AnswerTo>,
    /// Whether its steps draw: [`Cx::random`](crate::Cx::random), [`Cx::hash`](crate::Cx::hash). Then people are told the seed, without
    /// which a run is not had again.
    pub draws: fn(&F) -> bool,
    /// Looks at the payload of a packet that [`NetworkFunction::step`] forwards, and gives the verdict
    /// instead; the payload is what the frame holds after the transport header, without link padding.
    /// It has no flow to change: replicas do not see each other's payloads.
    pub inspect: Option<fn(&F, payload: &[u8], &F::Meta, &mut Cx<'_, ()>) -> Verdict>,
    /// Names memory that the step will read, beside the flow itself, so that it is in the cache when the
    /// step comes (FAJITA §3, "customizable function"); null for none. Called for a whole batch ahead
    /// of its steps: a hint, which changes no answer.
    pub prefetch: Option<fn(&F, flow: Option<&F::State>, &F::Meta, &F::Pool) -> *const u8>,
    /// With fewer flows in the table [`Extras::prefetch`] is not called: what it would name is in the cache then.
    pub prefetch_from_flows: usize,
    /// Does the step of a packet whose flow has a state, where the table keeps it: most packets of most functions need no more.
    /// Returns whether it did. If so the packet passes, the flow goes on, and so does its record. If not it changed nothing, and
    /// [`NetworkFunction::step`] is called, which copies the state out of the table and back.
    /// [`check_in_place`](crate::check_in_place) compares it with steps. A function that inspects payloads has none.
    pub in_place: InPlace<F>,
    /// Does the steps of several packets at once, which are alike in all but their times: as many of the first as it
    /// can tell the outcome of without doing each.
    ///
    /// Replicas use it for history (SCR §3.2), of which nothing is asked but the state: no verdict, edit or count; and for
    /// their own packets among it, if [these pass](Leap::passes). The flow has to be as [`NetworkFunction::step`] leaves it, packet
    /// by packet: none of them may begin or end it, and each but the first, for which that is known, must come before it has
    /// expired. For functions whose steps need neither pool nor random numbers, and whose records do not end in steps; times
    /// never run back. [`check_leaps`](crate::check_leaps) compares it with steps.
    pub leap: Option<LeapSteps<F>>,
}

/// The steps of packets that came at `times_ns`, at once: see [`Extras::leap`].
pub type LeapSteps<F> = fn(
    &F,
    flow: &mut Option<<F as NetworkFunction>::State>,
    &<F as NetworkFunction>::Meta,
    times_ns: &[u64],
) -> Leap;

/// What [`Extras::leap`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leap {
    /// How many of the first packets it stepped.
    pub steps: usize,
    /// Whether each of them passes, and nothing else comes of its step: [`Verdict::Forward`], no edit, no event. `false` says nothing.
    pub passes: bool,
}

impl Leap {
    /// No packet was stepped, and nothing has changed.
    pub const NONE: Leap = Leap { steps: 0, passes: false };
}

/// How a function steps a state where it is: see [`Extras::in_place`].
pub enum InPlace<F: NetworkFunction> {
    /// Not at all.
    Never,
    /// With nothing beside the flow: nothing is counted, or drawn, or done to the pool.
    Flow(fn(&F, &mut F::State, &F::Meta, Stamp, &mut Edits) -> bool),
    /// With all that a step has. It costs some instructions more.
    Whole(StepInPlace<F>),
}

/// A step of a state where it is; says whether it was done.
pub type StepInPlace<F> = fn(
    &F,
    &mut <F as NetworkFunction>::State,
    &<F as NetworkFunction>::Meta,
    &mut Cx<'_, <F as NetworkFunction>::Pool>,
) -> bool;

impl<F: NetworkFunction> InPlace<F> {
    /// Whether all packets are left to [`NetworkFunction::step`].
    pub const fn is_never(&self) -> bool {
        matches!(self, InPlace::Never)
    }
}

impl<F: NetworkFunction> Extras<F> {
    /// None of it.
    pub const NONE: Self = Extras {
        pool: Pooled::NONE,
        filled_by: "",
        full_table: FullTable::NONE,
        sides: TwoSided::NONE,
        has_address: |_, _| false,
        records: Records::NONE,
        guarantees: Guarantees::NONE,
        reports: Reports::NONE,
        reload: Reload::NONE,
        live: |_| None,
        following_fragments: |_| None,
        rules: None,
        backends: |_| Vec::new(),
        logged_rule: |_, _| None,
        answers: |_, _| None,
        refreshes: |_| true,
        draws: |_| false,
        inspect: None,
        prefetch: None,
        prefetch_from_flows: 0,
        in_place: InPlace::Never,
        leap: None,
    };
}

/// State that no key owns, such as a NAT's free ports: [`NetworkFunction::Pool`].
pub struct Pooled<F: NetworkFunction> {
    /// The pool of a single core at start. `NONE`: the default of its type.
    pub make: fn(&F) -> F::Pool,
    /// The pools of `cores` cores, where these divide something; `core_of` says to which core a packet with such
    /// headers comes. `NONE`: each core has one as a single core has it.
    pub divide: fn(&F, cores: usize, core_of: &dyn Fn(&Headers) -> usize) -> Vec<F::Pool>,
    /// Whether packets of different flows must be stepped in order of arrival: where what one flow's
    /// step does to the pool is what another's finds there. `NONE`: where the pool is not `()`.
    pub steps_in_order: fn(&F) -> bool,
    /// Why no core can have a part of the pool to itself, if that is so: strategies that hash packets to cores refuse a chain with it.
    pub undivided: fn(&F) -> Option<Undivided>,
    /// The header fields that its edits take from the pool, such as a NAT's ports. Under sharding each
    /// core has its own pool and may allocate otherwise: `verify` has a judge of each run, and compares the runs with
    /// allocations renamed; where there is no judge it compares all but these.
    pub allocates: fn(&F) -> Fields,
    /// Makes what judges a run of the function, packet by packet. It knows the options, and shares no code with the steps.
    pub judge: Option<fn(&F, Hearing) -> Box<dyn Judge>>,
    /// Says what a packet is to the hosts to which the function gives flows out, such as a balancer's backends, by its headers as
    /// it came. Then `verify --answer` can answer in the place of these hosts. `None`: it cannot, unless the function stands between
    /// [sides](TwoSided::sides).
    pub role: Option<fn(&F, &Headers) -> Role>,
    /// The state without what was taken from the pool, so that runs that allocate otherwise compare alike.
    pub without_allocation: Option<fn(&F, &F::State) -> F::State>,
    /// The events, as indices in [`About::events`], whose count depends on which part of the pool was given out, such
    /// as ports of the other parity. Where each core has a share of its own, `verify` does not hold them to those of
    /// one core, and names those that differ.
    pub allocation_events: fn(&F) -> &'static [usize],
    /// The index in [`About::drop_reasons`] of the drop that says that the pool had nothing left to give.
    /// Under sharding each core has its share of the pool, so that the shares run out at other packets than the
    /// whole: `verify` names the function then, as it names one whose table was full.
    pub empty: Option<u8>,
    /// A flow left the table because it expired or was evicted: gives back to the pool what its state took.
    pub gone: fn(&F, &F::Key, &F::State, &mut F::Pool),
}

impl<F: NetworkFunction> Pooled<F> {
    /// A pool that is as its type's default has it, and from which no edit takes anything.
    pub const NONE: Self = Pooled {
        make: |_| F::Pool::default(),
        divide: |function, cores, _| (0..cores).map(|_| (F::EXTRAS.pool.make)(function)).collect(),
        steps_in_order: |_| size_of::<F::Pool>() > 0,
        undivided: |_| None,
        allocates: |_| Fields::empty(),
        judge: None,
        role: None,
        without_allocation: None,
        allocation_events: |_| &[],
        empty: None,
        gone: |_, _, _, _| {},
    };
}

/// Why a pool is one for all packets, for people: "`nat` **does** (`option`), and a hash spreads **these** over cores".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undivided {
    /// What its user may leave out.
    pub option: &'static str,
    /// What it does by that.
    pub does: &'static str,
    /// What comes to several cores.
    pub spreads: &'static str,
}

/// What becomes of flows that find the table full.
pub struct FullTable<F: NetworkFunction> {
    /// The verdict for a packet whose step created `state` when the table was full and its policy is
    /// to reject. Gives back to the pool what `state` took from it. `NONE`: the packet passes and
    /// leaves no state; say in the function's docs if it is otherwise.
    pub rejected: fn(&F, &F::State, &F::Meta, &mut Cx<'_, F::Pool>) -> Verdict,
    /// Why none of its flows may be evicted as long as they live, if that is so: what the table alone knows of them is
    /// lost then. A chain file with `table_full = "evict-oldest"` is refused for this reason: `gives …, since …`.
    pub refuses_eviction: fn(&F) -> Option<&'static str>,
}

impl<F: NetworkFunction> FullTable<F> {
    /// Packets pass, and any flow may be evicted.
    pub const NONE: Self = FullTable { rejected: |_, _, _, _| Verdict::Forward, refuses_eviction: |_| None };
}

/// An inside and an outside: [`Sides`].
pub struct TwoSided<F> {
    /// The sides that it stands between, for a function that gives hosts of the inside other addresses outside, such
    /// as a NAT. Its chain then has two directions: what comes from outside meets the functions in reverse. Only
    /// packets that cross from one side to the other come to it.
    ///
    /// What its key names is the source of a packet from inside, and the destination of one from outside. Sharding
    /// hashes that: cards on the two sides are set so, one to source and one to destination.
    pub sides: fn(&F) -> Option<Sides>,
    /// Whether it makes a difference between packets from inside and from outside
    /// ([`Marks::FROM_OUTSIDE`](wire::Marks::FROM_OUTSIDE)), so that its chain must have an inside. Says why, for
    /// people: the option that wants it.
    pub wants: fn(&F) -> Option<&'static str>,
    /// Whether its key is one end of a packet, that of the host inside: the source of a packet from inside, the destination of
    /// one from outside. Packets that are alike in the fields of such a key's [`Sharding`](crate::Sharding) have one key, and
    /// many that differ there have it too: no hash of header fields keeps it on one core.
    pub is_by_host: bool,
}

impl<F> TwoSided<F> {
    /// It knows no sides.
    pub const NONE: Self = TwoSided { sides: |_| None, wants: |_| None, is_by_host: false };
}

/// States that are records, which add something up, and end.
///
/// A record ends when its flow expires, is evicted, or is begun anew by a step; not where a step removes the flow.
pub struct Records<F: NetworkFunction> {
    /// What a record adds up, such as its packets and bytes: see [`WhenShared::Totals`].
    pub totals: fn(&F, &F::State) -> [u64; 2],
    /// Whether a step may end a flow's record and begin the next one in its place, which the fall of the first of
    /// `totals` shows. Costs a comparison for each step.
    pub begin_anew: bool,
    /// How many of the largest records that have ended [`Reports::report`] wants to see; with 0 nothing
    /// is kept of any. Each core keeps so many.
    pub keep: fn(&F) -> usize,
    /// How large a record is among those that have ended. Called once for each, when it ends.
    pub rank: fn(&F, &F::State) -> u64,
}

impl<F: NetworkFunction> Records<F> {
    /// States are no records.
    pub const NONE: Self = Records { totals: |_, _| [0; 2], begin_anew: false, keep: |_| 0, rank: |_, _| 0 };
}

/// What holds whatever cores do, which `verify` checks: when all of them share its states, and when each has its own.
pub struct Guarantees<F: NetworkFunction> {
    /// What holds when all cores share its states: under `shared`, or in a chain whose keys no hash keeps on one
    /// core. `None`: nothing does; `shared` runs it all the same. A function that says something has no pool,
    /// and ends a packet's way by dropping it if at all.
    pub when_shared: Option<WhenShared>,
    /// How much a packet is, such as its bytes: see [`WhenShared::Bound`].
    pub amount: fn(&F::Meta) -> u64,
    /// The most that may pass of one key in any `elapsed_ns`: see [`WhenShared::Bound`].
    pub bound: fn(&F, elapsed_ns: u64) -> u128,
    /// Whether there is such a bound for a key.
    pub is_bound: fn(&F, &F::Key) -> bool,
    /// Checks what must hold between the live flows of all cores, such as that no two were given the
    /// same port; `verify` asks. An error says which flows break it.
    pub invariant: fn(&F, Flows<'_, '_, F>) -> Result<(), String>,
}

impl<F: NetworkFunction> Guarantees<F> {
    /// Nothing is promised.
    pub const NONE: Self = Guarantees {
        when_shared: None,
        amount: |_| 0,
        bound: |_, _| 0,
        is_bound: |_, _| true,
        invariant: |_, _| Ok(()),
    };
}

/// What people are told after a run.
pub struct Reports<F: NetworkFunction> {
    /// Tables, from the live flows, and from the records that have ended, if [`Records::keep`] asks for these. Titles
    /// say which. Called once, with time to spare. Rows must not depend on the order of the flows.
    pub report: fn(&F, Flows<'_, '_, F>, &EndedOf<F>, now: Stamp) -> Vec<FunctionReport>,
    /// What counts suggest to do otherwise: of a run with so many packets, and drops by reason. `None` where
    /// nothing strikes.
    pub hint: fn(&F, packets: u64, dropped: &dyn Fn(&str) -> u64) -> Option<String>,
    /// A flow's state in names and values, units at the end of names (`debt_bytes`): what a trace shows before a step and
    /// after it. `NONE`: no names, and the trace shows the state's bytes.
    pub state: fn(&F, &F::State) -> Vec<(&'static str, StateValue)>,
}

impl<F: NetworkFunction> Reports<F> {
    /// Nothing.
    pub const NONE: Self =
        Reports { report: |_, _, _, _| Vec::new(), hint: |_, _, _| None, state: |_, _| Vec::new() };
}

/// What becomes of flows when a chain is replaced by one that has the function with other options. With the same
/// options all functions keep theirs.
pub struct Reload<F> {
    /// Whether a function with the new options, the first, may go on with states that steps with the old ones left:
    /// whether every step of them is a right answer still, and none reads past the end of anything. Rates, limits,
    /// time-outs and reports most often may change; what states are numbers of, such as a pool's parts, may not.
    ///
    /// An error says why not, as the end of `begins anew, because …`. `NONE`: they may not, since nobody says so.
    pub keeps_flows: fn(&F, &F) -> Result<(), &'static str>,
    /// The function with the new options as it is where it goes on with flows of the old ones, for one that knows what the
    /// old ones were: called with the new and the old, ahead of the first packet. It must not decide otherwise for that.
    /// `NONE`: as its options have it.
    pub following: fn(&F, &F) -> Option<F>,
    /// Whether the pool goes on, too, where flows do. Without it the function begins with the pool that it is set up
    /// with. `NONE`: it does.
    pub keeps_pool: fn(&F, &F) -> bool,
}

impl<F> Reload<F> {
    /// Flows go on where no option changes.
    pub const NONE: Self = Reload {
        keeps_flows: |_, _| Err("it does not say whether its flows fit other options"),
        following: |_, _| None,
        keeps_pool: |_, _| true,
    };

    /// Any option may change: states say nothing of them.
    pub const ANY: Self =
        Reload { keeps_flows: |_, _| Ok(()), following: |_, _| None, keeps_pool: |_, _| true };
}

/// Flows of `F` with their keys, in any order.
pub type Flows<'i, 'a, F> =
    &'i mut (dyn Iterator<Item = (&'a <F as NetworkFunction>::Key, &'a <F as NetworkFunction>::State)> + 'i);

/// The records of `F` that have ended.
pub type EndedOf<F> = Ended<<F as NetworkFunction>::Key, <F as NetworkFunction>::State>;

/// What is promised of a function whose states all cores share. Packets of one key then come to the state
/// from several cores: one after the other, in no order that a run repeats, and as of the latest time that
/// the state has seen. `verify` checks what is promised, and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenShared {
    /// Over all records that a key ever had, [`Records::totals`] add up to what they do on one core.
    /// Every step of a record raises the first of them; one that does not begins a new record.
    Totals,
    /// What passes of one key in a run is at most [`Guarantees::bound`] of the time from the key's first packet to
    /// its last. A packet passes, with its [`Guarantees::amount`], if it is forwarded and did
    /// not count event `over`. And it has to pass unless more than the bound would pass with it, in some stretch of
    /// time that ends with it, by the times that steps see: so traffic that asks for more gets its rate, less one burst.
    Bound {
        /// Index into [`About::events`]; `None`: all that is over is dropped.
        over: Option<usize>,
    },
}
