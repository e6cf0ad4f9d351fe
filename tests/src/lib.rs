//! What the conformance tests share: captures, packets in memory, ports that cut batches anyhow.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{BATCH_PACKETS, Batch, Chain, ChainCore, Registry};
use engine::{CoreCounters, run};
use etherparse::PacketBuilder;
use io::capture::Record;
use io::{Closed, Fate, Frame, MemoryPort, Port, Received, Trace};
use wire::{LinkType, Stamp};

pub mod counting;
pub mod crowded;
pub mod draw;
pub mod faulty;
pub mod faulty_balancer;
pub mod faulty_nat;
pub mod migration;
pub mod office;
pub mod pcap;
pub mod replicas;
pub mod sequenced;
pub mod stock;

/// The project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The captures there are: the recorded one, and the large one where it is beside the project.
pub fn captures() -> Vec<PathBuf> {
    let recorded = root().join("captures/edge.pcap");
    let large = root().join("../shared/captures/apps-mix.pcap.gz");
    let mut captures = vec![recorded];
    match large.exists() {
        true => captures.push(large),
        false => eprintln!("skipped: {} is absent", large.display()),
    }
    captures
}

/// An example chain.
pub fn example(name: &str) -> Chain {
    example_of(name, &example_text(name))
}

/// A chain of the examples whose NAT, if it has one, has fewer ports. Each of them is given to a core in each run:
/// where there are thousands of runs, all that it could have take longer than packets.
pub fn example_with_few_ports(name: &str) -> Chain {
    let text = example_text(name).replace("ports = [1024, 65535]", "");
    example_of(name, &text.replace("use = \"nat\"", "ports = [1024, 9215]\nuse = \"nat\""))
}

fn example_text(name: &str) -> String {
    let path = root().join("examples").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn example_of(name: &str, text: &str) -> Chain {
    Chain::parse(name, text, &::stock::registry())
        .unwrap_or_else(|error| panic!("{error} at {:?}", error.position()))
}

/// A chain written in the test.
pub fn chain(toml: &str, registry: &Registry) -> Chain {
    Chain::parse("test", toml, registry).unwrap_or_else(|error| panic!("{error} at {:?}", error.position()))
}

/// Checks that a function of the test's own declares what it reads.
///
/// # Panics
/// If it does not.
pub fn check_reads<F: nf::NetworkFunction>() {
    let samples: Vec<wire::Headers> = nf::sample_headers(1).take(2_000).collect();
    nf::check_reads::<F>(&samples).unwrap_or_else(|error| panic!("{}: {error}", F::ABOUT.name));
}

/// One packet to be: plain enough to be shrunk and printed.
#[derive(Clone, Debug)]
pub struct Packet {
    /// When it arrives.
    pub time_ns: u64,
    /// Its bytes, Ethernet.
    pub bytes: Vec<u8>,
}

/// A TCP packet between small hosts and ports.
pub fn tcp(time_ns: u64, src: u8, dst: u8, ports: (u16, u16), flags: u8, seq: u32, payload: usize) -> Packet {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 0, 0, src], [10, 0, 0, dst], 64)
        .tcp(ports.0, ports.1, seq, 65_000);
    let payload = vec![0; payload];
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &payload).expect("writing to memory");
    bytes[14 + 20 + 13] = flags;
    Packet { time_ns, bytes }
}

/// A UDP packet over IPv6.
pub fn udp6(time_ns: u64, src: u8, dst: u8, ports: (u16, u16), payload: usize) -> Packet {
    let addr = |host| {
        let mut addr = [0xfd; 16];
        addr[15] = host;
        addr
    };
    let builder =
        PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6(addr(src), addr(dst), 64).udp(ports.0, ports.1);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &vec![0; payload]).expect("writing to memory");
    Packet { time_ns, bytes }
}

/// What a core made of packets in memory.
pub struct Ran {
    /// For each packet: what became of it, and its bytes with all edits applied.
    pub answers: Vec<(Fate, Vec<u8>)>,
    /// What the core counted.
    pub counters: CoreCounters,
    /// The last packet's stamp.
    pub last: Stamp,
}

/// Runs packets through a chain on this thread, in batches of the sizes given, over and over.
pub fn run_in_batches(core: &mut ChainCore, packets: &[Packet], sizes: &[usize]) -> Ran {
    let mut port = CutPort::new(packets, sizes);
    let counters = run(&mut port, core, &mut Batch::new(), &mut (), &mut ()).expect("open");
    Ran { answers: port.answers, counters, last: port.last }
}

/// A port that gives packets in memory out in batches of given sizes, and keeps what comes back.
pub struct CutPort {
    port: MemoryPort,
    left: usize,
    sizes: Vec<usize>,
    next: usize,
    /// For each packet: what became of it, and its bytes with all edits applied.
    pub answers: Vec<(Fate, Vec<u8>)>,
    /// The last packet's stamp.
    pub last: Stamp,
}

impl CutPort {
    /// A port for these packets, in batches of the sizes given, over and over.
    pub fn new(packets: &[Packet], sizes: &[usize]) -> CutPort {
        let mut trace = Trace::default();
        for Packet { time_ns, bytes } in packets {
            let wire_len = bytes.len() as u32;
            trace.push(&Record { time_ns: *time_ns, wire_len, link: LinkType::Ethernet, data: bytes });
        }
        let all: Vec<u32> = (0..packets.len() as u32).collect();
        CutPort {
            port: MemoryPort::new(&trace, &all, BATCH_PACKETS, Arc::default()),
            left: packets.len(),
            sizes: sizes.to_vec(),
            next: 0,
            answers: Vec::new(),
            last: Stamp::default(),
        }
    }
}

impl Port for CutPort {
    fn receive(&mut self, frames: &mut Vec<Frame>, max: usize) -> Received {
        if self.left == 0 {
            return Received::End;
        }
        let size = self.sizes[self.next % self.sizes.len()].clamp(1, max).min(self.left);
        self.next += 1;
        self.left -= size;
        self.port.receive(frames, size)
    }

    fn consumed(&self) -> u64 {
        self.port.consumed()
    }

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.port.bytes(frame)
    }

    fn buffer_mut<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.port.buffer_mut(frame)
    }

    fn transmit(&mut self, frames: &mut Vec<Frame>, fates: &[Fate]) -> Result<usize, Closed> {
        for (frame, fate) in frames.iter().zip(fates) {
            self.answers.push((*fate, self.port.bytes(frame).to_vec()));
            self.last = frame.stamp;
        }
        self.port.transmit(frames, fates)
    }
}
