//! The mappings that a run has made, as its outbound packets show them: whose each external endpoint is, and until when.

use alloc::collections::BTreeMap;

use wire::{protocol, tcp_flags};

use crate::ends::Endpoint;

/// An inside endpoint with its protocol; ICMP's ports are the identifiers of queries.
pub(super) type Key = (Endpoint, u8);

/// One mapping from its first packet to its deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    /// One more than the number of the packet that it was made for.
    pub(super) made: u64,
    /// `None`: no packet of it has left the chain yet.
    pub(super) external: Option<Endpoint>,
    /// It lives at times before this.
    pub(super) deadline_ns: u64,
    /// The deadline before the last packet that set it.
    before_ns: u64,
    /// The number of that packet.
    touched: u64,
    pub(super) phase: Phase,
}

/// What outbound packets have told of the connections of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Datagrams,
    Query,
    Tcp { stage: Stage, peer: Endpoint, has_others: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Opening,
    InUse,
    Closing,
}

/// The owner of an external endpoint, now or last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) key: Key,
    made: u64,
    /// The number of the packet that showed it.
    since: u64,
}

/// All mappings of a run.
#[derive(Default)]
pub(super) struct Lives {
    of_inside: BTreeMap<Key, Life>,
    /// By external endpoint and protocol: its owner, and the owner before.
    of_external: BTreeMap<Key, (Owner, Option<Owner>)>,
    /// Mappings of which no packet has left the chain.
    unseen: u64,
}

impl Phase {
    /// That of a mapping whose first packet goes to `peer`.
    pub(super) fn begin(of: u8, flags: u8, peer: Endpoint) -> Phase {
        match of {
            protocol::TCP => {
                let stage = if ends(flags) { Stage::Closing } else { Stage::Opening };
                Phase::Tcp { stage, peer, has_others: false }
            }
            protocol::UDP => Phase::Datagrams,
            _ => Phase::Query,
        }
    }

    /// After one more outbound packet.
    pub(super) fn after(self, flags: u8, to: Endpoint) -> Phase {
        let Phase::Tcp { stage, peer, has_others } = self else { return self };
        let opens = flags & tcp_flags::SYN != 0;
        if stage == Stage::Closing && opens {
            return Phase::Tcp { stage: Stage::Opening, peer: to, has_others };
        }
        if to != peer && ends(flags) {
            // Most likely a stranger is refused.
            return self;
        }
        let has_others = has_others || to != peer;
        let stage = match (has_others, stage) {
            (false, Stage::Closing) => Stage::Closing,
            (false, _) if ends(flags) => Stage::Closing,
            (_, Stage::Opening) if opens => Stage::Opening,
            _ => Stage::InUse,
        };
        Phase::Tcp { stage, peer, has_others }
    }
}

fn ends(flags: u8) -> bool {
    flags & (tcp_flags::FIN | tcp_flags::RST) != 0
}

impl Life {
    pub(super) fn new(seq: u64, deadline_ns: u64, phase: Phase) -> Life {
        Life { made: seq + 1, external: None, deadline_ns, before_ns: 0, touched: seq, phase }
    }

    /// A packet of its owner sets another deadline.
    pub(super) fn touch(&mut self, seq: u64, deadline_ns: u64) {
        (self.before_ns, self.touched) = (self.deadline_ns, seq);
        self.deadline_ns = deadline_ns;
    }

    /// Whether a core that is up to `in_flight` packets behind may not know it at this time.
    fn may_be_missed(&self, seq: u64, now_ns: u64, in_flight: u64) -> bool {
        let is_near = |number: u64| number + in_flight >= seq;
        is_near(self.made) || is_near(self.touched) && self.before_ns <= now_ns
    }
}

impl Lives {
    /// The mapping of an inside endpoint, if it lives.
    pub(super) fn of_inside(&mut self, key: Key, now_ns: u64) -> Option<&mut Life> {
        self.of_inside.get_mut(&key).filter(|life| now_ns < life.deadline_ns)
    }

    /// The last mapping of an inside endpoint, dead or not.
    pub(super) fn last(&self, key: Key) -> Option<&Life> {
        self.of_inside.get(&key)
    }

    pub(super) fn last_mut(&mut self, key: Key) -> Option<&mut Life> {
        self.of_inside.get_mut(&key)
    }

    /// Whether an inside endpoint was the last to have an external one.
    pub(super) fn was_of(&self, external: Key, inside: Key) -> bool {
        self.of_external.get(&external).is_some_and(|(owner, _)| owner.key == inside)
    }

    /// The owner of an external endpoint, if its mapping lives: the inside endpoint, and when the mapping was made.
    pub(super) fn of_external(&self, external: Key, now_ns: u64) -> Option<(Key, u64)> {
        let (owner, _) = self.of_external.get(&external)?;
        self.lives(owner, now_ns).then_some((owner.key, owner.made))
    }

    fn lives(&self, owner: &Owner, now_ns: u64) -> bool {
        let life = self.of_inside.get(&owner.key);
        life.is_some_and(|life| life.made == owner.made && now_ns < life.deadline_ns)
    }

    /// A mapping is made. Its external endpoint shows with its first packet that leaves.
    pub(super) fn make(&mut self, key: Key, life: Life) {
        self.unseen += 1;
        let before = self.of_inside.insert(key, life);
        self.unseen -= u64::from(before.is_some_and(|before| before.external.is_none()));
    }

    /// A packet shows which external endpoint the mapping of `key` has.
    pub(super) fn show(&mut self, key: Key, external: Endpoint, seq: u64) {
        let Some(life) = self.of_inside.get_mut(&key) else { return };
        self.unseen -= u64::from(life.external.is_none());
        life.external = Some(external);
        let owner = Owner { key, made: life.made, since: seq };
        let before = self.of_external.get(&(external, key.1)).map(|(owner, _)| *owner);
        self.of_external.insert((external, key.1), (owner, before));
    }

    /// Whether there are mappings whose external endpoint nobody has seen.
    pub(super) fn has_unseen(&self) -> bool {
        self.unseen > 0
    }

    /// Whether a packet between cores may miss the owner of an external endpoint, whose mapping lives.
    pub(super) fn may_be_missed(&self, owner: Key, (seq, now_ns): (u64, u64), in_flight: u64) -> bool {
        self.of_inside.get(&owner).is_some_and(|life| life.may_be_missed(seq, now_ns, in_flight))
    }

    /// Whether a packet between cores may still meet this inside endpoint behind an external one, which it had until a
    /// moment ago.
    pub(super) fn was_a_moment_ago(&self, external: Key, inside: Key, seq: u64, in_flight: u64) -> bool {
        let Some((now, before)) = self.of_external.get(&external) else { return false };
        let had_it = now.key == inside || before.is_some_and(|before| before.key == inside);
        had_it && now.since + in_flight >= seq
    }

    /// How many live mappings an inside host has.
    pub(super) fn of_host(&self, addr: [u8; 4], now_ns: u64) -> usize {
        let end = |port| Endpoint { addr, port };
        let of_host = self.of_inside.range((end(0), 0)..=(end(u16::MAX), u8::MAX));
        of_host.filter(|(_, life)| now_ns < life.deadline_ns).count()
    }

    /// How many ports of an external address live mappings of a protocol have.
    pub(super) fn ports_of(&self, addr: [u8; 4], protocol: u8, now_ns: u64) -> usize {
        let all =
            self.of_external.iter().filter(|((external, of), _)| external.addr == addr && *of == protocol);
        all.filter(|(_, (owner, _))| self.lives(owner, now_ns)).count()
    }
}
