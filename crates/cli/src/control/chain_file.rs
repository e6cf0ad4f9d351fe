//! What a chain file has of functions and their backends, as tables that can be changed.

use engine::Chain;
use nf::Backend;
use toml::{Table, Value};

/// The functions of a chain file.
pub(super) fn functions(table: &mut Table) -> impl Iterator<Item = &mut Table> {
    let list = table.get_mut("function").and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_table_mut)
}

/// All backends of a chain, each with the place of its function.
pub(super) fn all(chain: &Chain) -> impl Iterator<Item = (usize, Backend)> {
    let functions = chain.functions.iter().enumerate();
    functions.flat_map(|(at, spec)| spec.function.backends().into_iter().map(move |backend| (at, backend)))
}

/// Its table in a chain file.
pub(super) fn table_of<'a>(
    table: &'a mut Table,
    function: usize,
    backend: &Backend,
) -> Option<&'a mut Table> {
    let (service, own) = backend.place;
    let nth = |table: &'a mut Table, list: &str, at: usize| -> Option<&'a mut Table> {
        table.get_mut(list)?.as_array_mut()?.get_mut(at)?.as_table_mut()
    };
    let service = nth(functions(table).nth(function)?, "services", service)?;
    nth(service, "backends", own)
}
