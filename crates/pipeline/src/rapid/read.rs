//! `rd_sched`, the scheduler before the first stage of a function: RAPID §4.4, Fig. 4 and 6.
//!
//! A flow whose state was updated is *dirty*. It goes through three queues, and its packets wait for it:
//!
//! ```text
//!   writeback --> Block -- T heartbeats passed --> Suspend -- none in RB --> Schedule -- backlog empty --> clean
//!                   ^          cancel_dirty is sent on the way to Schedule      |
//!                   +---------------------- another writeback ------------------+
//! ```
//!
//! After as many writebacks as the threshold says, a flow for which speculation does not pay is *blocked* until its
//! backlog is empty (§4.6, Fig. 9): its packets go one by one, each after the state of the one before was written.

use crate::cam::Cam;
use crate::chip::Chip;
use crate::fifo::Fifo;
use crate::options::RapidOptions;
use crate::packets::{Handle, List};
use crate::program::Program;
use crate::rapid::Faults;
use crate::rapid::ring::{Download, Signal};
use crate::rapid::timers::Timers;
use crate::registers::Registers;
use crate::report::DropCause;
use crate::snapshot::Snapshot;

/// The read scheduler of one function.
#[derive(Debug)]
pub struct ReadScheduler<State> {
    /// dTable: keys, and by place what is known of the flow.
    pub dirty: Cam,
    flows: Vec<Flow>,
    /// RB: packets that were sent back and did not get into PB yet.
    pub sent_back: Fifo<Handle>,
    /// PB: packets in lists of their flows.
    buffered: usize,
    buffered_most: usize,
    buffer: usize,
    block: Fifo<usize>,
    suspend: Fifo<usize>,
    schedule: Fifo<usize>,
    /// Flows in blocking mode, and when the next packet may go, in advances of the pipeline.
    wait: Fifo<(usize, u64)>,
    timers: Timers,
    /// T: cycles from a packet's entry until its new state is here, or itself.
    turnaround: u64,
    advances: u64,
    blocking_threshold: Option<u32>,
    /// Places that packets in the span have in RB and PB, so that they can return.
    pub reserved: usize,
    /// For the write scheduler.
    pub signals: Vec<Signal<State>>,
}

/// A dirty flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// By how much it is due after the flow before it.
    timer_offset: u32,
    /// Its packets in RB.
    in_sent_back: usize,
    /// Its packets in PB that were sent back.
    returned: List,
    /// Its packets in PB that arrived later.
    newer: List,
    is_scheduled: bool,
    /// Times that it became dirty again with a backlog.
    resubmit_cycles: u32,
    /// Packets that went since its backlog was first scheduled, less those that came back.
    passed: i64,
    is_blocked: bool,
}

impl<State: Copy + Default + PartialEq> ReadScheduler<State> {
    /// A scheduler for packets that are back after `turnaround` cycles, at the earliest.
    pub fn new<F: Faults>(options: &RapidOptions, turnaround: u64) -> ReadScheduler<State> {
        let flows = options.dirty_flows();
        ReadScheduler {
            dirty: Cam::new(flows),
            flows: vec![Flow::default(); flows],
            sent_back: Fifo::new(options.resubmitted_buffer),
            buffered: 0,
            buffered_most: 0,
            buffer: options.phv_buffer,
            block: Fifo::new(flows),
            suspend: Fifo::new(flows),
            schedule: Fifo::new(flows),
            wait: Fifo::new(flows),
            timers: Timers::new(turnaround as u32 - u32::from(F::SHORT_TIMER)),
            turnaround,
            advances: 0,
            blocking_threshold: options.blocking_threshold,
            reserved: 0,
            signals: Vec::with_capacity(8),
        }
    }

    /// Takes what came from the ring.
    pub fn take<P: Program<State = State>>(
        &mut self,
        table: usize,
        download: &mut Download<State>,
        chip: &mut Chip<P>,
    ) {
        if download.signals.is_empty() && download.packet.is_none() {
            return;
        }
        for signal in download.signals.drain(..) {
            let Signal::Writeback { key, state, is_dirty } = signal else { continue };
            chip.tables[table].set(key, state);
            chip.stats.writebacks += 1;
            if is_dirty {
                self.register(key);
            }
        }
        let packet = std::mem::replace(&mut download.packet, Handle::NONE);
        if packet.is_some() {
            self.take_back(packet, chip);
        }
    }

    /// A heartbeat came. It counts for a flow that was registered in the same cycle.
    #[inline]
    pub fn beat(&mut self) {
        self.timers.beat();
    }

    /// A flow is dirty, and waits until all its packets that read the old state are back.
    fn register(&mut self, key: u64) {
        let place = match self.dirty.find(key) {
            // Scheduled, its packets in the span have read what is old now; else it waits for them already.
            Some(place) if self.flows[place].is_scheduled => {
                let flow = &mut self.flows[place];
                flow.resubmit_cycles += 1;
                self.schedule.remove(place);
                place
            }
            Some(_) => return,
            None => {
                let place = self.dirty.insert(key).expect("the write scheduler knows of a free place");
                self.flows[place] = Flow::default();
                place
            }
        };
        self.flows[place].timer_offset = self.timers.start(self.block.is_empty());
        self.flows[place].is_scheduled = false;
        self.block.push(place);
    }

    /// A packet was sent back: into RB.
    fn take_back<P: Program<State = State>>(&mut self, handle: Handle, chip: &mut Chip<P>) {
        let packet = chip.pool.get_mut(handle);
        let key = packet.key;
        self.reserved -= usize::from(std::mem::take(&mut packet.is_reserved));
        if !self.sent_back.push(handle) {
            return chip.lose(handle, DropCause::ResubmittedBufferFull);
        }
        if let Some(place) = self.dirty.find(key) {
            self.flows[place].in_sent_back += 1;
        }
    }

    /// At most one flow leaves each queue in a cycle.
    #[inline]
    pub fn move_flows<P: Program<State = State>, F: Faults>(&mut self, chip: &mut Chip<P>) {
        if self.dirty.len() == 0 {
            return;
        }
        if let Some((place, due)) = self.wait.first()
            && self.advances >= due
        {
            self.wait.pop();
            match self.flows[place].newer.is_empty() {
                true => self.forget(place),
                false => {
                    self.schedule.push(place);
                }
            }
        }
        if let Some(place) = self.suspend.first()
            && self.flows[place].in_sent_back == 0
        {
            self.suspend.pop();
            self.make_ready::<P, F>(place, chip);
        }
        if let Some(place) = self.block.first()
            && self.timers.is_due()
        {
            self.block.pop();
            if let Some(next) = self.block.first() {
                self.timers.next(self.flows[next].timer_offset);
            }
            match self.flows[place].in_sent_back {
                0 => self.make_ready::<P, F>(place, chip),
                _ => {
                    self.suspend.push(place);
                }
            }
        }
    }

    /// All stale packets of the flow are in PB: its packets may go.
    fn make_ready<P: Program<State = State>, F: Faults>(&mut self, place: usize, chip: &mut Chip<P>) {
        if !F::NO_CANCEL {
            self.signals.push(Signal::Cancel { key: self.dirty.key(place) });
        }
        let flow = &mut self.flows[place];
        if F::APPENDED {
            std::mem::swap(&mut flow.newer, &mut flow.returned);
        }
        flow.newer.prepend(&mut flow.returned, &mut chip.pool);
        flow.is_scheduled = true;
        if flow.resubmit_cycles == 0 {
            flow.passed = 0;
        }
        // An update costs speculation two turnarounds, and blocking costs one for every packet.
        let is_slower = flow.passed < 2 * i64::from(flow.resubmit_cycles);
        flow.is_blocked =
            is_slower && self.blocking_threshold.is_some_and(|most| flow.resubmit_cycles > most);
        match flow.newer.is_empty() {
            true => self.forget(place),
            false => {
                self.schedule.push(place);
            }
        }
    }

    fn forget(&mut self, place: usize) {
        self.signals.push(Signal::Free { key: self.dirty.key(place) });
        self.dirty.remove(place);
    }

    /// A cycle of the pipeline: a packet arrives, or the first of RB has its turn. If that packet waits,
    /// another may go. `is_at_risk` says of a key whether a packet of it might have to come back.
    #[inline]
    pub fn admit<P: Program<State = State>, F: Faults>(
        &mut self,
        function: usize,
        arriving: Handle,
        chip: &mut Chip<P>,
        may_release: impl Fn(&Self, u64) -> bool,
    ) -> Handle {
        self.advances += 1;
        let (packet, is_new) = match arriving.is_some() {
            true => (arriving, true),
            false => (self.sent_back.pop().unwrap_or(Handle::NONE), false),
        };
        if packet.is_some() {
            match chip.find_key(function, packet).and_then(|key| self.dirty.find(key)) {
                None => return packet,
                Some(place) => self.keep(place, packet, is_new, chip),
            }
        }
        match self.schedule.is_empty() {
            true => Handle::NONE,
            false => self.release::<P, F>(chip, may_release),
        }
    }

    /// A packet waits in PB for its flow.
    fn keep<P: Program<State = State>>(
        &mut self,
        place: usize,
        packet: Handle,
        is_new: bool,
        chip: &mut Chip<P>,
    ) {
        let flow = &mut self.flows[place];
        if !is_new {
            flow.in_sent_back -= 1;
            flow.passed -= 1;
        }
        if self.buffered == self.buffer {
            return chip.lose(packet, DropCause::PhvBufferFull);
        }
        self.buffered += 1;
        self.buffered_most = self.buffered_most.max(self.buffered);
        let list = if is_new { &mut flow.newer } else { &mut flow.returned };
        list.push(packet, &mut chip.pool);
    }

    /// The next flow in turn lets a packet go.
    fn release<P: Program<State = State>, F: Faults>(
        &mut self,
        chip: &mut Chip<P>,
        may_release: impl Fn(&Self, u64) -> bool,
    ) -> Handle {
        let Some(place) = self.schedule.first() else { return Handle::NONE };
        if !may_release(self, self.dirty.key(place)) {
            return Handle::NONE;
        }
        self.schedule.pop();
        let flow = &mut self.flows[place];
        let packet = flow.newer.pop(&chip.pool);
        flow.passed += 1;
        chip.pool.get_mut(packet).is_alone = flow.is_blocked;
        self.buffered -= 1;
        if flow.is_blocked {
            // Looked at before the cycle's own advance is counted.
            let due = self.advances + self.turnaround - 1 - u64::from(F::HASTY_BLOCKING);
            self.wait.push((place, due));
        } else if flow.newer.is_empty() {
            self.forget(place);
        } else {
            self.schedule.push(place);
        }
        packet
    }

    /// Whether a packet that may come back would find room in RB.
    pub fn has_room_in_rb(&self) -> bool {
        self.sent_back.len() + self.reserved < self.sent_back.capacity()
    }

    /// Whether there is room in PB beyond what packets that may come back need.
    pub fn has_room_in_pb(&self) -> bool {
        self.buffered + self.sent_back.len() + self.reserved < self.buffer
    }

    /// Packets that RB and PB can hold.
    pub fn places(&self) -> usize {
        self.buffer + self.sent_back.capacity()
    }

    /// The most that each buffer held.
    pub fn most(&self) -> [(&'static str, usize); 7] {
        [
            ("rb", self.sent_back.most()),
            ("pb", self.buffered_most),
            ("dtable_read", self.dirty.most()),
            ("block_queue", self.block.most()),
            ("suspend_queue", self.suspend.most()),
            ("schedule_queue", self.schedule.most()),
            ("blocked_flows", self.wait.most()),
        ]
    }

    /// What it holds, as numbers.
    pub fn registers<P: Program<State = State>>(
        &self,
        function: usize,
        chip: &Chip<P>,
        registers: &mut Registers,
    ) {
        let mut put = |what: &str, numbers: Vec<u64>| registers.put(format!("{function}.{what}"), numbers);
        let place = |packet: Handle| chip.pool.get(packet).number + 1;
        put("rb", self.sent_back.iter().map(place).collect());
        let mut places: Vec<_> = self.dirty.places().collect();
        places.sort_unstable_by_key(|place| self.dirty.key(*place));
        let mut numbers = Vec::new();
        for at in places {
            let flow = &self.flows[at];
            numbers.push(self.dirty.key(at));
            // A flow that is scheduled needs its offset no more.
            numbers.push(if flow.is_scheduled { 0 } else { flow.timer_offset.into() });
            numbers.push(flow.in_sent_back as u64);
            numbers.extend([u64::from(flow.is_scheduled), u64::from(flow.is_blocked)]);
            numbers.extend([u64::from(flow.resubmit_cycles), u64::from(flow.passed as u32)]);
            for list in [flow.returned, flow.newer] {
                let packets: Vec<u64> = list.iter(&chip.pool).map(|packet| packet.number + 1).collect();
                numbers.push(packets.len() as u64);
                numbers.extend(packets);
            }
        }
        put("dirty", numbers);
        let key = |place: usize| self.dirty.key(place);
        put("block", self.block.iter().map(key).collect());
        put("suspend", self.suspend.iter().map(key).collect());
        put("schedule", self.schedule.iter().map(key).collect());
        // Hardware counts advances with 32 bits.
        let wait = |(place, due): (usize, u64)| [key(place), u64::from(due as u32)];
        put("wait", self.wait.iter().flat_map(wait).collect());
        put("timers", self.timers.clocks().to_vec());
        put("advances", vec![u64::from(self.advances as u32)]);
    }

    /// What it holds.
    pub fn show<P: Program<State = State>>(&self, name: &str, chip: &Chip<P>, snapshot: &mut Snapshot) {
        let number = |packet: Handle| chip.pool.get(packet).number;
        snapshot.buffer(format!("{name}.rb"), self.sent_back.iter().map(number));
        let queues = [("block", &self.block), ("suspend", &self.suspend), ("schedule", &self.schedule)];
        for (queue, places) in queues {
            for place in places.iter() {
                self.show_flow(&format!("{name}.{queue}"), place, chip, snapshot);
            }
        }
        for (place, _) in self.wait.iter() {
            self.show_flow(&format!("{name}.blocked"), place, chip, snapshot);
        }
    }

    fn show_flow<P: Program<State = State>>(
        &self,
        queue: &str,
        place: usize,
        chip: &Chip<P>,
        snapshot: &mut Snapshot,
    ) {
        let flow = &self.flows[place];
        let numbers = |list: List| list.iter(&chip.pool).map(|p| p.number.to_string()).collect::<Vec<_>>();
        let text = format!(
            "flow {:x}: {} in rb, returned [{}], newer [{}]",
            self.dirty.key(place),
            flow.in_sent_back,
            numbers(flow.returned).join(" "),
            numbers(flow.newer).join(" ")
        );
        snapshot.buffer(queue, [text]);
    }
}
