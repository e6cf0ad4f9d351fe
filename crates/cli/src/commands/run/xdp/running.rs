//! How a program in the kernel goes on: its status, its metrics, and what `paceline ctl` may ask of it. All of it is read from
//! maps: packets pass whether this process looks or not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ::p4::ir::Program;
use ::xdp::Strategy;
use ::xdp::load::{LoadError, Progress as Replica};
use ::xdp::meter::{Counts, Fill, Meter};
use ::xdp::tables::{ChangeError, Tables};
use engine::Progress;
use telemetry::{
    CoreCounts, CoreWriter, FunctionCounts, FunctionLayout, InterfaceSnapshot, Layout, Telemetry, UNKNOWN,
};

use crate::control::{
    Answer, Controlled, CoreStatus, CpuStatus, FillStatus, InterfaceCounts, KernelStatus, MEMBERS_MAX, Reply,
    Request, Status, TableListing, TableStatus,
};

/// Why another program does not take over.
pub const NO_RELOAD: &str =
    "a program in the kernel stays until its run ends: end it, and run the other program";

/// How often maps are read for metrics.
const PERIOD: Duration = Duration::from_millis(100);

/// What is named where an interface loses packets.
const NO_ROOM: &str = "no-room";

/// Why the program's packets are dropped, in the order of the metrics.
const DROPS: [&str; 3] = ["by-program", "no-port", "not-settled"];

/// What replicas of `scr` count beside packets.
const EVENTS: [&str; 3] = ["recovered_items", "unknown_packets", "missed_packets"];

/// What all strategies count beside packets.
const ORDER: &str = "sent_behind_later";

/// A program that runs in the kernel, as it is seen from outside.
pub struct Running {
    pub meter: Meter,
    /// Its tables whose entries come from outside.
    pub entries: Mutex<Option<Tables>>,
    pub program: String,
    pub strategy: Strategy,
    /// By the program's port.
    pub interfaces: Vec<String>,
    /// Names and sizes of muTables.
    pub tables: Vec<(String, u64)>,
    /// The CPU of each replica or shard.
    pub cpus: Vec<u32>,
    pub begin: Instant,
    pub progress: Arc<Progress>,
}

impl Running {
    /// What there is to count of a program on so many CPUs. Each muTable stands as a function, so that its fill is told.
    pub fn telemetry(program: &Program, strategy: Strategy, cpus: usize) -> Telemetry {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
        let own = FunctionLayout {
            name: program.name.clone(),
            drop_reasons: names(&DROPS),
            ..FunctionLayout::default()
        };
        let table = |name: &String| FunctionLayout { name: name.clone(), ..FunctionLayout::default() };
        let tables = program.mu_tables.iter().map(|mu_table| table(&mu_table.name));
        let events: &[&str] = if strategy == Strategy::Scr { &EVENTS } else { &[] };
        let layout = Layout {
            chain: program.name.clone(),
            strategy: strategy.to_string(),
            strategy_events: names(&[events, &[ORDER]].concat()),
            functions: [own].into_iter().chain(tables).collect(),
            ..Layout::default()
        };
        Telemetry::new(layout, cpus)
    }

    fn status(&self) -> Result<Status, LoadError> {
        let counts = self.meter.read()?;
        let core = |replica: &Replica| CoreStatus {
            packets: replica.packets,
            bytes: replica.bytes,
            forward: replica.forward(),
            transmit_back: replica.back,
            host: 0,
            dropped: replica.packets.saturating_sub(replica.sent),
        };
        let interface = |(name, port): (&String, &::xdp::meter::Traffic)| InterfaceCounts {
            name: name.clone(),
            socket: "XDP native".to_owned(),
            received: port.came,
            received_bytes: port.came_bytes,
            sent: port.left,
            sent_bytes: port.left_bytes,
            completed: 0,
            lost: (port.no_room > 0).then(|| (NO_ROOM.to_owned(), port.no_room)).into_iter().collect(),
        };
        let cores: Vec<CoreStatus> = counts.replicas.iter().map(core).collect();
        let mut counters: Vec<InterfaceCounts> =
            self.interfaces.iter().zip(&counts.ports).map(interface).collect();
        // What comes with its history comes by the first one.
        if let Some(first) = counters.first_mut() {
            first.lost.extend(counts.outside.reasons().map(|(why, packets)| (why.to_owned(), packets)));
        }
        Ok(Status {
            paceline: env!("CARGO_PKG_VERSION").to_owned(),
            chain: self.program.clone(),
            functions: Vec::new(),
            strategy: self.strategy.to_string(),
            interfaces: self.interfaces.clone(),
            uptime_seconds: self.begin.elapsed().as_secs_f64(),
            reloads: 0,
            packets: cores.iter().map(|core| core.packets).sum(),
            active_cores: cores.len(),
            updates: None,
            cores,
            counters,
            unwritten: Vec::new(),
            kernel: Some(self.kernel(&counts)),
        })
    }

    fn kernel(&self, counts: &Counts) -> KernelStatus {
        let cpu = |(cpu, replica): (&u32, &Replica)| CpuStatus {
            cpu: *cpu,
            lost: replica.lost,
            no_port: replica.no_port,
            waited: replica.waited,
            recovered: replica.recovered,
            unknown: replica.nobody,
            missed: replica.missed,
            inversions: replica.inversions,
        };
        let fill = |Fill { entries, refused, crowded }: &Fill| FillStatus {
            entries: *entries,
            refused: *refused,
            crowded: *crowded,
        };
        let table = |((name, size), each): (&(String, u64), &Vec<Fill>)| TableStatus {
            name: name.clone(),
            size: *size,
            each: each.iter().map(fill).collect(),
        };
        KernelStatus {
            cpus: self.cpus.iter().zip(&counts.replicas).map(cpu).collect(),
            tables: self.tables.iter().zip(&counts.tables).map(table).collect(),
        }
    }

    /// What interfaces count, for metrics. Which of them a lost packet came by is not known; their sum is.
    fn interfaces(&self) -> Vec<InterfaceSnapshot> {
        // A map that cannot be read says nothing.
        let Ok(counts) = self.meter.read() else { return Vec::new() };
        let lost: u64 = counts.replicas.iter().map(|replica| replica.lost).sum();
        let all = (0..).zip(self.interfaces.iter().zip(&counts.ports));
        all.map(|(at, (name, port))| InterfaceSnapshot {
            name: name.clone(),
            received: port.came,
            received_bytes: port.came_bytes,
            sent: port.left,
            sent_bytes: port.left_bytes,
            lost: [(NO_ROOM, port.no_room)]
                .into_iter()
                .chain(counts.outside.reasons().filter(|_| at == 0))
                .collect(),
            overflowed: if at == 0 { lost } else { 0 },
        })
        .collect()
    }

    /// Does something with the tables whose entries come from outside.
    fn on_tables<T>(&self, does: impl FnOnce(&mut Tables) -> Result<T, ChangeError>) -> Result<T, String> {
        // A change is done, or it is not: a thread that died in one left what was.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *entries {
            Some(tables) => does(tables).map_err(|error| error.to_string()),
            None => Err("the run has ended".to_owned()),
        }
    }

    fn publish(&self, writers: &mut [CoreWriter]) {
        // The counts before stay.
        let Ok(counts) = self.meter.read() else { return };
        for (at, (writer, replica)) in writers.iter_mut().zip(&counts.replicas).enumerate() {
            let drops = [replica.dropped(), replica.no_port, replica.waited];
            let forward = replica.forward();
            writer.core(&CoreCounts {
                packets: replica.packets,
                bytes: replica.bytes,
                batches: UNKNOWN,
                busy_ns: UNKNOWN,
                forward,
                transmit_back: replica.back,
                dropped_by_function: drops.iter().sum(),
                lost_queue_full: replica.lost,
                queue_depth: UNKNOWN,
                ..CoreCounts::default()
            });
            writer.strategy(|name| match name {
                "recovered_items" => replica.recovered,
                "unknown_packets" => replica.nobody,
                "missed_packets" => replica.missed,
                _ => replica.inversions,
            });
            let own = FunctionCounts {
                packets: replica.packets,
                forward,
                transmit_back: replica.back,
                ..FunctionCounts::default()
            };
            writer.function(0, &own, &drops, &[]);
            for (number, ((_, size), each)) in self.tables.iter().zip(&counts.tables).enumerate() {
                // State that all share is told of once.
                let Some(fill) = each.get(at) else { continue };
                let table = FunctionCounts {
                    live: fill.entries,
                    rejected: fill.refused,
                    capacity: *size,
                    ..FunctionCounts::default()
                };
                writer.function(1 + number, &table, &[], &[]);
            }
        }
    }
}

impl Controlled for Running {
    fn wait(&self) {}

    fn reply(self: &Arc<Self>, request: Request) -> Reply {
        let not = |what: &str| Answer::refused(format!("{what} (--backend xdp)"));
        let answer = match request {
            Request::Status => match self.status() {
                Ok(status) => Answer { status: Some(status), ..Answer::done() },
                Err(error) => Answer::refused(error),
            },
            Request::Stop => {
                self.progress.stop.store(true, Ordering::Relaxed);
                Answer::done()
            }
            Request::Table { line } => match self.on_tables(|tables| tables.change(&line)) {
                Ok(()) => Answer::done(),
                Err(why) => Answer::refused(why),
            },
            Request::Tables { name, most } => {
                match self.on_tables(|tables| tables.list(name.as_deref(), most.min(MEMBERS_MAX))) {
                    Ok(all) => Answer {
                        tables: Some(all.into_iter().map(TableListing::from).collect()),
                        ..Answer::done()
                    },
                    Err(why) => Answer::refused(why),
                }
            }
            Request::Reload { .. } => not(NO_RELOAD),
            Request::Cores { .. } => not("a program in the kernel has the CPUs that it was started with"),
            Request::Why { .. } => not(match self.strategy {
                Strategy::Sharded => {
                    "the keys of a packet say to which CPU it goes, and no load changes that"
                }
                Strategy::Shared | Strategy::Scr => "packets go to CPUs in turn: there is nothing to decide",
            }),
            Request::Move { .. } | Request::Pin { .. } | Request::Unpin { .. } => {
                not("a program in the kernel has no entries or shards that move")
            }
            Request::Tune { .. } => not("a program in the kernel declares no number that can be set"),
            Request::Set { .. } | Request::Sets { .. } => {
                not("sets are of functions of chains, and this is a program in P4")
            }
            Request::Backend { .. } | Request::Backends { .. } => {
                not("backends are of functions of chains, and this is a program in P4")
            }
            Request::Trace { .. } => {
                not("packets in the kernel are not traced: `paceline p4 run --trace` shows their way")
            }
            Request::Drops { .. } => {
                not("packets are dropped in the kernel, and not copied: `ctl status` counts them by reason")
            }
            Request::Log { .. } => not("a program in P4 has no rules with `log`"),
            Request::Flows { .. } | Request::KillFlows { .. } => {
                not("a program in P4 has tables, not flows: `ctl status` says how full they are")
            }
            Request::Rules => not("rules are of functions of chains, and this is a program in P4"),
        };
        answer.into()
    }
}

/// The thread that publishes metrics. It publishes once more when it is dropped.
pub struct Publisher {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    pub fn start(running: &Arc<Running>, telemetry: &Arc<Telemetry>) -> Publisher {
        let (is_over, running) = (Arc::new(AtomicBool::new(false)), Arc::clone(running));
        let mut writers: Vec<CoreWriter> =
            (0..running.cpus.len()).filter_map(|core| telemetry.writer(core)).collect();
        let interfaces = Arc::clone(&running);
        telemetry.tell_interfaces(move || interfaces.interfaces());
        telemetry.begin();
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            loop {
                let ends = over.load(Ordering::Relaxed);
                running.publish(&mut writers);
                if ends {
                    return;
                }
                thread::park_timeout(PERIOD);
            }
        });
        Publisher { is_over, thread: Some(thread) }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
