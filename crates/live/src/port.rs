//! A port on interfaces: where packets come in, and where those that leave go. One thread has it; or each of several cores
//! has one of its own, with sockets of its own at the same interfaces.

mod dropped;
mod forged;
mod routing;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use io::{
    Closed, Fate, Foreign, Frame, MarkedDrops, Note, Pool, Port, Received, Reference, StampClock, Tap,
    Waiting, Why,
};
use nf::prefix::PrefixSet;

use crate::answers::{AnswerCounters, AnswerLimit};
use crate::board::{Board, Due};
use crate::card::{self, CardHash};
use crate::clock::Clock;
use crate::counters::{InterfaceCounters, Lost};
use crate::external::ExternalAddresses;
use crate::host::HostDoor;
use crate::link::{Absent, Link, wait_for};
use crate::link_monitor::{CommandQueue, Kept, Kind, LinkMonitor, Order, Queues, State};
use crate::marks::{Marks, Stage};
use crate::packet_socket::PacketSocket;
use crate::route::{Forwarder, RouteCounters, Unresolved};
use crate::rules::CardRules;
use crate::side::{STALL, Side};
use crate::table::SpreadTable;
use crate::tags::TagsStay;
use crate::tap_link::{TapDevice, TapLink};
use crate::xdp::{HOLDS_TAGS, Steering, XdpProgram};
use crate::xdp_link::{LinkOptions, XdpLink, lock, umem};
use crate::{Interface, LiveError};

/// How packets go between interfaces.
pub enum Mode {
    /// Out of the other one of two, unchanged but for the chain's edits.
    Bridge,
    /// Nowhere: packets are looked at.
    Mirror,
    /// By the kernel's routes and neighbours, out of whichever interface of the port they name. See
    /// [`Routes::start`](crate::Routes::start).
    Route(Box<Forwarder>),
}

/// By which sockets packets come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sockets {
    /// AF_XDP where the kernel and the card allow it, else AF_PACKET; [`LivePort::remarks`] says why.
    #[default]
    Auto,
    /// AF_XDP, or an error.
    Xdp,
    /// AF_PACKET.
    Packet,
}

/// What a thread does while no packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Poll {
    /// Looks again and again: the shortest latency, and all of a processor.
    Busy,
    /// Looks again and again, and also does the driver's work by the way, in place of interrupts
    /// (`SO_PREFER_BUSY_POLL`); AF_XDP only. Other sockets look again and again.
    Driver,
    /// Sleeps after some 50 microseconds until a packet arrives: an idle port costs next to nothing, and the first packet
    /// after a pause waits for the thread to be woken, some 20 to 60 microseconds.
    #[default]
    Adaptive,
}

/// How a port is opened.
#[derive(Clone, Debug, Default)]
pub struct PortOptions {
    /// By which sockets.
    pub sockets: Sockets,
    /// What is done while no packets arrive.
    pub poll: Poll,
    /// By interface, packets that go to this host's own stack and not to the port, where AF_XDP is used. Missing ones pass
    /// none.
    pub steering: Vec<Steering>,
    /// By interface, which side of the chain it is on, if its packets are all from one. Missing ones are on none.
    pub sides: Vec<Option<wire::Side>>,
    /// By interface, the hosts of other sides inside, where the inside has several: what comes by it from one of them is forged.
    /// Missing ones are none.
    pub others: Vec<PrefixSet>,
    /// By interface, those that are TAP interfaces and no cards. Missing ones are none.
    pub taps: Vec<Option<TapDevice>>,
    /// How cards with several queues are to hash while the port is open. Without it they hash as they do.
    pub card_hash: Option<CardHash>,
    /// Which of this host's addresses are the chain's, where packets to the others are left to the host
    /// ([`Steering::pass_host_addresses`]).
    pub external: Option<ExternalAddresses>,
    /// How many dropped packets are [answered](wire::AnswerTo) a second, at each interface: rejected ones, and pings. 0: none.
    pub answers_per_second: u32,
    /// Gets a line, for people, when an interface goes down or away, and when it is back. It is called on another thread.
    pub tell: Option<fn(&str)>,
}

/// Interfaces as a port. Receives from each in turn.
pub struct LivePort {
    /// Ends first: what it has of an interface goes with the interface's sockets. The first core's looks after all.
    _link_monitor: Option<LinkMonitor>,
    pool: Pool,
    mode: Mode,
    /// To this host's own stack, for a router that takes packets from it.
    host: Option<Arc<HostDoor>>,
    clock: Clock,
    sides: Vec<Side>,
    board: Board,
    due: Due,
    /// What interfaces that went away or came back ask for.
    command_queue: Arc<CommandQueue>,
    outlives: bool,
    /// By chunk of the pool: the interface by which its packet came in.
    origins: Box<[u8]>,
    /// By interface: what is known of packets that come by it.
    notes: Box<[Note]>,
    /// By interface: sources that are forged, if there are some.
    others: Box<[Option<PrefixSet>]>,
    /// Whose turn it is to be received from.
    next: usize,
    /// Packets whose next hop the router does not know yet.
    unresolved: Unresolved<Frame>,
    marks: Marks,
    /// Since when packets up to a mark wait to leave.
    leaving_since_ns: u64,
    /// Whether several cores take packets from one queue by ports of their own.
    takes_in_turns: bool,
    /// Whether what comes ahead of receiving is done.
    is_prepared: bool,
    /// By which packets are spread over the ports of several cores.
    table: Option<SpreadTable>,
    /// Where XDP programs say where flows are.
    card: Option<CardRules>,
    remarks: Vec<String>,
    /// What the chain's drops mean.
    drops: MarkedDrops,
    answer_limit: AnswerLimit,
    answers: AnswerCounters,
    tap: Arc<Tap>,
    log: Arc<Tap>,
    poll: Poll,
    /// How often packets were asked for: an observer of the run sees that it goes on.
    pulse: Arc<AtomicU64>,
    /// What becomes readable when a packet arrives.
    polled: Box<[libc::pollfd]>,
}

impl LivePort {
    /// Opens sockets on interfaces. `pool` is a pool of [chunks](Pool::chunks).
    ///
    /// # Errors
    /// [`LiveError`] says what is missing. Nothing stays open then.
    ///
    /// # Panics
    /// If there is no interface, or there are not two for [`Mode::Bridge`], or more than 255.
    pub fn open(
        interfaces: &[Interface],
        mode: Mode,
        pool: Pool,
        options: &PortOptions,
    ) -> Result<LivePort, LiveError> {
        Ok(LivePort::open_each(interfaces, vec![(mode, pool)], options)?.remove(0))
    }

    /// Opens a port for each of several cores, all at the same interfaces. Each has a mode and a pool, a [peer](Pool::peers)
    /// of the others'. All [steering](PortOptions::steering) is to [spread](Steering::spread) packets over as many cores, or
    /// over none: then the ports take packets from one queue. Threads receive by them one at a time, and call
    /// [`Port::prepare`] before and [`Port::fetch`] behind, and packets have numbers in the order in which they were received.
    ///
    /// # Errors
    /// As [`LivePort::open`]; and where an interface cannot have an AF_XDP socket for each core at every queue. Several cores
    /// have no other sockets.
    ///
    /// # Panics
    /// As [`LivePort::open`], and if there is no core, or packets are spread over another number of cores.
    pub fn open_each(
        interfaces: &[Interface],
        cores: Vec<(Mode, Pool)>,
        options: &PortOptions,
    ) -> Result<Vec<LivePort>, LiveError> {
        let (modes, mut pools): (Vec<Mode>, Vec<Pool>) = cores.into_iter().unzip();
        let (cores, mode) = (modes.len(), &modes[0]);
        let is_bridge = matches!(mode, Mode::Bridge);
        assert!((1..256).contains(&interfaces.len()) && (!is_bridge || interfaces.len() == 2));
        let is_router = matches!(mode, Mode::Route(_));
        let sees_all = !is_router;
        let frames = pools[0].frames();
        let waiting = frames / (2 * interfaces.len());
        let has_parts = interfaces.iter().any(|interface| interface.mtu > LARGEST_MTU);
        if has_parts && cores > 1 {
            return Err(LiveError::refused(
                format!("frames in several buffers, those of an MTU above {LARGEST_MTU}, come to one thread"),
                "Have it in front of all cores: --front.",
            ));
        }
        let none = Steering::default();
        let is_spread = options.steering.iter().any(|steering| steering.spread.is_some());
        let (mut sides, mut remarks, mut kept) =
            ((0..cores).map(|_| Vec::new()).collect::<Vec<_>>(), Vec::new(), Vec::new());
        for (number, interface) in interfaces.iter().enumerate() {
            let steering = options.steering.get(number).unwrap_or(&none);
            let spread = steering.spread.as_ref().map_or(cores, |spread| spread.cores);
            assert!(
                spread == cores && steering.spread.is_some() == is_spread,
                "packets are spread over the cores"
            );
            let mut xdp = || -> Result<Opened, LiveError> {
                let umem = umem(&pools[0])?;
                let tags = TagsStay::in_frames_of(interface)?;
                let terms = LinkOptions {
                    number: number as u8,
                    waiting,
                    frame_bytes: pools[0].chunk_bytes(),
                    has_parts,
                    sees_all,
                    polls_driver: options.poll == Poll::Driver,
                    cores,
                    refuses_long: options.sockets == Sockets::Auto,
                };
                let mut links = XdpLink::open_each(interface, steering, &umem, terms)?;
                // One of its name that comes back is taken by these sockets.
                let terms = LinkOptions { refuses_long: false, ..terms };
                if links[0].segments() {
                    remarks.push(segments_tcp_of(interface));
                }
                links[0].turn(&mut pools[0]);
                links.iter_mut().try_for_each(XdpLink::steer)?;
                let rss = card::set(interface, options.card_hash.as_ref(), &mut remarks);
                let program = links[0].program();
                let links = links.into_iter().map(|link| -> Box<dyn Link> { Box::new(link) }).collect();
                Ok((Some(program), Kind::Xdp { umem, options: terms, tags, rss }, links))
            };
            let packet = || -> Result<Opened, LiveError> {
                let socket = PacketSocket::open(interface, sees_all)?;
                // What a run that died left there keeps packets from these sockets, too.
                let _ = steering.pins.unblock(&interface.name);
                Ok((None, Kind::Packet, vec![Box::new(socket)]))
            };
            let tap = options.taps.get(number).cloned().flatten();
            let (program, kind, links) = match (tap, options.sockets) {
                _ if cores > 1 => xdp()?,
                (Some(tap), _) => (None, Kind::Tap, vec![Box::new(TapLink::new(tap)) as Box<dyn Link>]),
                (None, Sockets::Packet) => packet()?,
                (None, Sockets::Xdp) => xdp()?,
                (None, Sockets::Auto) => match xdp() {
                    Ok(link) => link,
                    Err(error) if error.is_in_the_way() => return Err(error),
                    Err(error) => {
                        remarks.push(format!("{}: AF_PACKET and not AF_XDP: {error}", interface.name));
                        packet()?
                    }
                },
            };
            if options.card_hash.is_some() && program.is_none() {
                remarks
                    .push(format!("{}: the card's own hash stays as it is without AF_XDP", interface.name));
            }
            let misses_guard = |program: &Arc<Mutex<XdpProgram>>| !lock(program).has_guard();
            if steering.drops_unserved && program.as_ref().is_some_and(misses_guard) {
                remarks.push(format!(
                    "{}: packets of queues that it gets later may go past the chain until they have sockets: Linux 6.6 keeps \
                     them from that",
                    interface.name
                ));
            }
            let misses_tags = |program: &Arc<Mutex<XdpProgram>>| !lock(program).asks_for_tags();
            if interface.driver == HOLDS_TAGS && program.as_ref().is_some_and(misses_tags) {
                remarks.push(misses_tags_of(interface));
            }
            for (sides, link) in sides.iter_mut().zip(links) {
                sides.push(Side::new(interface, link));
            }
            kept.push(Kept {
                name: interface.name.clone(),
                kind,
                steering: steering.clone(),
                sees_all,
                program,
                state: State::Held {
                    index: interface.index,
                    is_up: true,
                    queues: Queues::all(interface.queues),
                },
            });
        }
        let takes = !sides[0].iter().all(|side| side.link.shares_with_host());
        let host = match is_router && takes {
            true => HostDoor::open()
                .inspect_err(|error| {
                    remarks.push(format!(
                        "packets that the chain leaves to this host are lost (for-host): {error}"
                    ));
                })
                .ok()
                .map(Arc::new),
            false => None,
        };
        let command_queues: Vec<Arc<CommandQueue>> = (0..cores).map(|_| Arc::default()).collect();
        let spread = options.steering.first().and_then(|steering| steering.spread.as_ref());
        let programs = || kept.iter().map(|kept| kept.program.clone()).collect();
        let table = spread.map(|spread| SpreadTable::new(spread.owners.clone(), programs())).transpose()?;
        let (external, tell) = (options.external.clone(), options.tell.unwrap_or(|_| {}));
        let says = options.steering.iter().any(|steering| steering.card_flows > 0);
        let card = says.then(|| CardRules::new(programs()));
        let link_monitor =
            LinkMonitor::start(kept, command_queues.clone(), (table.clone(), card.clone()), external, tell)?;
        let (tap, log) = (Arc::<Tap>::default(), Arc::<Tap>::default());
        let answer_limit = AnswerLimit::new(interfaces.len(), options.answers_per_second);
        let came_by = |number, mode: &Mode| {
            let note = Note::by(options.sides.get(number).copied().flatten());
            if matches!(mode, Mode::Route(_)) { note.quotable() } else { note }
        };
        let port = |(pool, mode, sides, command_queue, board, clock): (
            Pool,
            Mode,
            Vec<Side>,
            Arc<CommandQueue>,
            Board,
            Clock,
        )| {
            LivePort {
                origins: vec![0; frames].into(),
                notes: (0..sides.len()).map(|number| came_by(number, &mode)).collect(),
                others: (0..sides.len()).map(|number| others_at(options, number)).collect(),
                polled: polled(&sides),
                pool,
                mode,
                host: host.clone(),
                clock,
                sides,
                board,
                due: Due::default(),
                command_queue,
                outlives: false,
                _link_monitor: None,
                next: 0,
                unresolved: Unresolved::default(),
                marks: Marks::default(),
                leaving_since_ns: 0,
                takes_in_turns: cores > 1 && !is_spread,
                is_prepared: false,
                table: table.clone(),
                card: card.clone(),
                remarks: Vec::new(),
                poll: options.poll,
                pulse: Arc::default(),
                drops: MarkedDrops::default(),
                answer_limit: answer_limit.clone(),
                answers: AnswerCounters::default(),
                tap: Arc::clone(&tap),
                log: Arc::clone(&log),
            }
        };
        let parts = pools.into_iter().zip(modes).zip(sides).zip(command_queues).zip(Board::for_cores(cores));
        let parts = parts.zip(Clock::for_cores(cores));
        let parts = parts.map(|(((((pool, mode), sides), command_queue), board), clock)| {
            (pool, mode, sides, command_queue, board, clock)
        });
        let mut ports: Vec<LivePort> = parts.map(port).collect();
        (ports[0]._link_monitor, ports[0].remarks) = (Some(link_monitor), remarks);
        Ok(ports)
    }

    /// What waits to leave when a run is over: interfaces get some milliseconds to take it. The rest is lost and counted so, and
    /// all frames go back to the pool. Nothing waits for a neighbour any longer.
    pub fn finish(&mut self) {
        while let Some(frame) = self.unresolved.take() {
            self.give_up(frame);
        }
        let begin = Instant::now();
        while !self.sides.iter().all(Side::is_empty) && begin.elapsed() < STALL {
            self.flush();
        }
        self.sides.iter_mut().for_each(|side| side.give_up(&mut self.pool));
        // Nobody takes what was received and not handed out.
        self.sides.iter_mut().for_each(|side| side.link.close(&mut self.pool));
    }

    /// Frames of the pool that nobody has, and those that sockets say they have, of ports that were opened together: all of
    /// them, when nothing is on its way. What is lent to a socket that does not have it, or is gone, is lost.
    pub fn at_home(ports: &mut [LivePort]) -> usize {
        let free: usize = ports.iter_mut().map(|port| port.pool.free()).sum();
        let Some(LivePort { pool, sides, .. }) = ports.first() else { return 0 };
        // What a queue's sockets have in common each of them knows.
        let lent = (0..).zip(sides).map(|(number, side)| pool.lent_to(number).min(side.link.borrowed()));
        lent.sum::<usize>() + free + pool.in_bank()
    }

    /// The interfaces of ports that were opened together, what was chosen for each, and what it counts for all of them.
    pub fn all_interfaces(ports: &mut [LivePort]) -> Vec<(Interface, String, InterfaceCounters)> {
        let mut sums: Vec<(Interface, String, InterfaceCounters)> = Vec::new();
        for port in ports {
            for (at, (interface, socket, counters)) in port.interfaces().into_iter().enumerate() {
                match sums.get_mut(at) {
                    Some((.., sum)) => sum.add(&counters),
                    None => sums.push((interface, socket, counters)),
                }
            }
        }
        sums
    }

    /// What became of packets that were routed by ports that were opened together, in route mode.
    pub fn all_routed(ports: &[LivePort]) -> Option<RouteCounters> {
        let mut all = ports.iter().filter_map(LivePort::routed);
        let first = all.next()?.clone();
        Some(all.fold(first, RouteCounters::plus))
    }

    /// What became of packets that the chain rejected, of ports that were opened together.
    pub fn all_answers(ports: &[LivePort]) -> AnswerCounters {
        ports.iter().fold(AnswerCounters::default(), |sum, port| sum.plus(port.answers))
    }

    /// Counts up as long as a thread asks the port for packets, whether there are any or not.
    pub fn pulse(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.pulse)
    }

    /// What the interfaces count, for other threads.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// The table by which packets are [spread](Steering::spread) over the ports of several cores.
    pub fn table(&self) -> Option<SpreadTable> {
        self.table.clone()
    }

    /// The card that says where flows are, where [it is to](Steering::card_flows).
    pub fn card(&self) -> Option<CardRules> {
        self.card.clone()
    }

    /// Why sockets are not of the best kind, and what they do not see, in sentences for people.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The tap, by which a listener gets copies of packets that are dropped, by the chain or behind it. The number
    /// of an interface is its place in what the port was opened with.
    pub fn tap(&self) -> Arc<Tap> {
        Arc::clone(&self.tap)
    }

    /// A tap by which a listener gets copies of those that a rule asks to have in a log.
    pub fn log(&self) -> Arc<Tap> {
        Arc::clone(&self.log)
    }

    /// Whether this host's own stack sees the packets of some interface as well.
    pub fn shares_with_host(&self) -> bool {
        self.sides.iter().any(|side| side.link.shares_with_host())
    }

    /// How long the chunks of a pool have to be for interfaces with this MTU: room for two VLAN tags, and before the
    /// packet for what the kernel puts there and for headers to grow.
    pub fn chunk_bytes(mtu: usize) -> usize {
        const HEADROOM: usize = 256 + 64;
        const ETHERNET: usize = 14 + 2 * 4;
        (HEADROOM + ETHERNET + mtu).next_power_of_two().clamp(2_048, 1 << 16)
    }

    /// Whether the interfaces stay as [`OnDeath::Block`](crate::xdp::OnDeath) has them when this port is dropped, as they
    /// do when the process is killed. They do not unless this is called: what is not quite set up is undone.
    pub fn outlive(&mut self, outlives: bool) {
        self.outlives = outlives;
        self.sides.iter_mut().for_each(|side| side.link.outlive(outlives));
    }

    /// Lets go of interfaces that went away, takes those that are back, and sockets of new queues.
    #[cold]
    fn obey(&mut self) {
        for order in self.command_queue.take() {
            match order {
                Order::Leave(number) => {
                    let link = Box::new(Absent::default());
                    // With the interface went whatever could be blocked.
                    self.sides[number].link.outlive(false);
                    self.sides[number].replace(link, number as u8, &mut self.pool);
                }
                Order::Take(number, interface, mut link) => {
                    link.outlive(self.outlives);
                    let side = &mut self.sides[number];
                    side.replace(link, number as u8, &mut self.pool);
                    side.link.turn(&mut self.pool);
                    side.interface = interface;
                }
                Order::Widen(number, interface, sockets, filled) => {
                    let side = &mut self.sides[number];
                    side.link.widen(sockets, filled);
                    side.link.turn(&mut self.pool);
                    side.interface = interface;
                }
            }
        }
        self.command_queue.done();
        self.polled = polled(&self.sides);
        self.board.forget();
        self.board.write(&mut self.sides);
    }

    /// The interfaces, what was chosen for each, and what it counts.
    pub fn interfaces(&mut self) -> Vec<(Interface, String, InterfaceCounters)> {
        let of = |side: &mut Side| {
            side.link.note_counters();
            (side.interface.clone(), side.link.describe(), side.counters())
        };
        self.sides.iter_mut().map(of).collect()
    }

    /// Notes how far rings have come.
    fn note_rings(&mut self) {
        self.sides.iter_mut().for_each(|side| side.link.mark());
    }

    /// Goes on with the mark under way, as far as it has come.
    fn follow_mark(&mut self) {
        let are_received = || self.sides.iter().all(|side| side.link.is_past_mark());
        if self.marks.stage() == Some(Stage::Receiving) && are_received() {
            self.sides.iter_mut().for_each(Side::mark);
            self.leaving_since_ns = self.clock.now_ns();
            self.marks.received();
        }
        if self.marks.stage() == Some(Stage::Leaving) {
            let have_left = self.sides.iter_mut().all(Side::is_past_mark);
            // What waits for an interface that takes nothing is lost soon, or late: nobody waits for it.
            let is_stalled = self.clock.now_ns() - self.leaving_since_ns > STALL.as_nanos() as u64;
            if (have_left || is_stalled) && self.marks.left() {
                self.note_rings();
            }
        }
    }

    /// All frames of the pool.
    pub fn frames(&self) -> usize {
        self.pool.frames()
    }

    /// What became of packets that were routed, in route mode.
    pub fn routed(&self) -> Option<&RouteCounters> {
        match &self.mode {
            Mode::Route(forwarder) => Some(forwarder.counters()),
            Mode::Bridge | Mode::Mirror => None,
        }
    }

    /// Puts a frame to those that wait for the interface that it is to leave by; one that leaves by none is given back.
    #[inline]
    fn stage(&mut self, mut frame: Frame, fate: Fate) {
        let from = usize::from(self.origins[self.pool.chunk_of(&frame)]);
        let to = match (fate, &self.mode) {
            (Fate::DropBy { .. } | Fate::Drop(_), _) => {
                self.tell_dropped(&frame, from, Why::Chain(fate, frame.note.refused()));
                if self.drops.is_logged(fate) {
                    self.tell_logged(&frame, from, fate);
                }
                match self.drops.answer_to(fate) {
                    Some(to) => self.answer_dropped(&mut frame, from, to),
                    None => None,
                }
            }
            (_, Mode::Mirror) => None,
            (Fate::Host, _) => self.leave_to_host(&frame, from),
            (Fate::TransmitBack, _) => Some(from),
            (Fate::Forward, Mode::Bridge) => Some(1 - from),
            (Fate::Forward, Mode::Route(_)) => {
                return self.route(frame, from, |forwarder, frame, headers, came| {
                    forwarder.forward(frame, headers, came)
                });
            }
        };
        self.leave(frame, to);
    }

    /// Puts a frame to those that wait for an interface, or gives it back.
    #[inline]
    fn leave(&mut self, frame: Frame, to: Option<usize>) {
        match to {
            Some(to) => self.sides[to].stage(frame),
            None => self.pool.give_back([frame].into_iter()),
        }
    }

    /// A packet is for this host, whose own stack sees what AF_PACKET sees.
    fn leave_to_host(&mut self, frame: &Frame, from: usize) -> Option<usize> {
        if !self.sides[from].link.shares_with_host() {
            let bytes = self.pool.bytes(frame);
            if !self.host.as_ref().is_some_and(|host| host.hand_in(bytes)) {
                self.sides[from].lost.lose(Lost::ForHost);
                self.tell_dropped(frame, from, Why::Behind("port", Lost::ForHost.name()));
            }
        }
        None
    }

    /// The number of the interface with this index.
    fn number_of(&self, index: u32) -> Option<usize> {
        self.sides.iter().position(|side| side.interface.index == index)
    }

    /// Frames that may come to wait, all for one interface: each may bring an answer of the router with it.
    fn room(&self) -> usize {
        let room = self.sides.iter().map(Side::room).min().unwrap_or(0);
        if matches!(self.mode, Mode::Route(_)) { room / 2 } else { room }
    }

    fn flush(&mut self) {
        self.sides.iter_mut().for_each(|side| side.flush(&mut self.pool));
    }
}

/// The links of all cores to an interface, how they can be opened again, and the program there.
type Opened = (Option<Arc<Mutex<XdpProgram>>>, Kind, Vec<Box<dyn Link>>);

/// Sources that are forged where they come by the interface with this number, if there are some.
fn others_at(options: &PortOptions, number: usize) -> Option<PrefixSet> {
    options.others.get(number).filter(|others| !others.is_empty()).cloned()
}

/// What becomes readable when a packet arrives at one of them.
fn polled(sides: &[Side]) -> Box<[libc::pollfd]> {
    let all = sides.iter().flat_map(|side| side.link.descriptors());
    all.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect()
}

/// An interface to which packets come that are to be segmented.
fn segments_tcp_of(Interface { name, mtu, .. }: &Interface) -> String {
    format!(
        "{name}: packets may come merged, and AF_XDP does not tell how to segment them: TCP is cut to the MTU ({mtu}), merged \
         datagrams are lost (not-segmented). --socket packet is told."
    )
}

/// A virtual interface whose driver cannot be asked for tags.
fn misses_tags_of(Interface { name, .. }: &Interface) -> String {
    format!(
        "{name}: VLAN tags that its other end leaves beside frames are lost: this kernel does not tell them (Linux 6.8 \
         does). If there are such frames: ethtool -K IF txvlan off at the other end, or --socket packet."
    )
}

/// The largest MTU whose frames have one part: less than a page with what the kernel puts around a packet. Drivers take
/// programs that know of no parts up to it.
pub(crate) const LARGEST_MTU: usize = 3_498;

impl Port for LivePort {
    fn prepare(&mut self) {
        if self.command_queue.is_due() {
            self.obey();
        }
        if !self.unresolved.is_empty() {
            self.refresh();
        }
        self.flush();
        self.clock.read();
        if self.due.is_now(self.clock.now_ns()) {
            self.board.write(&mut self.sides);
        }
        // There is no other writer.
        self.pulse.store(self.pulse.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.pool.deposit();
        self.is_prepared = true;
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        match self.is_prepared {
            // Times are to ascend with numbers, over all cores.
            true => self.clock.read(),
            false => self.prepare(),
        }
        self.is_prepared = false;
        let begin = frames.len();
        for _ in 0..self.sides.len() {
            let from = self.next;
            self.next = (self.next + 1) % self.sides.len();
            let side = &mut self.sides[from];
            side.link.receive(&mut self.pool, &mut self.clock, max, frames);
            if matches!(self.mode, Mode::Route(_)) {
                self.screen(frames, begin, from);
            }
            if frames.len() > begin {
                self.clock.number(&mut frames[begin..]);
                // A batch is of one interface.
                for frame in &mut frames[begin..] {
                    frame.note = self.notes[from];
                    self.origins[self.pool.chunk_of(frame)] = from as u8;
                }
                if let Some(others) = &self.others[from] {
                    self.note_forged(&mut frames[begin..], others);
                }
                if !self.takes_in_turns {
                    self.fetch(&mut frames[begin..]);
                }
                return Received::Frames;
            }
        }
        Received::Idle
    }

    fn fetch(&mut self, frames: &mut [Frame]) {
        let Some(first) = frames.first() else { return };
        let from = usize::from(self.origins[self.pool.chunk_of(first)]);
        self.sides[from].link.fetch(&mut self.pool, frames);
    }

    fn consumed(&self) -> u64 {
        self.clock.stamped()
    }

    fn mark(&mut self) -> u64 {
        // What an interface that is back has in its rings counts as well.
        if self.command_queue.is_due() {
            self.obey();
        }
        let (mark, begins) = self.marks.ask();
        if begins {
            self.note_rings();
        }
        mark
    }

    #[inline]
    fn passed(&mut self) -> u64 {
        if self.marks.stage().is_some() {
            self.follow_mark();
        }
        self.marks.passed()
    }

    #[inline]
    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    fn clock(&self) -> Option<StampClock> {
        Some(self.clock.of_stamps())
    }

    fn mark_drops(&mut self, drops: &MarkedDrops) {
        self.drops = drops.clone();
    }

    fn references(&self, frames: &[Frame], references: &mut [Reference]) {
        self.pool.references(frames, references);
    }

    #[inline]
    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        assert_eq!(frames.len(), fates.len(), "a fate for each frame");
        // Whichever interface they are for.
        if self.room() < frames.len() + self.unresolved.len() {
            self.flush();
        }
        self.refresh();
        let taken = self.room().min(frames.len());
        for (frame, fate) in frames.drain(..taken).zip(fates) {
            self.stage(frame, *fate);
        }
        self.flush();
        Ok(taken)
    }

    fn take_over(&mut self, frames: &[Frame]) -> Result<(), Foreign> {
        self.pool.take_over(frames)
    }

    fn hand_over(&mut self, frames: &[Frame]) {
        self.pool.hand_over(frames);
    }

    fn idle(&mut self, waiting: &Waiting) {
        match self.poll {
            Poll::Busy | Poll::Driver => std::hint::spin_loop(),
            Poll::Adaptive if waiting.is_long() && self.sides.iter().all(Side::is_empty) => {
                wait_for(&mut self.polled);
            }
            Poll::Adaptive => waiting.wait(),
        }
    }
}
