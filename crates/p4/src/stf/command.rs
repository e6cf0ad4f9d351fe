//! What test files say to tables, meters and groups, and what they ask of them.

use crate::interpret::{ControlError, Machine, Rates, TableEntry};
use crate::ir::{self, ActionCall, Constant, KeySet, MatchKind, Program, has_priorities, ones};
use names::nearest;

use super::value::{key_set, masked, value};

const COMMANDS: [&str; 10] =
    ["add", "remove", "setdefault", "multicast", "meter", "time", "packet", "expect", "check", "wait"];

/// Does one.
pub fn control(machine: &mut Machine, command: &str, rest: &str) -> Result<(), String> {
    match command {
        "add" => add(machine, rest),
        "remove" => remove(machine, rest).map(drop),
        "setdefault" => set_default(machine, rest).map(drop),
        "multicast" => {
            let numbers = numbers::<u16>(rest)?;
            let (group, ports) = numbers.split_first().ok_or("multicast GROUP PORT ...")?;
            machine.state_mut().1.set_group(*group, ports.to_vec());
            Ok(())
        }
        "meter" => {
            let (name, rest) = rest
                .split_once(char::is_whitespace)
                .ok_or("meter NAME INDEX RATE BURST PEAK_RATE PEAK_BURST")?;
            let (program, state) = machine.state_mut();
            let meter = named(name, program.meters.iter().map(|meter| &*meter.name), "meter")?;
            let [index, committed, committed_burst, peak, peak_burst] = numbers::<u64>(rest)?[..] else {
                return Err("a meter takes an index, two rates and two bursts".into());
            };
            let rates = Rates { committed, committed_burst, peak, peak_burst };
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            state.set_meter(program, meter, index, rates).map_err(told)
        }
        // All is done at once: nothing to wait for.
        "wait" => Ok(()),
        other => {
            let near = nearest(other, COMMANDS).map_or_else(
                || format!("there are: {}", COMMANDS.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            Err(format!("there is no command `{other}`; {near}"))
        }
    }
}

fn told(error: ControlError) -> String {
    error.to_string()
}

fn numbers<T: std::str::FromStr>(text: &str) -> Result<Vec<T>, String> {
    text.split_whitespace()
        .map(|word| word.parse().map_err(|_| format!("`{word}` is no number here")))
        .collect()
}

/// The number of what has this name, or the only one whose path ends with it.
fn named<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone, what: &str) -> Result<u32, String> {
    if let Some(at) = known.clone().position(|other| other == name) {
        return Ok(at as u32);
    }
    let suffix = format!(".{name}");
    let mut ending = known.clone().enumerate().filter(|(_, other)| other.ends_with(&suffix));
    match (ending.next(), ending.next()) {
        (Some((at, _)), None) => Ok(at as u32),
        (Some((_, first)), Some((_, second))) => Err(format!("`{name}` may be `{first}` or `{second}`")),
        (None, _) => {
            let last = |path: &'a str| path.rsplit('.').next().unwrap_or(path);
            let near = nearest(name, known.map(last))
                .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            Err(format!("there is no {what} `{name}`{near}"))
        }
    }
}

fn add(machine: &mut Machine, rest: &str) -> Result<(), String> {
    let (name, rest) = rest.split_once(char::is_whitespace).ok_or("add TABLE KEY:VALUE ... ACTION(...)")?;
    let (program, state) = machine.state_mut();
    if let Ok(table) = named(name, program.mu_tables.iter().map(|table| &*table.name), "muTable") {
        let (keys, values) = mu_entry(program, table, rest)?;
        return state.add_mu(program, table, keys, values).map_err(told);
    }
    add_entry(machine, name, rest).map(drop)
}

/// Adds an entry to a table, and gives the table.
fn add_entry(machine: &mut Machine, name: &str, rest: &str) -> Result<u32, String> {
    let (program, state) = machine.state_mut();
    let table = named(name, program.tables.iter().map(|table| &*table.name), "table or muTable")?;
    // The action is the first word with a parenthesis.
    let open = rest.find('(').ok_or("an entry ends with ACTION(...)")?;
    let action_at = rest[..open].trim_end().rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (keys, priority) = keys_and_priority(program, table, &rest[..action_at])?;
    let call = action_call(program, table, &rest[action_at..])?;
    state.add(program, table, TableEntry { keys, priority, call }).map_err(told)?;
    Ok(table)
}

/// Removes the entry of a table, and gives the table.
fn remove(machine: &mut Machine, rest: &str) -> Result<u32, String> {
    let (name, rest) = rest.split_once(char::is_whitespace).ok_or("remove TABLE [PRIORITY] KEY:VALUE ...")?;
    let (program, state) = machine.state_mut();
    let table = named(name, program.tables.iter().map(|table| &*table.name), "table")?;
    let (keys, priority) = keys_and_priority(program, table, rest)?;
    let entry = TableEntry { keys, priority, call: ActionCall::default() };
    state.remove(program, table, &entry).map_err(told)?;
    Ok(table)
}

/// Does a line that changes a table, and gives the table.
pub fn change(machine: &mut Machine, line: &str) -> Result<u32, String> {
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let name = rest.split_whitespace().next().unwrap_or_default();
    let program = machine.program();
    if named(name, program.mu_tables.iter().map(|table| &*table.name), "muTable").is_ok() {
        return Err(format!(
            "`{name}` is a muTable, which packets write: no entry of it is given from outside"
        ));
    }
    match command {
        "add" => {
            let rest = rest.strip_prefix(name).unwrap_or_default().trim();
            add_entry(machine, name, rest)
        }
        "remove" => remove(machine, rest),
        "setdefault" => set_default(machine, rest),
        other => Err(format!("`{other}` changes no table; there are: add, remove, setdefault")),
    }
}

/// An entry as [`change`] adds it, without its table.
pub fn entry_text(program: &Program, table: u32, entry: &TableEntry) -> String {
    let declared = &program.tables[table as usize];
    let key = |(key, set): (&ir::TableKey, &KeySet)| match set {
        KeySet::Range { low, high } => format!("{}:{:#x}..{:#x} ", key.name, low.value, high.value),
        KeySet::Masked { value, mask } if mask.value == ones(mask.width) => {
            format!("{}:{:#x} ", key.name, value.value)
        }
        KeySet::Masked { value, mask } if key.kind == MatchKind::Lpm => {
            format!("{}:{:#x}/{} ", key.name, value.value, mask.value.count_ones())
        }
        KeySet::Masked { value, mask } => format!("{}:{:#x}&&&{:#x} ", key.name, value.value, mask.value),
    };
    let keys: String = declared.keys.iter().zip(&entry.keys).map(key).collect();
    let priority =
        if has_priorities(&declared.keys) { format!("{} ", entry.priority) } else { String::new() };
    format!("{priority}{keys}{}", call_text(program, &entry.call))
}

/// An action with its arguments as [`change`] takes it.
pub fn call_text(program: &Program, call: &ActionCall) -> String {
    let action = &program.actions[call.action as usize];
    let arguments: Vec<String> = action
        .parameters
        .iter()
        .zip(&call.arguments)
        .map(|(field, value)| {
            let name = &program.fields[*field as usize].name;
            format!("{}:{:#x}", name.rsplit('.').next().unwrap_or(name), value.value)
        })
        .collect();
    format!("{}({})", action.name, arguments.join(", "))
}

type KeysAndPriority = (Vec<KeySet>, u32);

/// `[PRIORITY] KEY:VALUE ...`
fn keys_and_priority(program: &Program, table: u32, text: &str) -> Result<KeysAndPriority, String> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let mut priority = 0;
    if let Some(Ok(number)) = words.first().filter(|word| !word.contains(':')).map(|word| word.parse()) {
        priority = number;
        words.remove(0);
    }
    Ok((table_keys(program, table, &words)?, priority))
}

/// Keys in any order; those that are matched by a mask, a prefix or a range and are left out are any.
fn table_keys(program: &Program, table: u32, words: &[&str]) -> Result<Vec<KeySet>, String> {
    let declared = &program.tables[table as usize];
    let mut sets: Vec<Option<KeySet>> = vec![None; declared.keys.len()];
    for word in words {
        let (name, text) = word.split_once(':').ok_or_else(|| format!("`{word}` is no KEY:VALUE"))?;
        let at = named(name, declared.keys.iter().map(|key| &*key.name), "key")? as usize;
        let key = &declared.keys[at];
        if sets[at].replace(key_set(text, program.width(key.value), key.kind)?).is_some() {
            return Err(format!("the key `{name}` is given twice"));
        }
    }
    let all = declared.keys.iter().zip(sets).map(|(key, set)| {
        let width = program.width(key.value);
        let zero = Constant::new(0, width);
        match (set, key.kind) {
            (Some(set), _) => Ok(set),
            (None, MatchKind::Exact) => Err(format!("the key `{}` is not given", key.name)),
            (None, MatchKind::Range) => {
                Ok(KeySet::Range { low: zero, high: Constant::new(ones(width), width) })
            }
            (None, _) => Ok(KeySet::Masked { value: zero, mask: zero }),
        }
    });
    all.collect()
}

/// `ACTION(NAME:VALUE, ...)`, or values alone in the order of the parameters.
fn action_call(program: &Program, table: u32, text: &str) -> Result<ActionCall, String> {
    let (name, arguments) = match text.trim().split_once('(') {
        Some((name, rest)) => (name.trim(), rest.trim().strip_suffix(')').ok_or("an action ends with `)`")?),
        None => (text.trim(), ""),
    };
    let declared = &program.tables[table as usize];
    // Within the table an action needs no number that tells it from that of another one.
    let actions = declared.actions.iter().map(|action| &program.actions[*action as usize]);
    let at = match name.contains('#') {
        true => named(name, actions.map(|action| &*action.name), "action of this table")?,
        false => named(name, actions.map(ir::Action::plain_name), "action of this table")?,
    };
    let action = declared.actions[at as usize];
    let parameters = &program.actions[action as usize].parameters;
    let given: Vec<&str> = arguments.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if given.len() != parameters.len() {
        return Err(format!("`{name}` takes {} arguments, not {}", parameters.len(), given.len()));
    }
    let mut values: Vec<Option<Constant>> = vec![None; parameters.len()];
    for (position, word) in given.iter().enumerate() {
        let fields = parameters.iter().map(|id| &*program.fields[*id as usize].name);
        // A MAC address has colons, too.
        let named_one = word
            .split_once(':')
            .and_then(|(name, text)| Some((named(name, fields, "parameter").ok()?, text)));
        let (at, text) = named_one.map_or((position, *word), |(at, text)| (at as usize, text));
        let width = program.fields[parameters[at] as usize].width;
        values[at] = Some(Constant::new(value(text.trim(), width)?, width));
    }
    let arguments = values.into_iter().collect::<Option<Vec<_>>>();
    Ok(ActionCall { action, arguments: arguments.ok_or("an argument is given twice")? })
}

/// Sets what a table does where nothing matches, and gives the table.
fn set_default(machine: &mut Machine, rest: &str) -> Result<u32, String> {
    let (name, rest) = rest.split_once(char::is_whitespace).ok_or("setdefault TABLE ACTION(...)")?;
    let (program, state) = machine.state_mut();
    let table = named(name, program.tables.iter().map(|table| &*table.name), "table")?;
    let call = action_call(program, table, rest)?;
    state.set_default(program, table, call).map_err(told)?;
    Ok(table)
}

type MuEntry = (Vec<(u128, u128)>, Vec<u128>);

/// `KEY:VALUE ... = VALUE ...`; keys may be given without their names, in order.
fn mu_entry(program: &Program, table: u32, text: &str) -> Result<MuEntry, String> {
    let declared = &program.mu_tables[table as usize];
    let (keys, values) = text.split_once('=').ok_or("an entry of a muTable is KEYS = VALUES")?;
    let keys: Vec<&str> = keys.split_whitespace().collect();
    let values: Vec<&str> = values.split_whitespace().collect();
    if (keys.len(), values.len()) != (declared.keys.len(), declared.values.len()) {
        let (wanted_keys, wanted_values) = (declared.keys.len(), declared.values.len());
        return Err(format!("`{}` has {wanted_keys} keys and {wanted_values} values", declared.name));
    }
    let mut sets: Vec<Option<(u128, u128)>> = vec![None; keys.len()];
    for (position, word) in keys.iter().enumerate() {
        let names = declared.keys.iter().map(|key| &*key.name);
        let named_one =
            word.split_once(':').and_then(|(name, text)| Some((named(name, names, "key").ok()?, text)));
        let (at, text) = named_one.map_or((position, *word), |(at, text)| (at as usize, text));
        sets[at] = Some(masked(text, declared.keys[at].width)?);
    }
    let sets = sets.into_iter().collect::<Option<Vec<_>>>().ok_or("a key is given twice")?;
    let values = values.iter().zip(&declared.values).map(|(text, column)| {
        let text = text.strip_prefix(&format!("{}:", column.name)).unwrap_or(text);
        value(text, column.width)
    });
    Ok((sets, values.collect::<Result<_, _>>()?))
}

/// What was found instead, if it is not as stated.
pub fn check(machine: &Machine, rest: &str) -> Result<Option<String>, String> {
    let (name, rest) = rest.split_once(char::is_whitespace).ok_or("check NAME INDEX = VALUE")?;
    let (program, state) = (machine.program(), machine.state());
    if let Ok(table) = named(name, program.mu_tables.iter().map(|table| &*table.name), "muTable") {
        let (keys, values) = mu_entry(program, table, rest)?;
        let keys: Vec<u128> = keys.into_iter().map(|(key, _)| key).collect();
        let found = state.read_mu(program, table, &keys).unwrap_or_else(|| vec![0; values.len()]);
        return Ok((found != values).then(|| format!("{name}: expected {values:?}, found {found:?}")));
    }
    let (index, wanted) = rest.split_once('=').ok_or("check NAME INDEX = VALUE")?;
    let index = value(index.trim(), 32)? as u32;
    let found = if let Ok(register) =
        named(name, program.registers.iter().map(|register| &*register.name), "register")
    {
        state.register(register, index)
    } else {
        let counter = named(
            name,
            program.counters.iter().map(|counter| &*counter.name),
            "muTable, register or counter",
        )?;
        state.counter(counter, index).0.into()
    };
    let wanted = value(wanted.trim(), 128)?;
    Ok((found != wanted).then(|| format!("{name}[{index}]: expected {wanted:#x}, found {found:#x}")))
}
