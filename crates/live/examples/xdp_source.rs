//! Sends packets out of an interface, for measurements: an XDP program that the kernel runs on frames of its own
//! (`BPF_PROG_TEST_RUN` with live frames).
//!
//! ```sh
//! cargo run --release -p paceline-live --example xdp_source -- l0 10
//! cargo run --release -p paceline-live --example xdp_source -- l0 10 500000 1000 60
//! ```
//!
//! The arguments are interface, seconds, packets a second (0: as many as go; otherwise 1000 or more), flows, bytes
//! of a frame, and `stamped` if packets are to say when they were sent, for `xdp_sink`. The packets are UDP from 198.51.100.1 to 203.0.113.1, port 9; flow *i* has source port 1024 + *i*, and
//! flows take turns.
//!
//! Out of a virtual interface, frames go only if its peer takes XDP frames: if an XDP program is attached there, or GRO
//! is on. Otherwise the kernel drops them all, and says nothing. It also drops what the peer has no room for: the figure
//! printed is what was offered, and what arrived has to be counted behind. A source that gets no processor for a
//! millisecond or more offers less than its rate.

use std::error::Error;
use std::time::{Duration, Instant};
use std::{env, process};

use aya::maps::{MapData, PerCpuArray};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfLoader, TestRun, TestRunAttrs, TestRunOptions};
use paceline_live::Interface;

/// Empty if this was built without clang.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/source.bpf.o"));

/// Frames that the kernel sends together at most. A virtual interface has room for 256.
const BATCH: u32 = 32;
/// Frames that the kernel sends together at most where packets are stamped: those that wait for the last one of a
/// batch look slower than they were.
const STAMPED_BATCH: u64 = 8;
/// Words of a packet's headers, in bpf/source.bpf.c.
const HEADER_WORDS: usize = 11;
/// Frames in one call without a rate: half a second or so, since the kernel takes a break after each call.
const CALL: u32 = 1 << 20;

/// What to send.
pub struct Arguments {
    /// Out of which interface.
    pub interface: String,
    /// For how long.
    pub seconds: u64,
    /// 0 if there is none.
    pub packets_per_second: u64,
    /// How many source ports take turns.
    pub flows: u32,
    /// How long a frame is.
    pub bytes: usize,
    /// Whether frames say when they were sent.
    pub stamped: bool,
}

fn main() {
    let fail = |error: Box<dyn Error>| -> ! {
        eprintln!("xdp_source: {error}");
        process::exit(1)
    };
    let arguments = arguments().unwrap_or_else(|error| fail(error));
    let Sent { packets: offered, seconds } = send(&arguments).unwrap_or_else(|error| fail(error));
    let Arguments { interface, flows, .. } = &arguments;
    let rate = offered as f64 / seconds;
    println!("{interface}: offered {offered} packets of {flows} flows in {seconds:.2} s, {rate:.0} a second");
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let given: Vec<String> = env::args().skip(1).collect();
    let usage = "usage: xdp_source INTERFACE SECONDS [PACKETS_PER_SECOND [FLOWS [BYTES [stamped]]]]";
    let number = |i: usize, default: u64| match given.get(i) {
        None => Ok(default),
        Some(text) => text.parse::<u64>().map_err(|_| format!("`{text}` is no number\n{usage}")),
    };
    let arguments = Arguments {
        interface: given.first().ok_or(usage)?.clone(),
        seconds: number(1, 10)?,
        packets_per_second: number(2, 0)?,
        flows: number(3, 1)?.clamp(1, 60_000) as u32,
        bytes: number(4, 60)? as usize,
        stamped: match given.get(5).map(String::as_str) {
            None => false,
            Some("stamped") => true,
            Some(other) => return Err(format!("`{other}` is not `stamped`\n{usage}").into()),
        },
    };
    if (1..1_000).contains(&arguments.packets_per_second) {
        return Err("a rate is 0, for none, or at least 1000 packets a second".into());
    }
    match arguments.bytes {
        60..=1_514 => Ok(arguments),
        bytes => Err(format!("a frame has 60 to 1514 bytes, not {bytes}").into()),
    }
}

/// What was sent.
pub struct Sent {
    /// How many packets.
    pub packets: u64,
    /// From the first one to the last one where they had a rate; else from the first call of the kernel's to the end.
    pub seconds: f64,
}

/// Sends, and says what.
pub fn send(arguments: &Arguments) -> Result<Sent, Box<dyn Error>> {
    if OBJECT.is_empty() {
        return Err("this was built without clang: install clang and build again".into());
    }
    let interface = Interface::open(&arguments.interface)?;
    let rate = arguments.packets_per_second;
    let gap_ns = 1_000_000_000u64.checked_div(rate).unwrap_or(0);
    let frame = frame(arguments.bytes, interface.address);
    let header: [u32; HEADER_WORDS] = std::array::from_fn(|word| {
        let bytes = frame[4 * word..].first_chunk().copied();
        u32::from_ne_bytes(bytes.unwrap_or_default())
    });
    let mut loaded = EbpfLoader::new()
        .override_global("header", &header, true)
        .override_global("interface", &interface.index, true)
        .override_global("flows", &arguments.flows, true)
        .override_global("gap_ns", &gap_ns, true)
        .override_global("stamps", &u32::from(arguments.stamped), true)
        .load(OBJECT)?;
    let program: &mut Xdp =
        loaded.program_mut("source").ok_or("the program is not in its file")?.try_into()?;
    program.load()?;

    // The kernel does nothing else on this core while a batch waits for its times: not longer than a millisecond.
    let batch = match rate {
        0 => BATCH,
        rate if arguments.stamped => (rate / 100_000).clamp(1, STAMPED_BATCH) as u32,
        rate => (rate / 1_000).clamp(1, u64::from(BATCH)) as u32,
    };
    let (start, length) = (Instant::now(), Duration::from_secs(arguments.seconds));
    let mut offered = 0;
    loop {
        let left = length.saturating_sub(start.elapsed());
        let repeat = match rate {
            _ if left.is_zero() => break,
            0 => CALL,
            rate => (left.as_secs_f64() * rate as f64).clamp(1.0, f64::from(u32::MAX)) as u32,
        };
        let attrs = TestRunAttrs::new().xdp_live_frames(batch);
        program.test_run(TestRunOptions { data_in: Some(&frame), repeat, attrs, ..Default::default() })?;
        offered += u64::from(repeat);
    }
    let seconds = if rate == 0 { start.elapsed().as_secs_f64() } else { span(&loaded)? };
    Ok(Sent { packets: offered, seconds })
}

/// From the first packet to the last one, seconds, as bpf/source.bpf.c saw them on whichever processor it ran.
fn span(loaded: &Ebpf) -> Result<f64, Box<dyn Error>> {
    let times: PerCpuArray<&MapData, u64> =
        PerCpuArray::try_from(loaded.map("times").ok_or("the times are not in their file")?)?;
    let (first, last) = (times.get(&0, 0)?, times.get(&1, 0)?);
    let begin = first.iter().copied().filter(|time| *time > 0).min().unwrap_or(0);
    let end = last.iter().copied().max().unwrap_or(0);
    Ok(end.saturating_sub(begin) as f64 / 1e9)
}

/// A UDP packet without a checksum, for an Ethernet address that nobody has.
fn frame(bytes: usize, from: [u8; 6]) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0x99];
    frame.extend(from);
    frame.extend([0x08, 0x00]);
    let ip_bytes = (bytes - 14) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(ip_bytes.to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend([198, 51, 100, 1]);
    ip.extend([203, 0, 113, 1]);
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes());
    frame.extend(ip);
    frame.extend([4, 0, 0, 9]);
    frame.extend((ip_bytes - 20).to_be_bytes());
    frame.resize(bytes, 0);
    frame
}
