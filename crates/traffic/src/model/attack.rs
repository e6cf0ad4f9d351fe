//! Packets of attackers.

use nf::hash_bytes;
use wire::tcp_flags::{ACK, RST, SYN};

use super::draw::{Dice, Stream};
use super::flow;
use super::frame::{Packet, Transport};
use super::share::Share;

/// Who attacks, and how.
pub(super) enum Attack {
    /// SYNs to one service, from sources drawn at random.
    Flood {
        /// Sources to draw from; `None` for a new one each time.
        sources: Option<u64>,
    },
    /// Probes of ports, each answered by a reset.
    Scan { scanners: u32 },
}

/// The attackers' packets, one after another.
pub(super) struct Attackers {
    attack: Attack,
    ipv6_share: Share,
    seed: u64,
    mss: u16,
    dice: Dice,
    sent: u64,
}

impl Attackers {
    pub fn new(attack: Attack, ipv6_share: Share, seed: u64, mss: u16) -> Attackers {
        Attackers { attack, ipv6_share, seed, mss, dice: Dice::new(seed, Stream::Attack), sent: 0 }
    }

    pub fn next(&mut self) -> Packet {
        let number = self.sent;
        self.sent += 1;
        match self.attack {
            Attack::Flood { sources } => self.syn(number, sources),
            Attack::Scan { scanners } => self.probe_or_answer(number, scanners),
        }
    }

    fn syn(&mut self, number: u64, sources: Option<u64>) -> Packet {
        let source = sources.map_or(number, |sources| self.dice.below(sources));
        let ends = flow::spoofed(source, self.ipv6_share.takes(source), self.seed);
        let seq = hash_bytes(&source.to_le_bytes(), self.seed) as u32;
        packet(ends, SYN, seq, 0, self.mss)
    }

    fn probe_or_answer(&self, number: u64, scanners: u32) -> Packet {
        let probe = number / 2;
        let scanner = (probe % u64::from(scanners)) as u32;
        let is_ipv6 = self.ipv6_share.takes(u64::from(scanner));
        let ends = flow::probe(scanner, probe / u64::from(scanners), is_ipv6, self.seed);
        let seq = hash_bytes(&probe.to_le_bytes(), self.seed) as u32;
        match number % 2 {
            0 => packet(ends, SYN, seq, 0, self.mss),
            // RFC 9293 §3.10.7.1: a closed port answers with number 0 and acknowledges the SYN.
            _ => packet(ends.back(), RST | ACK, 0, seq.wrapping_add(1), self.mss),
        }
    }
}

fn packet(ends: flow::Ends, flags: u8, seq: u32, ack: u32, mss: u16) -> Packet {
    Packet { ends, transport: Transport::Tcp { flags, seq, ack, mss }, payload_bytes: 0 }
}
