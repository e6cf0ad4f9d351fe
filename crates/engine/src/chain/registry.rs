//! The registry: functions by name, and a function of any type as an object.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;

use nf::{
    About, EndedOf, FiveTuple, FlowKey, FunctionReport, Hearing, Judge, KeyParts, NetworkFunction,
    OptionError, Role, Sharding, WhenShared,
};
use ring::Tickets;
use serde::Deserialize;
use table::OutOfMemory;
use toml::de::ValueDeserializer;
use wire::{Addr, AnswerTo, Fields, Headers, Stamp};
use zerocopy::IntoBytes;

use crate::path::group::{Stage, StageSpec};
use crate::path::look::{TracedFlow, shown};
use crate::path::parcel::{CorePools, Pool};
use crate::path::pools::Pools;
use crate::path::portion::{Found, Portion};
use crate::path::step::Stepper;
use crate::store::build::{GroupBuilder, GroupSize, Shared, SharedOn};
use crate::store::follow::{End, FollowGroup};
use crate::store::function::FunctionMember;
use crate::store::history::{self, NewColumn};
use crate::store::passed::check_passed;
use crate::store::private::{KeyGroup, KeyGroupBuilder};
use crate::store::shared_member::SharedMember;
use crate::store::shared_states::SharedStates;
use crate::store::stateless::StatelessGroup;
use crate::store::striped::{KeyedBuilder, StripedBuilder, StripedGroup};
use crate::store::typed::{self, TypedPart};
use crate::store::watched_member::WatchedMember;

/// The functions that chain files may name: none by default. `paceline-stock` has one of the stock functions.
#[derive(Clone, Default)]
pub struct Registry {
    makers: Vec<Maker>,
}

/// What is known of a function before it has options.
#[derive(Clone, Copy, Debug)]
pub struct FunctionInfo {
    /// [`NetworkFunction::ABOUT`].
    pub about: About,
    /// [`NetworkFunction::READS`].
    pub reads: Fields,
    /// [`NetworkFunction::EDITS`].
    pub edits: Fields,
    /// [`nf::Extras::inspect`].
    pub inspects: bool,
    /// Which type of key it has: functions with one key share a table.
    pub key: TypeId,
    /// [`nf::Extras::filled_by`].
    pub filled_by: &'static str,
    /// [`nf::Pooled::empty`].
    pub pool_empty: Option<u8>,
    /// [`nf::Guarantees::when_shared`].
    pub when_shared: Option<WhenShared>,
    /// What its key is made of.
    pub sharding: Sharding,
    /// [`nf::TwoSided::is_by_host`].
    pub is_by_host: bool,
    /// Bytes of the key.
    pub key_bytes: usize,
    /// Bytes of the metadata, SCR's *f(p)*.
    pub meta_bytes: usize,
    /// Bytes of one flow's state.
    pub state_bytes: usize,
}

impl FunctionInfo {
    /// Bytes of headers that a packet's history holds for a chain of this function alone, its time stamp
    /// apart: what the function reads, and whether the packet is malformed.
    pub fn item_bytes(&self) -> usize {
        (self.reads | Fields::MALFORMED).header_bytes().count_ones() as usize
    }
}

/// A function with its options, whatever its type.
pub trait Function: Send + Sync + Any {
    /// What is known of it.
    fn info(&self) -> FunctionInfo;

    /// [`nf::Pooled::steps_in_order`].
    fn steps_in_order(&self) -> bool;

    /// [`nf::Pooled::undivided`].
    fn undivided(&self) -> Option<nf::Undivided>;

    /// [`nf::Pooled::allocates`].
    fn allocates(&self) -> Fields;

    /// [`nf::Pooled::judge`].
    fn judge(&self, hearing: Hearing) -> Option<Box<dyn Judge>>;

    /// [`nf::Pooled::role`]; `None` if the function says nothing of it.
    fn role(&self, headers: &Headers) -> Option<Role>;

    /// [`nf::Pooled::allocation_events`].
    fn allocation_events(&self) -> &'static [usize];

    /// [`nf::Extras::draws`].
    fn draws(&self) -> bool;

    /// [`nf::TwoSided::sides`].
    fn sides(&self) -> Option<nf::Sides>;

    /// [`nf::Extras::has_address`].
    fn has_address(&self, address: Addr) -> bool;

    /// [`nf::TwoSided::wants`].
    fn wants_sides(&self) -> Option<&'static str>;

    /// [`nf::FullTable::refuses_eviction`].
    fn refuses_eviction(&self) -> Option<&'static str>;

    /// [`nf::Pooled::divide`], for [`Function::join`].
    fn pools(&self, cores: usize, core_of: &dyn Fn(&Headers) -> usize) -> Vec<Pool>;

    /// Makes room for its state in the blocks of `group`, which has the same key, without being part of
    /// it: to see how large the table would be.
    fn reserve(&self, group: &mut GroupSize);

    /// Puts it behind the functions of `group`, which have the same key; begins a group without one.
    fn join(&self, group: Option<GroupBuilder>, spec: StageSpec, pools: CorePools) -> GroupBuilder;

    /// Room for `flows` states that `cores` cores share; for a function with
    /// [`nf::Guarantees::when_shared`].
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is not enough memory.
    fn share(&self, flows: usize, cores: usize, table_seed: u64) -> Result<Shared, OutOfMemory>;

    /// Bytes of [`Function::share`].
    fn shared_bytes(&self, flows: usize) -> u64;

    /// As [`Function::join`], with states that are in `shared`; the group is by 5-tuple.
    fn join_sharing(
        &self,
        group: Option<GroupBuilder>,
        spec: StageSpec,
        pools: CorePools,
        shared: &SharedOn,
    ) -> GroupBuilder;

    /// As [`Function::join`] on all cores at once, which share the group's flows: `pools` has one for each core,
    /// and, of a function that steps in order, one more before, which the cores share. `is_watched`: see
    /// [`SharedOn`].
    fn join_striped(
        &self,
        group: Option<StripedBuilder>,
        spec: StageSpec,
        pools: Vec<Pool>,
        is_watched: bool,
    ) -> StripedBuilder;

    /// A group of its own that answers what it answered in another run, where packets ended as `ends` says, by
    /// sequence number.
    fn follow(&self, spec: StageSpec, pools: CorePools, ends: &Arc<Vec<End>>) -> GroupBuilder;

    /// What all records of a function whose states cores share, or that follows a run where they did,
    /// added up, as one number. See [`nf::WhenShared::Totals`].
    fn totals(&self, stages: &[Stage<'_>]) -> u64;

    /// Checks a function whose states cores share: that of no key more passed than may, or less than has to.
    /// See [`nf::WhenShared::Bound`]. `goes_on`: its flows began under another chain, whose packets it does not know.
    ///
    /// # Errors
    /// Says of which key.
    fn passed(&self, stages: &[Stage<'_>], goes_on: bool) -> Result<(), String>;

    /// Whether it can go on with flows that `old`, of other options, has left: see [`nf::Reload::keeps_flows`].
    ///
    /// # Errors
    /// Says why not.
    fn keeps_flows_of(&self, old: &dyn Function) -> Result<(), &'static str>;

    /// [`nf::Reload::following`].
    fn following(&self, old: &dyn Function) -> Option<Arc<dyn Function>>;

    /// [`nf::Extras::live`].
    fn live(&self) -> Option<Arc<dyn Function>>;

    /// See [`nf::Extras::following_fragments`].
    fn following_fragments(&self) -> Option<Arc<dyn Function>>;

    /// How packets are told to other cores as far as the group that it begins looks them up: see [`Function::meta_history`].
    /// `None`: it keeps no state.
    fn key_history(&self, table_seed: u64, tickets: &Tickets, ends: (usize, usize)) -> Option<NewColumn>;

    /// How packets are told to other cores as far as it reads them: a column of a log, for so many that write and that read.
    fn meta_history(&self, tickets: &Tickets, ends: (usize, usize)) -> NewColumn;

    /// [`Function::key_history`] over a wire.
    fn typed_key(&self, table_seed: u64) -> Option<TypedPart>;

    /// [`Function::meta_history`] over a wire.
    fn typed_meta(&self) -> TypedPart;

    /// [`nf::Reports::hint`].
    fn hint(&self, packets: u64, drops: &BTreeMap<String, u64>) -> Option<String>;

    /// [`nf::Extras::rules`], as the chain file has them: for each name and text.
    fn rules(&self) -> Vec<(String, String)>;
    /// [`nf::Extras::backends`].
    fn backends(&self) -> Vec<nf::Backend>;
    /// Name and text of the rule for which a drop reason stands: [`nf::Extras::logged_rule`].
    fn logged_rule(&self, reason: u8) -> Option<(String, String)>;
    /// [`nf::Extras::answers`].
    fn answers(&self, reason: u8) -> Option<AnswerTo>;

    /// An empty portion of its flows, for a core to fill.
    fn portion(&self) -> Portion;

    /// What a portion holds.
    fn listed(&self, portion: &Portion) -> Vec<ListedState>;

    /// What it reports, from the flows of all cores.
    fn report(&self, stages: &[Stage<'_>], now: Stamp) -> Vec<FunctionReport>;

    /// [`nf::Guarantees::invariant`], over the flows of all cores.
    ///
    /// # Errors
    /// Says which flows break it.
    fn invariant(&self, stages: &[Stage<'_>], now: Stamp) -> Result<(), String>;
}

/// A flow's state, as a list has it.
#[derive(Clone, Debug)]
pub struct ListedState {
    /// Its key, for people.
    pub key: String,
    /// What it may be looked for by.
    pub parts: KeyParts,
    /// The key itself.
    pub key_bytes: Vec<u8>,
    /// The state, and when it dies.
    pub flow: TracedFlow,
}

/// Why a function could not be made from its options.
pub(crate) enum MakeError {
    /// A wrong name or type.
    Toml(toml::de::Error),
    /// A value that makes no sense.
    Option(OptionError),
}

/// Makes a function from its options.
type Make = dyn Fn(ValueDeserializer<'_>) -> Result<Arc<dyn Function>, MakeError> + Send + Sync;

#[derive(Clone)]
struct Maker {
    info: FunctionInfo,
    make: Arc<Make>,
}

impl Registry {
    /// Stock functions for tests of this crate: each one more takes seconds to compile.
    #[cfg(test)]
    pub(crate) fn of_tests() -> Registry {
        let mut registry = Registry::default();
        registry.add::<nfs::Ddos>();
        registry.add::<nfs::DestinationPolicer>();
        registry.add::<nfs::FlowStatistics>();
        registry.add::<nfs::HeavyHitters>();
        registry.add::<nfs::Nat>();
        registry.add::<nfs::Policer>();
        registry.add::<nfs::SourceStatistics>();
        registry
    }

    /// Adds a function; it replaces one of the same name.
    pub fn add<F: NetworkFunction>(&mut self) {
        self.set(info::<F>(), Arc::new(make::<F>));
    }

    /// Adds a function that has another type for some options, such as another key: `B` where `is_b` says so, else
    /// `A`. They have one name, and what is known of the function before it has options is `A`'s.
    pub fn add_either<A, B>(&mut self, is_b: fn(&A::Options) -> bool)
    where
        A: NetworkFunction,
        B: NetworkFunction<Options = A::Options>,
    {
        let make = move |options: ValueDeserializer<'_>| {
            let options = A::Options::deserialize(options).map_err(MakeError::Toml)?;
            let function = if is_b(&options) {
                B::new(options).map(configured)
            } else {
                A::new(options).map(configured)
            };
            function.map_err(MakeError::Option)
        };
        self.set(info::<A>(), Arc::new(make));
    }

    fn set(&mut self, info: FunctionInfo, make: Arc<Make>) {
        self.makers.retain(|maker| maker.info.about.name != info.about.name);
        self.makers.push(Maker { info, make });
    }

    /// What is known of each function.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionInfo> {
        self.makers.iter().map(|maker| &maker.info)
    }

    /// Makes the function called `name`; `None` if there is none.
    pub(crate) fn make(
        &self,
        name: &str,
        options: ValueDeserializer<'_>,
    ) -> Option<Result<Arc<dyn Function>, MakeError>> {
        let maker = self.makers.iter().find(|maker| maker.info.about.name == name)?;
        Some((maker.make)(options))
    }
}

/// A function's options; the `Arc` is shared by all cores.
struct Configured<F>(Arc<F>);

impl<F: NetworkFunction> Configured<F> {
    fn stepper(&self, spec: StageSpec, pools: CorePools) -> Stepper<F> {
        let typed = |pool: Pool| -> F::Pool { *pool.0.downcast().expect("made by this function's `pools`") };
        let pools = match pools {
            CorePools::One(pool) => Pools::one(typed(pool)),
            CorePools::ByEntry(pools) => {
                Pools::by_entry(pools.into_iter().map(|pool| pool.map(typed)).collect())
            }
        };
        Stepper::new(Arc::clone(&self.0), pools, spec)
    }

    /// The records that have ended on any of the cores.
    fn ended(&self, stages: &[Stage<'_>]) -> EndedOf<F> {
        let mut ended = EndedOf::<F>::new((F::EXTRAS.records.keep)(&self.0));
        // All cores have the same.
        if let Some(member) = stages.first().and_then(shared::<F>) {
            member.states().add_ended(&mut ended);
        }
        stages.iter().filter_map(stepper_of::<F>).filter_map(Stepper::ended).for_each(|own| ended.merge(own));
        ended
    }
}

impl<F: NetworkFunction> Function for Configured<F> {
    fn info(&self) -> FunctionInfo {
        info::<F>()
    }

    fn steps_in_order(&self) -> bool {
        (F::EXTRAS.pool.steps_in_order)(&self.0)
    }

    fn undivided(&self) -> Option<nf::Undivided> {
        (F::EXTRAS.pool.undivided)(&self.0)
    }

    fn allocates(&self) -> Fields {
        (F::EXTRAS.pool.allocates)(&self.0)
    }

    fn judge(&self, hearing: Hearing) -> Option<Box<dyn Judge>> {
        F::EXTRAS.pool.judge.map(|judge| judge(&self.0, hearing))
    }

    fn role(&self, headers: &Headers) -> Option<Role> {
        F::EXTRAS.pool.role.map(|role| role(&self.0, headers))
    }

    fn allocation_events(&self) -> &'static [usize] {
        (F::EXTRAS.pool.allocation_events)(&self.0)
    }

    fn draws(&self) -> bool {
        (F::EXTRAS.draws)(&self.0)
    }

    fn sides(&self) -> Option<nf::Sides> {
        (F::EXTRAS.sides.sides)(&self.0)
    }

    fn has_address(&self, address: Addr) -> bool {
        (F::EXTRAS.has_address)(&self.0, address)
    }

    fn wants_sides(&self) -> Option<&'static str> {
        (F::EXTRAS.sides.wants)(&self.0)
    }

    fn refuses_eviction(&self) -> Option<&'static str> {
        (F::EXTRAS.full_table.refuses_eviction)(&self.0)
    }

    fn keeps_flows_of(&self, old: &dyn Function) -> Result<(), &'static str> {
        let Some(Configured(old)) = (old as &dyn Any).downcast_ref::<Configured<F>>() else {
            return Err("it is another function of the same name");
        };
        (F::EXTRAS.reload.keeps_flows)(&self.0, old)
    }

    fn following(&self, old: &dyn Function) -> Option<Arc<dyn Function>> {
        let Configured(old) = (old as &dyn Any).downcast_ref::<Configured<F>>()?;
        (F::EXTRAS.reload.following)(&self.0, old).map(configured)
    }

    fn live(&self) -> Option<Arc<dyn Function>> {
        (F::EXTRAS.live)(&self.0).map(configured)
    }

    fn following_fragments(&self) -> Option<Arc<dyn Function>> {
        (F::EXTRAS.following_fragments)(&self.0).map(configured)
    }

    fn key_history(&self, table_seed: u64, tickets: &Tickets, ends: (usize, usize)) -> Option<NewColumn> {
        let is_stateless = F::Key::SHARDING.is_stateless();
        (!is_stateless).then(|| history::keys::<F::Key>(table_seed, tickets, ends))
    }

    fn meta_history(&self, tickets: &Tickets, ends: (usize, usize)) -> NewColumn {
        history::metas::<F>(tickets, ends)
    }

    fn typed_key(&self, table_seed: u64) -> Option<TypedPart> {
        (!F::Key::SHARDING.is_stateless()).then(|| typed::keys::<F::Key>(table_seed))
    }

    fn typed_meta(&self) -> TypedPart {
        typed::metas::<F>()
    }

    fn hint(&self, packets: u64, drops: &BTreeMap<String, u64>) -> Option<String> {
        (F::EXTRAS.reports.hint)(&self.0, packets, &|reason| drops.get(reason).copied().unwrap_or(0))
    }

    fn pools(&self, cores: usize, core_of: &dyn Fn(&Headers) -> usize) -> Vec<Pool> {
        (F::EXTRAS.pool.divide)(&self.0, cores, core_of)
            .into_iter()
            .map(|pool| Pool(Box::new(pool)))
            .collect()
    }

    fn reserve(&self, group: &mut GroupSize) {
        group.add::<F>();
    }

    fn join(&self, group: Option<GroupBuilder>, spec: StageSpec, pools: CorePools) -> GroupBuilder {
        let stepper = self.stepper(spec, pools);
        if F::Key::SHARDING.is_stateless() {
            debug_assert!(group.is_none(), "a function without state is a group of its own");
            return GroupBuilder::new(StatelessGroup(stepper));
        }
        GroupBuilder::with_member(group, |builder: &mut KeyGroupBuilder<F::Key>| {
            let part = builder.layout.add::<F::State>();
            builder.in_order |= (F::EXTRAS.pool.steps_in_order)(&self.0);
            Box::new(FunctionMember::new(stepper, part))
        })
    }

    fn share(&self, flows: usize, cores: usize, table_seed: u64) -> Result<Shared, OutOfMemory> {
        let states = SharedStates::new(Arc::clone(&self.0), flows, cores, table_seed)?;
        Ok(Shared(Arc::new(states)))
    }

    fn shared_bytes(&self, flows: usize) -> u64 {
        SharedStates::<F>::bytes(flows)
    }

    fn join_sharing(
        &self,
        group: Option<GroupBuilder>,
        spec: StageSpec,
        pools: CorePools,
        shared: &SharedOn,
    ) -> GroupBuilder {
        let stepper = self.stepper(spec, pools);
        let states = Arc::clone(&shared.states.0).downcast().expect("made by this function's `share`");
        GroupBuilder::with_member(group, |builder: &mut KeyGroupBuilder<FiveTuple>| {
            let part = builder.layout.add();
            Box::new(SharedMember::<F>::new(stepper, part, states, shared))
        })
    }

    fn join_striped(
        &self,
        group: Option<StripedBuilder>,
        spec: StageSpec,
        mut pools: Vec<Pool>,
        is_watched: bool,
    ) -> StripedBuilder {
        let shared_pool = (F::EXTRAS.pool.steps_in_order)(&self.0).then(|| pools.remove(0));
        StripedBuilder::with_members(group, pools.len(), |builder: &mut KeyedBuilder<F::Key>| {
            let part = builder.layout.add::<F::State>();
            builder.pool = shared_pool.or(builder.pool.take());
            for (members, pool) in builder.members.iter_mut().zip(pools) {
                let member = FunctionMember::new(self.stepper(spec, CorePools::One(pool)), part);
                members.push(match is_watched && F::EXTRAS.guarantees.when_shared.is_some() {
                    true => Box::new(WatchedMember::new(member)),
                    false => Box::new(member),
                });
            }
        })
    }

    fn follow(&self, spec: StageSpec, pools: CorePools, ends: &Arc<Vec<End>>) -> GroupBuilder {
        GroupBuilder::new(FollowGroup::new(self.stepper(spec, pools), Arc::clone(ends)))
    }

    fn totals(&self, stages: &[Stage<'_>]) -> u64 {
        let Some(first) = stages.first() else { return 0 };
        if let Some(member) = shared::<F>(first) {
            return member.states().totals();
        }
        if let Some(group) = striped::<F>(first) {
            let departed = stages.iter().filter_map(watched::<F>).map(WatchedMember::departed);
            return departed.fold(group.totals::<F>(first.member), u64::wrapping_add);
        }
        let group = (first.group as &dyn Any).downcast_ref::<FollowGroup<F>>();
        group.map_or(0, FollowGroup::totals)
    }

    fn passed(&self, stages: &[Stage<'_>], goes_on: bool) -> Result<(), String> {
        let of_core = |stage| match shared::<F>(stage) {
            Some(member) => member.passed(),
            None => watched::<F>(stage).map(WatchedMember::passed),
        };
        check_passed(&*self.0, stages.iter().filter_map(of_core), goes_on)
    }

    fn rules(&self) -> Vec<(String, String)> {
        F::EXTRAS.rules.map_or_else(Vec::new, |rules| rules(&self.0))
    }

    fn backends(&self) -> Vec<nf::Backend> {
        (F::EXTRAS.backends)(&self.0)
    }

    fn logged_rule(&self, reason: u8) -> Option<(String, String)> {
        (F::EXTRAS.logged_rule)(&self.0, reason)
    }

    fn answers(&self, reason: u8) -> Option<AnswerTo> {
        (F::EXTRAS.answers)(&self.0, reason)
    }

    fn portion(&self) -> Portion {
        Portion::new::<F::Key, F::State>()
    }

    fn listed(&self, portion: &Portion) -> Vec<ListedState> {
        let flows = portion.flows::<F::Key, F::State>().into_iter().flatten();
        let listed = flows.map(|Found { key, state, deadline_ns }| ListedState {
            key: key.to_string(),
            parts: key.parts(),
            key_bytes: key.as_bytes().to_vec(),
            flow: TracedFlow { state: shown(&*self.0, state), deadline_ns: *deadline_ns },
        });
        listed.collect()
    }

    fn report(&self, stages: &[Stage<'_>], now: Stamp) -> Vec<FunctionReport> {
        let (report, ended) = (F::EXTRAS.reports.report, self.ended(stages));
        // As the cores have it: it may know of chains before.
        let function = stages.first().and_then(stepper_of::<F>).map_or(&*self.0, |of_core| &of_core.function);
        match flows_of_all::<F>(stages, now) {
            Some(live) => report(function, &mut live.iter().map(|(key, state)| (key, state)), &ended, now),
            None => {
                report(function, &mut stages.iter().flat_map(|stage| flows::<F>(stage, now)), &ended, now)
            }
        }
    }

    fn invariant(&self, stages: &[Stage<'_>], now: Stamp) -> Result<(), String> {
        let invariant = F::EXTRAS.guarantees.invariant;
        match flows_of_all::<F>(stages, now) {
            Some(live) => invariant(&self.0, &mut live.iter().map(|(key, state)| (key, state))),
            None => invariant(&self.0, &mut stages.iter().flat_map(|stage| flows::<F>(stage, now))),
        }
    }
}

/// The stage's function, if cores share its states and it is an `F`.
fn shared<'a, F: NetworkFunction>(stage: &Stage<'a>) -> Option<&'a SharedMember<F>> {
    (stage.group as &dyn Any).downcast_ref::<KeyGroup<FiveTuple>>()?.member(stage.member)
}

/// The stage's group, if cores share its flows and its key is `F`'s.
fn striped<'a, F: NetworkFunction>(stage: &Stage<'a>) -> Option<&'a StripedGroup<F::Key>> {
    (stage.group as &dyn Any).downcast_ref()
}

/// The stage's function, if cores share its flows, `verify` checks it, and it is an `F`.
fn watched<'a, F: NetworkFunction>(stage: &Stage<'a>) -> Option<&'a WatchedMember<F>> {
    striped::<F>(stage)?.member(stage.member)
}

/// What steps the stage's function, if it is an `F` with flows in the group's table.
fn stepper_of<'a, F: NetworkFunction>(stage: &Stage<'a>) -> Option<&'a Stepper<F>> {
    if let Some(group) = striped::<F>(stage) {
        return group.function::<F>(stage.member).map(FunctionMember::stepper);
    }
    let group = (stage.group as &dyn Any).downcast_ref::<KeyGroup<F::Key>>()?;
    group.member::<FunctionMember<F>>(stage.member).map(FunctionMember::stepper)
}

/// The live flows of a function, if its stages' cores share them.
fn flows_of_all<F: NetworkFunction>(stages: &[Stage<'_>], now: Stamp) -> Option<Vec<(F::Key, F::State)>> {
    let first = stages.first()?;
    if let Some(member) = shared::<F>(first) {
        return Some(member.states().live(now));
    }
    Some(striped::<F>(first)?.flows::<F>(first.member, now))
}

/// The live flows of a stage whose function is an `F`.
fn flows<'a, F: NetworkFunction>(
    stage: &Stage<'a>,
    now: Stamp,
) -> impl Iterator<Item = (&'a F::Key, &'a F::State)> + use<'a, F> {
    let group = (stage.group as &dyn Any).downcast_ref::<KeyGroup<F::Key>>();
    let member = stage.member;
    group.into_iter().flat_map(move |group| group.flows::<F>(member, now))
}

fn make<F: NetworkFunction>(options: ValueDeserializer<'_>) -> Result<Arc<dyn Function>, MakeError> {
    let options = F::Options::deserialize(options).map_err(MakeError::Toml)?;
    F::new(options).map(configured).map_err(MakeError::Option)
}

fn configured<F: NetworkFunction>(function: F) -> Arc<dyn Function> {
    Arc::new(Configured(Arc::new(function)))
}

fn info<F: NetworkFunction>() -> FunctionInfo {
    const { nf::assert_reads_key::<F>() };
    FunctionInfo {
        about: F::ABOUT,
        reads: F::READS,
        edits: F::EDITS,
        inspects: F::EXTRAS.inspect.is_some(),
        key: TypeId::of::<F::Key>(),
        filled_by: F::EXTRAS.filled_by,
        pool_empty: F::EXTRAS.pool.empty,
        when_shared: F::EXTRAS.guarantees.when_shared,
        sharding: F::Key::SHARDING,
        is_by_host: F::EXTRAS.sides.is_by_host,
        key_bytes: size_of::<F::Key>(),
        meta_bytes: size_of::<F::Meta>(),
        state_bytes: size_of::<F::State>(),
    }
}
