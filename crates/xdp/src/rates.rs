//! What some CPUs take of a traffic together, by `BPF_PROG_TEST_RUN` on each of them at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use core_affinity::CoreId;
use p4::ir::Program;

use crate::compile::Compiled;
use crate::load::{LoadError, Loaded, SEQUENCER, Settings, TRY, failed};
use crate::strategy::Strategy;
use crate::trial::{Packet, Sequencer};

/// Packets of each CPU that are run, evenly from all that come to it.
const SAMPLES: usize = 64;

/// A program in the kernel whose state is that of a whole traffic, and packets for each CPU.
pub struct Rates<'a> {
    loaded: Loaded<'a>,
    cpus: Vec<Cpu>,
}

/// What comes to one CPU.
struct Cpu {
    /// Its part of all packets, 0 to 1.
    share: f64,
    packets: Vec<Vec<u8>>,
}

impl<'a> Rates<'a> {
    /// Loads an object for so many CPUs, and takes all packets through it in order: each by the CPU that the dispatcher says where
    /// state is sharded, else by all in turn. Under `scr` they have the items of those before them in front.
    ///
    /// # Errors
    /// This process has no rights, or the kernel refuses the program or a packet.
    pub fn new(
        program: &Program,
        compiled: &'a Compiled,
        object: &[u8],
        packets: &[Packet],
        cpus: u16,
    ) -> Result<Rates<'a>, LoadError> {
        let is_sharded = compiled.strategy == Strategy::Sharded;
        let programs: &[&str] = if is_sharded { &[TRY, SEQUENCER] } else { &[TRY] };
        let (replicas, repeats) = ([u32::from(cpus)], [1]);
        let globals: &[(&str, &[u32])] = &[("replicas", &replicas), ("repeats", &repeats)];
        let settings = Settings { replicas: cpus.into(), globals, sizes: &[], programs, is_log_whole: false };
        let loaded = Loaded::with(compiled, object, &settings)?;
        let mut sequencer = Sequencer::new(compiled, program, cpus);
        let mut came = vec![Vec::new(); usize::from(cpus)];
        for packet in packets {
            let shard = if is_sharded { Some(loaded.shard(&packet.bytes)?) } else { None };
            let (bytes, cpu) = sequencer.next(packet, shard);
            loaded.packet(&bytes, 1)?;
            came[usize::from(cpu)].push(bytes);
        }
        let cpus = came.into_iter().map(|came| Cpu::of(came, packets.len())).collect();
        Ok(Rates { loaded, cpus })
    }

    /// The largest part of all packets that comes to one CPU, 0 to 1.
    pub fn largest_share(&self) -> f64 {
        self.cpus.iter().map(|cpu| cpu.share).fold(0.0, f64::max)
    }

    /// ns of a packet on the first CPU, with nothing on the others: the mean of so many runs of each of its packets.
    ///
    /// # Errors
    /// The kernel refuses a packet.
    pub fn alone(&self, runs: u32) -> Result<f64, LoadError> {
        self.loaded.mean_ns(&self.cpus[0].packets, runs)
    }

    /// Millions of packets a second of the whole traffic that the CPUs take together: as much as leaves none of them with more than it
    /// can do. All of them work until the first has run each of its packets so often.
    ///
    /// # Errors
    /// The kernel refuses a packet, or there is no such CPU.
    pub fn together(&self, runs: u32) -> Result<f64, LoadError> {
        let busy: Vec<(usize, &Cpu)> =
            self.cpus.iter().enumerate().filter(|(_, cpu)| !cpu.packets.is_empty()).collect();
        let (start, measured) = (Barrier::new(busy.len()), AtomicUsize::new(0));
        let work = |number: usize, cpu: &Cpu| {
            let is_there = core_affinity::set_for_current(CoreId { id: number });
            start.wait();
            let ns = self.loaded.mean_ns(&cpu.packets, runs);
            measured.fetch_add(1, Relaxed);
            if !is_there {
                return Err(failed("a CPU to run on")(&format_args!("there is no CPU {number}")));
            }
            // The others are measured still, and are to have it beside them.
            while ns.is_ok() && measured.load(Relaxed) < busy.len() {
                self.loaded.mean_ns(&cpu.packets, 1)?;
            }
            ns
        };
        let ns: Result<Vec<f64>, LoadError> = thread::scope(|scope| {
            let threads: Vec<_> =
                busy.iter().map(|(number, cpu)| scope.spawn(|| work(*number, cpu))).collect();
            threads.into_iter().map(|thread| thread.join().expect("nothing in it panics")).collect()
        });
        let most = busy.iter().zip(ns?).map(|((_, cpu), ns)| 1e3 / ns / cpu.share);
        Ok(most.fold(f64::INFINITY, f64::min))
    }
}

impl Cpu {
    /// Takes some packets from begin to end out of those that came to a CPU.
    fn of(came: Vec<Vec<u8>>, all: usize) -> Cpu {
        let share = came.len() as f64 / all.max(1) as f64;
        let step = (came.len() / SAMPLES).max(1);
        Cpu { share, packets: came.into_iter().step_by(step).take(SAMPLES).collect() }
    }
}
