//! Programs in the kernel beside the interpreter, and packets for both.

use std::fs;
use std::path::{Path, PathBuf};

use io::capture::CaptureReader;
use p4::ir::Program;
use p4::{Options, lower};
use paceline_xdp::load::{LoadError, Loaded, MAX_BYTES};
pub use paceline_xdp::traffic::random_packets;
use paceline_xdp::trial::{self, Course, Packet};
use paceline_xdp::{Compiled, Strategy, clang, compile};

/// Examples whose programs are in the subset.
pub const EXAMPLES: [&str; 12] = [
    "port_knocking",
    "stateful_firewall",
    "token_bucket",
    "elephant",
    "syn_cookie",
    "nat_lb",
    "router",
    "scr/ddos",
    "scr/heavy_hitter",
    "scr/connection_tracker",
    "scr/token_bucket",
    "scr/port_knocking",
];

/// Examples whose packets share a core if they share state: the others have state under keys with nothing in common.
pub const SHARDED: [&str; 10] = [
    "port_knocking",
    "stateful_firewall",
    "token_bucket",
    "elephant",
    "router",
    "scr/ddos",
    "scr/heavy_hitter",
    "scr/connection_tracker",
    "scr/token_bucket",
    "scr/port_knocking",
];

/// SCR's programs of Table 1.
pub const TABLE_1: [&str; 5] =
    ["scr/ddos", "scr/heavy_hitter", "scr/connection_tracker", "scr/token_bucket", "scr/port_knocking"];

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

/// Takes packets through the program in the kernel and through the interpreter; gives the first difference. `damage` may change
/// what a replica gets, by the packet's number.
pub fn difference(
    program: &Program,
    compiled: &Compiled,
    loaded: &Loaded<'_>,
    replicas: u16,
    packets: &[Packet],
    damage: &dyn Fn(u64, &mut Vec<u8>),
) -> Option<String> {
    let course = Course { damage, ..Course::new(replicas, packets) };
    trial::difference(program, compiled, loaded, &course).expect("the maps")
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
