//! Random traffic: conversations of hosts inside with hosts outside, that mostly behave, and now and then much less.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::packet::{Body, Cut, End, Packet, Side, flags};
use flags::{ACK, FIN, PSH, RST, SYN};

/// Draws from a seed (xorshift64*).
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, number: u64) -> u64 {
        (self.next() >> 33) % number
    }

    pub fn one<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What a round's conversations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Behind a NAT there is no IPv6, and protocols without ports do not pass.
    pub has_nat: bool,
}

/// An end outside that a NAT leads to a host inside.
#[derive(Clone, Copy, Debug)]
pub struct Forward {
    pub protocol: u8,
    pub external: End,
    pub inside: End,
}

/// All conversations of a round.
pub struct Traffic {
    pub draw: Draw,
    kinds: Kinds,
    forwards: Vec<Forward>,
    slots: Vec<Conversation>,
    /// How many conversations there were.
    serial: u64,
}

/// How many conversations go on at a time.
const SLOTS: usize = 40;

impl Traffic {
    pub fn new(seed: u64, kinds: Kinds, forwards: Vec<Forward>) -> Traffic {
        let mut traffic = Traffic { draw: Draw::new(seed), kinds, forwards, slots: Vec::new(), serial: 0 };
        traffic.slots = (0..SLOTS).map(|_| traffic.conversation()).collect();
        traffic
    }

    /// The next packet, the place of its conversation, and that one's number.
    pub fn packet(&mut self) -> (usize, u64, Packet) {
        let slot = self.draw.below(SLOTS as u64) as usize;
        if self.slots[slot].left == 0 {
            match self.draw.percent(40) {
                // The same ends again.
                true => self.slots[slot].begin(&mut self.draw),
                false => self.replace(slot),
            }
        }
        let packet = self.slots[slot].packet(&mut self.draw);
        (slot, self.slots[slot].serial, packet)
    }

    /// Ends a conversation of which both sides think differently now: its ends are not used again.
    pub fn replace(&mut self, slot: usize) {
        self.slots[slot] = self.conversation();
    }

    fn conversation(&mut self) -> Conversation {
        let serial = self.serial;
        self.serial += 1;
        let draw = &mut self.draw;
        let is_v6 = !self.kinds.has_nat && draw.percent(35);
        let host = (serial % 4) as u8 + 1;
        let far = draw.below(4) as u8 + 1;
        let [inside, outside]: [IpAddr; 2] = match is_v6 {
            false => [Ipv4Addr::new(10, 0, 0, host).into(), Ipv4Addr::new(192, 0, 2, far).into()],
            true => [
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host.into()).into(),
                Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, far.into()).into(),
            ],
        };
        let kind = match draw.below(20) {
            0..10 => Kind::Tcp,
            10..15 => Kind::Udp,
            15..18 => Kind::Echo,
            _ if self.kinds.has_nat => Kind::Udp,
            _ => Kind::Other(draw.one(&[50, 253])),
        };
        // Two hosts have one port, and the servers' ports are few: rules ask for them, and a NAT's mappings collide.
        let port = 2000 + (serial / 2 % 30_000) as u16;
        let server = draw.one(&[22, 53, 80, 443, 5001, 5005, 8080]);
        let mut opener = if draw.percent(70) { Side::Inside } else { Side::Outside };
        let forward = (self.kinds.has_nat && opener == Side::Outside)
            .then(|| draw.one(&self.forwards))
            .filter(|forward| matches!((kind, forward.protocol), (Kind::Tcp, 6) | (Kind::Udp, 17)));
        if self.kinds.has_nat && forward.is_none() {
            opener = Side::Inside;
        }
        let mut ends = match (kind, opener) {
            (Kind::Other(_), _) => [(inside, 0), (outside, 0)],
            (Kind::Echo, _) => [(inside, port), (outside, port)],
            (_, Side::Inside) => [(inside, port), (outside, server)],
            (_, Side::Outside) => [(inside, server), (outside, port)],
        };
        if let Some(forward) = forward {
            ends[0] = forward.inside;
        }
        let mut conversation = Conversation {
            serial,
            kind,
            ends,
            opener,
            chaos: draw.one(&[0, 0, 10, 30]),
            tcp: [Tcp::default(), Tcp::default()],
            script: VecDeque::new(),
            sent: VecDeque::new(),
            left: 0,
            id: 0,
        };
        conversation.begin(draw);
        conversation
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tcp,
    Udp,
    Echo,
    /// Any other protocol.
    Other(u8),
}

struct Conversation {
    serial: u64,
    kind: Kind,
    /// Inside, outside.
    ends: [End; 2],
    opener: Side,
    /// How many percent of TCP segments are wrong in some way.
    chaos: u64,
    tcp: [Tcp; 2],
    /// What both would send if all went well.
    script: VecDeque<(Side, u8, usize)>,
    /// What was sent last.
    sent: VecDeque<Packet>,
    left: u64,
    id: u16,
}

/// What one end of a TCP connection says of itself.
#[derive(Clone, Default)]
struct Tcp {
    initial: u32,
    next: u32,
    window: u16,
    scale: Option<u8>,
    permits_sack: bool,
    has_stamps: bool,
}

impl Tcp {
    fn new(draw: &mut Draw) -> Tcp {
        let initial = if draw.percent(30) { u32::MAX - draw.below(3000) as u32 } else { draw.next() as u32 };
        Tcp {
            initial,
            next: initial,
            window: draw.one(&[0, 1, 500, 8192, 65535, 65535, 65535]),
            scale: draw.one(&[None, Some(0), Some(2), Some(7), Some(14)]),
            permits_sack: draw.percent(60),
            has_stamps: draw.percent(30),
        }
    }

    fn options(&self, is_syn: bool, sack: Option<u32>, draw: &mut Draw) -> Vec<u8> {
        let mut options = Vec::new();
        if is_syn {
            let mut kinds = vec![vec![2, 4, 5, 180]];
            kinds.extend(self.scale.map(|scale| vec![1, 3, 3, scale]));
            kinds.extend(self.permits_sack.then(|| vec![1, 1, 4, 2]));
            let first = draw.below(kinds.len() as u64) as usize;
            kinds.rotate_left(first);
            options = kinds.concat();
        }
        if self.has_stamps {
            options.extend([1, 1, 8, 10]);
            options.extend((draw.next() as u32).to_be_bytes());
            options.extend([0; 4]);
        }
        if let Some(sack) = sack {
            options.extend([1, 1, 5, 10]);
            options.extend(sack.wrapping_sub(1).to_be_bytes());
            options.extend(sack.to_be_bytes());
        }
        options
    }
}

fn of(side: Side) -> usize {
    match side {
        Side::Inside => 0,
        Side::Outside => 1,
    }
}

impl Conversation {
    /// Begins anew between the same ends.
    fn begin(&mut self, draw: &mut Draw) {
        self.left = 4 + draw.below(30);
        self.tcp = [Tcp::new(draw), Tcp::new(draw)];
        let (a, b) = (self.opener, self.opener.other());
        let opening = [
            (a, SYN, 0),
            (b, SYN | ACK, 0),
            (a, ACK, 0),
            (a, PSH | ACK, 100),
            (b, PSH | ACK, 1000),
            (a, ACK, 0),
        ];
        let closing = [(a, FIN | ACK, 0), (b, ACK, 0), (b, FIN | ACK, 0), (a, ACK, 0)];
        let both_open = [(a, SYN, 0), (b, SYN, 0), (b, SYN | ACK, 0), (a, SYN | ACK, 0)];
        let pick_up = [(a, ACK, 0), (b, PSH | ACK, 100), (a, PSH | ACK, 100)];
        self.script = match draw.below(9) {
            0..4 => opening.into(),
            4..6 => opening.into_iter().chain(closing).collect(),
            6 => both_open.into(),
            7 => pick_up.into(),
            _ => VecDeque::new(),
        };
    }

    fn packet(&mut self, draw: &mut Draw) -> Packet {
        self.left -= 1;
        self.id = self.id.wrapping_add(1 + draw.below(9) as u16);
        if !self.sent.is_empty() && draw.percent(4) {
            return self.error(draw);
        }
        let packet = match self.kind {
            Kind::Tcp if !self.script.is_empty() && draw.percent(90) => {
                let (sender, flags, len) = self.script.pop_front().expect("it is not empty");
                self.segment(sender, flags, len, true, draw)
            }
            Kind::Tcp => self.random_segment(draw),
            _ => self.datagram(draw),
        };
        if self.sent.len() == 6 {
            self.sent.pop_front();
        }
        self.sent.push_back(packet.clone());
        packet
    }

    fn with(&self, from: Side, body: Body) -> Packet {
        let [src, dst] = [from, from.other()].map(|side| self.ends[of(side)]);
        // A fragment is known by addresses and number: no two datagrams of a round share one.
        Packet {
            from,
            src,
            dst,
            id: self.id ^ self.ends[0].1.rotate_left(6) ^ self.ends[1].1.rotate_left(9),
            body,
        }
    }

    fn datagram(&mut self, draw: &mut Draw) -> Packet {
        let is_first = self.sent.is_empty();
        let from = if is_first || draw.percent(60) { self.opener } else { self.opener.other() };
        match self.kind {
            Kind::Echo => {
                // Now and then a host answers nobody, or asks in its turn.
                let is_request = (from == self.opener) != draw.percent(5);
                self.with(from, Body::Echo { is_request, len: draw.below(64) as usize })
            }
            Kind::Other(protocol) => {
                self.with(from, Body::Other { protocol, len: 8 + draw.below(200) as usize })
            }
            _ => {
                let cut = Cut { bytes: draw.one(&[64, 512, 1480]), is_reversed: draw.percent(30) };
                let is_cut = draw.percent(10);
                let len = if is_cut { 600 + draw.below(2400) } else { draw.below(600) } as usize;
                self.with(from, Body::Udp { len, fragment: is_cut.then_some(cut) })
            }
        }
    }

    /// An error about a packet that was sent, by the host that it was for or by a router before it.
    fn error(&mut self, draw: &mut Draw) -> Packet {
        let index = draw.below(self.sent.len() as u64) as usize;
        let mut quoted = self.sent[index].clone();
        if let Body::Udp { fragment, .. } = &mut quoted.body {
            *fragment = None;
        }
        if draw.percent(15) {
            // About a packet that nobody sent.
            quoted.dst.1 ^= 0x4000;
            if let Body::Echo { .. } = quoted.body {
                quoted.src.1 ^= 0x4000;
            }
        }
        let from = quoted.from.other();
        let is_v4 = quoted.src.0.is_ipv4();
        let (kind, code, rest) = match (is_v4, draw.below(4)) {
            (true, 0) => (3, 4, [0, 0, 5, 0]),
            (true, 1) => (11, 0, [0; 4]),
            (true, _) => (3, draw.one(&[0, 1, 3, 13]), [0; 4]),
            (false, 0) => (2, 0, [0, 0, 5, 0]),
            (false, 1) => (3, 0, [0; 4]),
            (false, _) => (1, draw.one(&[1, 4]), [0; 4]),
        };
        let router: IpAddr = match (is_v4, from) {
            (true, Side::Inside) => Ipv4Addr::new(10, 0, 0, 99).into(),
            (true, Side::Outside) => Ipv4Addr::new(192, 0, 2, 99).into(),
            (false, Side::Inside) => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x99).into(),
            (false, Side::Outside) => Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x99).into(),
        };
        let src = if draw.percent(50) { router } else { quoted.dst.0 };
        let dst = quoted.src.0;
        let header = if is_v4 { 20 } else { 40 };
        let quoted_len = draw.one(&[header + 8, header + 28, 500]);
        let body = Body::Error { kind, code, rest, quoted: Box::new(quoted), quoted_len };
        Packet { from, src: (src, 0), dst: (dst, 0), id: self.id, body }
    }

    fn segment(
        &mut self,
        sender: Side,
        flags: u8,
        len: usize,
        mut advances: bool,
        draw: &mut Draw,
    ) -> Packet {
        let (end, peer) = (self.tcp[of(sender)].clone(), &self.tcp[of(sender.other())]);
        let is_syn = flags & SYN != 0;
        let mut seq = if is_syn && draw.percent(80) { end.initial } else { end.next };
        let mut ack = if flags & ACK != 0 { peer.next } else { 0 };
        let mut window = end.window;
        let sack = (flags & ACK != 0 && !is_syn && draw.percent(10))
            .then(|| ack.wrapping_add(draw.one(&[1, 100, 1460, 70000])));
        if draw.percent(self.chaos) {
            let (len, window_now) = (len as i64, i64::from(end.window));
            let jolt = draw.one(&[
                1,
                -1,
                2,
                -2,
                len,
                -len,
                1000,
                -1000,
                65535,
                -65535,
                66000,
                -66000,
                66001,
                -66001,
                window_now,
                -window_now,
                1 << 20,
                -(1 << 20),
                1 << 30,
                0x1234_5678,
            ]) as u32;
            match draw.below(4) {
                0 => seq = seq.wrapping_add(jolt),
                1 => ack = ack.wrapping_add(jolt),
                2 => (seq, ack) = (seq.wrapping_add(jolt), ack.wrapping_add(jolt)),
                _ => window = draw.one(&[0, 1, 100, 65535]),
            }
            advances &= draw.percent(30);
        }
        if advances {
            let after = seq.wrapping_add(len as u32 + u32::from(is_syn) + u32::from(flags & FIN != 0));
            if after.wrapping_sub(end.next) < 1 << 31 {
                self.tcp[of(sender)].next = after;
            }
        }
        let options = end.options(is_syn, sack, draw);
        self.with(sender, Body::Tcp { seq, ack, flags, window, options, len })
    }

    fn random_segment(&mut self, draw: &mut Draw) -> Packet {
        let sender = draw.one(&[Side::Inside, Side::Outside]);
        if !self.sent.is_empty() && draw.percent(15) {
            let index = self.sent.len() - 1 - draw.below(self.sent.len().min(4) as u64) as usize;
            return self.sent[index].clone();
        }
        if draw.percent(3) {
            let (flags, len) = (draw.below(64) as u8, draw.one(&[0, 10]));
            return self.segment(sender, flags, len, false, draw);
        }
        let flags = draw.one(&[
            SYN,
            SYN,
            SYN | ACK,
            FIN | ACK,
            FIN | ACK,
            FIN | ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            RST,
            RST | ACK,
            PSH | ACK,
            PSH | ACK,
            PSH | ACK,
            PSH | ACK,
            PSH | ACK,
            PSH | ACK,
            PSH | ACK,
            PSH | ACK,
            PSH | ACK,
        ]);
        if flags == SYN && draw.percent(50) {
            let further = draw.one(&[1, 1000, 100_000, 0x7654_3210]);
            let end = &mut self.tcp[of(sender)];
            end.next = end.next.wrapping_add(further);
            end.initial = end.next;
        }
        let len = if flags & PSH != 0 { draw.one(&[1, 10, 1000, 1460]) } else { 0 };
        let mut packet = self.segment(sender, flags, len, flags & RST == 0, draw);
        if flags & RST != 0
            && draw.percent(30)
            && let Body::Tcp { seq, ack, .. } = &mut packet.body
        {
            *(if draw.percent(50) { seq } else { ack }) = 0;
        }
        packet
    }
}
