//! Sets of addresses of a chain's functions, changed while the run goes on: a chain with the changed set takes over, behind
//! one packet on all cores, and functions go on with their flows.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use engine::nearest;
use engine::report::ReloadReport;
use nf::prefix::parse_prefix;
use toml::{Table, Value};

use super::chain_file::functions;
use super::expiries::{Expiry, Prefix};
use super::subject::Subject;
use super::words::{MEMBERS_MAX, Member, SetStatus};
use crate::output::plural_of;

/// How long it takes to try again where a prefix could not be taken out of its set.
const AGAIN: Duration = Duration::from_secs(10);

impl Subject {
    /// Puts prefixes into a set, for some time or for good, and takes others out of it; says in words what came of it.
    pub fn change_set(
        &self,
        name: &str,
        add: &[String],
        remove: &[String],
        lasts: Option<Duration>,
    ) -> Result<(String, Option<ReloadReport>), String> {
        let prefixes =
            |list: &[String]| list.iter().map(|text| prefix_of(text)).collect::<Result<Vec<Prefix>, _>>();
        let (added, removed) = (prefixes(add)?, prefixes(remove)?);
        let mut changing = self.changes.begin();
        let now = Instant::now();
        // A prefix that is there for good stays for good.
        let (report, new) = self.replace_set(name, &added, &removed)?;
        for prefix in added.iter().chain(&removed) {
            let was_to_go = changing.0.iter().any(|expiry| expiry.set == name && expiry.prefix == *prefix);
            let is_there_for_good = !new.contains(prefix) && !was_to_go;
            changing.forget(name, *prefix);
            if let Some(lasts) = lasts.filter(|_| added.contains(prefix) && !is_there_for_good) {
                changing.0.push(Expiry { at: now + lasts, set: name.to_owned(), prefix: *prefix });
            }
        }
        drop(changing);
        self.changes.wake(false);
        let mut told = match (add.len(), remove.len()) {
            (0, gone) => format!("{} left {name}", plural_of(gone as u64, "prefix", "prefixes")),
            (_, _) if new.is_empty() => format!("all of it was in {name}"),
            (_, _) => format!("{} came into {name}", plural_of(new.len() as u64, "prefix", "prefixes")),
        };
        if let Some(lasts) = lasts {
            told += &format!(", for {} s", lasts.as_secs());
        }
        if let Some(report) = &report {
            told += &format!("; packets waited {:.1} ms", report.pause_seconds * 1e3);
        }
        Ok((told, report))
    }

    /// Has a chain take over that has a changed set; says which prefixes are new in it. It is done in each function that has a set
    /// of that name. `None` if nothing changes.
    fn replace_set(
        &self,
        name: &str,
        add: &[Prefix],
        remove: &[Prefix],
    ) -> Result<(Option<ReloadReport>, Vec<Prefix>), String> {
        let mut new = add.to_vec();
        let report = self.change_chain(|_, table| replace_in(table, name, (add, remove), &mut new))?;
        Ok((report, new))
    }

    /// What is in the sets of the chain, or in those of a name.
    pub fn sets(&self, name: Option<&str>, most: usize) -> Result<Vec<SetStatus>, String> {
        if most > MEMBERS_MAX {
            return Err(format!("`most` is {most}, and may be 0 to {MEMBERS_MAX}"));
        }
        let changing = self.changes.begin();
        let (chain, _) = self.progress.reloads.current().ok_or("the run is over, or has not begun")?;
        let mut table: Table = chain.text.parse().map_err(|error| format!("{error}"))?;
        let now = Instant::now();
        let (mut found, mut names) = (Vec::new(), Vec::new());
        for (function, spec) in functions(&mut table).zip(&chain.functions) {
            let Some(sets) = function.get("sets").and_then(Value::as_table) else { continue };
            names.extend(sets.keys().cloned());
            for (own, members) in sets.iter().filter(|(own, _)| name.is_none_or(|name| name == *own)) {
                let members = members.as_array().map(Vec::as_slice).unwrap_or_default();
                let texts = members.iter().filter_map(Value::as_str);
                let member = |text: &str| {
                    let prefix = prefix_of(text).ok();
                    let expiry =
                        changing.0.iter().find(|expiry| expiry.set == *own && Some(expiry.prefix) == prefix);
                    let seconds = expiry
                        .map(|expiry| expiry.at.saturating_duration_since(now).as_secs_f64().ceil() as u64);
                    Member { prefix: text.to_owned(), seconds }
                };
                found.push(SetStatus {
                    name: own.clone(),
                    function: spec.name.clone(),
                    prefixes: members.len(),
                    members: texts.take(most).map(member).collect(),
                });
            }
        }
        match name.filter(|_| found.is_empty()) {
            Some(name) => Err(no_set(name, &names)),
            None => Ok(found),
        }
    }
}

/// Puts prefixes into a set of a chain file, and takes others out of it, in each function that has a set of that name; says whether
/// that changes it. What was there goes from `new`.
fn replace_in(
    table: &mut Table,
    name: &str,
    (add, remove): (&[Prefix], &[Prefix]),
    new: &mut Vec<Prefix>,
) -> Result<bool, String> {
    let (mut is_there, mut is_changed) = (false, false);
    let mut names = Vec::new();
    for sets in functions(table).filter_map(|function| function.get_mut("sets")?.as_table_mut()) {
        names.extend(sets.keys().cloned());
        let Some(members) = sets.get_mut(name).and_then(Value::as_array_mut) else { continue };
        is_there = true;
        let own = |member: &Value| member.as_str().and_then(|text| prefix_of(text).ok());
        let is_asked = |own: &Prefix| add.contains(own) || remove.contains(own);
        let found: Vec<Prefix> = members.iter().filter_map(own).filter(is_asked).collect();
        if let Some((ip, length)) = remove.iter().find(|prefix| !found.contains(prefix)) {
            return Err(format!("{ip}/{length} is no prefix that {name} lists"));
        }
        new.retain(|prefix| !found.contains(prefix));
        if !remove.is_empty() {
            members.retain(|member| own(member).is_none_or(|own| !remove.contains(&own)));
            is_changed = true;
        }
        for (ip, length) in add.iter().filter(|prefix| !found.contains(prefix)) {
            is_changed = true;
            members.push(Value::String(written(*ip, *length)));
        }
    }
    if !is_there {
        return Err(no_set(name, &names));
    }
    Ok(is_changed)
}

fn no_set(name: &str, names: &[String]) -> String {
    match names {
        [] => format!("the chain has no set \"{name}\", and no other: write `sets` in its file"),
        names => {
            let near = nearest(name, names.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("did you mean \"{near}\"? "));
            format!("the chain has no set \"{name}\"; {near}it has {}", names.join(", "))
        }
    }
}

fn prefix_of(text: &str) -> Result<Prefix, String> {
    parse_prefix(text).map_err(|wrong| format!("the list {wrong}"))
}

fn written(ip: IpAddr, length: u32) -> String {
    let bits = if ip.is_ipv4() { 32 } else { 128 };
    if length == bits { ip.to_string() } else { format!("{ip}/{length}") }
}

/// The thread that takes prefixes out of sets when their time is over.
pub struct Expiring(Weak<Subject>);

impl Expiring {
    pub fn start(subject: &Arc<Subject>) -> Expiring {
        let own = Arc::downgrade(subject);
        let subject = Arc::clone(subject);
        thread::spawn(move || {
            let mut is_over = subject.changes.is_over.lock().unwrap_or_else(PoisonError::into_inner);
            while !*is_over {
                let next = subject.changes.begin().0.iter().map(|expiry| expiry.at).min();
                let wait = next.map_or(AGAIN, |at| at.saturating_duration_since(Instant::now()).min(AGAIN));
                if wait.is_zero() {
                    drop(is_over);
                    let is_done = subject.expire();
                    is_over = subject.changes.is_over.lock().unwrap_or_else(PoisonError::into_inner);
                    if is_done {
                        continue;
                    }
                }
                let wait = if wait.is_zero() { AGAIN } else { wait };
                let waited = subject.changes.changed.wait_timeout(is_over, wait);
                is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        });
        Expiring(own)
    }

    /// Has it end.
    pub fn end(&self) {
        if let Some(subject) = self.0.upgrade() {
            subject.changes.wake(true);
        }
    }
}

impl Subject {
    /// Takes those prefixes out of their sets whose time is over; says whether that could be done.
    fn expire(&self) -> bool {
        let mut changing = self.changes.begin();
        let mut is_done = true;
        for (set, prefixes) in changing.due(Instant::now()) {
            match self.replace_set(&set, &[], &prefixes) {
                Ok(_) => prefixes.iter().for_each(|prefix| changing.forget(&set, *prefix)),
                Err(why) => {
                    use std::io::Write;
                    // Where standard error is closed nobody reads this.
                    let _ = writeln!(
                        std::io::stderr(),
                        "{} stay in {set} beyond their time: {why}",
                        plural_of(prefixes.len() as u64, "prefix", "prefixes")
                    );
                    is_done = false;
                }
            }
        }
        is_done
    }
}
