//! Port knocking behind the XDP sequencer, on two CPUs, between namespaces of its own, with full queues in the middle: what
//! left, and the state of both replicas, beside the interpreter.
//!
//! ```sh
//! ./x scr-xdp demo                                                       # as root
//! cargo run -p paceline-xdp --example scr_demo -- [PROGRAM.p4] [PACKETS] [QUEUE]
//! ```
//!
//! It ends with `EQUALS the reference` and exit status 0, or says what differs and ends with 1. `QUEUE` is how many packets
//! wait for a CPU. The middle third of the packets is sent without a pause, and some of it is lost.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs, thread};

use p4::{Options, lower};
use paceline_xdp::load::Progress;
use paceline_xdp::{Strategy, clang, compile};

#[path = "../../live/tests/lab/mod.rs"]
mod lab;
#[path = "../tests/rig.rs"]
#[allow(dead_code)]
mod rig;

fn main() -> ExitCode {
    match demo() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn demo() -> Result<bool, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4");
    let path = arguments.next().map_or_else(|| examples.join("port_knocking.p4"), PathBuf::from);
    let packets: u32 = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let queue: u32 = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let options = Options { include_dirs: vec![examples], ..Options::default() };
    let (program, _) = lower(&path.display().to_string(), &text, &options)?;
    let compiled = compile(&program, Strategy::Scr)
        .map_err(|refusals| refusals.iter().map(|refusal| format!("{refusal}\n")).collect::<String>())?;
    let object = clang::object(&compiled)?;
    let online = thread::available_parallelism()?.get() as u32;
    let cpus: Vec<u32> = (0..2).map(|replica| replica % online).collect();
    let rig = rig::Rig::new("scr-demo").ok_or("it takes network namespaces")?;
    let mut live = rig.start(&compiled, &object, &cpus, queue, packets, true)?;
    println!("{}, scr, on CPUs {cpus:?} behind the XDP sequencer of m0", program.name);
    println!("item of a packet: {} bytes: {}", compiled.item.bytes, compiled.item.layout());
    let frames: Vec<Vec<u8>> = (0..packets).map(frame).collect();
    let third = frames.len() / 3;
    let pace = rig::Pace { burst: 8, pause: Duration::from_micros(250), storm: third..2 * third };
    let outcome = rig.run(&program, &mut live, &frames, &pace)?;
    println!("sequenced: {} packets of {packets} that were sent", outcome.sequenced.packets);
    for (replica, progress) in outcome.progress.iter().enumerate() {
        let Progress { packets, sent, recovered, nobody, waited, .. } = progress;
        println!("replica {replica}: {packets} packets of its own, {sent} sent on");
        println!("    {recovered} of others from logs, {nobody} that no replica knows");
        println!("    {waited} of its own dropped, because one before them was not settled yet");
    }
    println!("{}", outcome.verdict);
    Ok(outcome.verdict.is_equal())
}

/// Packet `number` of 64 sources. Three of four knock at ports 7001, 7002 and 7003 first; all try port 22 then.
fn frame(number: u32) -> Vec<u8> {
    let (source, round) = (number % 64, number / 64);
    let knocks = source % 4 != 3;
    let port: u16 = match round % 16 {
        round @ 0..3 if knocks => 7001 + round as u16,
        _ => 22,
    };
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46];
    // No two packets are equal.
    bytes.extend((number as u16).to_be_bytes());
    bytes.extend([0x40, 0, 64, 6, 0, 0, 192, 0, 2, source as u8, 198, 51, 100, 1]);
    bytes.extend((40_000 + source as u16).to_be_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0]);
    bytes.resize(60, 0);
    bytes
}
