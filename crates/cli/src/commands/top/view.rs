//! What `paceline top` shows: rates between two looks.

use std::collections::BTreeMap;

use super::reading::{CoreReading, FunctionReading, InterfaceReading, Reading};

/// What is shown: rates between two looks, or since the run began where there was one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    pub chain: String,
    pub strategy: String,
    /// Since the run began.
    pub seconds: f64,
    /// Whether rates are since the run began.
    pub is_since_begin: bool,
    /// Since the run began.
    pub packets: f64,
    pub packets_per_s: f64,
    pub mbit_per_s: f64,
    /// Dropped packets over packets.
    pub dropped: f64,
    pub cores: Vec<CoreView>,
    pub interfaces: Vec<InterfaceView>,
    pub functions: Vec<FunctionView>,
    /// Reasons that dropped something, those that drop most now first.
    pub drops: Vec<Named>,
    /// Events that occurred, those that occur most often now first.
    pub events: Vec<Named>,
    /// What the strategy says of itself.
    pub told: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoreView {
    pub core: usize,
    /// 0 to 1; not known of a program in the kernel.
    pub busy: Option<f64>,
    pub packets_per_s: f64,
    pub mbit_per_s: f64,
    pub queue: Option<f64>,
    pub drops_per_s: f64,
    /// Since the run began.
    pub moved_in: f64,
    /// Since the run began.
    pub moved_out: f64,
    pub held: f64,
}

/// All of it in a second, but for what was lost since the run began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InterfaceView {
    pub name: String,
    pub received: f64,
    pub received_mbit: f64,
    pub sent: f64,
    pub sent_mbit: f64,
    pub lost: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionView {
    pub name: String,
    pub flows: Option<f64>,
    /// Load of the table on the fullest core, 0 to 1.
    pub load: f64,
    pub packets_per_s: f64,
    pub drops_per_s: f64,
    /// Since the run began.
    pub rejected: f64,
    /// Since the run began.
    pub evicted: f64,
}

/// A counter with a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    pub name: String,
    pub per_s: f64,
    pub total: f64,
}

impl View {
    pub fn new(before: Option<&Reading>, now: &Reading) -> View {
        let begin = Reading::default();
        // Another run may listen there by now.
        let is_same = |before: &&Reading| before.seconds < now.seconds && before.packets() <= now.packets();
        let found = before.filter(is_same);
        let before = found.unwrap_or(&begin);
        let elapsed = now.seconds - before.seconds;
        let per_s = |count: f64| if elapsed > 0.0 { count / elapsed } else { 0.0 };
        let cores: Vec<_> = now
            .cores
            .iter()
            .map(|(core, now)| CoreView::new(*core, before.cores.get(core), now, per_s))
            .collect();
        let (packets, drops) = cores.iter().fold((0.0, 0.0), |(packets, drops), core| {
            (packets + core.packets_per_s, drops + core.drops_per_s)
        });
        let of = |function: &str| before.functions.iter().find(|(name, _)| name == function);
        let function = |(name, now): &(String, FunctionReading)| {
            FunctionView::new(name, of(name).map(|(_, before)| before), now, per_s)
        };
        View {
            chain: now.chain.clone(),
            strategy: now.strategy.clone(),
            seconds: now.seconds,
            is_since_begin: found.is_none(),
            packets: now.packets(),
            packets_per_s: packets,
            mbit_per_s: cores.iter().map(|core| core.mbit_per_s).sum(),
            dropped: if packets > 0.0 { drops / packets } else { 0.0 },
            interfaces: now
                .interfaces
                .iter()
                .map(|(name, now)| InterfaceView::new(name, before.interfaces.get(name), now, per_s))
                .collect(),
            functions: now.functions.iter().map(function).collect(),
            drops: named(&before.drops, &now.drops, per_s),
            events: named(&before.events, &now.events, per_s),
            told: now.told.lines(),
            cores,
        }
    }
}

impl CoreView {
    fn new(
        core: usize,
        before: Option<&CoreReading>,
        now: &CoreReading,
        per_s: impl Fn(f64) -> f64,
    ) -> CoreView {
        let begin = CoreReading::default();
        let before = before.unwrap_or(&begin);
        CoreView {
            core,
            // Counters are read a moment after the clock.
            busy: now
                .busy_seconds
                .map(|seconds| per_s(seconds - before.busy_seconds.unwrap_or(0.0)).clamp(0.0, 1.0)),
            packets_per_s: per_s(now.packets - before.packets),
            mbit_per_s: per_s(now.bytes - before.bytes) * 8e-6,
            queue: now.queue,
            drops_per_s: per_s(now.drops - before.drops),
            moved_in: now.moved_in,
            moved_out: now.moved_out,
            held: now.held,
        }
    }
}

impl InterfaceView {
    fn new(
        name: &str,
        before: Option<&InterfaceReading>,
        now: &InterfaceReading,
        per_s: impl Fn(f64) -> f64,
    ) -> InterfaceView {
        let begin = InterfaceReading::default();
        let before = before.unwrap_or(&begin);
        InterfaceView {
            name: name.to_owned(),
            received: per_s(now.received - before.received),
            received_mbit: per_s(now.received_bytes - before.received_bytes) * 8e-6,
            sent: per_s(now.sent - before.sent),
            sent_mbit: per_s(now.sent_bytes - before.sent_bytes) * 8e-6,
            lost: now.lost,
        }
    }
}

impl FunctionView {
    fn new(
        name: &str,
        before: Option<&FunctionReading>,
        now: &FunctionReading,
        per_s: impl Fn(f64) -> f64,
    ) -> FunctionView {
        let begin = FunctionReading::default();
        let before = before.unwrap_or(&begin);
        FunctionView {
            name: name.to_owned(),
            flows: now.flows,
            load: now.load,
            packets_per_s: per_s(now.packets - before.packets),
            drops_per_s: per_s(now.drops - before.drops),
            rejected: now.rejected,
            evicted: now.evicted,
        }
    }
}

/// Counters that counted something, the fastest first.
fn named(
    before: &BTreeMap<String, f64>,
    now: &BTreeMap<String, f64>,
    per_s: impl Fn(f64) -> f64,
) -> Vec<Named> {
    let view = |(name, total): (&String, &f64)| {
        let before = before.get(name).copied().unwrap_or(0.0);
        Named { name: name.clone(), per_s: per_s(total - before), total: *total }
    };
    let mut named: Vec<_> = now.iter().map(view).filter(|named| named.total > 0.0).collect();
    let order = |a: &Named, b: &Named| b.per_s.total_cmp(&a.per_s).then(b.total.total_cmp(&a.total));
    named.sort_by(|a, b| order(a, b).then_with(|| a.name.cmp(&b.name)));
    named
}
