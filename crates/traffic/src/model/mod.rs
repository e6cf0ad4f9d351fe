//! Models of traffic: the same model gives the same bytes, on every machine.
//!
//! ```
//! use paceline_traffic::Model;
//!
//! let model = Model::parse("zipf:flows=1000,a=1.2,packets=10,seed=7")?;
//! let mut bytes = 0;
//! model.generate(|_time_ns, frame| bytes += frame.len());
//! assert_eq!(bytes, 600);
//! assert_eq!(Model::parse(&model.to_string())?, model);
//! # Ok::<(), paceline_traffic::ModelError>(())
//! ```

mod attack;
mod clock;
mod connections;
mod digest;
mod draw;
mod drawn;
mod error;
mod flow;
mod frame;
mod kind;
mod options;
mod share;
mod sizes;
mod spec;
mod table;
mod talk;

pub use digest::Digest;
pub use error::ModelError;
pub use kind::Kind;
pub use options::Options;
pub use share::Share;
pub use sizes::Sizes;

use std::sync::atomic::{AtomicBool, Ordering};

use attack::{Attack, Attackers};
use clock::Clock;
use connections::{Connections, Order};
use draw::{Dice, Stream};
use drawn::{FlowDraw, Pick, zipf_weights};
use flow::Ends;
use frame::{Frames, Packet, TCP_HEADER_BYTES, Transport, UDP_HEADER_BYTES};
use sizes::SizeDraw;
use table::SizeTable;
use talk::Directions;

/// Traffic to be generated: a kind, and options that make sense together.
///
/// Models of flows that are drawn ([`Kind::Uniform`], [`Kind::Zipf`], [`Kind::Elephant`]) give exactly the packets
/// asked for. The others consist of whole connections, so that a trace can be replayed over and over: each begins
/// with its SYN and ends with its FINs or reset within the trace, and there are at least as many packets as asked
/// for, up to the end of the last connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    kind: Kind,
    options: Options,
}

impl Model {
    /// A model.
    ///
    /// # Errors
    /// [`ModelError`] names the option that is out of its bounds, or does not go with the others.
    pub fn new(kind: Kind, options: Options) -> Result<Model, ModelError> {
        options.check(kind)?;
        Ok(Model { kind, options })
    }

    /// What kind it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What it has in common with others.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Makes the packets and hands each to `packet`, with its time in ns from 0 on and its Ethernet frame. Times
    /// never run back. Memory grows with the flows: 8 bytes each for Zipf, 16 for connections; a packet takes
    /// O(log flows).
    pub fn generate(&self, packet: impl FnMut(u64, &[u8])) {
        self.generate_until(&AtomicBool::new(false), packet);
    }

    /// Makes the packets as [`Model::generate`] does, until `stop` is set: at the end of the train that is being
    /// sent then.
    pub fn generate_until(&self, stop: &AtomicBool, packet: impl FnMut(u64, &[u8])) {
        let line = Line {
            clock: Clock::new(self.options.gap_ns, self.options.burst, self.options.seed),
            frames: Frames::default(),
            packet,
        };
        match self.kind.is_drawn() {
            true => self.draw(line, stop),
            false => self.connect(line, stop),
        }
    }

    fn draw(&self, mut line: Line<impl FnMut(u64, &[u8])>, stop: &AtomicBool) {
        let Options { packets, seed, ipv6_share, .. } = self.options;
        let flows = self.options.flows.unwrap_or(options::DEFAULT_FLOWS);
        let pick = match self.kind {
            Kind::Zipf { exponent } => Pick::Weighted(zipf_weights(flows, exponent)),
            Kind::Elephant { share } => Pick::OneAndRest(share),
            _ => Pick::Evenly,
        };
        let mut draw = FlowDraw::new(flows, pick, seed);
        let mut sizes = SizeDraw::new(&self.options.sizes, seed);
        while line.clock.packets() < packets && !stop.load(Ordering::Relaxed) {
            let number = draw.flow(line.clock.packets());
            let ends = flow::flow(number, ipv6_share.takes(number));
            let left = packets - line.clock.packets();
            for _ in 0..line.clock.train().min(left) {
                let headers = ends.header_bytes() + UDP_HEADER_BYTES;
                let payload_bytes = sizes.next().saturating_sub(headers);
                line.send(&Packet { ends, transport: Transport::Udp, payload_bytes });
            }
        }
    }

    fn connect(&self, mut line: Line<impl FnMut(u64, &[u8])>, stop: &AtomicBool) {
        let seed = self.options.seed;
        let mss = self.mss();
        let order = self.order();
        let mut connections = order.map(|order| Connections::new(&order, mss));
        let mut connections_left = connections.as_ref().map_or(0, Connections::packets);
        let mut attackers =
            self.attack().map(|attack| Attackers::new(attack, self.options.ipv6_share, seed, mss));
        let mut attacks_left = self.kind.attack_packets(self.options.packets);
        let mut sizes = SizeDraw::new(&self.options.sizes, seed);
        let mut turn = Dice::new(seed, Stream::Turn);
        while connections_left + attacks_left > 0 && !stop.load(Ordering::Relaxed) {
            let train = line.clock.train();
            let is_attack = attacks_left > 0 && turn.below(connections_left + attacks_left) < attacks_left;
            match (&mut attackers, &mut connections) {
                (Some(attackers), _) if is_attack => {
                    let train = train.min(attacks_left);
                    (0..train).for_each(|_| line.send(&attackers.next()));
                    attacks_left -= train;
                }
                (_, Some(connections)) => {
                    let ends = |number| self.ends(number);
                    connections_left -= connections.turn(train, &mut sizes, ends, |packet| line.send(packet));
                }
                _ => return,
            }
        }
    }

    /// Who talks in connection `number`.
    fn ends(&self, number: u64) -> Ends {
        let is_ipv6 = self.options.ipv6_share.takes(number);
        match self.kind {
            Kind::SynFlood { .. } => flow::to_service(number, is_ipv6),
            // The only one is IPv6 if any is.
            Kind::SingleFlow { .. } => flow::flow(number, self.options.ipv6_share > Share::NONE),
            _ => flow::flow(number, is_ipv6),
        }
    }

    /// The connections; `None` if there are none.
    fn order(&self) -> Option<Order> {
        self.kind.has_connections().then(|| Order {
            table: self.kind.table(),
            connections: match self.kind {
                Kind::SingleFlow { .. } => Some(1),
                _ => self.options.flows,
            },
            packets: self.kind.connection_packets(self.options.packets),
            concurrent: self.options.concurrent,
            seed: self.options.seed,
        })
    }

    fn attack(&self) -> Option<Attack> {
        match self.kind {
            Kind::SynFlood { sources, .. } => Some(Attack::Flood { sources }),
            Kind::PortScan { scanners, .. } => Some(Attack::Scan { scanners }),
            _ => None,
        }
    }

    /// The longest segment: what the longest frame leaves beside IPv4's headers, or Ethernet's usual.
    fn mss(&self) -> u16 {
        let longest = self.options.sizes.range().map_or(0, |(_, longest)| longest);
        (longest.max(1_514) - 14 - 20 - TCP_HEADER_BYTES as u32) as u16
    }
}

impl Kind {
    /// How big its connections are, or those beside the attack.
    fn table(self) -> SizeTable {
        /// One size does: it is made to give the packets.
        const ONE: SizeTable = SizeTable {
            points: &[(0, 1), (table::BILLION, 1)],
            directions: Directions::Both,
            biggest_thousandths: 1_000,
        };
        match self {
            Kind::Datacenter => table::WEB_SEARCH,
            Kind::Backbone => table::BACKBONE,
            Kind::SingleFlow { one_way: true } => SizeTable { directions: Directions::One, ..ONE },
            Kind::SingleFlow { one_way: false } => ONE,
            _ => table::UNIVERSITY,
        }
    }

    /// The attackers' packets among `packets`: in a scan as many answers as probes.
    fn attack_packets(self, packets: u64) -> u64 {
        match self {
            Kind::SynFlood { legit, .. } => packets - legit.of(packets),
            Kind::PortScan { share, .. } => share.of(packets).div_ceil(2).max(1) * 2,
            _ => 0,
        }
    }

    /// The connections' packets among `packets`.
    fn connection_packets(self, packets: u64) -> u64 {
        packets.saturating_sub(self.attack_packets(packets)).max(1)
    }
}

/// What packets go through on their way out.
struct Line<F> {
    clock: Clock,
    frames: Frames,
    packet: F,
}

impl<F: FnMut(u64, &[u8])> Line<F> {
    fn send(&mut self, packet: &Packet) {
        let time_ns = self.clock.tick();
        (self.packet)(time_ns, self.frames.write(packet));
    }
}

#[cfg(test)]
mod tests;
