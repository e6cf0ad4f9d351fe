//! The side ring: data flows against the pipeline, by one node in each cycle (RAPID §4.3, Fig. 5).
//!
//! ```text
//!   stage r         ...         stage w          a signal or packet of the function in stages r to w:
//!     ^ |                         | ^              cycle e        wr_sched hands it over
//!     | v download         upload v |              e + 1          node w sends it
//!  <- node r <- node r+1 ... <- node w <-+         e + m          node r takes it off
//!  |                                     |         e + m + 2      rd_sched has it
//!  +-------------------------------------+       m = w - r + 1
//! ```
//!
//! In each cycle a node sends one of:
//! - control signals, as many as there are: those from the ring and those of its stage in one bundle. They go
//!   before packets, so that nothing ever delays them.
//! - a packet that is sent back: of those from the ring first, then of its stage's.
//! - nothing but heartbeats, which also ride on the other two.
//!
//! A heartbeat of a function says "what was to be sent back until now is before me". A node with a packet of that
//! function waiting therefore passes none on: for every cycle by which packets are delayed, one heartbeat is lost.
//! Spans of functions do not meet, so all packets that come through a node are of one function.

use crate::fifo::Fifo;
use crate::packets::Handle;
use crate::rapid::Faults;
use crate::registers::Registers;

/// What schedulers say to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Signal<State> {
    /// A new state, for the table. If `is_dirty`, packets of the flow that read the old one will be sent back.
    Writeback {
        /// Whose.
        key: u64,
        /// The state.
        state: State,
        /// Whether the flow is to be registered.
        is_dirty: bool,
    },
    /// `cancel_dirty`: from now on packets of the flow have read the new state.
    Cancel {
        /// Whose.
        key: u64,
    },
    /// The flow is no more in the read scheduler's dTable.
    Free {
        /// Whose.
        key: u64,
    },
}

/// What a stage takes off the ring in a cycle.
#[derive(Clone, Debug)]
pub struct Download<State> {
    /// Signals, in no particular order.
    pub signals: Vec<Signal<State>>,
    /// A packet that was sent back.
    pub packet: Handle,
}

/// The ring.
#[derive(Debug)]
pub struct Ring<State> {
    nodes: Vec<Node<State>>,
    /// What is between the nodes. They do not move: each node looks one further in each cycle.
    buses: Vec<Bus<State>>,
    /// The bus before node 0.
    turn: usize,
    /// Which of a node's download registers is written in this cycle.
    phase: usize,
    /// Signals that were handed over and not yet taken.
    signals: usize,
    /// Packets that were handed over and not yet taken.
    packets: usize,
    /// A bit for each node that has something on the bus before it, or waiting in it.
    active: u32,
    /// By function, its heartbeats under way: bit n is the one of n cycles ago, unless it was lost.
    beats: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Bus<State> {
    signals: Vec<(usize, Signal<State>)>,
    packet: Handle,
}

#[derive(Clone, Debug)]
struct Node<State> {
    /// In the span of a function, or none: then only signals come through.
    place: Option<Place>,
    from_pipeline: Fifo<Handle>,
    from_ring: Fifo<Handle>,
    upload: Vec<(usize, Signal<State>)>,
    downloads: [Download<State>; 3],
}

/// What a node is for the function whose span it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The read scheduler's: packets leave the ring.
    Read,
    /// Packets come through it: the write scheduler's node, and those in between.
    Sends,
}

/// Where a node is.
#[derive(Clone, Copy, Debug)]
struct Place {
    role: Role,
    /// Whose span it is in.
    function: usize,
    /// By how many nodes it is away from the write scheduler's.
    distance: u32,
}

impl Place {
    /// The bit of the heartbeat that comes to this node: its stage's of the last cycle if it is the write scheduler's,
    /// or that of the cycle before, and so on.
    fn beat(self) -> u32 {
        2 << self.distance
    }
}

/// Signals that a bus or register holds without allocating: more than all functions hand over while one goes round.
const SIGNALS: usize = 64;

impl<State: Copy> Ring<State> {
    /// A ring of `nodes` nodes, with functions from a read to a write stage.
    pub fn new(
        nodes: usize,
        spans: impl Iterator<Item = (usize, usize)>,
        from_pipeline: usize,
        from_ring: usize,
    ) -> Ring<State> {
        let download = || Download { signals: Vec::with_capacity(SIGNALS), packet: Handle::NONE };
        let node = || Node {
            place: None,
            from_pipeline: Fifo::new(from_pipeline),
            from_ring: Fifo::new(from_ring),
            upload: Vec::with_capacity(SIGNALS),
            downloads: [download(), download(), download()],
        };
        let bus = || Bus { signals: Vec::with_capacity(SIGNALS), packet: Handle::NONE };
        let mut nodes: Vec<_> = (0..nodes).map(|_| node()).collect();
        let mut functions = 0;
        for (function, (read, write)) in spans.enumerate() {
            for (distance, node) in nodes[read..=write].iter_mut().rev().enumerate() {
                let role = if distance == write - read { Role::Read } else { Role::Sends };
                node.place = Some(Place { role, function, distance: distance as u32 });
            }
            functions += 1;
        }
        let buses = nodes.iter().map(|_| bus()).collect();
        Ring { nodes, buses, turn: 0, phase: 0, signals: 0, packets: 0, active: 0, beats: vec![0; functions] }
    }

    /// All nodes send: those that have something to. Returns how many sent more than heartbeats.
    ///
    /// Node 0 goes first: a node has to know whether there will be room for its packet in the one before it, which
    /// is where packets go.
    #[inline]
    pub fn comb<F: Faults>(&mut self) -> u64 {
        if self.has_nothing() {
            return 0;
        }
        let (mut busy, mut next_active) = (0, 0);
        let mut active = self.active;
        while active != 0 {
            let number = active.trailing_zeros() as usize;
            active &= active - 1;
            let next = if number == 0 { self.nodes.len() - 1 } else { number - 1 };
            // Of node 0 only signals go on.
            let next_has_room = number == 0 || !self.nodes[next].from_ring.is_full();
            let bus = self.bus(number);
            let node = &mut self.nodes[number];
            let sends = node.send(number, &mut self.buses[bus], self.phase, next_has_room);
            busy += u64::from(sends);
            next_active |= u32::from(sends) << next;
            if node.has_waiting() {
                next_active |= 1 << number;
                if let Some(place) = node.place
                    && !F::HEEDLESS_HEARTBEAT
                {
                    self.beats[place.function] &= !place.beat();
                }
            }
        }
        self.active = next_active;
        busy
    }

    /// The bus before a node.
    #[inline]
    fn bus(&self, node: usize) -> usize {
        let bus = self.turn + node;
        if bus >= self.buses.len() { bus - self.buses.len() } else { bus }
    }

    /// Whether heartbeats alone are under way.
    #[inline]
    pub fn has_nothing(&self) -> bool {
        self.signals + self.packets == 0
    }

    /// Whether a heartbeat of `function`, which spans `span` stages, reaches its read scheduler in this cycle.
    #[inline]
    pub fn has_beat(&self, function: usize, span: usize) -> bool {
        self.beats[function] >> (span + 2) & 1 == 1
    }

    /// What was taken off at `node` and is there for its stage in this cycle. To be emptied.
    #[inline]
    pub fn download(&mut self, node: usize) -> &mut Download<State> {
        let taken = if self.phase == 2 { 0 } else { self.phase + 1 };
        &mut self.nodes[node].downloads[taken]
    }

    /// Says that signals and packets were taken.
    #[inline]
    pub fn taken(&mut self, signals: usize, packets: usize) {
        self.signals -= signals;
        self.packets -= packets;
    }

    /// The stage of node `from` hands over a signal for that of node `to`.
    pub fn signal(&mut self, from: usize, to: usize, signal: Signal<State>) {
        self.nodes[from].upload.push((to, signal));
        self.active |= 1 << from;
        self.signals += 1;
    }

    /// A write scheduler hands over a packet; `false` if there is no room.
    pub fn send_back(&mut self, from: usize, packet: Handle) -> bool {
        let has_room = self.nodes[from].from_pipeline.push(packet);
        self.packets += usize::from(has_room);
        self.active |= 1 << from;
        has_room
    }

    /// Whether there is room for a packet to be sent back.
    pub fn has_room(&self, from: usize) -> bool {
        !self.nodes[from].from_pipeline.is_full()
    }

    /// The write scheduler's stage of a function has advanced.
    #[inline]
    pub fn beat(&mut self, function: usize) {
        self.beats[function] |= 1;
    }

    /// Registers are clocked: what was sent is before the next node.
    #[inline]
    pub fn tick(&mut self) {
        self.turn = if self.turn + 1 == self.buses.len() { 0 } else { self.turn + 1 };
        self.phase = if self.phase == 2 { 0 } else { self.phase + 1 };
        self.beats.iter_mut().for_each(|beats| *beats <<= 1);
    }

    /// Nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Packets that all buffers and registers together can hold.
    pub fn places(&self) -> usize {
        let buffers = |node: &Node<State>| node.from_pipeline.capacity() + node.from_ring.capacity() + 4;
        self.nodes.iter().map(buffers).sum()
    }

    /// By node, the most that its buffers held: from the pipeline, from the ring.
    pub fn most(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.nodes.iter().map(|node| (node.from_pipeline.most(), node.from_ring.most()))
    }

    /// By node: packets that wait from the pipeline and from the ring, and what is on the bus before it.
    pub fn held(&self) -> impl Iterator<Item = Held> + '_ {
        self.nodes.iter().enumerate().map(|(number, node)| {
            let bus = &self.buses[self.bus(number)];
            Held {
                from_pipeline: node.from_pipeline.iter().collect(),
                from_ring: node.from_ring.iter().collect(),
                packet: bus.packet,
                signals: bus.signals.len(),
                beat: node.place.is_some_and(|place| self.beats[place.function] & place.beat() != 0),
            }
        })
    }
}

impl<State: Copy> Ring<State> {
    /// What it holds, as numbers. `place` gives that of a packet, `words` those of a state of a function.
    pub fn registers(
        &self,
        place: &dyn Fn(Handle) -> u64,
        words: &dyn Fn(usize, &State) -> Vec<u64>,
        registers: &mut Registers,
    ) {
        for (number, node) in self.nodes.iter().enumerate() {
            let name = format!("ring.{number}");
            registers.put(format!("{name}.from_pipeline"), node.from_pipeline.iter().map(place));
            registers.put(format!("{name}.from_ring"), node.from_ring.iter().map(place));
            let bus = &self.buses[self.bus(number)];
            let mut link = |what: &str, packet: Handle, signals: &[(usize, Signal<State>)]| {
                let name = format!("{name}.{what}");
                registers.put(name.clone(), [place(packet)]);
                let (mut writebacks, mut cancels, mut frees) = (Vec::new(), Vec::new(), Vec::new());
                for (to, signal) in signals {
                    let function = self.nodes[*to].place.map_or(0, |place| place.function);
                    match signal {
                        Signal::Writeback { key, state, is_dirty } => {
                            writebacks.extend([*key, u64::from(*is_dirty)]);
                            writebacks.extend(words(function, state));
                        }
                        Signal::Cancel { key } => cancels.push([function as u64, *key]),
                        Signal::Free { key } => frees.push([function as u64, *key]),
                    }
                }
                cancels.sort_unstable();
                frees.sort_unstable();
                registers.put(format!("{name}.writebacks"), writebacks);
                registers.put(format!("{name}.cancels"), cancels.into_iter().flatten());
                registers.put(format!("{name}.frees"), frees.into_iter().flatten());
            };
            link("bus", bus.packet, &bus.signals);
            link("upload", Handle::NONE, &node.upload);
            // Taken off in the cycle before, and in the one before that.
            for (what, age) in [("taken_1", 2), ("taken_2", 1)] {
                let Download { signals, packet } = &node.downloads[(self.phase + age) % 3];
                let signals: Vec<_> = signals.iter().map(|signal| (number, *signal)).collect();
                link(what, *packet, &signals);
            }
        }
        // The bit of the last cycle's first.
        registers.put("beats", self.beats.iter().map(|beats| u64::from(*beats >> 1)));
    }
}

/// What a node holds, to be shown.
#[derive(Debug)]
pub struct Held {
    /// Packets of its stage.
    pub from_pipeline: Vec<Handle>,
    /// Packets of nodes behind it.
    pub from_ring: Vec<Handle>,
    /// The packet on the bus before it.
    pub packet: Handle,
    /// Signals there.
    pub signals: usize,
    /// Whether a heartbeat is there, or comes from its stage.
    pub beat: bool,
}

impl<State: Copy> Node<State> {
    /// Whether packets wait here.
    #[inline]
    fn has_waiting(&self) -> bool {
        !self.from_ring.is_empty() || !self.from_pipeline.is_empty()
    }

    /// Takes off what is for this node, and sends. Returns whether it sends anything.
    #[inline]
    fn send(&mut self, number: usize, bus: &mut Bus<State>, phase: usize, next_has_room: bool) -> bool {
        if !bus.signals.is_empty() {
            let download = &mut self.downloads[phase].signals;
            bus.signals.retain(|&(to, signal)| {
                if to == number {
                    download.push(signal);
                }
                to != number
            });
        }
        if !self.upload.is_empty() {
            bus.signals.append(&mut self.upload);
        }
        match self.place {
            None => {}
            Some(Place { role: Role::Read, .. }) => {
                self.downloads[phase].packet = std::mem::replace(&mut bus.packet, Handle::NONE);
            }
            Some(_) => self.send_packet(bus, next_has_room),
        }
        bus.packet.is_some() || !bus.signals.is_empty()
    }

    /// One packet may go, if no signal does: those of the ring first.
    #[inline]
    fn send_packet(&mut self, bus: &mut Bus<State>, next_has_room: bool) {
        let mut arrived = std::mem::replace(&mut bus.packet, Handle::NONE);
        if next_has_room && bus.signals.is_empty() {
            bus.packet = self.from_ring.pop().unwrap_or(Handle::NONE);
            if bus.packet.is_none() {
                std::mem::swap(&mut bus.packet, &mut arrived);
            }
            if bus.packet.is_none() {
                bus.packet = self.from_pipeline.pop().unwrap_or(Handle::NONE);
            }
        }
        if arrived.is_some() {
            let has_place = self.from_ring.push(arrived);
            debug_assert!(has_place, "the node behind asked first");
        }
    }
}
