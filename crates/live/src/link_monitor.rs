//! The thread that looks after the interfaces of a port: one that vanishes is let go of, and picked up again by its name
//! when it is back.
//!
//! ```text
//!   the kernel --- links, addresses ---> monitor ---- Order ---> the thread that has the port
//!                                                               (takes it before it receives)
//! ```
//!
//! Where each core has a port of its own, each gets the order. No interface is taken before all of them let go of the one
//! before, so that what is lent to its sockets is told apart.
//!
//! Where an interface gets more receive queues the new ones get sockets. Until they have them their packets are dropped by the
//! interface's program: they bypass nobody.
//!
//! What the kernel tells is only when to look: what there is, is read anew each time. So nothing hangs on a lost
//! notification.

#![allow(unsafe_code)]

use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use netlink_sys::Socket;
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::card::CardRss;
use crate::external::ExternalAddresses;
use crate::interface::{Presence, host_addresses};
use crate::link::Link;
use crate::packet_socket::PacketSocket;
use crate::rights;
use crate::rules::CardRules;
use crate::table::{InForce, SpreadTable};
use crate::tags::TagsStay;
use crate::tap_link::{TapDevice, TapLink};
use crate::xdp::{Steering, Umem, XdpProgram, XdpSocket};
use crate::xdp_link::{LinkOptions, XdpLink, lock};
use crate::{Interface, LiveError};

/// How often it looks though the kernel tells nothing: of queues it does not.
const LOOK: Duration = Duration::from_millis(250);
/// How soon it notices that the port is gone, milliseconds, and that an order was taken.
const TURN_MS: libc::c_int = 50;
/// What the kernel is heard on: links, and this host's own addresses.
const GROUPS: [u32; 3] = [libc::RTNLGRP_LINK, libc::RTNLGRP_IPV4_IFADDR, libc::RTNLGRP_IPV6_IFADDR];

/// What the thread that has the port is to do, for the interface of this number.
pub(crate) enum Order {
    /// It is gone: let go of its sockets.
    Leave(usize),
    /// It is back.
    Take(usize, Interface, Box<dyn Link>),
    /// It has more receive queues: sockets of those, and how many chunks are to wait at each queue.
    Widen(usize, Interface, Vec<XdpSocket>, usize),
}

/// What the threads of all cores are to do, for one interface.
pub(crate) enum Orders {
    /// It is gone.
    Leave,
    /// It is back, with what each core has of it.
    Take(Interface, Vec<Box<dyn Link>>),
    /// It has more receive queues, with the sockets of each core, and how many chunks are to wait at each queue.
    Widen(Interface, Vec<Vec<XdpSocket>>, usize),
}

impl Orders {
    /// Puts each core's onto its queue of commands, about the interface of this number.
    fn put(self, number: usize, command_queues: &[Arc<CommandQueue>]) {
        match self {
            Orders::Leave => {
                command_queues.iter().for_each(|command_queue| command_queue.put(Order::Leave(number)))
            }
            Orders::Take(interface, links) => {
                for (command_queue, link) in command_queues.iter().zip(links) {
                    command_queue.put(Order::Take(number, interface.clone(), link));
                }
            }
            Orders::Widen(interface, sockets, filled) => {
                for (command_queue, sockets) in command_queues.iter().zip(sockets) {
                    command_queue.put(Order::Widen(number, interface.clone(), sockets, filled));
                }
            }
        }
    }
}

/// Where orders lie until they are taken.
#[derive(Default)]
pub(crate) struct CommandQueue {
    is_due: AtomicBool,
    orders: Mutex<Vec<Order>>,
}

impl CommandQueue {
    /// Whether there is something to do: one load.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    /// What is to be done, in order. It is due until it is [done](CommandQueue::done).
    #[cold]
    pub(crate) fn take(&self) -> Vec<Order> {
        std::mem::take(&mut unpoisoned(&self.orders))
    }

    /// What was taken is done. Nothing is put meanwhile.
    pub(crate) fn done(&self) {
        self.is_due.store(false, Ordering::Release);
    }

    fn put(&self, order: Order) {
        let mut orders = unpoisoned(&self.orders);
        orders.push(order);
        self.is_due.store(true, Ordering::Relaxed);
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How an interface is opened.
pub(crate) enum Kind {
    Packet,
    Tap,
    /// With its share of the pool, and VLAN tags in frames and the card's hash as asked until the port is dropped.
    Xdp {
        umem: Umem,
        options: LinkOptions,
        tags: TagsStay,
        rss: Option<Box<CardRss>>,
    },
}

/// An interface that is looked after.
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) steering: Steering,
    pub(crate) sees_all: bool,
    pub(crate) program: Option<Arc<Mutex<XdpProgram>>>,
    pub(crate) state: State,
}

/// What the port has of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Sockets on the interface with this index, which is up, or not, at so many receive queues.
    Held { index: u32, is_up: bool, queues: Queues },
    /// None. What was last said of it.
    Gone(String),
}

/// The receive queues of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queues {
    /// So many have sockets.
    served: u32,
    /// How many queues there were when it was last reported that those beyond `served` have no socket.
    told: u32,
}

impl Queues {
    /// All of them have sockets.
    pub(crate) fn all(queues: u32) -> Queues {
        Queues { served: queues, told: queues }
    }
}

impl Kept {
    /// Opens sockets on queues that the interface has got, and what there is to say.
    fn widen(&self, now: &Interface, queues: &mut Queues) -> (Option<Orders>, Option<String>) {
        let (Kind::Xdp { umem, options, .. }, Some(program)) = (&self.kind, &self.program) else {
            // Other sockets get the packets of all queues.
            return (None, None);
        };
        let (name, served) = (&now.name, queues.served);
        if now.queues <= served {
            return (None, None);
        }
        match XdpLink::open_more(now, served..now.queues, (program, &self.steering), umem, *options) {
            Ok((sockets, filled)) => {
                *queues = Queues::all(now.queues);
                let said =
                    format!("{name}: {} receive queues, {served} before; all have sockets", now.queues);
                (Some(Orders::Widen(now.clone(), sockets, filled)), Some(said))
            }
            Err(error) => {
                let said = (queues.told != now.queues).then(|| {
                    format!(
                        "{name}: {} receive queues, {served} before; packets that come by the new ones are lost (no-socket): {error}",
                        now.queues
                    )
                });
                queues.told = now.queues;
                (None, said)
            }
        }
    }

    /// Opens sockets, from whatever thread; packets come by them at once, and are lost until the port has them.
    fn open(
        &mut self,
        interface: &Interface,
        in_force: Option<&mut InForce>,
    ) -> Result<Vec<Box<dyn Link>>, LiveError> {
        if let (Some(spread), Some(in_force)) = (&mut self.steering.spread, in_force) {
            spread.owners.clone_from(&in_force.owners);
        }
        Ok(match &mut self.kind {
            Kind::Packet => vec![Box::new(PacketSocket::open(interface, self.sees_all)?)],
            Kind::Tap => vec![Box::new(TapLink::new(TapDevice::open(&interface.name)?.0))],
            Kind::Xdp { umem, options, tags, rss } => {
                *tags = TagsStay::in_frames_of(interface)?;
                // A new card hashes as it does by itself.
                *rss = None;
                let mut links = XdpLink::open_each(interface, &self.steering, umem, *options)?;
                links.iter_mut().try_for_each(XdpLink::steer)?;
                self.program = links.first().map(XdpLink::program);
                links.into_iter().map(|link| -> Box<dyn Link> { Box::new(link) }).collect()
            }
        })
    }

    /// What is to be done about what there is now, and what there is to say.
    fn look(&mut self, found: Presence, in_force: Option<&mut InForce>) -> (Option<Orders>, Option<String>) {
        let name = &self.name;
        match (&self.state, found) {
            (State::Held { index, is_up: true, queues }, Presence::Up(now)) if *index == now.index => {
                let (index, mut queues) = (*index, *queues);
                let done = self.widen(&now, &mut queues);
                self.state = State::Held { index, is_up: true, queues };
                done
            }
            (State::Held { index, is_up: false, queues }, Presence::Up(now)) if *index == now.index => {
                // More queues are seen the next time.
                let said = format!("{name}: up again, packets go on");
                self.state = State::Held { index: *index, is_up: true, queues: *queues };
                (None, Some(said))
            }
            (State::Held { index, is_up, queues }, Presence::Down(now)) if *index == now => {
                let (index, queues) = (*index, *queues);
                let said = is_up.then(|| {
                    format!(
                        "{name}: down; packets that are to leave by it are lost (link-down) until it is up"
                    )
                });
                self.state = State::Held { index, is_up: false, queues };
                (None, said)
            }
            (State::Held { .. }, _) => {
                let said = format!(
                    "{name}: gone; packets that are to leave by it are lost (link-down) until there is one of that name"
                );
                self.program = None;
                self.state = State::Gone(String::new());
                (Some(Orders::Leave), Some(said))
            }
            (State::Gone(before), Presence::Up(now)) => {
                let before = before.clone();
                match self.open(&now, in_force) {
                    Ok(links) => {
                        let queues = Queues::all(now.queues);
                        self.state = State::Held { index: now.index, is_up: true, queues };
                        let said = format!("{}: back, {}", now.name, links[0].describe());
                        (Some(Orders::Take(now, links)), Some(said))
                    }
                    Err(error) => {
                        let said = format!("{}: back, and cannot be used: {error}", now.name);
                        self.state = State::Gone(said.clone());
                        // Once, however often it is tried.
                        (None, (said != before).then_some(said))
                    }
                }
            }
            (State::Gone(_), _) => (None, None),
        }
    }
}

/// The thread. It ends when this is dropped.
pub(crate) struct LinkMonitor {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LinkMonitor {
    /// Looks after these interfaces, by number, whose programs go by the table and have the card's rules, and leave to the host
    /// what is not external.
    /// `tell` gets what happened, in sentences for people.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel tells nothing, or there is no thread.
    pub(crate) fn start(
        kept: Vec<Kept>,
        command_queues: Vec<Arc<CommandQueue>>,
        (table, card): (Option<SpreadTable>, Option<CardRules>),
        external: Option<ExternalAddresses>,
        tell: fn(&str),
    ) -> Result<LinkMonitor, LiveError> {
        let socket =
            listen().map_err(|error| LiveError::of("cannot hear of changes of interfaces", error))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("interfaces".to_owned()).spawn(move || {
            // Where that fails the thread has what the process has.
            let _ = rights::keep(&rights::FOR_INTERFACES);
            let programs = (table.as_ref(), card.as_ref());
            keep(kept, (&command_queues, programs, external.as_ref()), &socket, &over, tell);
        });
        let thread = thread.map_err(|error| LiveError::of("cannot start a thread for interfaces", error))?;
        Ok(LinkMonitor { is_over, thread: Some(thread) })
    }
}

impl Drop for LinkMonitor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen() -> std::io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.set_non_blocking(true)?;
    GROUPS.iter().try_for_each(|group| socket.add_membership(*group))?;
    Ok(socket)
}

/// Who knows the programs that there are: the table and the card's rules.
type Programs<'a> = (Option<&'a SpreadTable>, Option<&'a CardRules>);

fn keep(
    mut kept: Vec<Kept>,
    (command_queues, (table, card), external): (
        &[Arc<CommandQueue>],
        Programs<'_>,
        Option<&ExternalAddresses>,
    ),
    socket: &Socket,
    is_over: &AtomicBool,
    tell: fn(&str),
) {
    let (mut looked, mut addresses) = (Instant::now(), host_addresses().unwrap_or_default());
    let mut change = 0;
    // What is told when the port has done it.
    let mut to_tell: Vec<String> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let has_changed = hears(socket);
        if let Some(external) = external
            && let changes = external.changes()
            && changes != change
        {
            change = changes;
            kept.iter_mut().for_each(|kept| kept.tell_addresses(&addresses, Some(external)));
            external.are_in_force(change);
        }
        // What was ordered comes first.
        let is_due = command_queues.iter().any(|command_queue| command_queue.is_due());
        if !is_due {
            to_tell.drain(..).for_each(|said| tell(&said));
        }
        if is_due || !(has_changed || looked.elapsed() > LOOK) {
            if is_due && has_changed {
                looked = Instant::now() - LOOK;
            }
            continue;
        }
        looked = Instant::now();
        for (number, kept) in kept.iter_mut().enumerate() {
            let found = Interface::look(&kept.name);
            // The table changes before the interface has it, or when the cores know of the interface.
            let mut in_force = table.map(SpreadTable::lock);
            let (orders, said) = kept.look(found, in_force.as_deref_mut());
            if let Some(in_force) = &mut in_force {
                in_force.programs[number].clone_from(&kept.program);
            }
            if let (Some(card), Some(_)) = (card, &orders) {
                card.replace(number, kept.program.as_ref());
            }
            orders.into_iter().for_each(|orders| orders.put(number, command_queues));
            drop(in_force);
            kept.program.iter().for_each(|program| lock(program).note_unserved());
            to_tell.extend(said);
        }
        if let Ok(now) = host_addresses()
            && now != addresses
        {
            kept.iter_mut().for_each(|kept| kept.tell_addresses(&now, external));
            addresses = now;
        }
    }
}

impl Kept {
    /// The host has other addresses, or the chain: packets to the host's are its own, but for those to the chain's.
    fn tell_addresses(&mut self, now: &[IpAddr], external: Option<&ExternalAddresses>) {
        let Steering { pass_host_addresses, host_addresses, port_addresses, .. } = &mut self.steering;
        // Without a rule that reads them they are not asked for.
        if !*pass_host_addresses {
            return;
        }
        match external {
            Some(external) => (*port_addresses, *host_addresses) = external.split(now),
            None => {
                *host_addresses =
                    now.iter().copied().filter(|address| !port_addresses.contains(address)).collect();
            }
        }
        if let Some(program) = &self.program {
            // With more addresses than there is room for, those before stay.
            let _ = lock(program).set_addresses(&self.steering);
        }
    }
}

/// Waits for a notification, for a turn at most, and says whether there was one. They are not read: see the module.
fn hears(socket: &Socket) -> bool {
    let fd: RawFd = socket.as_raw_fd();
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which outlives the call.
    if unsafe { libc::poll(&mut polled, 1, TURN_MS) } <= 0 {
        return false;
    }
    let mut buffer = Vec::with_capacity(32 << 10);
    loop {
        buffer.clear();
        match socket.recv(&mut buffer, libc::MSG_DONTWAIT | libc::MSG_TRUNC) {
            Ok(_) => {}
            // Some were lost: there is more to see, not less.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(index: u32) -> Presence {
        Presence::Up(Interface {
            name: "lo".to_owned(),
            index,
            mtu: 1_500,
            address: [0; 6],
            driver: String::new(),
            queues: 1,
        })
    }

    /// What is said, and what is ordered, as an interface goes down, comes up, goes, and cannot be opened again.
    #[test]
    fn each_change_is_told_once() {
        let mut kept = Kept {
            name: "eth1".to_owned(),
            kind: Kind::Packet,
            steering: Steering::default(),
            sees_all: false,
            program: None,
            state: State::Held { index: 7, is_up: true, queues: Queues::all(1) },
        };
        let mut look = |found| {
            let (orders, said) = kept.look(found, None);
            (matches!(orders, Some(Orders::Leave)), said.unwrap_or_default())
        };
        assert_eq!(look(up(7)), (false, String::new()));
        assert!(look(Presence::Down(7)).1.starts_with("eth1: down"));
        assert_eq!(look(Presence::Down(7)), (false, String::new()));
        assert!(look(up(7)).1.contains("up again"));
        // Another one of the same name.
        let (leaves, said) = look(up(8));
        assert!(leaves && said.contains("gone"), "{said}");
        for found in [Presence::Gone, Presence::Down(9)] {
            assert_eq!(look(found), (false, String::new()));
        }
        // There is no such interface to open: it is told once.
        let (leaves, said) = look(up(u32::MAX));
        assert!(!leaves && said.contains("cannot be used"), "{said}");
        assert_eq!(look(up(u32::MAX)), (false, String::new()));
    }
}
