//! Runs of a compiled program.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use p4::interpret::{Machine, Output};

use super::error::RunError;
use super::image::Image;
use super::limits::State;
use crate::emulation::{Outcome, emulate};
use crate::kernel::Observer;
use crate::options::{Model, Options};
use crate::packets::Packet;
use crate::port::Arrival;
use crate::program::{Program, TableSpec};
use crate::registers::Registers;
use crate::report::Lost;
use crate::snapshot::Snapshot;

/// A compiled program with header vectors of `W` words, no fewer than the image takes.
#[derive(Debug)]
pub struct Compiled<'a, const W: usize> {
    image: &'a Image,
}

impl<'a, const W: usize> Compiled<'a, W> {
    /// The program of an image.
    ///
    /// # Panics
    /// If its header vector is wider.
    pub fn new(image: &'a Image) -> Compiled<'a, W> {
        assert!(image.words() <= W, "{} words do not go into {W}", image.words());
        Compiled { image }
    }

    /// A packet as the parser leaves it. Numbers are from 0.
    pub fn arrival(&self, machine: &mut Machine, number: u64, input: &Input<'_>) -> Arrival<[u64; W]> {
        let parsed = machine.parse_numbered(number + 1, input.port, input.bytes, input.time_ns);
        let mut phv = [0; W];
        self.image.arrive(&parsed, number + 1, input.time_ns, &mut phv);
        Arrival { phv, bytes: input.wire_len, time_ns: input.time_ns, port: input.port }
    }

    /// What ports get of a packet that leaves the pipeline with this header vector.
    pub fn outputs(
        &self,
        machine: &mut Machine,
        number: u64,
        input: &Input<'_>,
        phv: &[u64; W],
    ) -> Vec<Output> {
        let parsed = machine.parse_numbered(number + 1, input.port, input.bytes, input.time_ns);
        self.image.leave(machine, parsed, phv)
    }
}

impl<const W: usize> Program for Compiled<'_, W> {
    type Phv = [u64; W];
    type State = State;

    fn name(&self) -> &str {
        self.image.name()
    }

    fn stages(&self) -> usize {
        self.image.stages()
    }

    fn tables(&self) -> &[TableSpec] {
        self.image.tables()
    }

    #[inline]
    fn key(&self, table: usize, phv: &[u64; W]) -> Option<u64> {
        self.image.key(table, phv)
    }

    #[inline]
    fn read(&self, table: usize, state: &State, phv: &mut [u64; W]) {
        self.image.read(table, state, phv);
    }

    #[inline]
    fn step(&self, stage: usize, phv: &mut [u64; W]) {
        self.image.step(stage, phv);
    }

    #[inline]
    fn write(&self, table: usize, phv: &[u64; W]) -> Option<State> {
        self.image.write(table, phv)
    }

    fn output(&self, phv: &[u64; W]) -> u64 {
        self.image.output(phv)
    }

    fn state_words(&self, table: usize, state: &State) -> Vec<u64> {
        self.image.state_words(table, state)
    }

    fn entries(&self, table: usize) -> BTreeMap<u64, State> {
        match self.image.tables()[table].port_of {
            Some(_) => BTreeMap::new(),
            None => self.image.objects[table].contents(&self.image.machine),
        }
    }
}

/// A packet that comes in.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// By which port, 0 to 510.
    pub port: u16,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its length on the wire.
    pub wire_len: u32,
    /// When, in ns; never runs back.
    pub time_ns: u64,
}

/// Who looks on. Numbers are those of the packets in order of arrival, from 0.
pub trait Watcher {
    /// Whether it is told what leaves: packets are put together only then.
    fn wants_outputs(&self) -> bool;

    /// A packet leaves the pipeline, and these are what the ports get of it; `keys` are those of its states.
    fn departed(&mut self, _number: u64, _outputs: Vec<Output>, _keys: &dyn Fn(usize) -> Option<u64>) {}

    /// A packet is lost.
    fn dropped(&mut self, _lost: &Lost) {}

    /// Whether to show what the registers hold at the beginning of this cycle.
    fn wants(&self, _cycle: u64) -> bool {
        false
    }

    /// What they hold.
    fn snapshot(&mut self, _snapshot: &Snapshot) {}

    /// Whether to show what the registers hold as numbers, at the beginning of every cycle, and header vectors that
    /// leave.
    fn wants_registers(&self) -> bool {
        false
    }

    /// What they hold.
    fn registers(&mut self, _registers: &Registers) {}

    /// A packet leaves the pipeline with this header vector.
    fn left(&mut self, _number: u64, _phv: &[u64]) {}
}

/// Nobody.
impl Watcher for () {
    fn wants_outputs(&self) -> bool {
        false
    }
}

/// Runs a compiled program on a model. Packets are parsed before the run.
///
/// # Errors
/// [`RunError`]: the model cannot run the program, or options and program do not go together.
pub fn emulate_p4(
    image: &Image,
    model: &Model,
    options: &Options,
    packets: &[Input<'_>],
    watcher: &mut impl Watcher,
    stop: &AtomicBool,
) -> Result<Outcome<State>, RunError> {
    image.check(model)?;
    match image.words() {
        0..=32 => run::<32>(image, model, options, packets, watcher, stop),
        33..=64 => run::<64>(image, model, options, packets, watcher, stop),
        65..=128 => run::<128>(image, model, options, packets, watcher, stop),
        _ => run::<{ super::MAX_WORDS }>(image, model, options, packets, watcher, stop),
    }
}

fn run<const W: usize>(
    image: &Image,
    model: &Model,
    options: &Options,
    packets: &[Input<'_>],
    watcher: &mut impl Watcher,
    stop: &AtomicBool,
) -> Result<Outcome<State>, RunError> {
    let program = Compiled::<W>::new(image);
    let mut machine = image.machine().clone();
    let numbered = (0..).zip(packets);
    let arrivals: Vec<Arrival<[u64; W]>> =
        numbered.map(|(number, packet)| program.arrival(&mut machine, number, packet)).collect();
    let mut departures = Departures { program: &program, machine, packets, watcher };
    let arrivals = arrivals.into_iter().take_while(|_| !stop.load(Ordering::Relaxed));
    Ok(emulate(&program, model, options, arrivals, &mut departures)?)
}

/// Puts packets together that leave.
struct Departures<'a, Watch, const W: usize> {
    program: &'a Compiled<'a, W>,
    machine: Machine,
    packets: &'a [Input<'a>],
    watcher: &'a mut Watch,
}

impl<const W: usize, Watch: Watcher> Observer<[u64; W], State> for Departures<'_, Watch, W> {
    fn departed(&mut self, packet: &Packet<[u64; W], State>, _cycle: u64) {
        if self.watcher.wants_registers() {
            self.watcher.left(packet.number, &packet.phv);
        }
        if !self.watcher.wants_outputs() {
            return;
        }
        let Departures { program, machine, packets, .. } = self;
        let input = &packets[packet.number as usize];
        let outputs = program.outputs(machine, packet.number, input, &packet.phv);
        let keys = |table| program.key(table, &packet.phv);
        self.watcher.departed(packet.number, outputs, &keys);
    }

    fn dropped(&mut self, lost: &Lost) {
        self.watcher.dropped(lost);
    }

    fn wants(&self, cycle: u64) -> bool {
        self.watcher.wants(cycle)
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.watcher.snapshot(snapshot);
    }

    fn wants_registers(&self) -> bool {
        self.watcher.wants_registers()
    }

    fn registers(&mut self, registers: &Registers) {
        self.watcher.registers(registers);
    }
}
