//! Our side: the firewall that `paceline import nftables` makes of the kernel's ruleset, and a NAT behind it.

use nf::{NetworkFunction, Rig, Verdict};
use nfs::{Firewall, Nat, firewall, nat};
use wire::{Edits, LinkType, Marks};

use super::kernel::Outcome;
use super::packet::{Packet, Side};

/// A link header: two stations and an EtherType.
const LINK: usize = 14;
/// As the dispatcher would draw them.
const SEED: u64 = 7;

/// What goes wrong on purpose, to see that the comparison sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// `established` takes packets that begin connections.
    EstablishedIsNew,
    /// TCP outside of its window is of the connection.
    NoWindow,
    /// An ICMP query is kept ten times as long.
    ForgetsLate,
    /// The NAT leaves the transport's checksum as it was.
    ForgetsChecksum,
    /// The NAT leaves what ICMP errors quote as it was.
    ForgetsQuote,
    /// Resets that answer a rejected packet acknowledge nothing.
    ResetsAcknowledgeNothing,
}

pub struct Ours {
    firewall: Rig<Firewall>,
    /// What is asked which drops are answered.
    judge: Firewall,
    nat: Option<Rig<Nat>>,
    has_sides: bool,
    fault: Fault,
    /// How many connections had begun before the last packet.
    begun: u64,
}

impl Ours {
    /// From a chain file with a `firewall`, and a `nat` behind it if there is one.
    pub fn new(chain: &str, fault: Fault) -> Ours {
        let chain: toml::Table = toml::from_str(chain).expect("TOML");
        let mut functions = chain["function"].as_array().expect("functions").clone();
        let mut options = |name: &str| {
            let at = functions.iter().position(|function| function["use"].as_str() == Some(name))?;
            let mut table = functions.remove(at);
            table.as_table_mut().expect("a table").remove("use");
            Some(table)
        };
        let rules: firewall::Options =
            options("firewall").expect("it is there").try_into().expect("its options");
        let rules = rules.with_fault(fault);
        let judge = Firewall::new(rules).expect("good options");
        // As on interfaces: nobody is given the benefit of doubt for packets that a capture may miss.
        let judge = (Firewall::EXTRAS.live)(&judge).unwrap_or(judge);
        let nat = options("nat").map(|table| {
            let options: nat::Options = table.try_into().expect("its options");
            Rig::new(Nat::new(options).expect("good options")).with_seed(SEED)
        });
        let has_sides = nat.is_some() || chain.contains_key("inside");
        Ours { firewall: Rig::new(judge.clone()), judge, nat, has_sides, fault, begun: 0 }
    }

    /// Whether the last packet began a connection.
    pub fn opened(&self) -> bool {
        self.firewall.event("accepted") > self.begun
    }

    /// What becomes of a packet, given from its IP header on.
    pub fn packet(&mut self, time_ns: u64, from: Side, packet: &[u8], said: &Packet) -> Outcome {
        self.begun = self.firewall.event("accepted");
        let ether_type: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ether_type, packet].concat();
        let received = frame.clone();
        let mut headers = wire::parse(LinkType::Ethernet, &frame, frame.len() as u32);
        if !headers.is_well_formed() {
            return Outcome::default();
        }
        if self.has_sides {
            headers.marks.set(Marks::FROM_OUTSIDE, from == Side::Outside);
            if self.nat.is_none() || from == Side::Inside {
                headers.forget_quoted_destination();
            }
        }
        let before = headers;
        let mut all = Edits::NONE;
        // From outside the last function comes first.
        for is_nat in if from == Side::Inside { [false, true] } else { [true, false] } {
            let verdict = match (&mut self.nat, is_nat) {
                (None, true) => continue,
                (Some(nat), true) => {
                    let verdict = nat.packet(time_ns, &headers);
                    all = *nat.edits();
                    all.apply_to_headers(&mut headers);
                    verdict
                }
                (_, false) => self.firewall.packet(time_ns, &headers),
            };
            match verdict {
                Verdict::Forward => {}
                Verdict::Drop(reason)
                    if !is_nat && (Firewall::EXTRAS.answers)(&self.judge, reason).is_some() =>
                {
                    let answer = wire::answer(LinkType::Ethernet, &received, received.len() as u32);
                    let answered = answer.map(|answer| answer.parts(&received).concat()[LINK..].to_vec());
                    let answered = answered.into_iter().map(|answer| self.fault.in_answer(answer)).collect();
                    return Outcome { answered, ..Outcome::default() };
                }
                _ => return Outcome::default(),
            }
        }
        let mut range = 0..frame.len();
        wire::apply(&all, &before, LinkType::Ethernet, &mut frame, &mut range).expect("no edit takes room");
        self.fault.in_passed(&mut frame, &received, said);
        Outcome { passed: vec![frame[LINK..].to_vec()], ..Outcome::default() }
    }
}

impl Fault {
    fn in_answer(self, mut answer: Vec<u8>) -> Vec<u8> {
        if self == Fault::ResetsAcknowledgeNothing && answer[0] >> 4 == 4 && answer[9] == 6 {
            answer[28..32].fill(0);
        }
        answer
    }

    fn in_passed(self, frame: &mut [u8], received: &[u8], said: &Packet) {
        let is_error = matches!(said.body, super::packet::Body::Error { .. });
        match self {
            Fault::ForgetsChecksum if said.protocol() == 6 => {
                frame[50..52].copy_from_slice(&received[50..52])
            }
            Fault::ForgetsQuote if is_error && frame.len() >= 62 => {
                frame[42..62].copy_from_slice(&received[42..62])
            }
            _ => {}
        }
    }
}

trait WithFault {
    fn with_fault(self, fault: Fault) -> Self;
}

impl WithFault for firewall::Options {
    fn with_fault(mut self, fault: Fault) -> firewall::Options {
        match fault {
            Fault::EstablishedIsNew => {
                self.rules.iter_mut().for_each(|rule| *rule = rule.replace("established", "established,new"));
            }
            Fault::NoWindow => self.liberal = true,
            Fault::ForgetsLate => self.icmp_timeout_s *= 10,
            _ => {}
        }
        self
    }
}
