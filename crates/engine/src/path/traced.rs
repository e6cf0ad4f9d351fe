//! What a trace tells of a packet: from what functions said before each step and after it.

use std::sync::Arc;

use io::Fate;
use nf::About;
use wire::{Edits, Fields, Headers, Malformed, Stamp};

use crate::path::look::{Look, TracedFlow};

/// One packet's way through the chain.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Its number, and when it came.
    pub stamp: Stamp,
    /// The core that worked on it.
    pub core: usize,
    /// Its headers as received.
    pub headers: Headers,
    /// Its bytes on the wire.
    pub wire_len: u32,
    /// The functions that it met, in its order.
    pub steps: Vec<TracedStep>,
    /// What became of it.
    pub fate: Fate,
    /// What functions are called.
    pub names: Arc<TracedNames>,
}

/// One function on a packet's way.
#[derive(Clone, Debug)]
pub struct TracedStep {
    /// Its index in the chain.
    pub function: usize,
    /// The packet's key; `None` for a function without states.
    pub key: Option<String>,
    /// The state that the packet found.
    pub before: Option<TracedFlow>,
    /// The state that it left.
    pub after: Option<TracedFlow>,
    /// What the function said.
    pub verdict: TracedVerdict,
    /// The events that it counted, by index, each with how often.
    pub events: Vec<(usize, u64)>,
    /// The header fields that it changed.
    pub edits: Vec<TracedEdit>,
    /// Flows that made room for this one.
    pub evicted: u64,
    /// Whether there was no room for the packet's flow.
    pub is_table_full: bool,
}

/// What a function said of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedVerdict {
    /// It goes on.
    Forward,
    /// It is dropped, for a reason by index.
    Drop(usize),
    /// Back where it came from.
    TransmitBack,
    /// To the host's own stack.
    Host,
    /// It is not the function's business.
    NotItsBusiness,
}

/// A header field that a function changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedEdit {
    /// Its name.
    pub field: &'static str,
    /// What it was; empty for MAC addresses, which nobody has parsed.
    pub from: String,
    /// What it is.
    pub to: String,
}

/// What the functions of a chain are called, and what they count.
#[derive(Clone, Debug, Default)]
pub struct TracedNames {
    /// By index: name, what it says of itself, the fields that it may edit.
    pub functions: Vec<(String, About, Fields)>,
}

impl Traced {
    /// Why it is malformed, if it is.
    pub fn malformed(&self) -> Option<Malformed> {
        self.headers.malformed()
    }
}

/// What functions of one group did, in their order.
pub(crate) fn steps_of(
    looks: impl Iterator<Item = (usize, (Look, Look))>,
    mut edited: Vec<(Fields, TracedEdit)>,
    names: &TracedNames,
    steps: &mut Vec<TracedStep>,
) {
    let first = steps.len();
    for (function, (before, after)) in looks {
        let step = step_of(function, before, after);
        let is_over = !matches!(step.verdict, TracedVerdict::Forward | TracedVerdict::NotItsBusiness);
        steps.push(step);
        if is_over {
            break;
        }
    }
    // The last one that may have made an edit has made it: a later edit of a field replaces an earlier one.
    for step in steps[first..].iter_mut().rev() {
        let may_edit = names.functions.get(step.function).map_or(Fields::empty(), |(.., edits)| *edits);
        if step.verdict != TracedVerdict::NotItsBusiness {
            step.edits
                .extend(edited.extract_if(.., |(field, _)| may_edit.contains(*field)).map(|(_, edit)| edit));
        }
    }
}

fn step_of(function: usize, before: Look, after: Look) -> TracedStep {
    let more = |before: &[u64], after: &[u64]| -> Vec<(usize, u64)> {
        let counts = before.iter().zip(after).map(|(before, after)| after.saturating_sub(*before));
        counts.enumerate().filter(|(_, count)| *count > 0).collect()
    };
    let (old, new) = (&before.tally, &after.tally);
    let verdict = match more(&old.drops, &new.drops).first() {
        Some((reason, _)) => TracedVerdict::Drop(*reason),
        None if new.transmit_back > old.transmit_back => TracedVerdict::TransmitBack,
        None if new.host > old.host => TracedVerdict::Host,
        None if before.is_its_business => TracedVerdict::Forward,
        None => TracedVerdict::NotItsBusiness,
    };
    TracedStep {
        function,
        verdict,
        events: more(&old.events, &new.events),
        edits: Vec::new(),
        evicted: new.evicted.saturating_sub(old.evicted),
        is_table_full: new.rejected > old.rejected,
        key: before.key,
        before: before.flow,
        after: after.flow,
    }
}

/// What edits changed that `before` had not.
pub(crate) fn edits_between(received: &Headers, before: &Edits, after: &Edits) -> Vec<(Fields, TracedEdit)> {
    if before == after {
        return Vec::new();
    }
    let (mut old, mut new) = (*received, *received);
    before.apply_to_headers(&mut old);
    after.apply_to_headers(&mut new);
    let fields = |headers: &Headers| {
        [
            (Fields::SRC_ADDR, "src", headers.src.to_string()),
            (Fields::DST_ADDR, "dst", headers.dst.to_string()),
            (Fields::SRC_PORT, "src_port", headers.src_port.to_string()),
            (Fields::DST_PORT, "dst_port", headers.dst_port.to_string()),
            (Fields::TTL, "ttl", headers.ttl.to_string()),
            (Fields::TOS, "tos", headers.tos.to_string()),
            (Fields::VLAN, "vlan", headers.vlan.to_string()),
        ]
    };
    let differs =
        |((field, name, from), (.., to)): ((Fields, &'static str, String), (Fields, &str, String))| {
            (from != to).then_some((field, TracedEdit { field: name, from, to }))
        };
    let mut edits: Vec<_> = fields(&old).into_iter().zip(fields(&new)).filter_map(differs).collect();
    let macs = [
        (Fields::SRC_MAC, "src_mac", before.src_mac(), after.src_mac()),
        (Fields::DST_MAC, "dst_mac", before.dst_mac(), after.dst_mac()),
    ];
    for (field, name, from, to) in macs {
        if let Some(to) = to.filter(|_| from != to) {
            let text = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
            let from = from.map(text).unwrap_or_default();
            edits.push((field, TracedEdit { field: name, from, to: text(to) }));
        }
    }
    if let Some(mss) = after.mss().filter(|mss| before.mss() != Some(*mss)) {
        let to = format!("at most {mss}");
        edits.push((Fields::MSS, TracedEdit { field: "mss", from: String::new(), to }));
    }
    if let Some(tunnel) = after.tunnel().filter(|tunnel| before.tunnel() != Some(*tunnel)) {
        let to = tunnel.to_string();
        edits.push((Fields::TUNNEL, TracedEdit { field: "tunnel", from: String::new(), to }));
    }
    edits
}
