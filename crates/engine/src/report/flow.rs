//! A flow of a run that goes on, as lists show it.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::executor::listing::ListedFlow;
use crate::report::trace::{FieldValue, FlowState, StateField, duration, protocol_name};

/// One flow of one function. What the function does not count is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowReport {
    /// The function's name.
    pub function: String,
    /// The core that has the flow; absent where all cores have it, or each has a replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<usize>,
    /// The key, as `ctl trace` writes it: `tcp 192.0.2.1:4000 <-> 198.51.100.2:80`.
    pub key: String,
    /// IP protocol of the key, if it has one: `tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, `dccp`, or its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Packets that the function counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Bytes that the function counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Since the flow's first packet, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ns: Option<u64>,
    /// Until the flow expires if no packet comes, ns; absent if never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_ns: Option<u64>,
    /// What else its state holds, in the function's order.
    pub state: Vec<StateField>,
}

impl FlowReport {
    /// The flow as it was when it was listed.
    pub fn new(flow: &ListedFlow) -> FlowReport {
        let ListedFlow { function, core, state, now_ns, .. } = flow;
        let FlowState { expires_in_ns, mut values } = FlowState::of(&state.flow, *now_ns);
        let (packets, bytes) = (take(&mut values, "packets"), take(&mut values, "bytes"));
        let first = values.iter().position(|field| field.name == "first" && field.time_ns.is_some());
        let first_ns = first.and_then(|first| values.remove(first).time_ns);
        FlowReport {
            function: function.clone(),
            core: *core,
            key: state.key.clone(),
            protocol: state.parts.protocol.map(protocol_name),
            packets,
            bytes,
            age_ns: first_ns.map(|first_ns| now_ns.saturating_sub(first_ns)),
            left_ns: expires_in_ns,
            state: values,
        }
    }

    /// One line, for people.
    pub fn text(&self) -> String {
        let mut text = format!("{:<17} {:<53}", self.function, self.key);
        let mut add = |name: &str, value: String| _ = write!(text, " {name} {value}");
        if let Some(packets) = self.packets {
            add("packets", packets.to_string());
        }
        if let Some(bytes) = self.bytes {
            add("bytes", bytes.to_string());
        }
        if let Some(age_ns) = self.age_ns {
            add("age", duration(age_ns));
        }
        add("left", self.left_ns.map_or_else(|| "never".to_owned(), duration));
        if let Some(core) = self.core {
            add("core", core.to_string());
        }
        for StateField { name, value, .. } in &self.state {
            match value {
                Some(FieldValue::Text(value)) => add(name, value.clone()),
                // Numbers and times are many, and mean little to people.
                Some(FieldValue::Number(_)) | None => (),
            }
        }
        text.push('\n');
        text
    }
}

impl FlowReport {
    /// One line for a mapping of a NAT: `udp 10.0.0.10:5000 -> 203.0.113.1:31337`, and what is known of its sessions.
    pub fn mapping_text(&self) -> String {
        let value = |name: &str| {
            let field = self.state.iter().find(|field| field.name == name);
            field.and_then(|field| field.value.as_ref()).map(|value| match value {
                FieldValue::Number(number) => number.to_string(),
                FieldValue::Text(text) => text.clone(),
            })
        };
        let external = value("external").unwrap_or_default();
        let mut text = format!("{:<45} -> {external:<22}", self.key);
        for (name, title) in [("phase", "phase"), ("peer", "peer"), ("packets_out", "packets out")] {
            if let Some(value) = value(name) {
                _ = write!(text, " {title} {value}");
            }
        }
        let left = self.left_ns.map_or_else(|| "never".to_owned(), duration);
        _ = writeln!(text, " left {left}");
        text
    }
}

/// Takes a number out of a state.
fn take(values: &mut Vec<StateField>, name: &str) -> Option<u64> {
    let number = |field: &StateField| match field.value {
        Some(FieldValue::Number(number)) if field.name == name => Some(number),
        _ => None,
    };
    let (at, number) =
        values.iter().enumerate().find_map(|(at, field)| number(field).map(|number| (at, number)))?;
    values.remove(at);
    Some(number)
}
