//! What a packet, and an item of history, take in the kernel, by `BPF_PROG_TEST_RUN`.

use p4::interpret::Machine;
use p4::ir::Program;

use crate::compile::Compiled;
use crate::history::{Arrival, prefix};
use crate::load::{LoadError, Loaded};

/// Items in front of the packet of which the cost of one is computed.
pub const ITEMS: u16 = 13;

/// Packets of different flows of which the mean is taken, where there are more flows than items.
const SAMPLES: usize = 8;

/// A program in the kernel with all its flows in its tables, and packets that are run again and again.
pub struct Cost<'a> {
    loaded: Loaded<'a>,
    packets: Vec<Vec<u8>>,
}

impl<'a> Cost<'a> {
    /// Loads an object, and takes a packet of each flow through it. Its packets have as many items in front of them, those of the
    /// flows behind theirs; without `scr` there are none.
    ///
    /// # Errors
    /// This process has no rights, or the kernel refuses the program or a packet.
    pub fn new(
        program: &Program,
        compiled: &'a Compiled,
        object: &[u8],
        flows: &[Vec<u8>],
        items: u16,
    ) -> Result<Cost<'a>, LoadError> {
        let loaded = Loaded::load(compiled, object, 1, true)?;
        let mut parser = Machine::new(program.clone());
        let mut packet = |first: usize| {
            let mut ring = Vec::new();
            for flow in flows.iter().cycle().skip(first).take(items.into()) {
                ring.extend(compiled.item.of(&parser.parse(0, flow, 0).values));
            }
            let arrival = Arrival {
                sequence: u64::from(ITEMS) * 1000,
                time_ns: 1_000_000,
                replica: 0,
                port: 0,
                is_flush: false,
            };
            let mut bytes = prefix(&compiled.item, arrival, &ring, items);
            bytes.extend(&flows[first]);
            bytes
        };
        for flow in 0..flows.len() {
            loaded.packet(&packet(flow), 1)?;
        }
        let samples = if flows.len() > ITEMS.into() { SAMPLES } else { flows.len().min(1) };
        let packets = (0..samples).map(|sample| packet(sample * (flows.len() / samples))).collect();
        Ok(Cost { loaded, packets })
    }

    /// ns of a packet with its items: the mean of so many runs.
    fn round(&self, runs: u32) -> Result<f64, LoadError> {
        let many = self.packets.len() as u32;
        self.loaded.mean_ns(&self.packets, (runs / many.max(1)).max(1))
    }
}

/// ns of a packet of each: the least of the means of some rounds of so many runs. They take turns, so that what else the machine
/// does meets all of them.
///
/// # Errors
/// The kernel refuses a packet.
pub fn in_turns(costs: &[Cost<'_>], rounds: u32, runs: u32) -> Result<Vec<f64>, LoadError> {
    let mut least = vec![f64::INFINITY; costs.len()];
    for _ in 0..rounds {
        for (least, cost) in least.iter_mut().zip(costs) {
            *least = least.min(cost.round(runs)?);
        }
    }
    Ok(least)
}
