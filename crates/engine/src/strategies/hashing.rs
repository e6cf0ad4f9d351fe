//! What to hash, so that every key of a chain stays on one core: for strategies that hash.

use nf::{FlowKey, Stateless, Undivided};
use strategy::{FunctionShape, HashFields, Rss};
use wire::Fields;

use crate::chain::registry::FunctionInfo;
use crate::chain::{Chain, FunctionSpec};
use crate::strategies::plan::{Layout, Plan};
use crate::strategies::refusal::PlanError;

/// A layout in which every key stays on one core. `strategy` is the name that errors have.
///
/// # Errors
/// [`PlanError::Conflict`] if no hash serves all keys.
pub fn layout(chain: &Chain, strategy: &'static str) -> Result<Layout, PlanError> {
    refuse_undivided(chain, strategy)?;
    let (fields, shared) = derive(chain, strategy)?;
    Ok(Layout { hash_fields: Some(fields), shared, ..Layout::default() })
}

/// What is one for all packets, such as a count of each inside host, is one core's, and packets come to several.
fn refuse_undivided(chain: &Chain, strategy: &'static str) -> Result<(), PlanError> {
    let undivided = |spec: &FunctionSpec| Some((spec.name.clone(), spec.function.undivided()?));
    let Some((name, why)) = chain.functions.iter().find_map(undivided) else { return Ok(()) };
    let Undivided { option, does, spreads } = why;
    Err(PlanError::Conflict {
        strategy,
        chain: chain.name.clone(),
        conflict: format!("`{name}` {does} (`{option}`), and a hash spreads {spreads} over cores"),
        remedy: format!(
            "What works: `--strategy scr`, which answers exactly as one core does, `--strategy single`, or no `{option}`."
        ),
    })
}

/// Receive-side scaling as the plan has it.
///
/// # Panics
/// If the plan's strategy does not hash.
pub(crate) fn rss(plan: &Plan) -> Rss {
    let fields = plan.hash_fields.expect("a layout of `hashing`");
    Rss::new(fields, plan.cores, plan.indirection_entries)
}

/// What to hash, and which functions' states to share.
fn derive(chain: &Chain, strategy: &'static str) -> Result<(HashFields, Vec<usize>), PlanError> {
    let all: Vec<usize> = (0..chain.functions.len()).collect();
    hash_and_share(chain, &all).map_err(|conflict| {
        // Without either of the two the rest may still conflict: only promise what was checked.
        let without = |index: usize| {
            let rest: Vec<usize> = all.iter().copied().filter(|other| *other != index).collect();
            !rest.is_empty() && hash_and_share(chain, &rest).is_ok()
        };
        let mut remedy = "What works: ".to_owned();
        if chain.inspects_before_state().is_none() {
            remedy += "`--strategy scr`, which needs no such hash and answers exactly as one core does, or ";
        }
        remedy += "`--strategy single`";
        if let Some(index) = [conflict.second, conflict.first].into_iter().find(|index| without(*index)) {
            remedy += &format!(", or `{}` in a chain of its own", chain.functions[index].name);
        }
        remedy += ".";
        PlanError::Conflict { strategy, chain: chain.name.clone(), conflict: conflict.message, remedy }
    })
}

/// Two functions, by index, that no hash can serve.
struct Conflict {
    first: usize,
    second: usize,
    message: String,
}

/// For the functions `among`: no states to share, if some hash keeps all keys on one core; else, of those
/// that can be shared, as few as leave the hash that the others want.
fn hash_and_share(chain: &Chain, among: &[usize]) -> Result<(HashFields, Vec<usize>), Conflict> {
    let shapes = chain.shapes();
    // Any core will do for a shared function, but what it edits is edited all the same.
    let derive = |shared: &[usize]| {
        let of = |index: &usize| match shared.contains(index) {
            true => FunctionShape { sharding: Stateless::SHARDING, ..shapes[*index] },
            false => shapes[*index],
        };
        let shapes_among = among.iter().map(of).collect::<Vec<_>>();
        let derived = match chain.sides {
            None => HashFields::derive(&shapes_among),
            Some(_) => HashFields::derive_both_ways(&shapes_among),
        };
        let keeps_ports =
            |index: &usize| chain.functions[*index].function.sides().is_some_and(|sides| sides.keeps_ports);
        let derived = match among.iter().any(keeps_ports) {
            false => derived,
            true => derived.map(HashFields::port_alone),
        };
        derived.map_err(|conflict| {
            let index = |name: &str| shapes.iter().position(|shape| shape.name == name).unwrap_or(0);
            let (first, second) = (index(conflict.first.name), index(conflict.second.name));
            Conflict { first, second, message: conflict.to_string() }
        })
    };
    if let Ok(fields) = derive(&[]) {
        return Ok((fields, Vec::new()));
    }
    let mut shared: Vec<usize> = among.iter().copied().filter(|index| can_share(chain, *index)).collect();
    let fields = derive(&shared)?;
    for index in shared.clone() {
        let fewer: Vec<usize> = shared.iter().copied().filter(|other| *other != index).collect();
        if derive(&fewer).is_ok_and(|found| found == fields) {
            shared = fewer;
        }
    }
    Ok((fields, shared))
}

/// Whether a reference in a table by 5-tuple can stand for the function's state, and it says what holds then.
fn can_share(chain: &Chain, index: usize) -> bool {
    let function = &chain.functions[index].function;
    let FunctionInfo { sharding, when_shared, is_by_host, .. } = function.info();
    // Which end is inside follows from the addresses.
    let fields = if is_by_host { sharding.fields - Fields::MARKS } else { sharding.fields };
    let is_coarser = Fields::FIVE_TUPLE.contains(fields) && fields != Fields::FIVE_TUPLE;
    when_shared.is_some()
        && is_coarser
        && !sharding.is_stateless()
        && function.sides().is_none()
        && !function.steps_in_order()
}
