//! Packets arrive: when, and from where.

use thiserror::Error;

/// A packet that is to arrive.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<Phv> {
    /// What the parser made of it.
    pub phv: Phv,
    /// Bytes on the wire.
    pub bytes: u32,
    /// When it came, in ns; [`Pacing::Timed`] alone heeds it. Must not run back.
    pub time_ns: u64,
    /// By which port. Of pipelines that share a ring it goes into number `port` mod their number.
    pub port: u16,
}

/// When packets arrive. A packet is never earlier than the one before it has wholly come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Back to back, so much of the line's rate being used: a packet keeps the next one waiting for its bytes
    /// over [`Line::bytes_per_cycle`], rounded up to a whole cycle, then stretched by 100 / percent.
    Load {
        /// 1 to 100.
        percent: u32,
    },
    /// A packet in each cycle, whatever its length.
    EveryCycle,
    /// At the times that the trace has.
    Timed,
}

/// The line on which packets arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// When.
    pub pacing: Pacing,
    /// Bytes that come in a cycle: 64 (RAPID §2.3).
    pub bytes_per_cycle: u32,
    /// Cycles in a microsecond: 1,000 at 1 GHz. For [`Pacing::Timed`].
    pub cycles_per_us: u32,
}

impl Default for Line {
    fn default() -> Line {
        Line { pacing: Pacing::Load { percent: 100 }, bytes_per_cycle: 64, cycles_per_us: 1_000 }
    }
}

/// A line that cannot be.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LineError {
    /// Not a share of the line's rate.
    #[error("a load of {percent}%; it is 1 to 100")]
    Load {
        /// What was asked for.
        percent: u32,
    },
    /// Nothing would ever arrive.
    #[error("bytes per cycle and cycles per microsecond are at least 1")]
    Zero,
}

impl Line {
    /// Checks the numbers.
    ///
    /// # Errors
    /// [`LineError`] says which is out of bounds.
    pub fn check(&self) -> Result<(), LineError> {
        match self.pacing {
            Pacing::Load { percent } if !(1..=100).contains(&percent) => Err(LineError::Load { percent }),
            _ if self.bytes_per_cycle == 0 || self.cycles_per_us == 0 => Err(LineError::Zero),
            _ => Ok(()),
        }
    }
}

/// The end of the line: holds the packet that comes next.
pub(crate) struct Port<Phv, Source> {
    source: Source,
    line: Line,
    next: Option<Arrival<Phv>>,
    /// When `next` has come in. In hundredths of a cycle times percent, so that loads add up exactly.
    due_scaled: u64,
    /// When `next` has come in, in whole cycles; `u64::MAX` if nothing comes.
    due: u64,
    first_ns: u64,
    /// Time on the line that packets took so far, at the same scale: what was offered.
    taken_scaled: u64,
}

impl<Phv, Source: Iterator<Item = Arrival<Phv>>> Port<Phv, Source> {
    /// A port to which time begins at `first_ns`.
    pub fn new(line: Line, first_ns: u64, source: Source) -> Self {
        let mut port = Port { source, line, next: None, due_scaled: 0, due: 0, first_ns, taken_scaled: 0 };
        port.advance();
        port
    }

    /// The cycle in which the next packet arrives, if there is one.
    #[inline]
    pub fn due(&self) -> Option<u64> {
        (self.due != u64::MAX).then_some(self.due)
    }

    /// Takes the packet that is due. The one behind it begins to come in now.
    pub fn take(&mut self, cycle: u64) -> Option<Phv> {
        let arrival = self.next.take()?;
        let scale = self.scale();
        let cycles = u64::from(arrival.bytes.div_ceil(self.line.bytes_per_cycle)).max(1);
        let length = match self.line.pacing {
            Pacing::Load { .. } => cycles * 100,
            Pacing::EveryCycle => scale,
            Pacing::Timed => cycles * scale,
        };
        self.due_scaled = self.due_scaled.max(cycle * scale) + length;
        self.taken_scaled += length;
        self.advance();
        Some(arrival.phv)
    }

    /// Cycles in which the packets taken so far would have arrived had nothing stalled.
    pub fn line_cycles(&self) -> f64 {
        let scaled = match self.line.pacing {
            Pacing::Timed => self.due_scaled,
            _ => self.taken_scaled,
        };
        scaled as f64 / self.scale() as f64
    }

    fn advance(&mut self) {
        self.next = self.source.next();
        if let (Pacing::Timed, Some(next)) = (self.line.pacing, &self.next) {
            let elapsed_ns = next.time_ns.saturating_sub(self.first_ns);
            let due = u128::from(elapsed_ns) * u128::from(self.line.cycles_per_us) / 1_000;
            self.due_scaled = self.due_scaled.max(due as u64 * self.scale());
        }
        self.due = if self.next.is_some() { self.due_scaled / self.scale() } else { u64::MAX };
    }

    #[inline]
    fn scale(&self) -> u64 {
        match self.line.pacing {
            Pacing::Load { percent } => u64::from(percent),
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(pacing: Pacing, packets: &[(u32, u64)]) -> Vec<u64> {
        let line = Line { pacing, ..Line::default() };
        let source = packets.iter().map(|&(bytes, time_ns)| Arrival { phv: (), bytes, time_ns, port: 0 });
        let mut port = Port::new(line, packets[0].1, source);
        let mut dues = Vec::new();
        while let Some(due) = port.due() {
            dues.push(due);
            port.take(due);
        }
        dues
    }

    #[test]
    fn a_packet_takes_a_cycle_for_64_bytes() {
        let packets = [(64, 0), (65, 0), (1_500, 0), (0, 0), (60, 0)];
        assert_eq!(dues(Pacing::Load { percent: 100 }, &packets), [0, 1, 3, 27, 28]);
        assert_eq!(dues(Pacing::EveryCycle, &packets), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_load_leaves_free_cycles() {
        let packets = [(64, 0); 10];
        let at_90 = dues(Pacing::Load { percent: 90 }, &packets);
        assert_eq!(at_90, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]);
        assert_eq!(dues(Pacing::Load { percent: 50 }, &packets)[9], 18);
    }

    #[test]
    fn times_are_kept_where_the_line_allows_it() {
        let packets = [(640, 5_000), (640, 5_003), (64, 5_100), (64, 5_090)];
        assert_eq!(dues(Pacing::Timed, &packets), [0, 10, 100, 101]);
    }
}
