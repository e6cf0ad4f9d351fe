//! Programs in the kernel beside the interpreter, and packets for both.

use std::fs;
use std::path::{Path, PathBuf};

use io::capture::CaptureReader;
use p4::interpret::Machine;
use p4::ir::Program;
use p4::{Options, lower};
use paceline_xdp::history::{Arrival, prefix};
use paceline_xdp::load::{LoadError, Loaded, MAX_BYTES};
use paceline_xdp::verdict::state_differs;
use paceline_xdp::{Compiled, Strategy, clang, compile};

/// Examples whose programs are in the subset.
pub const EXAMPLES: [&str; 9] = [
    "port_knocking",
    "stateful_firewall",
    "token_bucket",
    "elephant",
    "syn_cookie",
    "nat_lb",
    "scr/ddos",
    "scr/heavy_hitter",
    "scr/connection_tracker",
];

/// Examples whose packets share a core if they share state: the others have state under keys with nothing in common.
pub const SHARDED: [&str; 7] = [
    "port_knocking",
    "stateful_firewall",
    "token_bucket",
    "elephant",
    "scr/ddos",
    "scr/heavy_hitter",
    "scr/connection_tracker",
];

/// SCR's programs of Table 1.
pub const TABLE_1: [&str; 5] =
    ["scr/ddos", "scr/heavy_hitter", "scr/connection_tracker", "token_bucket", "port_knocking"];

/// A packet and when it came, in ns, and by which port.
pub struct Packet {
    pub time_ns: u64,
    pub port: u16,
    pub bytes: Vec<u8>,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn lowered(name: &str, text: &str) -> Program {
    let options = Options { include_dirs: vec![root().join("examples/p4")], ..Options::default() };
    lower(name, text, &options).unwrap_or_else(|errors| panic!("{name}: {errors:?}")).0
}

pub fn example(name: &str) -> Program {
    let path = root().join("examples/p4").join(name).with_extension("p4");
    lowered(&path.display().to_string(), &fs::read_to_string(&path).expect("an example"))
}

/// The object of a program, built in a folder of the test's own, since tests run side by side; nothing, with a word why,
/// where there is no clang.
pub fn object(compiled: &Compiled, folder: &str) -> Option<Vec<u8>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let source = clang::write(compiled, &folder).expect("a folder for tests");
    match clang::build(&source) {
        Ok(object) => Some(fs::read(object).expect("the object")),
        Err(clang::BuildError::NoClang { clang, error }) => {
            eprintln!("skipped: {clang}: {error}");
            None
        }
        Err(refused) => panic!("{refused}"),
    }
}

/// A program in the kernel; nothing, with a word why, where this process has no rights.
pub fn loaded<'a>(compiled: &'a Compiled, object: &[u8], replicas: u32) -> Option<Loaded<'a>> {
    match Loaded::load(compiled, object, replicas, false) {
        Ok(loaded) => Some(loaded),
        Err(LoadError::NoRights(why)) => {
            eprintln!("skipped: no rights to load BPF programs: {why}");
            None
        }
        Err(error) => panic!("{}: {error}", compiled.name),
    }
}

/// What comes before each packet of a stream: the sequencer, in user space.
pub struct Sequencer<'a> {
    compiled: &'a Compiled,
    /// Parses packets as the program does.
    parser: Machine,
    replicas: u16,
    ring: Vec<u8>,
    sequence: u64,
    time_ns: u64,
}

impl<'a> Sequencer<'a> {
    pub fn new(compiled: &'a Compiled, program: &Program, replicas: u16) -> Sequencer<'a> {
        let slots = usize::from(replicas) - 1;
        let ring = vec![0; slots * compiled.item.bytes];
        Sequencer { compiled, parser: Machine::new(program.clone()), replicas, ring, sequence: 0, time_ns: 0 }
    }

    /// A packet with its history, and its replica.
    pub fn next(&mut self, packet: &Packet) -> (Vec<u8>, u16) {
        let item = &self.compiled.item;
        let slots = self.ring.len().checked_div(item.bytes).unwrap_or_default() as u64;
        self.time_ns = self.time_ns.max(packet.time_ns);
        let replica = (self.sequence % u64::from(self.replicas)) as u16;
        let arrival = Arrival { sequence: self.sequence, time_ns: self.time_ns, replica, port: packet.port };
        let mut bytes = prefix(item, arrival, &self.ring, self.sequence.min(slots) as u16);
        bytes.extend(&packet.bytes);
        if let Some(slot) = self.sequence.checked_rem(slots) {
            let phv = self.parser.parse(packet.port, &packet.bytes, self.time_ns);
            let at = slot as usize * item.bytes;
            self.ring[at..at + item.bytes].copy_from_slice(&item.of(&phv.values));
        }
        self.sequence += 1;
        (bytes, replica)
    }
}

/// Takes packets through the program in the kernel and through the interpreter; gives the first difference, of packets or of
/// the state that they leave. `damage` may change what a replica gets, by the packet's number.
pub fn difference(
    program: &Program,
    compiled: &Compiled,
    loaded: &Loaded<'_>,
    replicas: u16,
    packets: &[Packet],
    damage: &dyn Fn(u64, &mut Vec<u8>),
) -> Option<String> {
    let mut machine = Machine::new(program.clone());
    let mut sequencer = Sequencer::new(compiled, program, replicas);
    // The state before each packet that a replica has not seen is not the last one.
    let mut states = vec![Machine::new(program.clone()); usize::from(replicas)];
    for (number, packet) in (0u64..).zip(packets) {
        let (mut bytes, replica) = sequencer.next(packet);
        damage(number, &mut bytes);
        let expected = machine.packet(packet.port, &packet.bytes, packet.time_ns);
        let expected = expected.into_iter().next().map(|output| (output.port, output.bytes));
        let answer = match loaded.packet(&bytes, 1) {
            Ok(answer) => answer.out,
            Err(error) => return Some(format!("packet {number}: {error}")),
        };
        if answer != expected {
            return Some(format!("packet {number}: expected {expected:?}, came {answer:?}"));
        }
        if packets.len() as u64 - number <= u64::from(replicas) {
            states[usize::from(replica)] = machine.clone();
        }
    }
    if loaded.strategy() == Strategy::Shared {
        return state_differs(&machine, loaded, 0).expect("the maps");
    }
    let shown = u32::from(replicas).min(packets.len() as u32);
    (0..shown)
        .find_map(|replica| state_differs(&states[replica as usize], loaded, replica).expect("the maps"))
}

/// Frames that the examples' parsers know, and some that they do not, from few hosts, cut short now and then.
pub fn random_packets(seed: u64, many: usize) -> Vec<Packet> {
    let mut draw = fastrand::Rng::with_seed(seed);
    let mut time_ns = 1_000_000_000;
    let mut packet = || {
        time_ns += draw.u64(0..400_000);
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, draw.u8(1..4)];
        let ether_type = if draw.u8(..) < 12 { 0x88b5_u16 } else { 0x0800 };
        bytes.extend(ether_type.to_be_bytes());
        let protocol = *draw.choice([6_u8, 6, 6, 6, 17, 17, 1].iter()).expect("one");
        let length = draw.u16(28..200);
        bytes.extend([if draw.u8(..) < 8 { 0x46 } else { 0x45 }, draw.u8(..)]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([draw.u8(..), draw.u8(..), 0x40, if draw.u8(..) < 8 { 1 } else { 0 }, 64, protocol]);
        // A checksum that is wrong, which the examples mend.
        bytes.extend([draw.u8(..), draw.u8(..)]);
        let hosts = [draw.u8(1..6), draw.u8(1..3)];
        bytes.extend([192, 0, 2, hosts[0], 198, 51, 100, hosts[1]]);
        bytes.extend((40_000 + draw.u16(0..3)).to_be_bytes());
        bytes.extend(draw.choice([22_u16, 7001, 7002, 7003, 80].iter()).expect("one").to_be_bytes());
        bytes.extend((0..8).map(|_| draw.u8(..)));
        bytes.push(0x50);
        bytes.push(*draw.choice([2_u8, 0x12, 0x10, 4, 1].iter()).expect("one"));
        bytes.extend((0..6).map(|_| draw.u8(..)));
        bytes.resize(bytes.len() + draw.usize(0..80), 0xa5);
        if draw.u8(..) < 10 {
            bytes.truncate(draw.usize(14..bytes.len()));
        }
        Packet { time_ns, port: draw.u16(0..2), bytes }
    };
    (0..many).map(|_| packet()).collect()
}

/// The first packets of a capture; nothing, with a word why, where it is absent.
pub fn captured(path: &Path, many: usize) -> Option<Vec<Packet>> {
    if !path.exists() {
        eprintln!("skipped: there is no {}", path.display());
        return None;
    }
    let mut reader = CaptureReader::open(path).expect("a capture");
    let (mut packets, mut last) = (Vec::new(), 0);
    while packets.len() < many {
        let Some(record) = reader.next().expect("a whole packet") else { break };
        last = record.time_ns.max(last);
        // 48 bytes of header and the longest ring of the tests go before it.
        if (14..MAX_BYTES - 600).contains(&record.data.len()) {
            let port = u16::from(record.data[0] & 1);
            packets.push(Packet { time_ns: last, port, bytes: record.data.to_vec() });
        }
    }
    Some(packets)
}

/// A program, compiled.
pub fn compiled(program: &Program, strategy: Strategy) -> Compiled {
    compile(program, strategy).unwrap_or_else(|refusals| panic!("{}: {refusals:#?}", program.name))
}
