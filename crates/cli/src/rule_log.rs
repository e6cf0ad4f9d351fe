//! Packets that rules with `log` drop: as lines of JSON, and for people.

use std::path::Path;

use engine::report::{LoggedRule, WhyDropped, has_ports, protocol_name};
use serde::{Deserialize, Serialize};
use wire::LinkType;

use crate::failure::Failure;
use crate::output::{Files, count, plural};

/// The most lines of a file: they wait in memory until the run has ended.
const LINES_MAX: u64 = 1_000_000;

/// A file of such lines, so many for each second at most.
pub struct RuleLog {
    name: String,
    file: Files,
    lines: String,
    per_second: u64,
    /// The second of the last packet, and how many were written in it.
    second: (u64, u64),
    written: u64,
    left_out: u64,
}

/// A packet that a rule with `log` dropped.
#[derive(Debug, Serialize, Deserialize)]
pub struct LogEntry {
    /// Its number in the run, from 1.
    packet: u64,
    time_ns: u64,
    /// The interface by which it came; of a capture none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    function: String,
    rule: String,
    text: String,
    protocol: String,
    src: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    src_port: Option<u16>,
    dst: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dst_port: Option<u16>,
    /// On the wire.
    bytes: u32,
}

impl LogEntry {
    /// What there is to say of a packet; `None` if no rule with `log` dropped it. `number` counts from 0.
    pub fn new(
        (number, time_ns): (u64, u64),
        (link, wire_len, bytes): (LinkType, u32, &[u8]),
        interface: Option<String>,
        why: &WhyDropped,
    ) -> Option<LogEntry> {
        let WhyDropped { by, rule: Some(LoggedRule { name, text }), .. } = why else { return None };
        let headers = wire::parse(link, bytes, wire_len);
        let has_ports = has_ports(&headers);
        Some(LogEntry {
            packet: number + 1,
            time_ns,
            interface,
            function: by.clone(),
            rule: name.clone(),
            text: text.clone(),
            protocol: protocol_name(headers.protocol),
            src: headers.src.to_string(),
            src_port: has_ports.then_some(headers.src_port),
            dst: headers.dst.to_string(),
            dst_port: has_ports.then_some(headers.dst_port),
            bytes: wire_len,
        })
    }

    /// A line for people: `1795203600.903246498 eth0 firewall rule 7: tcp 192.0.2.1:4000 > 198.51.100.2:23, 74 bytes: drop ...`.
    pub fn text(&self) -> String {
        let end = |host: &str, port: Option<u16>| match port {
            Some(port) if host.contains(':') => format!("[{host}]:{port}"),
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let LogEntry { time_ns, function, rule, text, protocol, bytes, .. } = self;
        let (seconds, ns) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        let (src, dst) = (end(&self.src, self.src_port), end(&self.dst, self.dst_port));
        let interface = self.interface.as_deref().map_or(String::new(), |name| format!("{name} "));
        format!(
            "{seconds}.{ns:09} {interface}{function} rule {rule}: {protocol} {src} > {dst}, {bytes} bytes: {text}\n"
        )
    }
}

/// The last line.
#[derive(Serialize)]
struct End {
    written: u64,
    left_out: u64,
}

impl RuleLog {
    /// Opens the file.
    pub fn open(path: &Path, per_second: u64) -> Result<RuleLog, Failure> {
        let name = if path == "-" { "standard output".to_owned() } else { path.display().to_string() };
        let file = Files::open(&[path.to_owned()])?;
        let lines = String::new();
        Ok(RuleLog { name, file, lines, per_second, second: (0, 0), written: 0, left_out: 0 })
    }

    /// Adds a packet, if a rule with `log` dropped it and its second has room. `number` counts from 0.
    pub fn packet(
        &mut self,
        (number, time_ns): (u64, u64),
        packet: (LinkType, u32, &[u8]),
        why: &WhyDropped,
    ) -> Result<(), Failure> {
        if why.rule.is_none() {
            return Ok(());
        }
        let second = time_ns / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        if self.second.1 == self.per_second || self.written == LINES_MAX {
            self.left_out += 1;
            return Ok(());
        }
        self.second.1 += 1;
        self.written += 1;
        let entry = LogEntry::new((number, time_ns), packet, None, why);
        entry.map_or(Ok(()), |entry| self.line(&entry))
    }

    /// Writes the file, and says what is in it; `option` says how many lines a second may have.
    pub fn finish(mut self, option: &str) -> Result<String, Failure> {
        let (written, left_out) = (self.written, self.left_out);
        self.line(&End { written, left_out })?;
        let RuleLog { name, file, lines, per_second, .. } = self;
        file.write([Some(lines)])?;
        let told = format!("{} of rules with log written to {name}", plural(written, "line"));
        Ok(match left_out {
            0 => told,
            left_out => format!("{told}; {} left out, beyond {option} {per_second}", count(left_out)),
        })
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        self.lines += &serde_json::to_string(line).map_err(Failure::defect)?;
        self.lines.push('\n');
        Ok(())
    }
}
