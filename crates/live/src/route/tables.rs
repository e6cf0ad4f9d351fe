//! The mirror of the kernel's tables, which a control thread keeps up to date.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_REPLACE, NetlinkPayload};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use ring::{Consumer, ring};

use super::ask::{Ask, RING_ASKS};
use super::board::Board;
use super::compile;
use super::forwarder::Forwarder;
use super::message::change;
use super::mirror::{Changed, How, Mirror};
use super::netlink::{Netlink, Received};
use super::snapshot::Snapshot;
use crate::LiveError;

/// The mirror of the kernel's routing tables of this network namespace. See the [module](super).
///
/// Belongs to a control thread, which calls [`Tables::update`] every few milliseconds: so long a new neighbour waits
/// before the kernel is asked for it.
pub struct Tables {
    /// Requests and dumps.
    requests: Netlink,
    /// Notifications.
    events: Netlink,
    mirror: Mirror,
    board: Arc<Board>,
    /// Snapshots that readers may still have: the last one to let go would free them, and that is to be this thread.
    retired: Vec<Arc<Snapshot>>,
    asks: Vec<Consumer<Ask>>,
    /// When the kernel was last asked for a neighbour.
    asked: HashMap<Ask, Instant>,
    /// Dumps so far; the next one is not before the time.
    dumps: u64,
    next_dump: Instant,
    /// Policy rules besides those that each system has.
    policy_rules: usize,
    /// Routes are not compiled before that time.
    next_routes: Instant,
    #[cfg(test)]
    pub(super) planted: Option<super::tests::Planted>,
}

/// Groups of notifications: links, neighbours, addresses and routes of both families.
const GROUPS: [u32; 6] = [
    libc::RTNLGRP_LINK,
    libc::RTNLGRP_NEIGH,
    libc::RTNLGRP_IPV4_IFADDR,
    libc::RTNLGRP_IPV6_IFADDR,
    libc::RTNLGRP_IPV4_ROUTE,
    libc::RTNLGRP_IPV6_ROUTE,
];

/// Buffers of notifications that one update reads at most.
const BUFFERS_AN_UPDATE: usize = 1_024;

/// How long the kernel is not asked again for a neighbour: it has its own retries within.
const ASK_PAUSE: Duration = Duration::from_secs(1);

/// Neighbours whose last request is remembered.
const ASKED: usize = 4_096;

/// What takes long with many routes, a dump and a snapshot of them, has a pause that is so many times as long: however
/// often routes change, neighbours do not wait for long.
const PAUSE: u32 = 4;

/// How often the tables are dumped again at once where the kernel says that they changed during the dump.
const DUMP_ROUNDS: usize = 3;

impl Tables {
    /// Mirrors the tables of this thread's network namespace.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel does not tell them.
    pub fn open() -> Result<Tables, LiveError> {
        // Notifications first: what changes during the dump is not missed.
        let events = Netlink::open(&GROUPS, &[libc::RTNLGRP_NEXTHOP])
            .map_err(failed("hear of changes of the routing tables"))?;
        let requests = Netlink::open(&[], &[]).map_err(failed("ask for the routing tables"))?;
        let mirror = Mirror { is_in_doubt: true, ..Mirror::default() };
        let mut tables = Tables {
            requests,
            events,
            board: Arc::new(Board::new(Arc::new(compiled(&mirror, Changed::ALL, None)))),
            mirror,
            retired: Vec::new(),
            asks: Vec::new(),
            asked: HashMap::new(),
            dumps: 0,
            next_dump: Instant::now(),
            policy_rules: 0,
            next_routes: Instant::now(),
            #[cfg(test)]
            planted: None,
        };
        tables.update()?;
        Ok(tables)
    }

    /// Applies what the kernel told since the last call, publishes it, and has the kernel resolve the neighbours that
    /// forwarders asked for. Never waits, but for a dump of the tables where notifications were lost or left questions.
    /// Returns whether something changed.
    ///
    /// # Errors
    /// [`LiveError`] if the kernel refuses; the next call tries again.
    pub fn update(&mut self) -> Result<bool, LiveError> {
        self.hear().map_err(failed("hear of changes of the routing tables"))?;
        if self.mirror.is_in_doubt && Instant::now() >= self.next_dump {
            self.dump().map_err(failed("read the routing tables"))?;
        }
        let start = Instant::now();
        let mut changed = std::mem::take(&mut self.mirror.changed);
        if changed.routes && start < self.next_routes {
            changed.routes = false;
            self.mirror.changed.routes = true;
        }
        if changed.any() {
            let snapshot = compiled(&self.mirror, changed, Some(&self.board.newest()));
            self.retired.push(self.board.post(Arc::new(snapshot)));
        }
        if changed.routes {
            self.next_routes = Instant::now() + start.elapsed() * PAUSE;
        }
        self.retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
        self.serve()?;
        Ok(changed.any())
    }

    /// A forwarder for one thread.
    pub fn forwarder(&mut self) -> Forwarder {
        let (producer, consumer) = ring(RING_ASKS);
        self.asks.push(consumer);
        Forwarder::new(Arc::clone(&self.board), producer)
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.board.newest()
    }

    /// How often all tables were read: once at the start, and whenever notifications did not suffice.
    pub fn dumps(&self) -> u64 {
        self.dumps
    }

    /// How many policy rules (`ip rule`) there were at the last dump besides those that each system has. They are not
    /// followed: a program does not start a router beside them.
    pub fn policy_rules(&self) -> usize {
        self.policy_rules
    }

    /// Messages of the kernel that could not be read.
    pub fn unreadable(&self) -> u64 {
        self.requests.unreadable + self.events.unreadable
    }

    /// Reads notifications.
    fn hear(&mut self) -> io::Result<()> {
        for _ in 0..BUFFERS_AN_UPDATE {
            let mirror = &mut self.mirror;
            #[cfg(test)]
            let planted = self.planted;
            let received = self.events.receive(|message| {
                let is_replacing = message.header.flags & NLM_F_REPLACE != 0;
                let how = if is_replacing { How::Replaced } else { How::Added };
                let NetlinkPayload::InnerMessage(message) = message.payload else { return };
                let Some(change) = change(message) else { return };
                #[cfg(test)]
                if planted.is_some_and(|planted| planted.loses(&change)) {
                    return;
                }
                mirror.apply(change, how);
            })?;
            match received {
                Received::Messages => {}
                Received::Nothing => break,
                Received::Lost | Received::Unread => self.mirror.is_in_doubt = true,
            }
        }
        Ok(())
    }

    /// Reads all tables anew.
    fn dump(&mut self) -> io::Result<()> {
        let start = Instant::now();
        for round in 1..=DUMP_ROUNDS {
            let (mirror, is_whole) = self.read_tables()?;
            self.mirror = mirror;
            self.mirror.changed = Changed::ALL;
            self.mirror.is_in_doubt = !is_whole;
            self.dumps += 1;
            if is_whole || round == DUMP_ROUNDS {
                break;
            }
        }
        self.next_dump = Instant::now() + start.elapsed() * PAUSE;
        Ok(())
    }

    fn read_tables(&mut self) -> io::Result<(Mirror, bool)> {
        let mut mirror = Mirror::default();
        let mut is_whole = true;
        let routes = |family| {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            RouteNetlinkMessage::GetRoute(message)
        };
        let requests = [
            RouteNetlinkMessage::GetLink(LinkMessage::default()),
            RouteNetlinkMessage::GetAddress(AddressMessage::default()),
            routes(AddressFamily::Inet),
            routes(AddressFamily::Inet6),
            RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()),
        ];
        for request in requests {
            is_whole &= self.requests.dump(request, |message| {
                if let Some(change) = change(message) {
                    mirror.apply(change, How::Listed);
                }
            })?;
        }
        self.policy_rules = 0;
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RuleMessage::default();
            request.header.family = family;
            is_whole &= self.requests.dump(RouteNetlinkMessage::GetRule(request), |message| {
                self.policy_rules += usize::from(is_policy(&message));
            })?;
        }
        Ok((mirror, is_whole))
    }

    /// Hands the forwarders' requests for neighbours on to the kernel.
    fn serve(&mut self) -> Result<(), LiveError> {
        let now = Instant::now();
        let refused = self.refusal();
        if self.asked.len() > ASKED {
            self.asked.retain(|_, when| now.duration_since(*when) < ASK_PAUSE);
        }
        let mut due = Vec::new();
        for consumer in &mut self.asks {
            for ask in (0..RING_ASKS).map_while(|_| consumer.pop()) {
                let is_known = self.asked.get(&ask).is_some_and(|when| now.duration_since(*when) < ASK_PAUSE);
                if !is_known && self.asked.len() <= 2 * ASKED {
                    self.asked.insert(ask, now);
                    due.push(ask);
                }
            }
        }
        // Whose thread is gone.
        self.asks.retain(|consumer| !consumer.is_abandoned());
        let sent = due.into_iter().try_for_each(|ask| self.requests.create(use_neighbour(ask)));
        refused.and(sent).map_err(failed("have the kernel resolve a neighbour"))
    }

    /// What the kernel refused of earlier requests, if it is for want of rights. Others are of no account: an interface
    /// that is just gone, a neighbour table that is full.
    fn refusal(&mut self) -> io::Result<()> {
        let mut refused = Ok(());
        while self.requests.receive(|message| {
            if let NetlinkPayload::Error(error) = message.payload
                && error.raw_code() == -libc::EPERM
            {
                refused = Err(error.to_io());
            }
        })? != Received::Nothing
        {}
        refused
    }

    #[cfg(test)]
    pub(super) fn squeeze(&self) {
        self.events.squeeze();
    }
}

/// `NTF_USE`: a packet to the neighbour would be sent now. So the kernel resolves it, or confirms it where it is stale,
/// and does not drop its entry as unused.
fn use_neighbour(ask: Ask) -> RouteNetlinkMessage {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = ask.interface;
    message.header.flags = NeighbourFlags::Use;
    let (family, address) = match IpAddr::from(ask.neighbour) {
        IpAddr::V4(ip) => (AddressFamily::Inet, NeighbourAddress::Inet(ip)),
        IpAddr::V6(ip) => (AddressFamily::Inet6, NeighbourAddress::Inet6(ip)),
    };
    message.header.family = family;
    message.attributes.push(NeighbourAttribute::Destination(address));
    RouteNetlinkMessage::NewNeighbour(message)
}

/// Whether a rule is none of `local` (0), `main` (32766) and `default` (32767).
fn is_policy(message: &RouteNetlinkMessage) -> bool {
    let RouteNetlinkMessage::NewRule(rule) = message else { return false };
    let priority = rule.attributes.iter().find_map(|attribute| match attribute {
        RuleAttribute::Priority(priority) => Some(*priority),
        _ => None,
    });
    !matches!(priority.unwrap_or(0), 0 | 32_766 | 32_767)
}

/// A snapshot of the mirror; parts that did not change are those of `before`.
fn compiled(mirror: &Mirror, changed: Changed, before: Option<&Snapshot>) -> Snapshot {
    let links = || Arc::new(compile::links(mirror));
    let routes = || Arc::new(compile::routes(mirror));
    let neighbours = || Arc::new(compile::neighbours(mirror));
    match before {
        None => Snapshot { links: links(), routes: routes(), neighbours: neighbours() },
        Some(before) => Snapshot {
            links: if changed.links { links() } else { Arc::clone(&before.links) },
            routes: if changed.routes { routes() } else { Arc::clone(&before.routes) },
            neighbours: if changed.neighbours { neighbours() } else { Arc::clone(&before.neighbours) },
        },
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> LiveError {
    move |error| LiveError::of(format!("cannot {what} (netlink)"), error)
}
