//! Records of connections as IPFIX messages (RFC 7011): a template for IPv4 and one for IPv6, and both directions of a connection in
//! one record (RFC 5103).

use std::net::IpAddr;

use serde::Deserialize;

/// The largest message, bytes: with the headers of UDP and IPv6 it fits an Ethernet frame. In a file it bounds what a reader holds.
const MESSAGE_BYTES: usize = 1_400;
const VERSION: u16 = 10;
/// Set identifiers (RFC 7011 §3.3.2): templates, and the two templates' own.
const TEMPLATE_SET: u16 = 2;
const IPV4_SET: u16 = 256;
const IPV6_SET: u16 = 257;
/// The bit of an information element that has an enterprise number behind it, and the number that stands for "the other
/// direction" (RFC 5103 §6.1).
const ENTERPRISE: u16 = 1 << 15;
const REVERSE: u32 = 29_305;

/// An information element of IANA's registry: its number, its length in bytes, and whether it is about the answers.
struct Element(u16, u16, bool);

/// Elements of a record over addresses of so many bytes, with these numbers of the two addresses.
const fn elements(source: u16, destination: u16, address_bytes: u16) -> [Element; 15] {
    [
        Element(152, 8, false), // flowStartMilliseconds
        Element(153, 8, false), // flowEndMilliseconds
        Element(source, address_bytes, false),
        Element(destination, address_bytes, false),
        Element(7, 2, false),   // sourceTransportPort
        Element(11, 2, false),  // destinationTransportPort
        Element(4, 1, false),   // protocolIdentifier
        Element(136, 1, false), // flowEndReason
        Element(239, 1, false), // biflowDirection
        Element(1, 8, false),   // octetDeltaCount
        Element(2, 8, false),   // packetDeltaCount
        Element(1, 8, true),
        Element(2, 8, true),
        Element(231, 8, false), // initiatorOctets
        Element(232, 8, false), // responderOctets
    ]
}

const IPV4: [Element; 15] = elements(8, 12, 4);
const IPV6: [Element; 15] = elements(27, 28, 16);

/// flowEndReason: the end of the connection was seen, or it goes on at the end of the run.
const END_OF_FLOW: u8 = 3;
const FORCED_END: u8 = 4;
/// flowEndReason: nothing came for longer than the tracker keeps it.
const IDLE: u8 = 1;
/// biflowDirection: the source is who opened the connection.
const INITIATOR: u8 = 1;

/// What is read of a line that the tracker wrote: the names are Zeek's.
#[derive(Deserialize)]
struct Line {
    ts: f64,
    duration: f64,
    #[serde(rename = "id.orig_h")]
    orig_h: IpAddr,
    #[serde(rename = "id.orig_p")]
    orig_p: u16,
    #[serde(rename = "id.resp_h")]
    resp_h: IpAddr,
    #[serde(rename = "id.resp_p")]
    resp_p: u16,
    proto: String,
    ip_proto: u8,
    conn_state: String,
    orig_bytes: u64,
    resp_bytes: u64,
    orig_pkts: u64,
    orig_ip_bytes: u64,
    resp_pkts: u64,
    resp_ip_bytes: u64,
    #[serde(default)]
    open: bool,
}

impl Line {
    fn start_ms(&self) -> u64 {
        milliseconds(self.ts)
    }

    fn end_ms(&self) -> u64 {
        milliseconds(self.ts + self.duration)
    }

    /// Why the record ends (RFC 5102 §5.11.3).
    fn end_reason(&self) -> u8 {
        match self.conn_state.as_str() {
            _ if self.open => FORCED_END,
            "SF" | "REJ" | "RSTO" | "RSTR" | "RSTOS0" | "RSTRH" if self.proto == "tcp" => END_OF_FLOW,
            _ => IDLE,
        }
    }

    fn write(&self, to: &mut Vec<u8>) {
        // An ICMP identifier is no port.
        let ports = if self.proto == "icmp" { [0; 2] } else { [self.orig_p, self.resp_p] };
        to.extend(self.start_ms().to_be_bytes());
        to.extend(self.end_ms().to_be_bytes());
        for address in [self.orig_h, self.resp_h] {
            match address {
                IpAddr::V4(address) => to.extend(address.octets()),
                IpAddr::V6(address) => to.extend(address.octets()),
            }
        }
        ports.into_iter().for_each(|port| to.extend(port.to_be_bytes()));
        to.extend([self.ip_proto, self.end_reason(), INITIATOR]);
        let counts = [self.orig_ip_bytes, self.orig_pkts, self.resp_ip_bytes, self.resp_pkts];
        counts.into_iter().for_each(|count| to.extend(count.to_be_bytes()));
        [self.orig_bytes, self.resp_bytes].into_iter().for_each(|count| to.extend(count.to_be_bytes()));
    }
}

/// Microseconds are exact in a float until the year 2255.
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64 / 1_000
}

/// Messages with a record for each line of JSON that the tracker wrote, in the order of the lines. Each message begins with the
/// templates, so that a collector which misses one reads the next.
///
/// The time of export is that of the last packet, rounded up to a second: the bytes are alike in each run over the packets.
///
/// # Errors
/// A line is not the tracker's.
pub(super) fn messages(lines: &[String]) -> Result<Vec<Vec<u8>>, serde_json::Error> {
    let lines = lines.iter().map(|line| serde_json::from_str(line)).collect::<Result<Vec<Line>, _>>()?;
    let exported_s = lines.iter().map(Line::end_ms).max().unwrap_or(0).div_ceil(1_000) as u32;
    let templates = templates();
    let mut messages = Vec::new();
    let mut rest = &lines[..];
    while !rest.is_empty() || messages.is_empty() {
        let mut message = header(exported_s, (lines.len() - rest.len()) as u32);
        message.extend(&templates);
        while let Some(first) = rest.first() {
            // A set has records of one template.
            let is_v4 = first.orig_h.is_ipv4();
            let (set, elements) = if is_v4 { (IPV4_SET, &IPV4) } else { (IPV6_SET, &IPV6) };
            let record_bytes: usize = elements.iter().map(|element| usize::from(element.1)).sum();
            let room = MESSAGE_BYTES.saturating_sub(message.len() + 4) / record_bytes;
            let alike = rest.iter().take(room).take_while(|line| line.orig_h.is_ipv4() == is_v4).count();
            if alike == 0 {
                break;
            }
            let (these, others) = rest.split_at(alike);
            set_header(&mut message, set, alike * record_bytes);
            these.iter().for_each(|line| line.write(&mut message));
            rest = others;
        }
        let length = message.len() as u16;
        message[2..4].copy_from_slice(&length.to_be_bytes());
        messages.push(message);
    }
    Ok(messages)
}

/// A message's header, whose length is still 0; `sequence` is the number of records before it (RFC 7011 §3.1).
fn header(exported_s: u32, sequence: u32) -> Vec<u8> {
    let mut header = Vec::with_capacity(MESSAGE_BYTES);
    header.extend(VERSION.to_be_bytes());
    header.extend(0u16.to_be_bytes());
    header.extend(exported_s.to_be_bytes());
    header.extend(sequence.to_be_bytes());
    // The observation domain: 0 is the whole exporter.
    header.extend(0u32.to_be_bytes());
    header
}

fn set_header(to: &mut Vec<u8>, set: u16, bytes: usize) {
    to.extend(set.to_be_bytes());
    to.extend((bytes as u16 + 4).to_be_bytes());
}

/// The set of both templates.
fn templates() -> Vec<u8> {
    let mut records = Vec::new();
    for (set, elements) in [(IPV4_SET, &IPV4), (IPV6_SET, &IPV6)] {
        records.extend(set.to_be_bytes());
        records.extend((elements.len() as u16).to_be_bytes());
        for Element(number, bytes, is_reverse) in elements {
            let marked = if *is_reverse { number | ENTERPRISE } else { *number };
            records.extend(marked.to_be_bytes());
            records.extend(bytes.to_be_bytes());
            if *is_reverse {
                records.extend(REVERSE.to_be_bytes());
            }
        }
    }
    let mut set = Vec::new();
    set_header(&mut set, TEMPLATE_SET, records.len());
    set.extend(records);
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = r#"{"ts":1700000000.250000,"uid":"C","id.orig_h":"10.0.0.1","id.orig_p":4000,"id.resp_h":"192.0.2.1",
        "id.resp_p":80,"proto":"tcp","duration":0.900000,"orig_bytes":40,"resp_bytes":1000,"conn_state":"SF","missed_bytes":0,
        "history":"ShADadFf","orig_pkts":5,"orig_ip_bytes":240,"resp_pkts":4,"resp_ip_bytes":2200,"ip_proto":6}"#;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Bytes written by hand from RFC 7011 §3 and RFC 5103 §6.
    #[test]
    fn golden() {
        let messages = messages(&[TCP.to_owned()]).expect("a line");
        let template = |set: &str, source: &str, destination: &str, bytes: &str| {
            format!(
                "{set}000f00980008009900080{source}00{bytes}00{destination}00{bytes}000700020\
                 00b000200040001008800010\
                 0ef00010001000800020008800100080000727980020008000072790\
                 0e7000800e80008"
            )
        };
        let set = template("0100", "008", "0c", "04") + &template("0101", "01b", "1c", "10");
        let record = "0000018bcfe568fa0000018bcfe56c7e0a000001c0000201\
                      0fa00050060301\
                      00000000000000f000000000000000050000000000000898000000000000000400000000000000280000\
                      0000000003e8";
        let whole = format!("000a00f76553f102000000000000000000020094{set}01000053{record}");
        assert_eq!(hex(&messages[0]).len(), whole.len());
        assert_eq!((hex(&messages[0]), messages.len()), (whole, 1));
    }

    /// A message ends before it is too large, and says how many records came before it.
    #[test]
    fn many_records_take_several_messages() {
        let ipv6 = TCP.replace("10.0.0.1", "2001:db8::1").replace("192.0.2.1", "2001:db8::2");
        let lines: Vec<String> =
            (0..100).map(|at| if at % 7 < 3 { ipv6.clone() } else { TCP.to_owned() }).collect();
        let messages = messages(&lines).expect("lines");
        let sequences: Vec<u32> = messages
            .iter()
            .map(|message| u32::from_be_bytes(message[8..12].try_into().expect("4 bytes")))
            .collect();
        assert!(sequences.is_sorted() && sequences[0] == 0 && messages.len() > 5, "{sequences:?}");
        for message in &messages {
            assert!(message.len() <= MESSAGE_BYTES);
            assert_eq!(usize::from(u16::from_be_bytes([message[2], message[3]])), message.len());
        }
    }

    /// A file of no connections is still one that a collector reads.
    #[test]
    fn nothing_is_a_message_with_templates() {
        assert_eq!(messages(&[]).expect("no line").len(), 1);
        assert!(messages(&["{}".to_owned()]).is_err());
    }
}
