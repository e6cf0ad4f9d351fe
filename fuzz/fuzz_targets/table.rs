//! Any packets through a flow table that three functions share, in batches cut anyhow: each packet finds
//! what a plain model has, the table's own rules hold, and one packet at a time gives the same.
//!
//! Input: capacity, flags, seed, three sizes of batches; then four bytes for each packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nf::{FiveTuple, SrcAddr};
use paceline_table::WhenFull;

#[path = "../../crates/table/tests/driver/mod.rs"]
#[allow(dead_code, reason = "plants no faults")]
mod driver;

use driver::{Act, Answer, Departure, Driver, Numbered, Packet};

fuzz_target!(|input: &[u8]| {
    let Some((&[capacity, flags, seed, sizes @ ..], rest)) = input.split_first_chunk::<6>() else { return };
    let when_full = if flags & 1 == 0 { WhenFull::Reject } else { WhenFull::EvictOldest };
    let mut now_ns = 0;
    let packets: Vec<_> = rest.as_chunks::<4>().0.iter().map(|bytes| packet(*bytes, &mut now_ns)).collect();
    let table = Table { capacity: usize::from(capacity).max(1), when_full, seed: seed.into() };
    match flags & 2 == 0 {
        true => table.compare::<SrcAddr>(&packets, sizes),
        false => table.compare::<FiveTuple>(&packets, sizes),
    }
});

/// number, time that passed, time-out, and two bits for what it does to each function's state.
fn packet(bytes: [u8; 4], now_ns: &mut u64) -> Packet {
    let [number, passed, timeout, acts] = bytes;
    // Up to 15 ns; or far further.
    *now_ns += u64::from(passed & 15) << (passed >> 6 << 1);
    let act = |part: u32| match acts >> (2 * part) & 3 {
        0 => Act::Ignore,
        1 => Act::End,
        long => {
            let idle_timeout_ns = u64::from(timeout) << (4 * (long - 2));
            Act::Set {
                salt: u64::from_le_bytes([number, passed, timeout, acts, 1, 2, 3, 4]),
                idle_timeout_ns,
            }
        }
    };
    // Two more bits of the flow's number: more flows than any table here holds.
    let number = u32::from(number) | u32::from(acts >> 6) << 8;
    Packet { number, time_ns: *now_ns, acts: [0, 1, 2].map(act) }
}

struct Table {
    capacity: usize,
    when_full: WhenFull,
    seed: u64,
}

impl Table {
    fn compare<K: Numbered>(&self, packets: &[Packet], sizes: [u8; 3]) {
        let one_by_one = self.run::<K>(packets, &[1]);
        let in_batches = self.run::<K>(packets, &sizes.map(|size| 1 + usize::from(size % 64)));
        assert!(one_by_one == in_batches, "batch borders leave a trace");
    }

    fn run<K: Numbered>(&self, packets: &[Packet], sizes: &[usize]) -> (Vec<Answer>, Vec<Departure>) {
        let mut driver = Driver::<K>::new(self.capacity, self.when_full, self.seed, None);
        let (mut answers, mut rest) = (Vec::new(), packets);
        for size in sizes.iter().cycle() {
            let Some(last) = rest.first() else { break };
            let (batch, after) = rest.split_at((*size).min(rest.len()));
            answers.extend(driver.batch(batch));
            if answers.len() % 256 < *size {
                driver.check(batch.last().unwrap_or(last).time_ns);
            }
            rest = after;
        }
        let now_ns = packets.last().map_or(0, |packet| packet.time_ns);
        driver.check(now_ns);
        driver.settle(now_ns);
        driver.check(now_ns);
        (answers, driver.departures)
    }
}
