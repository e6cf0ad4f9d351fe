use alloc::string::String;
use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use wire::{Fields, Headers, Stamp};
use zerocopy::{Immutable, IntoBytes};

use crate::{Cx, Ended, FlowKey, FunctionReport, OptionDoc, OptionError, Sides, Verdict};

/// A network function: a deterministic state machine per flow.
///
/// Written once, run by every strategy. The crate's page has a whole one in 40 lines.
pub trait NetworkFunction: Sized + Send + Sync + 'static {
    /// What chain files call it: lower case, words joined by `-`.
    const NAME: &'static str;
    /// One line on what it does, for `paceline nfs`.
    const SUMMARY: &'static str;
    /// What it is written from: RFCs, papers.
    const SPEC: &'static str;
    /// Its options in the order people want to read them; see [`OptionDoc`].
    const OPTIONS: &'static [OptionDoc] = &[];
    /// Names of the reasons for which it drops: [`Verdict::Drop`] holds an index into them.
    const DROP_REASONS: &'static [&'static str] = &[];
    /// Names of the events it counts: [`Cx::count`] takes an index into them.
    const EVENTS: &'static [&'static str] = &[];
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

    /// The header fields that its edits take from the pool, such as a NAT's ports. Under sharding each
    /// core has its own pool and may allocate otherwise: `verify` compares all but these. See
    /// [`NetworkFunction::allocates`] where that depends on options.
    const ALLOCATES: Fields = Fields::empty();
    /// The index in [`NetworkFunction::DROP_REASONS`] of the drop that says that the pool had nothing left to give.
    /// Under sharding each core has its share of the pool, so that the shares run out at other packets than the
    /// whole: `verify` names the function then, as it names one whose table was full.
    const POOL_EMPTY: Option<u8> = None;
    /// Whether it reads payloads: see [`NetworkFunction::inspect`].
    const INSPECTS: bool = false;
    /// Whether it names memory to be fetched ahead: see [`NetworkFunction::prefetch`].
    const PREFETCHES: bool = false;
    /// Whether a step may end a flow's record and begin the next one in its place, which the fall of the first of
    /// [`NetworkFunction::totals`] shows. Then the record before counts as ended: see
    /// [`NetworkFunction::keeps_ended`]. Costs a comparison for each step.
    const BEGINS_ANEW: bool = false;

    /// What holds when all cores share its states: under `shared`, or in a chain whose keys no hash keeps on one
    /// core. `None`: nothing does; `shared` runs it all the same. A function that says something has no pool,
    /// and ends a packet's way by dropping it if at all.
    const WHEN_SHARED: Option<WhenShared> = None;

    /// Selects the state; [`Stateless`](crate::Stateless) for a function that has none.
    type Key: FlowKey;
    /// The header fields that key and step read (SCR §3.1, *f(p)*): plain bytes without padding.
    type Meta: Copy + IntoBytes + Immutable + Send + 'static;
    /// One flow's state: plain bytes without padding, so that replicas can be compared bit by bit.
    type State: Copy + IntoBytes + Immutable + Send + 'static;
    /// State that no key owns, such as a NAT's free ports; `()` for nearly all. A clone shares nothing with it that
    /// a step changes: a replica that has fallen behind goes on with a clone of another's.
    type Pool: Clone + Send + 'static;
    /// What a chain file may say; derive `Deserialize` with `default, deny_unknown_fields`.
    type Options: DeserializeOwned;

    /// Makes a function from its options.
    ///
    /// # Errors
    /// [`OptionError`] names the option that makes no sense, and says what would.
    fn new(options: Self::Options) -> Result<Self, OptionError>;

    /// The pool of a single core as it finds it at start.
    fn pool(&self) -> Self::Pool;

    /// The pools of all `cores` together, where they have to divide something; `core_of` says to which
    /// core a packet with such headers comes.
    fn pools(&self, cores: usize, _core_of: &dyn Fn(&Headers) -> usize) -> Vec<Self::Pool> {
        (0..cores).map(|_| self.pool()).collect()
    }

    /// What this function takes from its pool as it was made: all or part of
    /// [`NetworkFunction::ALLOCATES`]. Whoever compares answers asks this, and not the constant.
    fn allocates(&self) -> Fields {
        Self::ALLOCATES
    }

    /// Whether packets of different flows must be stepped in order of arrival: where what one flow's
    /// step does to the pool is what another's finds there.
    fn steps_in_order(&self) -> bool {
        size_of::<Self::Pool>() > 0
    }

    /// The sides that it stands between, for a function that gives hosts of the inside other addresses outside, such
    /// as a NAT. Its chain then has two directions: what comes from outside meets the functions in reverse. Only
    /// packets that cross from one side to the other come to it.
    ///
    /// What its key names is the source of a packet from inside, and the destination of one from outside. Sharding
    /// hashes that: cards on the two sides are set so, one to source and one to destination.
    fn sides(&self) -> Option<Sides> {
        None
    }

    /// Whether it makes a difference between packets from inside and from outside
    /// ([`Marks::FROM_OUTSIDE`](wire::Marks::FROM_OUTSIDE)), so that its chain must have an inside. Says why, for
    /// people: the option that wants it.
    fn wants_sides(&self) -> Option<&'static str> {
        None
    }

    /// Reads the fields that the function needs, which [`NetworkFunction::READS`] names; `None` if the packet is not its business, which
    /// forwards the packet and leaves no trace. Malformed packets never come here.
    fn project(headers: &Headers) -> Option<Self::Meta>;

    /// The key of a packet: [`FlowKey::of`] its headers, which the meta must hold enough of.
    fn key(meta: &Self::Meta) -> Self::Key;

    /// One state transition. `flow` is `None` for a flow not seen, or expired; leaving `Some` creates
    /// or keeps it, leaving `None` removes it.
    fn step(&self, flow: &mut Option<Self::State>, meta: &Self::Meta, cx: &mut Cx<'_, Self::Pool>)
    -> Verdict;

    /// Looks at the payload of a packet that [`NetworkFunction::step`] forwards, and gives the verdict
    /// instead; `payload` is what the frame holds after the transport header, without link padding.
    /// Called only with [`NetworkFunction::INSPECTS`]. It has no flow to change: replicas do not see
    /// each other's payloads.
    #[inline]
    fn inspect(&self, _payload: &[u8], _meta: &Self::Meta, _cx: &mut Cx<'_, ()>) -> Verdict {
        Verdict::Forward
    }

    /// Names memory that the step will read, beside the flow itself, so that it is on its way when the
    /// step comes (FAJITA §3, "customizable function"); null for none. Called for a whole batch ahead
    /// of its steps, and only with [`NetworkFunction::PREFETCHES`]: a hint, which changes no answer.
    #[inline]
    fn prefetch(&self, _flow: Option<&Self::State>, _meta: &Self::Meta, _pool: &Self::Pool) -> *const u8 {
        core::ptr::null()
    }

    /// Does the steps of several packets at once, which are alike in all but their times: as many of the first as it
    /// can tell the outcome of without doing each. Says how many, 0 if none.
    ///
    /// Replicas use it for history (SCR §3.2), of which nothing is asked but the state: no verdict, edit or count. The
    /// flow has to be as [`NetworkFunction::step`] leaves it, packet by packet: none of them may begin or end it, and
    /// each but the first, for which that is known, must come before it has expired. For functions whose steps need
    /// neither pool nor random numbers; times never run back.
    /// [`check_leaps`](crate::check_leaps) compares it with steps.
    #[inline]
    fn leap(&self, _flow: &mut Option<Self::State>, _meta: &Self::Meta, _times_ns: &[u64]) -> usize {
        0
    }

    /// How long the flow may stay without a step before it expires, ns; asked after each step.
    /// `u64::MAX` is never.
    fn idle_timeout_ns(&self, state: &Self::State) -> u64;

    /// The verdict for a packet whose step created `state` when the table was full and its policy is
    /// to reject. Gives back to the pool what `state` took from it. By default the packet passes and
    /// leaves no state; say in the function's docs if it is otherwise.
    fn rejected(&self, _state: &Self::State, _meta: &Self::Meta, _cx: &mut Cx<'_, Self::Pool>) -> Verdict {
        Verdict::Forward
    }

    /// Why none of its flows may be evicted as long as they live, if that is so: what the table alone knows of them is
    /// lost then. A chain file with `table_full = "evict-oldest"` is refused for this reason: `gives …, since …`.
    fn refuses_eviction(&self) -> Option<&'static str> {
        None
    }

    /// A flow left the table because it expired or was evicted; the place to give back to the pool.
    fn gone(&self, _key: &Self::Key, _state: &Self::State, _pool: &mut Self::Pool) {}

    /// The state without what was taken from the pool, so that runs that allocate otherwise compare
    /// alike; see [`NetworkFunction::ALLOCATES`].
    fn without_allocation(&self, state: &Self::State) -> Self::State {
        *state
    }

    /// Checks what must hold between the live flows of all cores, such as that no two were given the
    /// same port; `verify` asks.
    ///
    /// # Errors
    /// Says which flows break it.
    fn invariant<'a>(
        &self,
        _flows: &mut dyn Iterator<Item = (&'a Self::Key, &'a Self::State)>,
    ) -> Result<(), String> {
        Ok(())
    }

    /// What a record adds up, such as its packets and bytes: see [`WhenShared::Totals`].
    #[inline]
    fn totals(&self, _state: &Self::State) -> [u64; 2] {
        [0; 2]
    }

    /// How much a packet is, such as its bytes: see [`WhenShared::Bound`].
    #[inline]
    fn amount(_meta: &Self::Meta) -> u64 {
        0
    }

    /// The most that may pass of one key in any `elapsed_ns`: see [`WhenShared::Bound`].
    fn bound(&self, _elapsed_ns: u64) -> u128 {
        0
    }

    /// How many of the largest records that have ended [`NetworkFunction::report_all`] wants to see; with 0 nothing
    /// is kept of any. A record ends when its flow expires, is evicted, or is begun anew by a step
    /// ([`NetworkFunction::BEGINS_ANEW`]); not where a step removes the flow. Each core keeps so many.
    fn keeps_ended(&self) -> usize {
        0
    }

    /// How large a record is among those that have ended. Called once for each, when it ends.
    fn rank(&self, _state: &Self::State) -> u64 {
        0
    }

    /// What counts suggest to do otherwise, for people: of a run with so many packets, and drops by reason. `None` where
    /// nothing strikes.
    fn hint(&self, _packets: u64, _dropped: &dyn Fn(&str) -> u64) -> Option<String> {
        None
    }

    /// What to tell people after a run: from the live flows, and from the records that have ended, if
    /// [`NetworkFunction::keeps_ended`] asks for these. Called once, with time to spare. Rows must not depend on the
    /// order of `flows`.
    fn report_all<'a>(
        &self,
        flows: &mut dyn Iterator<Item = (&'a Self::Key, &'a Self::State)>,
        _ended: &Ended<Self::Key, Self::State>,
        now: Stamp,
    ) -> Vec<FunctionReport> {
        self.report(flows, now)
    }

    /// The same for a function whose report is of live flows alone, as its titles should say.
    fn report<'a>(
        &self,
        _flows: &mut dyn Iterator<Item = (&'a Self::Key, &'a Self::State)>,
        _now: Stamp,
    ) -> Vec<FunctionReport> {
        Vec::new()
    }
}

/// What is promised of a function whose states all cores share. Packets of one key then come to the state
/// from several cores: one after the other, in no order that a run repeats, and as of the latest time that
/// the state has seen. `verify` checks what is promised, and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenShared {
    /// Over all records that a key ever had, [`NetworkFunction::totals`] add up to what they do on one core.
    /// Every step of a record raises the first of them; one that does not begins a new record.
    Totals,
    /// Of each key, what passes in a run is at most [`NetworkFunction::bound`] of the time from its first
    /// packet to its last. A packet passes, with its [`NetworkFunction::amount`], if it is forwarded and did
    /// not count event `over`.
    Bound {
        /// Index into [`NetworkFunction::EVENTS`]; `None`: all that is over is dropped.
        over: Option<usize>,
    },
}
