//! The kernel: cycle by cycle, in the same way for every model.
//!
//! In each cycle what is between registers settles ([`Scheme::comb`], and the gates between segments), and then
//! all registers are clocked ([`Scheme::tick`], [`Segment::tick`]). It is one pass over the pipeline, against the
//! flow of packets: a register is read by what is behind it before it is clocked.

use std::fmt;
use std::time::Instant;

use thiserror::Error;

use crate::chip::Chip;
use crate::deal::{Dealt, deal};
use crate::options::{Options, Setup};
use crate::packets::{Handle, Packet};
use crate::port::{Arrival, Port};
use crate::program::Program;
use crate::registers::Registers;
use crate::report::{DropCause, Latency, Lost, Report};
use crate::segment::{Segment, segments};
use crate::snapshot::Snapshot;

/// What a model adds to the plain pipeline: what stands before and behind the span of a function, and what
/// happens beside the pipeline.
pub trait Scheme<P: Program> {
    /// Packets that it can hold outside the pipeline's registers.
    fn places(&self) -> usize;

    /// The beginning of a cycle: what was on its way beside the pipeline arrives.
    fn comb(&mut self, chip: &mut Chip<P>);

    /// Whether the gate before `function` can do with `packet` whatever has to be done. The packet may still be in
    /// the span of the function before.
    fn can_take(&self, function: usize, packet: Handle, chip: &Chip<P>) -> bool;

    /// Whether the gate behind `function` can.
    fn can_finish(&self, function: usize, packet: Handle, chip: &Chip<P>) -> bool;

    /// The gate before `function`, in a cycle in which its span advances: a packet arrives, or none, and one goes
    /// in, or none.
    fn read_gate(&mut self, function: usize, arriving: Handle, chip: &mut Chip<P>) -> Handle;

    /// The gate behind `function`, in a cycle in which its span advances: a packet comes out of the span, or
    /// none, and goes on, or does not.
    fn write_gate(&mut self, function: usize, leaving: Handle, chip: &mut Chip<P>) -> Handle;

    /// The end of a cycle: registers beside the pipeline are clocked.
    fn tick(&mut self);

    /// Whether nothing is on its way beside the pipeline, and no cycle would change anything.
    fn is_idle(&self) -> bool;

    /// The most that each buffer held.
    fn occupancy(&self, chip: &Chip<P>, say: &mut dyn FnMut(String, u64));

    /// Nodes of the ring.
    fn ring_nodes(&self) -> usize {
        0
    }

    /// What the ring and the buffers hold.
    fn snapshot(&self, chip: &Chip<P>, snapshot: &mut Snapshot);

    /// What they hold as numbers, in a model that hardware is held to.
    fn registers(&self, _chip: &Chip<P>, _registers: &mut Registers) {}
}

/// Who looks on. Nobody, if it is `()`.
pub trait Observer<Phv, State> {
    /// A packet leaves, in order.
    fn departed(&mut self, _packet: &Packet<Phv, State>, _cycle: u64) {}

    /// A packet is lost.
    fn dropped(&mut self, _lost: &Lost) {}

    /// Whether to show what the registers hold at the beginning of this cycle.
    fn wants(&self, _cycle: u64) -> bool {
        false
    }

    /// What the registers hold.
    fn snapshot(&mut self, _snapshot: &Snapshot) {}

    /// Whether to show what the registers hold as numbers, at the beginning of every cycle.
    fn wants_registers(&self) -> bool {
        false
    }

    /// What they hold.
    fn registers(&mut self, _registers: &Registers) {}
}

impl<Phv, State> Observer<Phv, State> for () {}

/// A model that makes no progress: a defect of the model.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "{model} is stuck in cycle {cycle} with {packets} packets inside: none has come or gone for {patience_cycles} cycles"
)]
pub struct Stuck {
    /// The model.
    pub model: &'static str,
    /// When it was noticed.
    pub cycle: u64,
    /// Packets inside.
    pub packets: usize,
    /// How long it was waited for.
    pub patience_cycles: u64,
}

/// With the pipelines empty for so long, nothing is on its way anywhere: a ring has at most 32 nodes.
const QUIET_CYCLES: u64 = 64;

/// The port of a pipeline: its packets, with their numbers.
type DealtPort<Phv, Arrivals> = Port<(u64, Phv), Dealt<Phv, Arrivals>>;

/// What packets go through.
struct Pipeline {
    segments: Vec<Segment>,
    /// The packet that has arrived and waits for the first stage.
    arrived: Handle,
}

/// Pipelines and their traffic.
pub(crate) struct Kernel<P: Program, S> {
    pub chip: Chip<P>,
    pub scheme: S,
    pipelines: Vec<Pipeline>,
    options: Options,
    model: &'static str,
    cycle: u64,
    simulated: u64,
    last_departure: u64,
    /// When a packet last came or went.
    last_progress: u64,
    /// Writebacks when the tables were last shown as numbers.
    shown_writebacks: Option<u64>,
}

impl<P: Program, S: Scheme<P>> Kernel<P, S> {
    pub fn new(mut chip: Chip<P>, scheme: S, setup: &Setup, options: &Options, model: &'static str) -> Self {
        let pipeline = |number| {
            let stages = number * setup.stages..(number + 1) * setup.stages;
            Pipeline { segments: segments(&chip, stages, setup.stage_cycles), arrived: Handle::NONE }
        };
        let pipelines: Vec<Pipeline> = (0..setup.pipelines).map(pipeline).collect();
        let registers: usize = held_by(&pipelines).map(Segment::cycles).sum();
        chip.pool = crate::packets::Pool::new(registers + scheme.places() + setup.pipelines);
        Kernel {
            chip,
            scheme,
            pipelines,
            options: options.clone(),
            model,
            cycle: 0,
            simulated: 0,
            last_departure: 0,
            last_progress: 0,
            shown_writebacks: None,
        }
    }

    /// Runs until the last packet has left.
    pub fn run(
        &mut self,
        arrivals: impl Iterator<Item = Arrival<P::Phv>>,
        observer: &mut impl Observer<P::Phv, P::State>,
    ) -> Result<Report, Stuck> {
        let start = Instant::now();
        let (dealt, first_ns) = deal(arrivals, self.pipelines.len());
        let port = |source| Port::new(self.options.line, first_ns, source);
        let mut ports: Vec<_> = dealt.into_iter().map(port).collect();
        loop {
            self.arrive(&mut ports);
            self.one_cycle(observer);
            if self.chip.pool.len() == 0 {
                match ports.iter().filter_map(Port::due).min() {
                    Some(due) => self.wait(due),
                    None if self.scheme.is_idle() => break,
                    None => {}
                }
            }
            if self.cycle - self.last_progress > self.options.patience_cycles {
                return Err(self.stuck());
            }
        }
        let line_cycles = ports.iter().map(Port::line_cycles).fold(0.0, f64::max);
        Ok(self.report(start.elapsed().as_secs_f64(), line_cycles))
    }

    /// Packets that are due wait before the first stages.
    #[inline]
    fn arrive<I: Iterator<Item = Arrival<P::Phv>>>(&mut self, ports: &mut [DealtPort<P::Phv, I>]) {
        for (pipeline, port) in self.pipelines.iter_mut().zip(ports) {
            if pipeline.arrived.is_some() || port.due().is_none_or(|due| due > self.cycle) {
                continue;
            }
            if let Some((number, phv)) = port.take(self.cycle) {
                pipeline.arrived = self.chip.insert(phv, number, self.cycle);
                self.chip.stats.packets_in += 1;
                self.last_progress = self.cycle;
            }
        }
    }

    #[inline]
    fn one_cycle(&mut self, observer: &mut impl Observer<P::Phv, P::State>) {
        if observer.wants(self.cycle) {
            observer.snapshot(&self.look());
        }
        if observer.wants_registers() {
            observer.registers(&self.registers());
        }
        self.scheme.comb(&mut self.chip);
        self.advance(observer);
        self.scheme.tick();
        if !self.chip.lost.is_empty() {
            self.chip.lost.drain(..).for_each(|lost| observer.dropped(&lost));
            self.last_progress = self.cycle;
        }
        self.cycle += 1;
        self.simulated += 1;
    }

    /// All segments of each pipeline advance, from the last one on, up to one that cannot.
    #[inline]
    fn advance(&mut self, observer: &mut impl Observer<P::Phv, P::State>) {
        if is_busy(self.cycle, &self.options) {
            self.chip.stats.stalls += self.pipelines.len() as u64;
            return;
        }
        for pipeline in 0..self.pipelines.len() {
            self.advance_pipeline(pipeline, observer);
        }
    }

    #[inline]
    fn advance_pipeline(&mut self, pipeline: usize, observer: &mut impl Observer<P::Phv, P::State>) {
        let Kernel { chip, scheme, pipelines, .. } = self;
        let Pipeline { segments, arrived } = &mut pipelines[pipeline];
        for into in (0..=segments.len()).rev() {
            let from = into.checked_sub(1);
            let packet = from.map_or(*arrived, |from| segments[from].leaving());
            let behind = from.and_then(|from| segments[from].function);
            let before = segments.get(into).and_then(|segment| segment.function);
            let goes = packet.is_none()
                || behind.is_none_or(|function| scheme.can_finish(function, packet, chip))
                    && before.is_none_or(|function| scheme.can_take(function, packet, chip));
            let mut moving = if goes { packet } else { Handle::NONE };
            if goes && let Some(function) = behind {
                moving = scheme.write_gate(function, packet, chip);
            }
            if let Some(function) = before {
                moving = scheme.read_gate(function, moving, chip);
            }
            match segments.get_mut(into) {
                Some(segment) => segment.tick(moving, chip),
                None if moving.is_some() => {
                    let packet = chip.pool.get(moving);
                    observer.departed(packet, self.cycle);
                    chip.stats.packets_out += 1;
                    chip.stats.latency.saturating_record(self.cycle - packet.arrived);
                    chip.pool.remove(moving);
                    (self.last_departure, self.last_progress) = (self.cycle, self.cycle);
                }
                None => {}
            }
            if !goes {
                chip.stats.stalls += 1;
                return;
            }
        }
        *arrived = Handle::NONE;
    }

    /// In an empty pipeline, goes on to when the next packet is due.
    fn wait(&mut self, due: u64) {
        let quiet_since = self.last_departure + QUIET_CYCLES;
        if due > self.cycle && self.cycle > quiet_since && self.scheme.is_idle() {
            self.cycle = due;
        }
        self.last_progress = self.cycle;
    }

    fn stuck(&self) -> Stuck {
        Stuck {
            model: self.model,
            cycle: self.cycle,
            packets: self.chip.pool.len(),
            patience_cycles: self.options.patience_cycles,
        }
    }

    fn look(&self) -> Snapshot {
        let mut snapshot = Snapshot::new(self.cycle);
        for (stage, packets) in held_by(&self.pipelines).flat_map(Segment::held) {
            snapshot.stage(stage, packets.into_iter().map(|handle| self.number(handle)).collect());
        }
        let arrived = self.pipelines.iter().filter_map(|pipeline| self.number(pipeline.arrived));
        let arrived: Vec<u64> = arrived.collect();
        if !arrived.is_empty() {
            snapshot.buffer("port", arrived);
        }
        self.scheme.snapshot(&self.chip, &mut snapshot);
        snapshot
    }

    fn registers(&mut self) -> Registers {
        let mut registers = Registers { cycle: self.cycle, ..Registers::default() };
        let Kernel { chip, scheme, pipelines, shown_writebacks, .. } = self;
        let place = |packet: Handle| if packet.is_some() { chip.pool.get(packet).number + 1 } else { 0 };
        let phv = |packet: Handle| packet.is_some().then(|| chip.pool.get(packet).phv);
        let words = |packet: Handle| phv(packet).map_or(Vec::new(), |phv| phv.as_ref().to_vec());
        for (number, pipeline) in pipelines.iter().enumerate() {
            registers.put(format!("port.{number}"), [place(pipeline.arrived)]);
            registers.put(format!("port.{number}.phv"), words(pipeline.arrived));
        }
        for (stage, packets) in held_by(pipelines).flat_map(Segment::held) {
            registers.put(format!("stage.{stage}.phv"), words(packets[0]));
            registers.put(format!("stage.{stage}"), packets.into_iter().map(place));
        }
        scheme.registers(chip, &mut registers);
        if shown_writebacks.replace(chip.stats.writebacks) != Some(chip.stats.writebacks) {
            for (number, function) in chip.functions.iter().enumerate() {
                let table = &chip.tables[function.table];
                let words = |(key, state): (u64, P::State)| {
                    std::iter::once(key).chain(chip.program.state_words(function.in_program, &state))
                };
                registers.put(format!("{number}.table"), table.contents().into_iter().flat_map(words));
                registers.put(format!("{number}.table.refused"), [table.refused()]);
            }
        }
        registers
    }

    fn number(&self, handle: Handle) -> Option<u64> {
        handle.is_some().then(|| self.chip.pool.get(handle).number)
    }

    fn report(&self, seconds: f64, line_cycles: f64) -> Report {
        let Chip { stats, program, specs, tables, .. } = &self.chip;
        let cycles = self.last_departure + 1;
        let drops = DropCause::ALL.iter().map(|cause| (cause.name(), stats.drops[*cause as usize]));
        let mut occupancy_max = std::collections::BTreeMap::new();
        self.scheme.occupancy(&self.chip, &mut |buffer, most| {
            occupancy_max.insert(buffer, most);
        });
        let refused = specs.iter().zip(tables);
        let lost_behind = specs.iter().zip(stats.lost_behind);
        let ring_slots = self.scheme.ring_nodes() as f64 * self.cycle as f64;
        Report {
            model: self.model,
            program: program.name().to_owned(),
            cycles,
            packets_in: stats.packets_in,
            packets_out: stats.packets_out,
            throughput: stats.packets_out as f64 / cycles as f64,
            offered: stats.packets_in as f64 / line_cycles.max(1.0),
            latency_cycles: Latency::of(&stats.latency),
            drops: drops.filter(|(_, count)| *count > 0).collect(),
            lost_after_write: lost_behind
                .filter(|(_, lost)| *lost > 0)
                .map(|(spec, lost)| (spec.name.clone(), lost))
                .collect(),
            stalls: stats.stalls,
            resubmissions: stats.resubmissions,
            writebacks: stats.writebacks,
            occupancy_max,
            ring_utilisation: if ring_slots > 0.0 { stats.ring_busy as f64 / ring_slots } else { 0.0 },
            states_refused: refused
                .map(|(spec, table)| (spec.name.clone(), table.refused()))
                .filter(|(_, refused)| *refused > 0)
                .collect(),
            cycles_simulated: self.simulated,
            cycles_per_second: self.simulated as f64 / seconds.max(1e-9),
        }
    }
}

/// The segments of all pipelines, in order.
fn held_by(pipelines: &[Pipeline]) -> impl Iterator<Item = &Segment> {
    pipelines.iter().flat_map(|pipeline| &pipeline.segments)
}

/// Whether what follows the pipeline takes no packet in this cycle: drawn anew for each.
#[inline]
fn is_busy(cycle: u64, options: &Options) -> bool {
    let share = u64::from(options.egress_busy.millionths());
    share > 0 && nf::hash_bytes(&cycle.to_le_bytes(), options.seed) % 1_000_000 < share
}

impl<P: Program, S> fmt::Debug for Kernel<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in cycle {}", self.model, self.cycle)
    }
}
