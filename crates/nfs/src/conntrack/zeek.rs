//! A record of a connection as a line of JSON, with the names and values of Zeek's `conn.log`.

use alloc::format;
use alloc::string::String;
use core::fmt::Write;

use nf::{Connection, hash_bytes};
use wire::{Addr, protocol};
use zerocopy::IntoBytes;

use super::record::{Letter, Marks, Recorded};
use super::tcp::Side;

impl Recorded {
    pub(super) fn history(&self) -> String {
        let written = (self.marks & Marks::LETTERS).bits().count_ones();
        let codes = (0..written).map(|at| (self.history >> (4 * at) & 15) as u32 - 1);
        let letter = |code: u32| Letter::ALL[(code % 8) as usize].1;
        codes.map(|code| if code < 8 { letter(code).to_ascii_uppercase() } else { letter(code) }).collect()
    }

    /// Zeek's `conn_state`, by the rules of its script `base/protocols/conn/main.zeek`.
    fn conn_state(&self, protocol: u8) -> &'static str {
        let [originator, responder] = [Side::Originator, Side::Responder];
        let is_active = |side: Side| self.packets[side as usize] > 0;
        if protocol == protocol::UDP {
            return if is_active(responder) { "SF" } else { "S0" };
        }
        if protocol != protocol::TCP {
            return "OTH";
        }
        let [reset, closed] = [Letter::Rst, Letter::Fin]
            .map(|letter| [originator, responder].map(|side| self.has(letter, side)));
        let has_syn = |side: Side| self.has(Letter::Syn, side) || self.has(Letter::SynAck, side);
        let is_established = has_syn(originator) && has_syn(responder);
        // Nothing, or something without a handshake.
        let is_partial = |side: Side| !has_syn(side);
        let has_data = self.bytes != [0; 2];
        match (reset, closed) {
            ([own, true], _) if (!own && has_syn(originator) && !is_established) || (own && !has_data) => {
                "REJ"
            }
            ([_, true], _) if is_partial(originator) => "RSTRH",
            ([_, true], _) => "RSTR",
            ([true, _], _) if is_partial(responder) => "RSTOS0",
            ([true, _], _) => "RSTO",
            (_, [true, true]) => "SF",
            (_, [true, _]) if is_partial(responder) => "SH",
            (_, [true, _]) => "S2",
            (_, [_, true]) if is_partial(originator) => "SHR",
            (_, [_, true]) => "S3",
            _ if is_established => "S1",
            _ if has_syn(originator) && !is_active(responder) => "S0",
            _ => "OTH",
        }
    }

    /// A line of JSON with the names of Zeek's `conn.log`. Time stamps are seconds; `open` is `true` for a connection that goes
    /// on at the end of the run.
    ///
    /// ```text
    /// {"ts":1700000000.000000,"uid":"C…","id.orig_h":"10.0.0.1","id.orig_p":4000,"id.resp_h":"192.0.2.1","id.resp_p":80,
    ///  "proto":"tcp","duration":0.250000,"orig_bytes":100,"resp_bytes":1000,"conn_state":"SF","missed_bytes":0,
    ///  "history":"ShADadFf","orig_pkts":6,"orig_ip_bytes":340,"resp_pkts":5,"resp_ip_bytes":1200,"ip_proto":6}
    /// ```
    pub(super) fn line(&self, key: &Connection, is_open: bool) -> String {
        let (low, high) = ((key.low, key.low_port), (key.high, key.high_port));
        let (orig, resp) = match self.tracked.side(true) {
            Side::Originator => (low, high),
            Side::Responder => (high, low),
        };
        let proto = match key.protocol {
            protocol::TCP => "tcp",
            protocol::UDP => "udp",
            protocol::ICMP | protocol::ICMPV6 => "icmp",
            _ => "unknown_transport",
        };
        let Recorded { bytes, payload_bytes, packets, ip_bytes, first_ns, last_ns, .. } = self;
        let missed: u64 = bytes.iter().zip(payload_bytes).map(|(all, seen)| all.saturating_sub(*seen)).sum();
        let mut line = String::with_capacity(400);
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "{{\"ts\":{},\"uid\":\"{}\",{},{},\"proto\":\"{proto}\",\"duration\":{},\"orig_bytes\":{},\"resp_bytes\":{},\
             \"conn_state\":\"{}\",\"missed_bytes\":{missed},\"history\":\"{}\",\"orig_pkts\":{},\"orig_ip_bytes\":{},\
             \"resp_pkts\":{},\"resp_ip_bytes\":{},\"ip_proto\":{}",
            seconds(*first_ns),
            self.uid(key),
            end("orig", orig),
            end("resp", resp),
            seconds(last_ns - first_ns),
            bytes[0],
            bytes[1],
            self.conn_state(key.protocol),
            self.history(),
            packets[0],
            ip_bytes[0],
            packets[1],
            ip_bytes[1],
            key.protocol,
        );
        line += if is_open { ",\"open\":true}" } else { "}" };
        line
    }

    /// Names the connection: the same in every run over the same packets.
    fn uid(&self, key: &Connection) -> String {
        const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut bits = u128::from(hash_bytes(key.as_bytes(), self.first_ns)) << 32
            | u128::from(hash_bytes(key.as_bytes(), !self.first_ns) as u32);
        let mut uid = String::from("C");
        for _ in 0..17 {
            uid.push(char::from(DIGITS[(bits % 62) as usize]));
            bits /= 62;
        }
        uid
    }
}

fn end(name: &str, (addr, port): (Addr, u16)) -> String {
    format!("\"id.{name}_h\":\"{addr}\",\"id.{name}_p\":{port}")
}

/// As seconds with six digits, as Zeek writes times.
fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
}
