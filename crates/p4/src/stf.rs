//! Test files: packets in, packets expected, entries added. One command a line; `#` and `//` begin comments.
//!
//! ```text
//! add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...)
//! add MUTABLE KEY:VALUE ... = VALUE ...
//! remove TABLE [PRIORITY] KEY:VALUE ...
//! setdefault TABLE ACTION(NAME:VALUE, ...)
//! multicast GROUP PORT ...
//! meter NAME INDEX RATE BURST PEAK_RATE PEAK_BURST
//! time MICROSECONDS
//! packet PORT HEX
//! expect PORT [HEX]
//! check REGISTER INDEX = VALUE
//! check COUNTER INDEX = PACKETS
//! check MUTABLE KEY ... = VALUE ...
//! ```
//!
//! Values are decimal, `0x..`, `0b..`, an IPv4 or a MAC address; `value/bits` is a prefix, `value&&&mask` a mask,
//! `low..high` a range, and a hexadecimal digit `*` is any. In the bytes of `expect`, `*` is any digit; what is
//! longer than expected is right too, unless `$` ends it. On each port packets come out as they are expected, in
//! order, and no others.

mod command;
mod value;

pub use command::{call_text, change, entry_text};
pub use value::mac;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use crate::interpret::{Machine, Output};

/// A line that cannot be done.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {message}")]
pub struct StfError {
    /// Which, from 1.
    pub line: usize,
    /// Why.
    pub message: String,
}

/// What a test file gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StfReport {
    /// Packets in.
    pub packets: u64,
    /// Packets out.
    pub packets_out: u64,
    /// Things that were expected: packets and checks.
    pub expectations: u64,
    /// Those that were not met, and packets that nobody expected.
    pub failures: Vec<StfFailure>,
}

/// What was not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StfFailure {
    /// The line, from 1, that expected it; or that sent the packet that nobody expected.
    pub line: usize,
    /// What was expected, and what was found.
    pub message: String,
}

struct Expected {
    line: usize,
    /// Hexadecimal digits, `*` for any, and `$` at the end; nothing for any packet.
    pattern: Option<String>,
}

/// Runs a test file from the machine's state as it is.
///
/// # Errors
/// A line that cannot be read or done; what was before it has been done.
pub fn run(machine: &mut Machine, text: &str) -> Result<StfReport, StfError> {
    let mut session = Session {
        machine,
        report: StfReport::default(),
        time_ns: 0,
        expected: BTreeMap::new(),
        found: BTreeMap::new(),
    };
    for (number, line) in text.lines().enumerate() {
        let line_number = number + 1;
        session.line(line_number, line).map_err(|message| StfError { line: line_number, message })?;
    }
    Ok(session.finish())
}

/// Does all lines of a text that change tables: `add`, `remove`, `setdefault`.
///
/// # Errors
/// A line that cannot be read or done, or says something else; what was before it has been done.
pub fn change_all(machine: &mut Machine, text: &str) -> Result<(), StfError> {
    for (number, line) in text.lines().enumerate() {
        let code = code(line);
        if !code.is_empty() {
            change(machine, code).map_err(|message| StfError { line: number + 1, message })?;
        }
    }
    Ok(())
}

struct Session<'a> {
    machine: &'a mut Machine,
    report: StfReport,
    time_ns: u64,
    /// For each port.
    expected: BTreeMap<u16, Vec<Expected>>,
    /// For each port, and the line of the packet that gave it.
    found: BTreeMap<u16, Vec<(usize, Output)>>,
}

impl Session<'_> {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let code = code(line);
        let (command, rest) = code.split_once(char::is_whitespace).unwrap_or((code, ""));
        let rest = rest.trim();
        match command {
            "" => Ok(()),
            "packet" => self.packet(number, rest),
            "expect" => self.expect(number, rest),
            "time" => {
                let time_us: u64 =
                    rest.parse().map_err(|_| format!("`{rest}` is no number of microseconds"))?;
                self.time_ns = self.time_ns.max(time_us.saturating_mul(1000));
                Ok(())
            }
            "check" => {
                self.report.expectations += 1;
                if let Some(message) = command::check(self.machine, rest)? {
                    self.report.failures.push(StfFailure { line: number, message });
                }
                Ok(())
            }
            other => command::control(self.machine, other, rest),
        }
    }

    fn packet(&mut self, line: usize, rest: &str) -> Result<(), String> {
        let (port, digits) = port_and_digits(rest)?;
        let bytes = from_hex(&digits).ok_or("a packet is whole bytes in hexadecimal")?;
        self.report.packets += 1;
        for output in self.machine.packet(port, &bytes, self.time_ns) {
            self.report.packets_out += 1;
            self.found.entry(output.port).or_default().push((line, output));
        }
        Ok(())
    }

    fn expect(&mut self, line: usize, rest: &str) -> Result<(), String> {
        let (port, digits) = port_and_digits(rest)?;
        let body = digits.strip_suffix('$').unwrap_or(&digits);
        if !body.chars().all(|c| c.is_ascii_hexdigit() || c == '*') {
            return Err("what is expected is hexadecimal, with `*` for any digit and `$` for the end".into());
        }
        self.report.expectations += 1;
        let pattern = (!digits.is_empty()).then_some(digits);
        self.expected.entry(port).or_default().push(Expected { line, pattern });
        Ok(())
    }

    fn finish(mut self) -> StfReport {
        for (port, expected) in &self.expected {
            let found = self.found.remove(port).unwrap_or_default();
            for (at, expected) in expected.iter().enumerate() {
                let message = match found.get(at) {
                    None => format!("no packet came out of port {port}"),
                    Some((_, output)) => match differs(expected.pattern.as_deref(), &output.bytes) {
                        None => continue,
                        Some(why) => format!("port {port}: {why}"),
                    },
                };
                self.report.failures.push(StfFailure { line: expected.line, message });
            }
            self.report.failures.extend(found.iter().skip(expected.len()).map(unexpected));
        }
        self.report.failures.extend(self.found.values().flatten().map(unexpected));
        self.report.failures.sort_by_key(|failure| failure.line);
        self.report
    }
}

/// What a line says, without its comment.
fn code(line: &str) -> &str {
    let code = &line[..comment(line).unwrap_or(line.len())];
    code.split("//").next().unwrap_or_default().trim()
}

/// Where a comment begins: at a `#` that is no part of a name such as `set#2(`.
fn comment(line: &str) -> Option<usize> {
    let is_in_name = |at: usize| {
        let behind = line[at + 1..].trim_start_matches(|letter: char| letter.is_ascii_digit());
        let has_number = behind.len() < line.len() - at - 1;
        has_number
            && behind.starts_with('(')
            && line[..at].ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
    };
    line.match_indices('#').map(|(at, _)| at).find(|at| !is_in_name(*at))
}

fn unexpected((line, output): &(usize, Output)) -> StfFailure {
    let message = format!("nobody expected this out of port {}: {}", output.port, to_hex(&output.bytes));
    StfFailure { line: *line, message }
}

/// How bytes differ from what is expected, if they do.
fn differs(pattern: Option<&str>, bytes: &[u8]) -> Option<String> {
    let pattern = pattern?;
    let (wanted, is_whole) = match pattern.strip_suffix('$') {
        Some(wanted) => (wanted, true),
        None => (pattern, false),
    };
    let found = to_hex(bytes);
    let same = |(wanted, found): (char, char)| wanted == '*' || wanted.eq_ignore_ascii_case(&found);
    let first = wanted.chars().zip(found.chars()).position(|pair| !same(pair));
    let at = match first {
        Some(at) => format!("differs at byte {}", at / 2),
        None if found.len() < wanted.len() => format!("ends after {} bytes", bytes.len()),
        None if is_whole && found.len() > wanted.len() => format!("goes on after {} bytes", wanted.len() / 2),
        None => return None,
    };
    Some(format!("{at}\n  expected {wanted}\n  found    {found}"))
}

fn port_and_digits(rest: &str) -> Result<(u16, String), String> {
    let (port, digits) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let port = port.parse().ok().filter(|port| *port < crate::interpret::DROP_PORT as u16);
    let port = port.ok_or_else(|| format!("a port is 0 to {}", crate::interpret::DROP_PORT - 1))?;
    Ok((port, digits.split_whitespace().collect()))
}

/// Bytes of hexadecimal digits; `None` if they are not that.
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    });
    pairs.collect()
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let bytes = [0x12, 0xab];
        for right in [None, Some(""), Some("12"), Some("1*AB"), Some("12ab$"), Some("****$")] {
            assert_eq!(differs(right, &bytes), None, "{right:?}");
        }
        for wrong in ["13", "12$", "12ab00", "12ab00$"] {
            assert!(differs(Some(wrong), &bytes).is_some(), "{wrong}");
        }
    }

    #[test]
    fn hexadecimal() {
        assert_eq!(from_hex("00fF"), Some(vec![0, 255]));
        assert_eq!((from_hex("0"), from_hex("0g")), (None, None));
        assert_eq!(to_hex(&[0, 255]), "00ff");
    }
}
