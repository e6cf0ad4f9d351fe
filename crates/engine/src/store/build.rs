//! What groups are built from: shared states, and the size of a group's table.

use std::any::Any;
use std::sync::Arc;

use nf::{FiveTuple, FlowKey, NetworkFunction};
use table::{FlowTable, Layout, OutOfMemory, Slot, WhenFull};

use crate::path::group::Group;
use crate::path::parcel::Mobility;
use crate::store::follow::FollowGroup;
use crate::store::member::Member;
use crate::store::private::KeyGroupBuilder;
use crate::store::stateless::StatelessGroup;

/// A function's states that all cores share, whatever their type: see
/// [`Function::share`](crate::Function::share).
#[derive(Clone)]
pub struct Shared(pub(crate) Arc<dyn Any + Send + Sync>);

impl Shared {
    pub(crate) fn on(&self, core: usize, has_auxiliary_table: bool, is_watched: bool) -> SharedOn {
        SharedOn { states: self.clone(), core, has_auxiliary_table, is_watched }
    }
}

/// A function's shared states on one core.
pub struct SharedOn {
    pub(crate) states: Shared,
    pub(crate) core: usize,
    /// Whether a flow's block keeps where the state is.
    pub(crate) has_auxiliary_table: bool,
    /// Whether what passes is to be collected.
    pub(crate) is_watched: bool,
}

/// How large a group's table would be: see [`Function::reserve`](crate::Function::reserve).
pub struct GroupSize {
    layout: Layout,
    /// Bytes for so many flows, once the key is known.
    bytes: fn(&Layout, usize) -> u64,
}

impl GroupSize {
    pub(crate) fn new() -> GroupSize {
        GroupSize { layout: Layout::new(), bytes: |_, _| 0 }
    }

    pub(crate) fn add<F: NetworkFunction>(&mut self) {
        if !F::Key::SHARDING.is_stateless() {
            self.layout.add::<F::State>();
            self.bytes = FlowTable::<F::Key>::bytes;
        }
    }

    /// Room for a reference to a shared state: the group is by 5-tuple.
    pub(crate) fn add_reference(&mut self) {
        self.layout.add::<Slot>();
        self.bytes = FlowTable::<FiveTuple>::bytes;
    }

    /// Room for the time of a table that cores share.
    pub(crate) fn add_clock(&mut self) {
        self.layout.add::<()>();
    }

    pub(crate) fn bytes(&self, flows: usize) -> u64 {
        (self.bytes)(&self.layout, flows)
    }
}

/// A group of functions on its way to be one: see [`Function::join`](crate::Function::join).
pub struct GroupBuilder(Box<dyn Unbuilt>);

impl GroupBuilder {
    pub(crate) fn new(unbuilt: impl Unbuilt) -> Self {
        GroupBuilder(Box::new(unbuilt))
    }

    /// Puts a member that `make` makes behind those of `group`, whose key is `K`; begins a group without one.
    pub(crate) fn with_member<K: FlowKey>(
        group: Option<Self>,
        make: impl FnOnce(&mut KeyGroupBuilder<K>) -> Box<dyn Member<K>>,
    ) -> Self {
        let mut group = group.unwrap_or_else(|| GroupBuilder::new(KeyGroupBuilder::<K>::new()));
        let unbuilt = (&mut *group.0 as &mut dyn Any).downcast_mut();
        let builder: &mut KeyGroupBuilder<K> = unbuilt.expect("a group of this key");
        let member = make(builder);
        builder.members.push(member);
        group
    }

    pub(crate) fn build(
        self,
        flows: usize,
        when_full: WhenFull,
        table_seed: u64,
        mobility: Mobility<'_>,
    ) -> Result<Box<dyn Group>, OutOfMemory> {
        self.0.build(flows, when_full, table_seed, mobility)
    }
}

/// Erases the type of a group's key.
pub(crate) trait Unbuilt: Any {
    /// `mobility`: whether flows may go from core to core.
    fn build(
        self: Box<Self>,
        flows: usize,
        when_full: WhenFull,
        table_seed: u64,
        mobility: Mobility<'_>,
    ) -> Result<Box<dyn Group>, OutOfMemory>;
}

impl<K: FlowKey> Unbuilt for KeyGroupBuilder<K> {
    fn build(
        self: Box<Self>,
        flows: usize,
        when_full: WhenFull,
        table_seed: u64,
        mobility: Mobility<'_>,
    ) -> Result<Box<dyn Group>, OutOfMemory> {
        Ok(Box::new((*self).build(flows, when_full, table_seed, mobility)?))
    }
}

impl<F: NetworkFunction> Unbuilt for StatelessGroup<F> {
    fn build(
        self: Box<Self>,
        _: usize,
        _: WhenFull,
        _: u64,
        _: Mobility<'_>,
    ) -> Result<Box<dyn Group>, OutOfMemory> {
        Ok(self)
    }
}

impl<F: NetworkFunction> Unbuilt for FollowGroup<F> {
    fn build(
        self: Box<Self>,
        _: usize,
        _: WhenFull,
        _: u64,
        _: Mobility<'_>,
    ) -> Result<Box<dyn Group>, OutOfMemory> {
        Ok(self)
    }
}
