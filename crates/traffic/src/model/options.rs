//! The options that traffic models have in common.

use super::ModelError;
use super::flow;
use super::frame::{MAX_FRAME_BYTES, UDP_HEADER_BYTES};
use super::kind::Kind;
use super::share::Share;
use super::sizes::Sizes;
use super::talk::least_frame_bytes;

/// What models have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Packets, 1 to [`Options::MAX_PACKETS`]. Models of whole connections give at least so many.
    pub packets: u64,
    /// Flows to draw from, or connections; 1 to [`Options::MAX_FLOWS`]. `None`: the model's choice.
    pub flows: Option<u64>,
    /// What all draws begin with.
    pub seed: u64,
    /// How long frames are; of connections, those with data.
    pub sizes: Sizes,
    /// Mean time from a packet to the next, ns, at most [`Options::MAX_GAP_NS`].
    pub gap_ns: u64,
    /// Mean packets that a flow sends back to back, 1 to [`Options::MAX_BURST`].
    pub burst: u32,
    /// The share of flows that are IPv6.
    pub ipv6_share: Share,
    /// Connections alive at one time, at most. `None`: a tenth of them, at least 16 and at most 1,000.
    pub concurrent: Option<u64>,
}

/// Flows to draw from where nothing is said.
pub(super) const DEFAULT_FLOWS: u64 = 100_000;

/// The longest frame of a connection: its headers and data fit a jumbo frame, so that two of them fit a window.
const MAX_TCP_FRAME_BYTES: u32 = 9_014;

impl Options {
    /// The most packets.
    pub const MAX_PACKETS: u64 = u32::MAX as u64;
    /// The most flows.
    pub const MAX_FLOWS: u64 = 1 << 26;
    /// The longest gap, ns.
    pub const MAX_GAP_NS: u64 = 1_000_000_000;
    /// The longest mean train, packets.
    pub const MAX_BURST: u32 = 1_000_000;

    /// A model's defaults. Their frames are for IPv4; [`Model::parse`](super::Model::parse) makes short ones longer
    /// if some flows are IPv6, and none are asked for.
    pub fn of(kind: Kind) -> Options {
        let sizes = match kind {
            Kind::Uniform | Kind::Zipf { .. } | Kind::Elephant { .. } => Sizes::Fixed(60),
            // Short and full ones so that all packets have the mean that RAPID's Table 8 states: 482 bytes for
            // Equinix, 673 with acknowledgments for UNIV1.
            Kind::Backbone => Sizes::Mix(vec![(60, 69), (1_514, 31)]),
            Kind::University | Kind::SynFlood { .. } | Kind::PortScan { .. } => {
                Sizes::Mix(vec![(60, 34), (1_514, 66)])
            }
            Kind::Datacenter | Kind::SingleFlow { .. } => Sizes::Fixed(1_514),
        };
        Options {
            packets: 1_000_000,
            flows: kind.is_drawn().then_some(DEFAULT_FLOWS),
            seed: 1,
            sizes,
            gap_ns: 100,
            burst: if kind == Kind::University { 3 } else { 1 },
            ipv6_share: Share::NONE,
            concurrent: None,
        }
    }

    /// A model's default sizes hold the headers of IPv4; these hold those of IPv6, too, where there is any.
    pub(super) fn fit_default_sizes(&mut self, kind: Kind) {
        self.sizes = self.sizes.at_least(self.frame_bounds(kind).0);
    }

    /// Holds every option to its bounds and to the others.
    pub(super) fn check(&self, kind: Kind) -> Result<(), ModelError> {
        within("packets", self.packets, 1, Options::MAX_PACKETS)?;
        within("gap-ns", self.gap_ns, 0, Options::MAX_GAP_NS)?;
        within("burst", u64::from(self.burst), 1, u64::from(Options::MAX_BURST))?;
        for (option, value) in [("flows", self.flows), ("concurrent", self.concurrent)] {
            if let Some(value) = value {
                within(option, value, 1, Options::MAX_FLOWS)?;
            }
        }
        self.check_sizes(kind)?;
        self.check_kind(kind)
    }

    fn check_sizes(&self, kind: Kind) -> Result<(), ModelError> {
        let fail = |needs: String| Err(wrong("sizes", &self.sizes, needs));
        let Some((min, max)) = self.sizes.range().filter(|_| self.sizes.is_drawable()) else {
            return fail("must have lengths with weights from 1".to_owned());
        };
        let (least, most, what) = self.frame_bounds(kind);
        if min < least && self.sizes != Sizes::Imix {
            return fail(format!("frames of {min} bytes are too short for {what}, which takes {least}"));
        }
        if max > most {
            return fail(format!("frames of {max} bytes are too long for {what}, which has at most {most}"));
        }
        Ok(())
    }

    /// The shortest and the longest frame, and of what.
    fn frame_bounds(&self, kind: Kind) -> (u32, u32, &'static str) {
        let is_ipv6 = self.ipv6_share > Share::NONE;
        let ip_header_bytes = flow::flow(0, is_ipv6).header_bytes() - 14;
        let udp = 14 + ip_header_bytes + UDP_HEADER_BYTES;
        match (kind.is_drawn(), is_ipv6) {
            (true, false) => (udp as u32, MAX_FRAME_BYTES, "UDP over IPv4"),
            (true, true) => (udp as u32, MAX_FRAME_BYTES, "UDP over IPv6"),
            (false, false) => {
                (least_frame_bytes(ip_header_bytes) as u32, MAX_TCP_FRAME_BYTES, "TCP over IPv4 with data")
            }
            (false, true) => {
                (least_frame_bytes(ip_header_bytes) as u32, MAX_TCP_FRAME_BYTES, "TCP over IPv6 with data")
            }
        }
    }

    fn check_kind(&self, kind: Kind) -> Result<(), ModelError> {
        let inside = |option, share: Share| match share > Share::NONE && share < Share::ALL {
            true => Ok(()),
            false => Err(wrong(option, share, "must be above 0 and below 1".to_owned())),
        };
        match kind {
            Kind::Zipf { exponent } if !(0.0..=10.0).contains(&exponent) => {
                return Err(wrong("a", exponent, "must be 0 to 10".to_owned()));
            }
            Kind::Elephant { share } => {
                inside("share", share)?;
                if self.flows == Some(1) {
                    return Err(wrong(
                        "flows",
                        1,
                        "must be at least 2: the elephant and the others".to_owned(),
                    ));
                }
            }
            Kind::SingleFlow { .. } if self.ipv6_share != Share::NONE && self.ipv6_share != Share::ALL => {
                let needs = "must be 0 or 1: a single flow is one or the other".to_owned();
                return Err(wrong("ipv6-share", self.ipv6_share, needs));
            }
            Kind::SynFlood { legit, sources } => {
                if legit == Share::ALL {
                    return Err(wrong("legit", legit, "must be below 1: the rest is the flood".to_owned()));
                }
                if let Some(sources) = sources {
                    within("sources", sources, 1, u64::from(u32::MAX))?;
                }
                for (option, value) in [("flows", self.flows), ("concurrent", self.concurrent)] {
                    if let (Some(value), Share::NONE) = (value, legit) {
                        let needs =
                            "is about the connections that mean it, and `legit` is 0: give their share";
                        return Err(wrong(option, value, needs.to_owned()));
                    }
                }
            }
            Kind::PortScan { share, scanners } => {
                inside("share", share)?;
                within("scanners", u64::from(scanners), 1, MAX_SCANNERS)?;
            }
            _ => {}
        }
        self.check_connections(kind)
    }

    /// Connections take some packets each.
    fn check_connections(&self, kind: Kind) -> Result<(), ModelError> {
        let (Some(flows), true) = (self.flows, kind.has_connections()) else { return Ok(()) };
        let directions = kind.table().directions;
        let least = flows * directions.packets(directions.least_data());
        let packets = kind.connection_packets(self.packets);
        if least > packets {
            let needs = format!(
                "so many connections take at least {least} packets, and there are {packets} for them"
            );
            return Err(wrong("flows", flows, needs));
        }
        Ok(())
    }
}

/// Sources that fit the scanners' network.
const MAX_SCANNERS: u64 = 1 << 22;

pub(super) fn wrong(option: &'static str, value: impl ToString, needs: String) -> ModelError {
    ModelError::Value { option, value: value.to_string(), needs }
}

fn within(option: &'static str, value: u64, least: u64, most: u64) -> Result<(), ModelError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(wrong(option, value, format!("must be {least} to {most}")))
}
