//! Beside Linux: random packets through the kernel's tracker, rules and NAT and through ours, compared one by one.
//!
//! | page | what it is |
//! |---|---|
//! | this | a round, and the tests |
//! | `kernel` | a namespace that forwards under a ruleset of nftables |
//! | `ours` | the firewall that `paceline import` makes of the ruleset, a NAT, and bugs that are planted in both |
//! | `traffic` | conversations |
//! | `packet` | packets, and their bytes |
//! | `ruleset` | random rulesets |
//! | `compare` | whether both did the same, and which differences the book explains |

mod compare;
mod kernel;
mod ours;
mod packet;
mod ruleset;
mod traffic;

use std::collections::BTreeMap;
use std::env;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use compare::{Difference, Excuse, Fate, LATER_FRAGMENTS, Mapped, fate};
use kernel::{Kernel, LATE_MS, Outcome, TOO_LATE_MS};
use ours::{Fault, Ours};
use packet::{Packet, Side};
use traffic::{Draw, Forward, Kinds, Traffic};

use crate::support::{Scratch, paceline, root, stderr, stdout};

/// How many times as fast time passes on our side in rounds with waits; the kernel's time-outs are divided by as much.
const SCALE: u32 = 10;
/// The kernel's time-outs as ours are by default, divided, s. TCP's are 1, 3, 6, 12, 30 and 43200; others' 3, 12 and 60.
const TIMEOUTS: [(&str, u32); 14] = [
    ("tcp_timeout_syn_sent", 12),
    ("tcp_timeout_syn_recv", 6),
    ("tcp_timeout_established", 43_200),
    ("tcp_timeout_fin_wait", 12),
    ("tcp_timeout_close_wait", 6),
    ("tcp_timeout_last_ack", 3),
    ("tcp_timeout_time_wait", 12),
    ("tcp_timeout_close", 1),
    ("tcp_timeout_unacknowledged", 30),
    ("tcp_timeout_max_retrans", 30),
    ("udp_timeout", 3),
    ("udp_timeout_stream", 12),
    ("icmp_timeout", 3),
    ("generic_timeout", 60),
];
/// So long a round sends before it waits again: far less than any time-out.
const BURST: Duration = Duration::from_millis(200);
/// At most so many packets are of one ruleset.
const ROUND: u64 = 4_000;
/// After so many rounds that differ no more are tried.
const FAILURES: usize = 8;

/// One ruleset, and packets.
#[derive(Clone, Debug, Default)]
struct Round {
    seed: u64,
    packets: u64,
    has_nat: bool,
    /// Seconds that pass behind each burst; no sum of neighbours is near a time-out.
    waits: Vec<u32>,
    fault: Fault,
}

/// What rounds came to.
#[derive(Default)]
struct Tally {
    packets: u64,
    fates: BTreeMap<&'static str, u64>,
    excused: BTreeMap<Excuse, u64>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.packets += other.packets;
        other.fates.into_iter().for_each(|(name, count)| *self.fates.entry(name).or_default() += count);
        other.excused.into_iter().for_each(|(row, count)| *self.excused.entry(row).or_default() += count);
    }

    fn excuse(&mut self, row: Excuse) {
        *self.excused.entry(row).or_default() += 1;
    }

    fn show(&self) {
        let fates: Vec<String> = self.fates.iter().map(|(name, count)| format!("{count} {name}")).collect();
        println!("{} packets beside Linux: {}", self.packets, fates.join(", "));
        for (Excuse(row), count) in &self.excused {
            println!("  excused {count}: {row}");
        }
    }
}

impl Round {
    /// `None` where this machine cannot do it.
    fn run(&self) -> Option<Result<Tally, String>> {
        let kernel = Kernel::new()?;
        let mut draw = Draw::new(self.seed);
        let mut ruleset = ruleset::filter(&mut draw, self.has_nat);
        let (mut function, mut external) = (String::new(), None);
        if self.has_nat {
            let (theirs, ours, address) = ruleset::nat(&mut draw);
            ruleset += &theirs;
            function = ours;
            external = Some(address.parse::<IpAddr>().expect("an address"));
        }
        let chain = imported(self.seed, self.has_nat, &kernel.rules(&ruleset)) + &function;
        if !self.waits.is_empty() {
            TIMEOUTS
                .iter()
                .for_each(|(name, s)| kernel.set(&format!("netfilter/nf_conntrack_{name}"), &s.to_string()));
        }
        let ours = Ours::new(&chain, self.fault);
        let forwards = external.map_or_else(Vec::new, |address| {
            let end = |address: &str, port| (address.parse().expect("an address"), port);
            vec![
                Forward { protocol: packet::TCP, external: (address, 443), inside: end("10.0.0.1", 8443) },
                Forward { protocol: packet::UDP, external: (address, 53), inside: end("10.0.0.2", 53) },
            ]
        });
        let traffic = Traffic::new(draw.next(), Kinds { has_nat: self.has_nat }, forwards.clone());
        let worlds = Worlds {
            kernel,
            ours,
            theirs_mapped: Mapped::default(),
            ours_mapped: Mapped::default(),
            external,
            forwards,
        };
        Some(self.send(worlds, traffic).map_err(|wrong| format!("{self:?}\n{wrong}\n{ruleset}\n{chain}")))
    }

    fn send(&self, mut worlds: Worlds, mut traffic: Traffic) -> Result<Tally, String> {
        let mut tally = Tally::default();
        let (begin, mut burst) = (Instant::now(), Instant::now());
        let scale = if self.waits.is_empty() { 1 } else { u64::from(SCALE) };
        let mut waits = self.waits.iter();
        let mut history: BTreeMap<u64, Vec<(Packet, Fate)>> = BTreeMap::new();
        let mut seen_ns: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..self.packets {
            if !self.waits.is_empty() && burst.elapsed() > BURST {
                let Some(wait) = waits.next() else { break };
                thread::sleep(Duration::from_secs(u64::from(*wait)));
                burst = Instant::now();
            }
            let time_ns = 1_000_000_000 + begin.elapsed().as_nanos() as u64 * scale;
            let (slot, serial, packet) = traffic.packet();
            let mut compared = worlds.packet(time_ns, &packet);
            tally.packets += 1;
            if compared.are_apart {
                tally.excuse(LATER_FRAGMENTS);
            }
            let before = history.entry(serial).or_default();
            let idle_s = (time_ns - seen_ns.insert(serial, time_ns).unwrap_or(time_ns)) / 1_000_000_000;
            let row = worlds.excuse(&packet, &compared, before, idle_s);
            if row.is_none() && compared.alike().is_none() {
                compared.theirs = worlds.theirs_later(&packet, &mut compared.outcome);
            }
            match (compared.alike(), row) {
                (Some(name), _) => {
                    *tally.fates.entry(name).or_default() += 1;
                    before.push((packet, compared.theirs));
                }
                (None, Some(row)) => {
                    tally.excuse(row);
                    traffic.replace(slot);
                    history.remove(&serial);
                }
                (None, None) => {
                    let from = before.len().saturating_sub(40);
                    let before: String = before[from..]
                        .iter()
                        .map(|(packet, fate)| format!("{packet}\n    {fate:?}\n"))
                        .collect();
                    let Compared { theirs, ours, .. } = compared;
                    return Err(format!(
                        "after {} packets\n{before}{packet}\n    Linux {theirs:?}\n    here  {ours:?}\n",
                        tally.packets
                    ));
                }
            }
        }
        Ok(tally)
    }
}

/// What became of a packet.
struct Compared {
    theirs: Fate,
    ours: Fate,
    /// Whether later fragments fared otherwise than the first here.
    are_apart: bool,
    /// The kernel's, so far.
    outcome: Outcome,
}

impl Compared {
    /// What became of it, if it is the same and as it should be.
    fn alike(&self) -> Option<&'static str> {
        let name = match &self.theirs {
            Fate::Passed => "passed",
            Fate::Dropped => "dropped",
            Fate::Answered(_) => "rejected",
            Fate::Wrong(_) | Fate::OtherEnd(_) => return None,
        };
        (self.theirs == self.ours).then_some(name)
    }
}

/// Both sides, and what each has made of inside ends.
struct Worlds {
    kernel: Kernel,
    ours: Ours,
    theirs_mapped: Mapped,
    ours_mapped: Mapped,
    /// Where there is a NAT: its address outside.
    external: Option<IpAddr>,
    forwards: Vec<Forward>,
}

impl Worlds {
    /// What becomes of a packet in the kernel, and here.
    fn packet(&mut self, time_ns: u64, packet: &Packet) -> Compared {
        let (protocol, inside, _) = packet.connection();
        if let Some(forward) =
            self.forwards.iter().find(|one| one.protocol == protocol && one.inside == inside)
        {
            self.theirs_mapped.fix(packet, forward.external);
            self.ours_mapped.fix(packet, forward.external);
        }
        let [to_them, to_us] =
            [&self.theirs_mapped, &self.ours_mapped].map(|mapped| self.as_sent(packet, mapped));
        let mut outcome = self.kernel.send(packet.from, &to_them).expect("tun devices take packets");
        let mut here: Vec<Outcome> =
            to_us.iter().map(|frame| self.ours.packet(time_ns, packet.from, frame, packet)).collect();
        // The first fragment says what becomes of a datagram: without it no host makes anything of the others.
        let first = if packet.is_reversed() { here.len() - 1 } else { 0 };
        let first_passed = !here[first].passed.is_empty();
        let are_apart = here
            .iter()
            .enumerate()
            .any(|(index, one)| index != first && one.passed.is_empty() == first_passed);
        if !first_passed {
            here.iter_mut()
                .enumerate()
                .filter(|(index, _)| *index != first)
                .for_each(|(_, one)| one.passed.clear());
        }
        let here = here.into_iter().fold(Outcome::default(), |mut all, one| {
            all.passed.extend(one.passed);
            all.answered.extend(one.answered);
            all
        });
        if outcome == Outcome::default() && here != outcome {
            self.kernel.late(packet.from, &mut outcome, LATE_MS).expect("tun devices give packets");
        }
        let external = self.external;
        let theirs = self.theirs(packet, &outcome);
        // Nothing here routes: TTLs stay.
        let ours = fate(packet, &here, 64, external.map(|address| (&mut self.ours_mapped, address)));
        Compared { theirs, ours, are_apart, outcome }
    }

    /// Which row of the book explains a difference, if there is one.
    fn excuse(
        &self,
        packet: &Packet,
        compared: &Compared,
        before: &[(Packet, Fate)],
        idle_s: u64,
    ) -> Option<Excuse> {
        let (protocol, inside, _) = packet.connection();
        let is_forward = self.forwards.iter().any(|one| (one.protocol, one.inside) == (protocol, inside));
        let (theirs, ours, has_nat) = (&compared.theirs, &compared.ours, self.external.is_some());
        Difference { packet, theirs, ours, before, has_nat, is_forward, opened: self.ours.opened(), idle_s }
            .excuse()
    }

    fn theirs(&mut self, packet: &Packet, outcome: &Outcome) -> Fate {
        let external = self.external;
        fate(packet, outcome, 63, external.map(|address| (&mut self.theirs_mapped, address)))
    }

    /// What becomes of a packet in the kernel with what comes later.
    fn theirs_later(&mut self, packet: &Packet, outcome: &mut Outcome) -> Fate {
        self.kernel.late(packet.from, outcome, TOO_LATE_MS).expect("tun devices give packets");
        self.theirs(packet, outcome)
    }

    /// A packet's bytes for one side: from outside they go to the end that the NAT of that side has made.
    fn as_sent(&self, packet: &Packet, mapped: &Mapped) -> Vec<Vec<u8>> {
        match (self.external, packet.from) {
            (Some(address), Side::Outside) => packet.seen_outside(mapped.external(packet, address)).bytes(64),
            _ => packet.bytes(64),
        }
    }
}

/// The chain that `paceline import nftables` makes of a ruleset, all of which has to fit.
fn imported(seed: u64, has_nat: bool, json: &str) -> String {
    let ruleset = Scratch::new(&format!("linux-{seed}-{:?}.json", thread::current().id()), json.as_bytes());
    let sides = ["--inside", "lan0", "--outside", "wan0", "--inside-prefixes", "10.0.0.0/24,fd00::/64"];
    let nat: &[&str] = if has_nat { &["--leave-out", "ip nat"] } else { &[] };
    let output = paceline(&[&["import", "nftables", ruleset.path()], &sides[..], nat].concat());
    assert_eq!(output.status.code(), Some(0), "{}\n{json}", stderr(&output));
    stdout(&output)
}

/// Rounds until so many packets are compared, from this seed on.
fn differential(packets: u64, seed: u64) {
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    let mut at = seed;
    while tally.packets < packets && failures.len() < FAILURES {
        // Our NAT has no time-outs as short as these.
        let waits = match at % 24 {
            1 => vec![4],
            9 => vec![4, 4],
            _ => Vec::new(),
        };
        let round = Round {
            seed: at,
            packets: ROUND.min(packets - tally.packets),
            has_nat: at % 3 == 2,
            waits,
            ..Round::default()
        };
        match round.run() {
            None => return,
            Some(Ok(one)) => tally.add(one),
            Some(Err(wrong)) => failures.push(wrong),
        }
        at += 1;
    }
    tally.show();
    assert!(failures.is_empty(), "{} rounds differ:\n{}", failures.len(), failures.join("\n"));
}

/// 10,000 packets; `./x linux-differential` asks for more, and from another seed.
#[test]
fn packets_fare_alike() {
    let number = |name: &str, default| env::var(name).map_or(default, |text| text.parse().expect("a number"));
    differential(number("PACELINE_LINUX_PACKETS", 10_000), number("PACELINE_LINUX_SEED", 1));
}

#[test]
fn a_hundred_thousand_fare_alike() {
    differential(100_000, 1_000);
}

/// Each bug that is planted on our side is found, in so many rounds at most.
#[test]
fn planted_bugs_are_found() {
    const ROUNDS: u64 = 6;
    for (fault, has_nat, waits) in [
        (Fault::EstablishedIsNew, false, vec![]),
        (Fault::NoWindow, false, vec![]),
        (Fault::ForgetsLate, false, vec![4, 4]),
        (Fault::ForgetsChecksum, true, vec![]),
        (Fault::ForgetsQuote, true, vec![]),
        (Fault::ResetsAcknowledgeNothing, false, vec![]),
    ] {
        let round = |seed| Round { seed, packets: ROUND, has_nat, waits: waits.clone(), fault };
        let outcomes = (0..ROUNDS).map(|seed| round(2_000 + seed).run());
        let mut compared = 0;
        let found = outcomes
            .map(|outcome| outcome.map(|one| one.map(|tally| compared += tally.packets)))
            .find(|one| !matches!(one, Some(Ok(()))));
        match found {
            Some(None) => return,
            Some(Some(Err(wrong))) => assert!(wrong.contains("Linux"), "{wrong}"),
            _ => panic!("{fault:?} is not found among {compared} packets"),
        }
    }
}

/// Each difference that is excused is a row of the book.
#[test]
fn what_is_excused_is_in_the_book() {
    let page = std::fs::read_to_string(root().join("docs/linux.md")).expect("the page");
    for Excuse(row) in compare::ROWS {
        assert!(page.contains(&format!("| {row} |")), "docs/linux.md has no row \"{row}\"");
    }
}
