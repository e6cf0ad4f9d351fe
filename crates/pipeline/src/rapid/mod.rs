//! RAPID: a pipeline in which packets go on before it is known whether the state that they read is the latest,
//! and a side ring that takes new states, and packets that were wrong, back to where the state is read (§4).

mod faults;
mod in_flight;
mod read;
mod ring;
mod timers;
mod write;

use std::marker::PhantomData;

use crate::chip::Chip;
use crate::kernel::Scheme;
use crate::options::{RapidOptions, WhenFull};
use crate::packets::Handle;
use crate::program::{Consistency, Program};
use crate::registers::Registers;
use crate::report::DropCause;
use crate::snapshot::Snapshot;

pub use faults::{Faults, Sound};
use in_flight::InFlight;
use read::ReadScheduler;
use ring::{Ring, Signal};
use write::{Fate, WriteScheduler};

/// The ring, and two schedulers for each function.
#[derive(Debug)]
pub struct Rapid<State, F = Sound> {
    ring: Ring<State>,
    lanes: Vec<Lane<State>>,
    faults: PhantomData<F>,
}

/// What serves one function.
#[derive(Debug)]
struct Lane<State> {
    table: usize,
    read_stage: usize,
    write_stage: usize,
    span: usize,
    read: ReadScheduler<State>,
    write: WriteScheduler,
    flows: usize,
    /// Where nothing may be lost, a packet that may have to come back goes in only if there is room for it then.
    in_flight: Option<InFlight>,
}

impl<State: Copy + Default + PartialEq, F: Faults> Rapid<State, F> {
    /// The schedulers for the functions of `chip`, whose pipelines have `stages` stages of `stage_cycles` cycles.
    pub fn new<P: Program<State = State>>(
        chip: &Chip<P>,
        stages: usize,
        stage_cycles: usize,
        options: &RapidOptions,
        when_full: WhenFull,
    ) -> Rapid<State, F> {
        let spans =
            chip.functions.iter().map(|function| (function.spec.read_stage, function.spec.write_stage));
        let ring =
            Ring::new(options.pipelines * stages, spans, options.ring_from_pipeline, options.ring_from_ring);
        let lane = |function: &crate::chip::Function| {
            let span = function.spec.span();
            let registers = span * stage_cycles;
            let consistency = options.consistency.unwrap_or(function.spec.consistency);
            // §4.4: T = c(m) + m + 2.
            let read = ReadScheduler::new::<F>(options, (registers + span + 2) as u64);
            let flows = read.dirty.capacity();
            let may_come_back = consistency != Consistency::Weak && when_full == WhenFull::Stall;
            Lane {
                table: function.table,
                read_stage: function.spec.read_stage,
                write_stage: function.spec.write_stage,
                span,
                write: WriteScheduler::new(consistency, flows),
                read,
                flows,
                in_flight: may_come_back.then(|| InFlight::new(registers)),
            }
        };
        Rapid { lanes: chip.functions.iter().map(lane).collect(), ring, faults: PhantomData }
    }
}

impl<State: Copy + Default + PartialEq> Lane<State> {
    /// Both schedulers take what the ring has brought.
    fn take<P: Program<State = State>, F: Faults>(&mut self, ring: &mut Ring<State>, chip: &mut Chip<P>) {
        let for_read = ring.download(self.read_stage);
        let mut signals = for_read.signals.len();
        let packets = usize::from(for_read.packet.is_some());
        self.read.take(self.table, for_read, chip);
        let for_write = &mut ring.download(self.write_stage).signals;
        if !for_write.is_empty() {
            signals += for_write.len();
            for_write.drain(..).for_each(|signal| self.write.take(&signal));
        }
        ring.taken(signals, packets);
    }

    /// Whether a packet of the flow that goes in now may have to come back.
    fn is_at_risk(&self, key: u64) -> bool {
        self.in_flight.as_ref().is_some_and(|in_flight| in_flight.has(key) || self.write.is_dirty(key))
    }

    /// Whether there is room for a packet that arrives, wherever it will have to be.
    fn has_room(&self, in_flight: &InFlight, key: u64) -> bool {
        if self.read.dirty.find(key).is_some() {
            return self.read.has_room_in_pb();
        }
        match self.is_at_risk(key) {
            true => self.read.has_room_in_rb() && self.read.has_room_in_pb(),
            // It may update the state: its flow must find a place in the dTables.
            false => in_flight.flows() + self.write.len() < self.flows,
        }
    }
}

impl<P: Program, F: Faults> Scheme<P> for Rapid<P::State, F> {
    fn places(&self) -> usize {
        self.ring.places() + self.lanes.iter().map(|lane| lane.read.places()).sum::<usize>()
    }

    #[inline]
    fn comb(&mut self, chip: &mut Chip<P>) {
        chip.stats.ring_busy += self.ring.comb::<F>();
        for (function, lane) in self.lanes.iter_mut().enumerate() {
            if !self.ring.has_nothing() {
                lane.take::<P, F>(&mut self.ring, chip);
            }
            if self.ring.has_beat(function, lane.span) {
                lane.read.beat();
            }
            lane.read.move_flows::<P, F>(chip);
        }
    }

    fn can_take(&self, function: usize, packet: Handle, chip: &Chip<P>) -> bool {
        let lane = &self.lanes[function];
        let Some(in_flight) = &lane.in_flight else { return true };
        chip.key(function, packet).is_none_or(|key| lane.has_room(in_flight, key))
    }

    fn can_finish(&self, function: usize, packet: Handle, chip: &Chip<P>) -> bool {
        let lane = &self.lanes[function];
        if lane.in_flight.is_none() || self.ring.has_room(lane.write_stage) {
            return true;
        }
        let packet = chip.pool.get(packet);
        !packet.uses_table || lane.write.foresee(packet.key) == Fate::Pass
    }

    #[inline]
    fn read_gate(&mut self, function: usize, arriving: Handle, chip: &mut Chip<P>) -> Handle {
        let Lane { read, write, in_flight, .. } = &mut self.lanes[function];
        let is_at_risk = |key| in_flight.as_ref().is_some_and(|flows| flows.has(key) || write.is_dirty(key));
        let entering = read
            .admit::<P, F>(function, arriving, chip, |read, key| !is_at_risk(key) || read.has_room_in_rb());
        if entering.is_none() {
            return entering;
        }
        let packet = chip.pool.get_mut(entering);
        if packet.uses_table {
            if in_flight.is_some() {
                packet.is_reserved = is_at_risk(packet.key);
                read.reserved += usize::from(packet.is_reserved);
                in_flight.as_mut().expect("there is one").enter(packet.key);
            }
            chip.read_state(function, entering);
        }
        entering
    }

    #[inline]
    fn write_gate(&mut self, function: usize, leaving: Handle, chip: &mut Chip<P>) -> Handle {
        let lane = &mut self.lanes[function];
        self.ring.beat(function);
        if leaving.is_none() {
            return leaving;
        }
        let packet = chip.pool.get_mut(leaving);
        if !packet.uses_table {
            return leaving;
        }
        // Alone it is in this span only: in the next one others of its flow may be behind it.
        let (key, is_alone) = (packet.key, std::mem::take(&mut packet.is_alone));
        if let Some(in_flight) = &mut lane.in_flight {
            in_flight.leave(key);
        }
        if lane.write.judge::<F>(key) == Fate::SendBack {
            return self.send_back(function, leaving, chip);
        }
        lane.read.reserved -= usize::from(std::mem::take(&mut packet.is_reserved));
        if let Some(state) = chip.new_state(function, leaving) {
            let registered = if is_alone { Some(false) } else { lane.write.update::<F>(key) };
            let Some(is_dirty) = registered else {
                chip.lose(leaving, DropCause::DirtyTableFull);
                return Handle::NONE;
            };
            chip.has_changed(function, leaving);
            let signal = Signal::Writeback { key, state, is_dirty };
            self.ring.signal(lane.write_stage, lane.read_stage, signal);
        }
        leaving
    }

    #[inline]
    fn tick(&mut self) {
        for lane in &mut self.lanes {
            if lane.read.signals.is_empty() {
                continue;
            }
            for signal in lane.read.signals.drain(..) {
                self.ring.signal(lane.read_stage, lane.write_stage, signal);
            }
        }
        self.ring.tick();
    }

    fn is_idle(&self) -> bool {
        self.ring.has_nothing() && self.lanes.iter().all(|lane| lane.read.dirty.len() + lane.write.len() == 0)
    }

    fn occupancy(&self, chip: &Chip<P>, say: &mut dyn FnMut(String, u64)) {
        for (lane, function) in self.lanes.iter().zip(&chip.functions) {
            for (buffer, most) in lane.read.most() {
                say(format!("{}.{buffer}", function.spec.name), most as u64);
            }
            say(format!("{}.dtable_write", function.spec.name), lane.write.most() as u64);
        }
        for (node, (from_pipeline, from_ring)) in self.ring.most().enumerate() {
            say(format!("ring.{node}.from_pipeline"), from_pipeline as u64);
            say(format!("ring.{node}.from_ring"), from_ring as u64);
        }
    }

    fn ring_nodes(&self) -> usize {
        self.ring.len()
    }

    fn snapshot(&self, chip: &Chip<P>, snapshot: &mut Snapshot) {
        let number = |packet: Handle| chip.pool.get(packet).number;
        for (node, held) in self.ring.held().enumerate() {
            snapshot.buffer(format!("ring {node} from pipeline"), held.from_pipeline.into_iter().map(number));
            snapshot.buffer(format!("ring {node} from ring"), held.from_ring.into_iter().map(number));
            let mut bus = Vec::new();
            if held.packet.is_some() {
                bus.push(format!("packet {}", number(held.packet)));
            }
            if held.signals > 0 {
                bus.push(format!("{} signals", held.signals));
            }
            if held.beat {
                bus.push("heartbeat".to_owned());
            }
            snapshot.buffer(format!("ring {node} bus"), bus);
        }
        for (lane, function) in self.lanes.iter().zip(&chip.functions) {
            lane.read.show(&function.spec.name, chip, snapshot);
        }
    }

    fn registers(&self, chip: &Chip<P>, registers: &mut Registers) {
        let place = |packet: Handle| if packet.is_some() { chip.pool.get(packet).number + 1 } else { 0 };
        let words = |function: usize, state: &P::State| {
            chip.program.state_words(chip.functions[function].in_program, state)
        };
        self.ring.registers(&place, &words, registers);
        for (function, lane) in self.lanes.iter().enumerate() {
            lane.read.registers(function, chip, registers);
            registers.put(format!("{function}.write.dirty"), lane.write.registers());
        }
    }
}

impl<State: Copy + Default + PartialEq, F: Faults> Rapid<State, F> {
    /// A packet read a stale state: it goes back through the ring.
    fn send_back<P: Program<State = State>>(
        &mut self,
        function: usize,
        packet: Handle,
        chip: &mut Chip<P>,
    ) -> Handle {
        match self.ring.send_back(self.lanes[function].write_stage, packet) {
            true => chip.stats.resubmissions += 1,
            false => chip.lose(packet, DropCause::RingBufferFull),
        }
        Handle::NONE
    }
}
