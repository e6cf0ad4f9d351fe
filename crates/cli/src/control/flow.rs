//! A flow as a user writes it, as the headers of a packet of it.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use wire::{Headers, LinkType, parse_into, protocol};

/// A packet's protocol and both ends, as it comes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowWords {
    /// `tcp`, `udp`, `sctp`, `dccp`, or the number of another one.
    pub protocol: String,
    /// Address, with a port where the protocol has some: `192.0.2.1:80`, `[2001:db8::1]:80`.
    pub src: String,
    /// Address of the other end, with a port where the protocol has some.
    pub dst: String,
}

impl FlowWords {
    /// `tcp 192.0.2.1:80 > 192.0.2.2:4242`
    pub fn text(&self) -> String {
        format!("{} {} > {}", self.protocol, self.src, self.dst)
    }

    /// The headers of a packet of it, or what is wrong.
    pub fn headers(&self) -> Result<Headers, String> {
        let has_ports =
            |number| matches!(number, protocol::TCP | protocol::UDP | protocol::SCTP | protocol::DCCP);
        let name = self.protocol.as_str();
        let named = protocol::by_name(name).filter(|number| has_ports(*number));
        let number = named.or_else(|| name.parse().ok()).ok_or_else(|| {
            format!("`{name}` is no protocol: give tcp, udp, sctp, dccp, or the number of one without ports")
        })?;
        let has_ports = has_ports(number);
        if matches!(number, protocol::ICMP | protocol::ICMPV6) {
            return Err(
                "ICMP goes with the connection that it tells of, or by its identifier: ask for a connection"
                    .to_owned(),
            );
        }
        let end = |text: &str| match (has_ports, text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
            (true, Ok(end), _) => Ok((end.ip(), end.port())),
            (false, _, Ok(address)) => Ok((address, 0)),
            (true, ..) => {
                Err(format!("`{text}` is no address with a port, such as 192.0.2.1:80 or [2001:db8::1]:80"))
            }
            (false, ..) => Err(format!("`{text}` is no address, such as 192.0.2.1")),
        };
        let ((src, src_port), (dst, dst_port)) = (end(&self.src)?, end(&self.dst)?);
        let packet = packet(number, (src, src_port), (dst, dst_port))
            .ok_or_else(|| format!("{src} and {dst} are of two versions of IP"))?;
        let mut headers = Headers::default();
        parse_into(LinkType::Ethernet, &packet, packet.len() as u32, &mut headers);
        match headers.malformed() {
            None => Ok(headers),
            Some(why) => Err(format!("a packet of {} would be malformed: {}", self.text(), why.name())),
        }
    }
}

/// What the transport header takes at most of these protocols.
const TRANSPORT: usize = 20;

/// The shortest frame with these headers; `None` of two versions of IP.
fn packet(protocol: u8, src: (IpAddr, u16), dst: (IpAddr, u16)) -> Option<Vec<u8>> {
    let mut frame = vec![0; 12];
    match (src.0, dst.0) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame.extend([0x08, 0x00, 0x45, 0, 0, 20 + TRANSPORT as u8, 0, 0, 0, 0, 64, protocol, 0, 0]);
            frame.extend(src.octets().into_iter().chain(dst.octets()));
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, TRANSPORT as u8, protocol, 64]);
            frame.extend(src.octets().into_iter().chain(dst.octets()));
        }
        _ => return None,
    }
    let transport = frame.len();
    frame.extend([0; TRANSPORT]);
    frame[transport..transport + 2].copy_from_slice(&src.1.to_be_bytes());
    frame[transport + 2..transport + 4].copy_from_slice(&dst.1.to_be_bytes());
    match protocol {
        protocol::TCP => (frame[transport + 12], frame[transport + 13]) = (0x50, 0x10),
        protocol::UDP => frame[transport + 5] = TRANSPORT as u8,
        // The offset of the data, in words, and that sequence numbers are long ones.
        protocol::DCCP => (frame[transport + 4], frame[transport + 8]) = (5, 1),
        _ => (),
    }
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(protocol: &str, src: &str, dst: &str) -> FlowWords {
        let [protocol, src, dst] = [protocol, src, dst].map(str::to_owned);
        FlowWords { protocol, src, dst }
    }

    #[test]
    fn a_flow_is_the_headers_of_its_packets() {
        for (protocol, number) in [("tcp", 6), ("udp", 17), ("sctp", 132), ("dccp", 33)] {
            for (src, dst) in [("192.0.2.1:80", "192.0.2.2:4242"), ("[2001:db8::1]:80", "[2001:db8::2]:4242")]
            {
                let headers =
                    flow(protocol, src, dst).headers().unwrap_or_else(|why| panic!("{protocol}: {why}"));
                assert_eq!((headers.protocol, headers.src_port, headers.dst_port), (number, 80, 4242));
            }
        }
        let headers = flow("47", "192.0.2.1", "192.0.2.2").headers().expect("GRE");
        assert_eq!((headers.protocol, headers.src_port), (47, 0));
    }

    #[test]
    fn what_is_no_flow_is_refused() {
        for (protocol, src, dst, why) in [
            ("tcp", "192.0.2.1", "192.0.2.2:80", "no address with a port"),
            ("gre", "192.0.2.1", "192.0.2.2", "no protocol"),
            ("47", "192.0.2.1:4", "192.0.2.2", "no address"),
            ("udp", "192.0.2.1:4", "[2001:db8::2]:4", "two versions"),
            ("1", "192.0.2.1", "192.0.2.2", "ICMP"),
        ] {
            let told = flow(protocol, src, dst).headers().map(|_| ()).expect_err("refused");
            assert!(told.contains(why), "{told}");
        }
    }
}
