//! Backends of a chain's functions, changed while the run goes on: a chain with the change takes over, behind one packet on all
//! cores, and functions go on with their flows.

use std::net::IpAddr;

use engine::report::ReloadReport;
use engine::{Chain, nearest};
use nf::Backend;
use toml::{Table, Value};

use super::chain_file::{all, table_of};
use super::subject::Subject;
use super::words::{BackendChange, BackendStatus};
use crate::output::plural;

impl Subject {
    /// Changes all backends of this name, or address, in all services or in one; says in words what came of it.
    pub fn change_backends(
        &self,
        name: &str,
        service: Option<&str>,
        change: BackendChange,
    ) -> Result<(String, Option<ReloadReport>), String> {
        let changing = self.changes.begin();
        let mut found = Vec::new();
        let report = self.change_chain(|chain, table| {
            found = find(chain, name, service)?;
            Ok(found.iter().filter(|(function, backend)| write(table, *function, backend, change)).count()
                > 0)
        })?;
        drop(changing);
        let many = plural(found.len() as u64, "backend");
        let is_one = found.len() == 1;
        let mut told = match change {
            BackendChange::Up if is_one => format!("{many} is active"),
            BackendChange::Up => format!("{many} are active"),
            BackendChange::Drain if is_one => format!("{many} drains: it keeps its flows"),
            BackendChange::Drain => format!("{many} drain: they keep their flows"),
            BackendChange::Down if is_one => format!("{many} is down"),
            BackendChange::Down => format!("{many} are down"),
            BackendChange::Weight(weight) => format!("{many} of weight {weight}"),
        };
        let (failed, light) = (
            found.iter().filter(|(_, backend)| backend.is_failed).count(),
            found.iter().filter(|(_, backend)| backend.weight == 0).count(),
        );
        if failed > 0 && matches!(change, BackendChange::Up | BackendChange::Weight(1..)) {
            told += &format!("; {failed} failed their checks, and take flows when these are good");
        }
        if light > 0 && change == BackendChange::Up {
            told += &format!("; the weight of {light} is 0: give one with `ctl backend weight`");
        }
        match &report {
            None => told += ", as before",
            Some(report) => told += &format!("; packets waited {:.1} ms", report.pause_seconds * 1e3),
        }
        Ok((told, report))
    }

    /// All backends of the chain, or those of a name, and how they are.
    pub fn backends(&self, name: Option<&str>) -> Result<Vec<BackendStatus>, String> {
        let (chain, _) = self.progress.reloads.current().ok_or("the run is over, or has not begun")?;
        let found = match name {
            Some(name) => find(&chain, name, None)?,
            None => all(&chain).collect(),
        };
        if found.is_empty() {
            return Err(NO_BACKENDS.to_owned());
        }
        let status = |(function, backend): (usize, Backend)| BackendStatus {
            function: chain.functions[function].name.clone(),
            service: backend.service,
            backend: backend.name,
            state: backend.state.to_owned(),
            weight: backend.weight,
            health: backend
                .check
                .is_some()
                .then(|| if backend.is_failed { "failed" } else { "good" }.to_owned()),
            why: backend.check.and_then(|check| self.health.why_bad(&check)),
        };
        Ok(found.into_iter().map(status).collect())
    }
}

const NO_BACKENDS: &str = "no function of the chain has backends: `load-balancer` does";

/// Those of a name as the list has it, or of an address, whatever their ports.
fn find(chain: &Chain, name: &str, service: Option<&str>) -> Result<Vec<(usize, Backend)>, String> {
    let there: Vec<_> = all(chain).collect();
    if there.is_empty() {
        return Err(NO_BACKENDS.to_owned());
    }
    let services = || there.iter().map(|(_, backend)| backend.service.as_str());
    let meant =
        |near: Option<&str>| near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
    if let Some(service) = service.filter(|service| services().all(|own| own != *service)) {
        let near = meant(nearest(service, services()));
        return Err(format!("the chain has no service \"{service}\"{near}"));
    }
    let address = name.parse::<IpAddr>().ok();
    let is_it = |backend: &Backend| backend.name == name || address.is_some() && backend.address == address;
    let is_its = |backend: &Backend| service.is_none_or(|service| backend.service == service);
    let found: Vec<_> = there.iter().filter(|(_, own)| is_it(own) && is_its(own)).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let near = meant(nearest(name, there.iter().map(|(_, backend)| backend.name.as_str())));
    let of = service.map_or("the chain", |service| service);
    Err(format!("{of} has no backend \"{name}\"{near}"))
}

/// Writes a change into a chain file; says whether it is one.
fn write(table: &mut Table, function: usize, backend: &Backend, change: BackendChange) -> bool {
    let Some(own) = table_of(table, function, backend) else { return false };
    let (key, value, is_so) = match change {
        BackendChange::Up => ("state", "active".into(), backend.state == "active"),
        BackendChange::Drain => ("state", "drain".into(), backend.state == "drain"),
        BackendChange::Down => ("state", "down".into(), backend.state == "down"),
        BackendChange::Weight(weight) => ("weight", Value::Integer(weight.into()), backend.weight == weight),
    };
    if !is_so {
        own.insert(key.to_owned(), value);
    }
    !is_so
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: &str = "[[function]]\nuse = \"flow-statistics\"\n[[function]]\nuse = \"load-balancer\"\n\
        services = [\n\
        { vip = \"192.0.2.1\", port = 80, backends = [{ address = \"10.9.0.1\", port = 8080 }, { address = \"10.9.0.2\" }] },\n\
        { vip = \"192.0.2.1\", port = 53, protocol = \"udp\", backends = [{ address = \"10.9.0.1\" },\n\
        { mac = \"02:00:00:00:00:0a\", state = \"down\" }] }]\n";

    fn chain(text: &str) -> Chain {
        Chain::parse("test.toml", text, &stock::registry()).expect("a chain")
    }

    /// Service and name of those that are found, or why there are none.
    fn found(name: &str, service: Option<&str>) -> Result<Vec<String>, String> {
        let found = find(&chain(CHAIN), name, service)?;
        Ok(found
            .into_iter()
            .map(|(at, backend)| format!("{at} {} {}", backend.service, backend.name))
            .collect())
    }

    #[test]
    fn backends_are_found_by_name_and_by_address() {
        let (tcp, udp) = ("1 tcp 192.0.2.1:80", "1 udp 192.0.2.1:53");
        for (name, service, expected) in [
            ("10.9.0.1", None, vec![format!("{tcp} 10.9.0.1:8080"), format!("{udp} 10.9.0.1:53")]),
            ("10.9.0.1:8080", None, vec![format!("{tcp} 10.9.0.1:8080")]),
            ("10.9.0.1", Some("udp 192.0.2.1:53"), vec![format!("{udp} 10.9.0.1:53")]),
            ("02:00:00:00:00:0a", None, vec![format!("{udp} 02:00:00:00:00:0a")]),
        ] {
            assert_eq!(found(name, service), Ok(expected), "{name}");
        }
        // An address that a backend by MAC alone does not have is not every address.
        assert!(found("10.9.0.3", None).is_err_and(|why| why.contains("no backend \"10.9.0.3\"")));
        let elsewhere = found("10.9.0.2:80", Some("udp 192.0.2.1:53"));
        assert!(elsewhere.is_err_and(|why| why.starts_with("udp 192.0.2.1:53 has no backend")));
        let none = find(&chain("[[function]]\nuse = \"flow-statistics\"\n"), "10.9.0.1", None);
        assert_eq!(none.unwrap_err(), NO_BACKENDS);
    }

    /// The chain that is read again has the change, and nothing else of it is another.
    #[test]
    fn changes_are_written_where_the_backend_stands() {
        let before = chain(CHAIN);
        let all_before: Vec<_> = all(&before).collect();
        for (at, change) in [
            (0, BackendChange::Drain),
            (1, BackendChange::Weight(7)),
            (2, BackendChange::Down),
            (3, BackendChange::Up),
        ] {
            let mut table: Table = CHAIN.parse().expect("TOML");
            let (function, backend) = &all_before[at];
            assert!(write(&mut table, *function, backend, change));
            let after: Vec<_> = all(&chain(&toml::to_string(&table).expect("TOML"))).collect();
            let mut expected = all_before.clone();
            match change {
                BackendChange::Weight(weight) => expected[at].1.weight = weight,
                BackendChange::Drain => expected[at].1.state = "drain",
                BackendChange::Down => expected[at].1.state = "down",
                BackendChange::Up => expected[at].1.state = "active",
            }
            assert_eq!(after, expected, "{change:?}");
        }
        let mut table: Table = CHAIN.parse().expect("TOML");
        assert!(!write(&mut table, 1, &all_before[0].1, BackendChange::Up), "it is so already");
        assert!(!write(&mut table, 1, &all_before[0].1, BackendChange::Weight(1)), "it is so already");
    }
}
