//! Counts packets that `xdp_source` stamped where they arrive, and says how long they were on their way.
//!
//! ```sh
//! cargo run --release -p paceline-live --example xdp_sink -- r0 10
//! ```
//!
//! The arguments are an interface and seconds, after which it ends; it ends earlier when its standard input does. An XDP program
//! counts and drops the packets: nothing else of this host is on their way. Times are of one clock, so source and sink
//! have to be on one machine; a time is right to 1/16. It prints `packets p50 p99 p99.9 max`, the times in microseconds.

use std::error::Error;
use std::io::Read;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{env, process, thread};

use aya::maps::PerCpuArray;
use aya::programs::Xdp;
use aya::programs::xdp::XdpMode;
use aya::{Ebpf, EbpfLoader};

/// Empty if this was built without clang.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sink.bpf.o"));

/// As in bpf/sink.bpf.c.
const PARTS_BITS: u32 = 4;
const BUCKETS: u32 = 40 << PARTS_BITS;

fn main() {
    let given: Vec<String> = env::args().skip(1).collect();
    let ran = match &given[..] {
        [interface, seconds] => {
            seconds.parse().map_err(Into::into).and_then(|seconds| run(interface, seconds))
        }
        _ => Err("usage: xdp_sink INTERFACE SECONDS".into()),
    };
    if let Err(error) = ran {
        eprintln!("xdp_sink: {error}");
        process::exit(1)
    }
}

fn run(interface: &str, seconds: u64) -> Result<(), Box<dyn Error>> {
    let sink = Sink::attach(interface)?;
    let (end, ended) = channel::<()>();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(end);
    });
    eprintln!("{interface}: counting");
    let _ = ended.recv_timeout(Duration::from_secs(seconds));
    let times = sink.times()?;
    let micros = |share| times.within(share) as f64 / 1e3;
    println!(
        "{} {:.1} {:.1} {:.1} {:.1}",
        times.packets(),
        micros(0.5),
        micros(0.99),
        micros(0.999),
        micros(1.0)
    );
    Ok(())
}

/// The program at an interface; it comes off when this is dropped.
pub struct Sink(Ebpf);

impl Sink {
    /// Counts from now on.
    pub fn attach(interface: &str) -> Result<Sink, Box<dyn Error>> {
        if OBJECT.is_empty() {
            return Err("this was built without clang: install clang and build again".into());
        }
        let mut loaded = EbpfLoader::new().load(OBJECT)?;
        let program: &mut Xdp =
            loaded.program_mut("sink").ok_or("the program is not in its file")?.try_into()?;
        program.load()?;
        program.attach(interface, XdpMode::default())?;
        Ok(Sink(loaded))
    }

    /// What it has counted.
    pub fn times(&self) -> Result<Times, Box<dyn Error>> {
        let map = self.0.map("times").ok_or("the map is not in its file")?;
        let buckets: PerCpuArray<_, u64> = PerCpuArray::try_from(map)?;
        let counts = (0..BUCKETS).map(|bucket| Ok(buckets.get(&bucket, 0)?.iter().sum()));
        counts.collect::<Result<_, aya::maps::MapError>>().map(Times).map_err(Into::into)
    }
}

/// Packets by how long they were on their way.
pub struct Times(Vec<u64>);

impl Times {
    /// All of them.
    pub fn packets(&self) -> u64 {
        self.0.iter().sum()
    }

    /// In how many nanoseconds this share of them had arrived.
    pub fn within(&self, share: f64) -> u64 {
        let wanted = ((self.packets() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        bucket.map_or(0, |bucket| longest_of(bucket as u32))
    }
}

/// The longest time in a bucket.
fn longest_of(bucket: u32) -> u64 {
    match bucket >> PARTS_BITS {
        0 => u64::from(bucket),
        power => {
            let part = u64::from(bucket & ((1 << PARTS_BITS) - 1)) + (1 << PARTS_BITS);
            ((part + 1) << (power - 1)) - 1
        }
    }
}
