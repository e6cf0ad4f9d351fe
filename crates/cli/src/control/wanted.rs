//! Which flows are wanted, as a user writes it.

use engine::ListedFlow;
use nf::StateValue;
use nf::prefix::PrefixSet;
use serde::{Deserialize, Serialize};
use wire::protocol;

/// Which flows; all that is given has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFilter {
    /// Those of the function with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// An address of the key is this one, or in this prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A port of the key is this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The key has this protocol: a name, or a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// A value of the state is this: `established`, `tcp=established`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A filter that was understood.
pub struct Wanted {
    hosts: Option<PrefixSet>,
    port: Option<u16>,
    protocol: Option<u8>,
    state: Option<String>,
}

impl FlowFilter {
    /// Whether it lets all flows pass.
    pub fn is_empty(&self) -> bool {
        *self == FlowFilter::default()
    }

    /// The filter, or what is wrong with it.
    pub fn wanted(&self) -> Result<Wanted, String> {
        let prefixes = |host: &String| PrefixSet::parse("host", std::slice::from_ref(host));
        let hosts = self.host.as_ref().map(prefixes).transpose().map_err(|error| error.to_string())?;
        let protocol = self.protocol.as_deref().map(number_of).transpose()?;
        Ok(Wanted { hosts, port: self.port, protocol, state: self.state.clone() })
    }
}

fn number_of(name: &str) -> Result<u8, String> {
    protocol::by_name(name).or_else(|| name.parse().ok()).ok_or_else(|| {
        format!("`{name}` is no protocol: give tcp, udp, icmp, icmpv6, sctp, dccp, or a number to 255")
    })
}

impl Wanted {
    /// Whether a flow is one of those.
    pub fn has(&self, flow: &ListedFlow) -> bool {
        let Wanted { hosts, port, protocol, state } = self;
        let parts = &flow.state.parts;
        hosts.as_ref().is_none_or(|hosts| parts.addrs.iter().flatten().any(|addr| hosts.contains(*addr)))
            && port.is_none_or(|port| parts.ports.contains(&Some(port)))
            && protocol.is_none_or(|protocol| parts.protocol == Some(protocol))
            && state.as_ref().is_none_or(|state| has_state(&flow.state.flow.state, state))
    }
}

fn has_state(values: &[(&'static str, StateValue)], wanted: &str) -> bool {
    values.iter().any(|(name, value)| match value {
        StateValue::Text(text) => {
            text == wanted || wanted.split_once('=').is_some_and(|(of, value)| of == *name && value == text)
        }
        StateValue::Number(number) => {
            wanted.split_once('=').is_some_and(|(of, value)| of == *name && value.parse() == Ok(*number))
        }
        StateValue::TimeNs(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use engine::{ListedState, TracedFlow};
    use nf::{FiveTuple, FlowKey};
    use wire::Addr;

    use super::*;

    fn flow() -> ListedFlow {
        let (src, dst) = (Addr::v4([192, 0, 2, 1]), Addr::v4([198, 51, 100, 2]));
        let key = FiveTuple { src, dst, src_port: 4_000, dst_port: 80, protocol: 6, zero: [0; 3] };
        let state = vec![("tcp", StateValue::from("established")), ("answers", 3_u64.into())];
        let flow = TracedFlow { state, deadline_ns: 5 };
        let state = ListedState { key: key.to_string(), parts: key.parts(), key_bytes: Vec::new(), flow };
        ListedFlow { index: 0, function: "conntrack".to_owned(), core: None, state, now_ns: 1 }
    }

    fn has(filter: FlowFilter) -> bool {
        filter.wanted().expect("a filter").has(&flow())
    }

    #[test]
    fn all_that_is_given_has_to_hold() {
        let none = FlowFilter::default;
        let host = |host: &str| FlowFilter { host: Some(host.to_owned()), ..none() };
        let protocol = |protocol: &str| FlowFilter { protocol: Some(protocol.to_owned()), ..none() };
        let state = |state: &str| FlowFilter { state: Some(state.to_owned()), ..none() };
        assert!(has(none()) && none().is_empty() && !host("::1").is_empty());
        for (filter, holds) in [
            (host("192.0.2.1"), true),
            (host("198.51.100.0/24"), true),
            (host("192.0.2.2"), false),
            (host("2001:db8::/32"), false),
            (FlowFilter { port: Some(80), ..none() }, true),
            (FlowFilter { port: Some(4_000), ..none() }, true),
            (FlowFilter { port: Some(81), ..none() }, false),
            (protocol("tcp"), true),
            (protocol("6"), true),
            (protocol("udp"), false),
            (state("established"), true),
            (state("tcp=established"), true),
            (state("udp=established"), false),
            (state("answers=3"), true),
            (state("answers=4"), false),
            (state("closed"), false),
            (FlowFilter { port: Some(80), ..host("192.0.2.2") }, false),
        ] {
            assert_eq!(has(filter.clone()), holds, "{filter:?}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for (host, protocol, why) in
            [(Some("192.0.2.1/33"), None, "host"), (None, Some("tpc"), "`tpc` is no protocol")]
        {
            let (host, protocol) = (host.map(str::to_owned), protocol.map(str::to_owned));
            let told = FlowFilter { host, protocol, ..FlowFilter::default() }.wanted().map(drop);
            assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{told:?}");
        }
    }
}
