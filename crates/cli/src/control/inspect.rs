//! What the page of a run asks, answered by what is controlled.

use std::io::{Write, stderr};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dashboard::{Flow, Inspect, Matched, Portion, Seen, TraceFilter};
use engine::report::TraceReport;
use engine::{ListError, ListedFlow};
use io::filter::Filter;
use nf::StateValue;

use super::subject::{Subject, now_ns};

/// How long a trace waits for a packet before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

impl Inspect for Subject {
    fn flows(&self, see: &mut dyn FnMut(Portion) -> bool) -> Result<(), String> {
        let (chain, _) = self.progress.reloads.current().ok_or("the run is over, or has not begun")?;
        let mut worked = Duration::ZERO;
        for spec in &chain.functions {
            let mut flows = match self.progress.listing.flows(Some(&spec.name), now_ns) {
                Ok(flows) => flows,
                Err(ListError::NoFlows { .. }) => continue,
                Err(error) => return Err(error.to_string()),
            };
            while let Some(portion) = flows.next_portion() {
                let is_empty = portion.is_empty();
                let counted: Vec<Flow> = portion.into_iter().filter_map(counted).collect();
                // A function that counts no packets of one flow counts none of any.
                let counts = is_empty || !counted.is_empty();
                if !see(Portion { flows: counted, worked: worked + flows.worked() }) {
                    return Ok(());
                }
                if !counts {
                    break;
                }
            }
            if flows.has_changed() {
                return Err(
                    "another chain or strategy took over meanwhile, so flows may be missing".to_owned()
                );
            }
            worked += flows.worked();
        }
        Ok(())
    }

    fn trace(
        &self,
        filter: &TraceFilter,
        most: u64,
        see: &mut dyn FnMut(Seen) -> bool,
    ) -> Result<Matched, String> {
        let words = words_of(filter)?;
        let filter = Filter::compile(&words).map_err(|error| error.to_string())?;
        let traces = Subject::trace(self, filter, most)?;
        let is_over = || self.progress.stop.load(Ordering::Relaxed);
        if see(Seen::Began(words)) {
            let next = || {
                traces
                    .next(LOOK)
                    .map_or(Seen::Nothing, |traced| Seen::Packet(TraceReport::new(&traced).text()))
            };
            while see(next()) && !is_over() {}
        }
        Ok(Matched { matched: traces.matched(), missed: traces.missed() })
    }

    fn reload(&self, text: Option<&str>) -> Result<String, String> {
        let told = match text {
            Some(text) => Subject::reload(self, "the page's text", text),
            None => self.reload_own_file(),
        };
        // Where standard error is closed nobody reads this.
        let _ = match &told {
            Ok(report) => write!(stderr(), "reloaded by the page: {}", report.text()),
            Err(_) => writeln!(stderr(), "a reload by the page was refused"),
        };
        told.map(|report| report.text().trim_end().to_owned())
    }
}

/// A flow with what its function counts, if it counts packets.
fn counted(flow: ListedFlow) -> Option<Flow> {
    let value = |wanted: &str| {
        flow.state.flow.state.iter().find_map(|(name, value)| match value {
            StateValue::Number(number) if *name == wanted => Some(*number),
            _ => None,
        })
    };
    let (packets, bytes) = (value("packets")?, value("bytes"));
    Some(Flow { function: flow.function, key: flow.state.key, core: flow.core, packets, bytes })
}

/// A filter as tcpdump takes it. There are no names in it, which libpcap would look up.
fn words_of(TraceFilter { host, port, protocol }: &TraceFilter) -> Result<String, String> {
    let host = host.as_deref().map(|host| {
        let (address, len) = host.split_once('/').map_or((host, None), |(address, len)| (address, Some(len)));
        let address = address.parse::<IpAddr>().ok();
        let most = if address.is_some_and(|address| address.is_ipv4()) { 32 } else { 128 };
        match (address, len.map(str::parse::<u8>)) {
            (Some(address), None) => Ok(format!("host {address}")),
            (Some(address), Some(Ok(len))) if len <= most => Ok(format!("net {address}/{len}")),
            _ => Err(format!("`{host}` is no address and no prefix, such as 192.0.2.1 or 2001:db8::/32")),
        }
    });
    let protocol = protocol.as_deref().map(|protocol| match protocol {
        "tcp" | "udp" | "icmp" | "sctp" => Ok(protocol.to_owned()),
        "icmpv6" => Ok("icmp6".to_owned()),
        _ => Err(format!("`{protocol}` is none of tcp, udp, icmp, icmpv6, sctp")),
    });
    let port = port.map(|port| Ok(format!("port {port}")));
    let parts = [protocol, host, port].into_iter().flatten().collect::<Result<Vec<String>, String>>()?;
    Ok(parts.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(host: &str, port: Option<u16>, protocol: &str) -> Result<String, String> {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        words_of(&TraceFilter { host: given(host), port, protocol: given(protocol) })
    }

    #[test]
    fn a_filter_of_the_page_has_numbers_and_no_names() {
        for (host, port, protocol, expected) in [
            ("", None, "", ""),
            ("192.0.2.1", None, "", "host 192.0.2.1"),
            ("192.0.2.0/24", Some(53), "udp", "udp and net 192.0.2.0/24 and port 53"),
            ("2001:db8::/32", None, "icmpv6", "icmp6 and net 2001:db8::/32"),
            ("", Some(443), "tcp", "tcp and port 443"),
        ] {
            let found = words(host, port, protocol);
            assert_eq!(found.as_deref(), Ok(expected));
            Filter::compile(expected).expect("libpcap takes it");
        }
        for (host, protocol) in [
            ("gateway.example", ""),
            ("192.0.2.0/33", ""),
            ("192.0.2.1 or host gateway.example", ""),
            ("", "tcp or host gateway.example"),
            ("", "vlan"),
        ] {
            assert!(words(host, None, protocol).is_err(), "{host} {protocol}");
        }
    }
}
