//! A packet's way through the chain, for people and for programs.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use io::{EngineDrop, Fate};
use nf::StateValue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{Headers, protocol};

use crate::path::look::TracedFlow;
use crate::path::traced::{Traced, TracedStep, TracedVerdict};

/// One packet's way through the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceReport {
    /// The packet's number in the run, from 1.
    pub packet: u64,
    /// When it came, ns since 1970.
    pub time_ns: u64,
    /// The core that worked on it.
    pub core: usize,
    /// Source address, as received; absent of what is not IP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<String>,
    /// Destination address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<String>,
    /// Source port; absent of protocols without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_port: Option<u16>,
    /// Destination port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_port: Option<u16>,
    /// IP protocol: `tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, `dccp`, or its number; `none` of what is not IP.
    pub protocol: String,
    /// Bytes on the wire.
    pub bytes: u32,
    /// The functions that it met, in its order.
    pub functions: Vec<TracedFunction>,
    /// `forward`, `transmit-back`, `host` or `drop`.
    pub fate: String,
    /// Who dropped it and why: `policer/over-rate`, `malformed/ipv4-truncated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it is malformed, if it is: functions do not see it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
}

/// One function on a packet's way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedFunction {
    /// Its name.
    pub function: String,
    /// `forward`, `drop`, `transmit-back`, `host`, or `not-its-business`.
    pub verdict: String,
    /// Why it dropped the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The key under which it keeps the flow's state; absent of functions without states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The state that the packet found; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FlowState>,
    /// The state that it left; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FlowState>,
    /// Events that it counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Header fields that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<FieldEdit>,
    /// Other flows that made room for this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub evicted: u64,
    /// Whether its table had no room for the flow.
    #[serde(default, skip_serializing_if = "is_false")]
    pub table_full: bool,
}

/// A flow's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowState {
    /// When the flow expires if no packet comes, ns after this one; absent if never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ns: Option<u64>,
    /// What it holds, in the function's order.
    pub values: Vec<StateField>,
}

/// One value of a flow's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateField {
    /// What it is; a unit is at the end.
    pub name: String,
    /// The value, if it is no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<FieldValue>,
    /// The value, if it is a time: ns since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
}

/// A number, or text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FieldValue {
    /// A number.
    Number(u64),
    /// Text.
    Text(String),
}

/// A header field that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldEdit {
    /// Its name.
    pub field: String,
    /// What it was; empty for MAC addresses.
    pub from: String,
    /// What it is.
    pub to: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl TraceReport {
    /// The report of one packet that a core traced.
    pub fn new(traced: &Traced) -> TraceReport {
        let Traced { stamp, core, headers, wire_len, steps, fate, .. } = traced;
        let has_ports = has_ports(headers);
        let malformed = traced.malformed().map(|reason| reason.name().to_owned());
        let (fate, reason) = match fate {
            Fate::Forward => ("forward", None),
            Fate::TransmitBack => ("transmit-back", None),
            Fate::Host => ("host", None),
            Fate::Drop(EngineDrop::Malformed) => {
                ("drop", Some(format!("malformed/{}", malformed.as_deref().unwrap_or("unknown"))))
            }
            Fate::Drop(EngineDrop::NoRoom) => ("drop", Some("no-room".to_owned())),
            Fate::Drop(EngineDrop::NotTaken) => ("drop", Some("history-not-taken".to_owned())),
            Fate::Drop(EngineDrop::Overtaken) => ("drop", Some("overtaken".to_owned())),
            Fate::DropBy { function, reason } => {
                ("drop", Some(drop_reason(traced, usize::from(*function), usize::from(*reason))))
            }
        };
        TraceReport {
            packet: stamp.seq + 1,
            time_ns: stamp.time_ns,
            core: *core,
            src: headers.is_ip().then(|| headers.src.to_string()),
            dst: headers.is_ip().then(|| headers.dst.to_string()),
            src_port: has_ports.then_some(headers.src_port),
            dst_port: has_ports.then_some(headers.dst_port),
            protocol: protocol_of(headers),
            bytes: *wire_len,
            functions: steps.iter().map(|step| function(traced, step)).collect(),
            fate: fate.to_owned(),
            reason,
            malformed,
        }
    }

    /// For people: a block of lines, with an empty one behind it.
    pub fn text(&self) -> String {
        let mut text = format!("packet {} at {} s, core {}: ", self.packet, seconds(self.time_ns), self.core);
        let end = |addr: &Option<String>, port: Option<u16>| match (addr, port) {
            (None, _) => String::new(),
            (Some(addr), None) => addr.clone(),
            (Some(addr), Some(port)) => match addr.parse::<IpAddr>() {
                Ok(addr) => SocketAddr::new(addr, port).to_string(),
                Err(_) => format!("{addr}:{port}"),
            },
        };
        match &self.src {
            Some(_) => {
                let (src, dst) = (end(&self.src, self.src_port), end(&self.dst, self.dst_port));
                let _ = writeln!(text, "{} {src} > {dst}, {} bytes", self.protocol, self.bytes);
            }
            None => _ = writeln!(text, "not IP, {} bytes", self.bytes),
        }
        if let Some(malformed) = &self.malformed {
            let _ = writeln!(text, "  malformed: {malformed}; functions do not see it");
        }
        let width = self.functions.iter().map(|function| function.function.len()).max().unwrap_or(0);
        for function in &self.functions {
            function.write(width, self.time_ns, &mut text);
        }
        match &self.reason {
            Some(reason) => _ = writeln!(text, "  => {}: {reason}\n", self.fate),
            None => _ = writeln!(text, "  => {}\n", self.fate),
        }
        text
    }
}

impl TracedFunction {
    /// Its lines; `width` is that of the longest name.
    fn write(&self, width: usize, now_ns: u64, text: &mut String) {
        let TracedFunction { function, verdict, reason, key, events, edits, .. } = self;
        let _ = write!(text, "  {function:width$}  {}", verdict.replace('-', " "));
        if let Some(reason) = reason {
            let _ = write!(text, ": {reason}");
        }
        if !events.is_empty() {
            let _ = write!(text, "; counted {}", events.join(", "));
        }
        if self.table_full {
            text.push_str("; its table is full, so the flow is not kept");
        }
        if self.evicted > 0 {
            let _ = write!(text, "; {} evicted to make room", crate::text::plural(self.evicted, "flow"));
        }
        text.push('\n');
        if verdict == "not-its-business" {
            return;
        }
        let mut rows = Vec::new();
        if let Some(key) = key {
            rows.push(("key".to_owned(), key.clone()));
            self.states(now_ns, &mut rows);
        }
        for FieldEdit { field, from, to } in edits {
            let from = if from.is_empty() { String::new() } else { format!("{from} -> ") };
            rows.push(("edit".to_owned(), format!("{field} {from}{to}")));
        }
        let names = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let indent = width + 4;
        for (name, value) in rows {
            let _ = writeln!(text, "{:indent$}{name:names$}  {value}", "");
        }
    }

    /// What the packet found and left: changes one by one, and what stayed the same in one line.
    fn states(&self, now_ns: u64, rows: &mut Vec<(String, String)>) {
        let all = |flow: &FlowState| {
            let values = flow.values.iter().map(|field| format!("{} {}", field.name, field.text(now_ns)));
            values.chain([flow.expiry()]).collect::<Vec<_>>().join(", ")
        };
        match (&self.before, &self.after) {
            (None, None) => rows.push(("state".to_owned(), "none".to_owned())),
            (None, Some(after)) => rows.push(("new".to_owned(), all(after))),
            (Some(before), None) => rows.push(("removed".to_owned(), all(before))),
            (Some(before), Some(after)) => {
                let mut same = Vec::new();
                for field in &after.values {
                    let old = before.values.iter().find(|old| old.name == field.name);
                    let new = field.text(now_ns);
                    match old {
                        Some(old) if old == field => same.push(format!("{} {new}", field.name)),
                        Some(old) => {
                            rows.push((field.name.clone(), format!("{} -> {new}", old.text(now_ns))))
                        }
                        None => rows.push((field.name.clone(), format!("-> {new}"))),
                    }
                }
                for gone in &before.values {
                    if !after.values.iter().any(|field| field.name == gone.name) {
                        rows.push((gone.name.clone(), format!("{} ->", gone.text(now_ns))));
                    }
                }
                match before.expires_in() == after.expires_in() {
                    true => same.push(after.expiry()),
                    false => {
                        let expiry = format!("{} -> {}", before.expires_in(), after.expires_in());
                        rows.push(("expires in".to_owned(), expiry));
                    }
                }
                if !same.is_empty() {
                    rows.push(("unchanged".to_owned(), same.join(", ")));
                }
            }
        }
    }
}

impl FlowState {
    pub(super) fn of(flow: &TracedFlow, now_ns: u64) -> FlowState {
        let TracedFlow { state, deadline_ns } = flow;
        let field = |(name, value): &(&'static str, StateValue)| {
            let (value, time_ns) = match value {
                StateValue::Number(number) => (Some(FieldValue::Number(*number)), None),
                StateValue::Text(text) => (Some(FieldValue::Text(text.clone())), None),
                StateValue::TimeNs(time_ns) => (None, Some(*time_ns)),
            };
            StateField { name: (*name).to_owned(), value, time_ns }
        };
        FlowState {
            expires_in_ns: (*deadline_ns != u64::MAX).then(|| deadline_ns.saturating_sub(now_ns)),
            values: state.iter().map(field).collect(),
        }
    }

    fn expires_in(&self) -> String {
        self.expires_in_ns.map_or_else(|| "never".to_owned(), duration)
    }

    fn expiry(&self) -> String {
        match self.expires_in_ns {
            Some(ns) => format!("expires in {}", duration(ns)),
            None => "never expires".to_owned(),
        }
    }
}

impl StateField {
    /// For people; a time is told as how long before or after the packet it is.
    fn text(&self, now_ns: u64) -> String {
        match (&self.value, self.time_ns) {
            (Some(FieldValue::Number(number)), _) => number.to_string(),
            (Some(FieldValue::Text(text)), _) => text.clone(),
            (None, Some(time_ns)) if time_ns == now_ns => "now".to_owned(),
            (None, Some(time_ns)) if time_ns < now_ns => format!("{} ago", duration(now_ns - time_ns)),
            (None, Some(time_ns)) => format!("in {}", duration(time_ns - now_ns)),
            (None, None) => String::new(),
        }
    }
}

/// A duration to four digits, in the unit that fits.
pub(super) fn duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value >= 100.0 { 1 } else { 3 };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

fn function(traced: &Traced, step: &TracedStep) -> TracedFunction {
    let named = traced.names.functions.get(step.function);
    let (verdict, reason) = match step.verdict {
        TracedVerdict::Forward => ("forward", None),
        TracedVerdict::Drop(reason) => ("drop", Some(reason_name(traced, step.function, reason))),
        TracedVerdict::TransmitBack => ("transmit-back", None),
        TracedVerdict::Host => ("host", None),
        TracedVerdict::NotItsBusiness => ("not-its-business", None),
    };
    let event = |(event, count): &(usize, u64)| {
        let name = named.and_then(|(_, about, _)| about.events.get(*event)).copied().unwrap_or("unnamed");
        if *count == 1 { name.to_owned() } else { format!("{name} {count} times") }
    };
    let state =
        |flow: &Option<TracedFlow>| flow.as_ref().map(|flow| FlowState::of(flow, traced.stamp.time_ns));
    let edits = step.edits.iter().map(|edit| FieldEdit {
        field: edit.field.to_owned(),
        from: edit.from.clone(),
        to: edit.to.clone(),
    });
    TracedFunction {
        function: function_name(traced, step.function),
        verdict: verdict.to_owned(),
        reason,
        key: step.key.clone(),
        before: state(&step.before),
        after: state(&step.after),
        events: step.events.iter().map(event).collect(),
        edits: edits.collect(),
        evicted: step.evicted,
        table_full: step.is_table_full,
    }
}

fn function_name(traced: &Traced, function: usize) -> String {
    traced
        .names
        .functions
        .get(function)
        .map_or_else(|| format!("function {function}"), |(name, ..)| name.clone())
}

fn reason_name(traced: &Traced, function: usize, reason: usize) -> String {
    let about = traced.names.functions.get(function).map(|(_, about, _)| about);
    about.and_then(|about| about.drop_reasons.get(reason)).copied().unwrap_or("unnamed").to_owned()
}

fn drop_reason(traced: &Traced, function: usize, reason: usize) -> String {
    format!("{}/{}", function_name(traced, function), reason_name(traced, function, reason))
}

/// Whether a packet has ports that were read: its protocol has some, and it is no later fragment.
pub fn has_ports(headers: &Headers) -> bool {
    let protocols = [protocol::TCP, protocol::UDP, protocol::SCTP, protocol::DCCP];
    headers.has_transport() && protocols.contains(&headers.protocol)
}

fn protocol_of(headers: &Headers) -> String {
    if headers.is_ip() { protocol_name(headers.protocol) } else { "none".to_owned() }
}

/// The name of an IP protocol, or its number.
pub fn protocol_name(number: u8) -> String {
    protocol::name_of(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// Nanoseconds in seconds, to the last digit that is not 0.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
