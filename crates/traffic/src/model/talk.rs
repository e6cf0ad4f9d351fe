//! One TCP connection, packet by packet.

use wire::tcp_flags::{ACK, FIN, PSH, SYN};

use super::flow::Ends;
use super::frame::{MIN_ETHERNET_BYTES, Packet, TCP_HEADER_BYTES, Transport};
use super::sizes::SizeDraw;

/// Which packets of a connection are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directions {
    /// All: a handshake, a request, the response with an acknowledgment for every second segment, and a FIN
    /// with its acknowledgment each way.
    Both,
    /// What the client sends: SYN, data, FIN. A link whose other direction goes elsewhere shows this.
    One,
}

impl Directions {
    /// Packets of a connection with `data` segments of data, a request not counted.
    pub fn packets(self, data: u64) -> u64 {
        match self {
            // RFC 5681 §4.2: a second full-sized segment is acknowledged at once, a last one alone later.
            Directions::Both => 7 + data + data.div_ceil(2),
            Directions::One => 2 + data,
        }
    }

    /// The least data that makes a connection.
    pub fn least_data(self) -> u64 {
        match self {
            Directions::Both => 1,
            Directions::One => 0,
        }
    }

    /// The least data with which a connection has at least `packets` packets.
    pub fn data_for(self, packets: u64) -> u64 {
        let data = match self {
            Directions::Both => packets.saturating_sub(7) * 2 / 3,
            Directions::One => packets.saturating_sub(2),
        };
        let data = data.max(self.least_data());
        // Two thirds, rounded down, may be one short.
        data + u64::from(self.packets(data) < packets)
    }
}

/// The shortest frame with data: as long as Ethernet makes it, or with one byte after the headers.
pub(super) fn least_frame_bytes(ip_header_bytes: usize) -> usize {
    (14 + ip_header_bytes + TCP_HEADER_BYTES + 1).max(MIN_ETHERNET_BYTES)
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Syn,
    SynAck,
    HandshakeAck,
    Request,
    Data,
    DataAck,
    ServerFin,
    ClientFin,
    LastAck,
    Done,
}

/// A connection on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Talk {
    /// From the client to the server.
    ends: Ends,
    directions: Directions,
    step: Step,
    data_left: u32,
    unacknowledged: u8,
    client_seq: u32,
    server_seq: u32,
    mss: u16,
}

impl Talk {
    /// A connection with `data` segments of data; `initial` gives both initial sequence numbers, and `mss` is
    /// what both ends take.
    pub fn new(ends: Ends, directions: Directions, data: u32, initial: u64, mss: u16) -> Talk {
        Talk {
            ends,
            directions,
            step: Step::Syn,
            data_left: data,
            unacknowledged: 0,
            client_seq: initial as u32,
            server_seq: (initial >> 32) as u32,
            mss,
        }
    }

    /// Whether every packet was sent.
    pub fn is_done(&self) -> bool {
        self.step == Step::Done
    }

    /// The next packet; means nothing once all were sent.
    pub fn next(&mut self, sizes: &mut SizeDraw) -> Packet {
        let (from_client, flags, has_data) = match (self.step, self.directions) {
            (Step::Syn, _) => (true, SYN, false),
            (Step::SynAck, _) => (false, SYN | ACK, false),
            (Step::HandshakeAck | Step::DataAck | Step::LastAck | Step::Done, _) => {
                (self.step != Step::LastAck, ACK, false)
            }
            (Step::Request, _) => (true, PSH | ACK, true),
            (Step::Data, directions) => {
                let push = if self.data_left == 1 { PSH } else { 0 };
                (directions == Directions::One, ACK | push, true)
            }
            (Step::ServerFin, _) => (false, FIN | ACK, false),
            (Step::ClientFin, _) => (true, FIN | ACK, false),
        };
        self.step = self.following();
        self.packet(from_client, flags, if has_data { sizes.next() } else { 0 })
    }

    fn following(&mut self) -> Step {
        match (self.step, self.directions) {
            (Step::Syn, Directions::Both) => Step::SynAck,
            (Step::Syn, Directions::One) => self.data_or(Step::ClientFin),
            (Step::SynAck, _) => Step::HandshakeAck,
            (Step::HandshakeAck, _) => Step::Request,
            (Step::Request, _) => self.data_or(Step::ServerFin),
            (Step::Data, Directions::One) => {
                self.data_left -= 1;
                self.data_or(Step::ClientFin)
            }
            (Step::Data, Directions::Both) => {
                self.data_left -= 1;
                self.unacknowledged += 1;
                if self.unacknowledged == 2 || self.data_left == 0 { Step::DataAck } else { Step::Data }
            }
            (Step::DataAck, _) => {
                self.unacknowledged = 0;
                self.data_or(Step::ServerFin)
            }
            (Step::ServerFin, _) => Step::ClientFin,
            (Step::ClientFin, Directions::Both) => Step::LastAck,
            (Step::ClientFin | Step::LastAck | Step::Done, _) => Step::Done,
        }
    }

    fn data_or(&self, end: Step) -> Step {
        if self.data_left > 0 { Step::Data } else { end }
    }

    /// A packet with data where `frame_bytes` is not 0, and numbers that follow each other.
    fn packet(&mut self, from_client: bool, flags: u8, frame_bytes: usize) -> Packet {
        let headers = self.ends.header_bytes() + TCP_HEADER_BYTES;
        let payload_bytes = if frame_bytes == 0 { 0 } else { frame_bytes.saturating_sub(headers).max(1) };
        let (ends, seq, ack) = match from_client {
            true => (self.ends, self.client_seq, self.server_seq),
            false => (self.ends.back(), self.server_seq, self.client_seq),
        };
        // One way, what the server said is known from the acknowledgments only: that its SYN came.
        let is_first_of_one = self.directions == Directions::One && flags & SYN != 0;
        let sent = payload_bytes as u32 + u32::from(flags & (SYN | FIN) != 0);
        let own = if from_client { &mut self.client_seq } else { &mut self.server_seq };
        *own = own.wrapping_add(sent);
        if is_first_of_one {
            self.server_seq = self.server_seq.wrapping_add(1);
        }
        Packet { ends, transport: Transport::Tcp { flags, seq, ack, mss: self.mss }, payload_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::flow;
    use crate::model::sizes::Sizes;

    /// Each packet as `>` or `<`, flags, sequence and acknowledgment from the initial ones on, and payload.
    fn play(directions: Directions, data: u32) -> Vec<String> {
        let ends = flow::flow(1, false);
        let mut sizes = SizeDraw::new(&Sizes::Fixed(154), 1);
        let mut talk = Talk::new(ends, directions, data, 0, 1_460);
        let mut lines = Vec::new();
        while !talk.is_done() {
            let Packet { ends: from, transport, payload_bytes } = talk.next(&mut sizes);
            let Transport::Tcp { flags, seq, ack, .. } = transport else { panic!("TCP") };
            let direction = if from == ends { '>' } else { '<' };
            let names = [(SYN, 'S'), (FIN, 'F'), (PSH, 'P'), (ACK, 'A')];
            let flags: String =
                names.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, name)| *name).collect();
            let ack = if flags.contains('A') { ack } else { 0 };
            lines.push(format!("{direction} {flags} {seq} {ack} {payload_bytes}"));
        }
        lines
    }

    #[test]
    fn a_connection_is_opened_used_and_closed() {
        let expected = [
            "> S 0 0 0",
            "< SA 0 1 0",
            "> A 1 1 0",
            "> PA 1 1 100",
            "< A 1 101 100",
            "< A 101 101 100",
            "> A 101 201 0",
            "< PA 201 101 100",
            "> A 101 301 0",
            "< FA 301 101 0",
            "> FA 101 302 0",
            "< A 302 102 0",
        ];
        assert_eq!(play(Directions::Both, 3), expected);
    }

    #[test]
    fn one_direction_has_its_syn_and_fin() {
        assert_eq!(play(Directions::One, 2), ["> S 0 0 0", "> A 1 1 100", "> PA 101 1 100", "> FA 201 1 0"]);
        assert_eq!(play(Directions::One, 0), ["> S 0 0 0", "> FA 1 1 0"]);
    }

    #[test]
    fn packets_are_counted_ahead() {
        for directions in [Directions::Both, Directions::One] {
            for data in directions.least_data()..20 {
                assert_eq!(play(directions, data as u32).len() as u64, directions.packets(data));
            }
            for packets in 1..100 {
                let data = directions.data_for(packets);
                assert!(directions.packets(data) >= packets);
                let is_least = data == directions.least_data() || directions.packets(data - 1) < packets;
                assert!(is_least, "{packets} packets");
            }
        }
    }
}
