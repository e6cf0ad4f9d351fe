//! Which functions of a chain go on with the flows of those in the chain before.

use std::ops::Range;

use crate::chain::keeping::Keeping;
use crate::chain::{Chain, FunctionSpec};

/// By function of a chain, whose flows it goes on with: the index of that one in the chain before, or why it begins
/// anew.
pub(crate) type Inherited = Vec<Result<usize, String>>;

impl Chain {
    /// What each function's flows could be, as far as the two chains say: where it stood before, if its options, its key
    /// and its table are such that the flows of then are flows of now.
    pub(crate) fn inherits(&self, before: &Chain) -> Inherited {
        self.functions.iter().map(|spec| spec.inherits(&before.functions)).collect()
    }

    /// The chain as it is behind another, where functions know what those before them were: see [`nf::Reload::following`].
    pub(crate) fn following(mut self, before: &Chain) -> Chain {
        for spec in &mut self.functions {
            let old = before.functions.iter().find(|old| old.name == spec.name);
            if let Some(function) = old.and_then(|old| spec.function.following(&*old.function)) {
                spec.function = function;
            }
        }
        self
    }

    /// Takes from `inherited` what tables do not allow where both chains keep states so: a table goes on whole, with all
    /// functions that have a part in it.
    pub(crate) fn inherit_whole_groups(
        &self,
        before: &Chain,
        keeping: &Keeping<'_>,
        keeping_before: &Keeping<'_>,
        inherited: &mut Inherited,
    ) {
        let groups_before = before.groups_keeping(keeping_before);
        for (index, function) in inherited.iter_mut().enumerate() {
            if function
                .as_ref()
                .is_ok_and(|before| keeping.place_of(index) != keeping_before.place_of(*before))
            {
                *function = Err("its flows are kept where they were not before".to_owned());
            }
        }
        for group in self.groups_keeping(keeping) {
            if whole(&groups_before, &inherited[group.clone()]).is_some() {
                continue;
            }
            for function in &mut inherited[group] {
                if function.is_ok() {
                    *function = Err("the table of its flows was shared with others, or is now".to_owned());
                }
            }
        }
    }

    /// The groups that go on, each with its number in the chain before.
    pub(crate) fn kept_groups(
        &self,
        before: &Chain,
        keeping: &Keeping<'_>,
        keeping_before: &Keeping<'_>,
        inherited: &Inherited,
    ) -> Vec<(usize, usize)> {
        let groups_before = before.groups_keeping(keeping_before);
        let groups = self.groups_keeping(keeping).into_iter().enumerate();
        groups
            .filter_map(|(number, group)| Some((number, whole(&groups_before, &inherited[group])?)))
            .collect()
    }
}

/// The number of the group of which these functions are all, in order.
fn whole(groups: &[Range<usize>], inherited: &[Result<usize, String>]) -> Option<usize> {
    let first = *inherited.first()?.as_ref().ok()?;
    let is_next = |(number, index): (usize, &Result<usize, String>)| *index == Ok(first + number);
    let group = first..first + inherited.len();
    let is_in_order = inherited.iter().enumerate().all(is_next);
    is_in_order.then(|| groups.iter().position(|of_before| *of_before == group)).flatten()
}

impl FunctionSpec {
    /// Whose flows of those before could be its own.
    fn inherits(&self, before: &[FunctionSpec]) -> Result<usize, String> {
        let Some(index) = before.iter().position(|spec| spec.name == self.name) else {
            return Err("no function of its name was there before".to_owned());
        };
        let old = &before[index];
        let (info, old_info) = (self.function.info(), old.function.info());
        if (info.about.name, info.key, info.state_bytes)
            != (old_info.about.name, old_info.key, old_info.state_bytes)
        {
            return Err("it is another function of the same name".to_owned());
        }
        if !info.sharding.is_stateless() && (self.flows, self.when_full) != (old.flows, old.when_full) {
            return Err("its table is another (`flows`, `table_full`)".to_owned());
        }
        if self.function.steps_in_order() != old.function.steps_in_order() {
            return Err("its packets have to be stepped in order, or had to be".to_owned());
        }
        if self.options != old.options {
            self.function.keeps_flows_of(&*old.function)?;
        }
        Ok(index)
    }
}
