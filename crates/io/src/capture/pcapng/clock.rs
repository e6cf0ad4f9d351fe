//! How an interface of a pcapng file counts time.

use super::super::order::Order;

const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
const NS_PER_S: u64 = 1_000_000_000;

/// How an interface counts time: ticks since 1970, moved by whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    tick: Tick,
    offset_s: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tick {
    /// So many nanoseconds.
    Ns(u64),
    /// This part of a nanosecond; 0 if finer than any u64 can count.
    PartOfNs(u64),
    /// 2^-n seconds.
    Binary(u32),
}

impl Clock {
    /// Reads `if_tsresol` and `if_tsoffset` from an interface's options; the default is microseconds.
    ///
    /// # Errors
    /// An option that is cut or has the wrong length: its offset in `options`, what was expected and
    /// what was found.
    pub fn from_options(order: Order, options: &[u8]) -> Result<Clock, (usize, &'static str, String)> {
        let mut clock = Clock { tick: Tick::Ns(1_000), offset_s: 0 };
        let mut at = 0;
        while let Some(header) = options.get(at..at + 4) {
            let (code, len) = (order.u16(header, 0), usize::from(order.u16(header, 2)));
            let Some(value) = options.get(at + 4..at + 4 + len) else {
                return Err((at, "an option that ends within its block", format!("one of {len} bytes")));
            };
            match code {
                0 => break,
                IF_TSRESOL => match value {
                    [resolution] => clock.tick = tick(*resolution),
                    _ => {
                        return Err((at, "a time resolution (if_tsresol) of 1 byte", format!("{len} bytes")));
                    }
                },
                IF_TSOFFSET => match value.len() {
                    8 => clock.offset_s = order.u64(value, 0).cast_signed(),
                    _ => return Err((at, "a time offset (if_tsoffset) of 8 bytes", format!("{len} bytes"))),
                },
                _ => {}
            }
            at += 4 + len.next_multiple_of(4);
        }
        Ok(clock)
    }

    /// Nanoseconds since 1970; 0 for times before, `u64::MAX` for times too late to count.
    pub fn time_ns(self, ticks: u64) -> u64 {
        let ticks = u128::from(ticks);
        let ns = match self.tick {
            Tick::Ns(ns) => ticks * u128::from(ns),
            Tick::PartOfNs(0) => 0,
            Tick::PartOfNs(parts) => ticks / u128::from(parts),
            Tick::Binary(n) => (ticks * u128::from(NS_PER_S)) >> n,
        };
        // Both terms are below 2^94.
        let ns = ns.cast_signed() + i128::from(self.offset_s) * i128::from(NS_PER_S);
        ns.clamp(0, u64::MAX.into()) as u64
    }
}

/// `if_tsresol`: 10^-n seconds, or 2^-n if the highest bit is set.
fn tick(resolution: u8) -> Tick {
    let n = u32::from(resolution & 0x7f);
    if resolution & 0x80 != 0 {
        Tick::Binary(n)
    } else if n <= 9 {
        Tick::Ns(10_u64.pow(9 - n))
    } else {
        Tick::PartOfNs(10_u64.checked_pow(n - 9).unwrap_or(0))
    }
}
