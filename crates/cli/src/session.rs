//! What `run` and `verify` share: reading the chain, planning, progress, Ctrl-C.

use std::cell::Cell;
use std::fs;
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use engine::strategies::Strategy;
use engine::{Chain, Oddities, Plan, Progress, Registry};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use io::Trace;
use io::capture::{CaptureError, CaptureReader};
use telemetry::{MetricsServer, Telemetry};

use crate::address::Address;
use crate::args::CardArgs;
use crate::failure::Failure;

/// Exit status of a program ended by Ctrl-C: 128 and the signal's number.
pub const INTERRUPTED: u8 = 130;

/// Checks that a chain can run so.
pub fn plan(
    chain: &Chain,
    strategy: &'static dyn Strategy,
    cores: usize,
    card: &CardArgs,
) -> Result<Plan, Failure> {
    let mut plan = Plan::new(chain, strategy, cores).map_err(Failure::usage)?;
    if let Some(rebalancing) = card.rebalancing() {
        if plan.rebalancing.is_none() {
            return Err(Failure::usage(format!(
                "under strategy `{}` flows stay where they are\n\
                 Leave out --rebalance-ms, --update-latency-ms and --move-every, or use `--strategy rsspp`.",
                strategy.name()
            )));
        }
        plan.rebalancing = Some(rebalancing);
    }
    plan.indirection_entries = card.indirection_entries;
    Ok(plan)
}

/// Reads a chain file, whose functions are those of `registry`.
pub fn read_chain(path: &Path, registry: &Registry) -> Result<Chain, Failure> {
    let name = path.display().to_string();
    // Only a capture is opened as one: a pipe can be read but once.
    if path.is_file() && is_capture(path) {
        return Err(Failure::usage(format!(
            "{name} is a capture, and a chain was expected, which is a TOML file\n\
             Name the chain first, and the capture with --pcap: `CHAIN.toml --pcap {name}`."
        )));
    }
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read the chain file {name}: {error}")))?;
    Chain::parse(&name, &text, registry).map_err(|error| Failure::mistake(*error))
}

/// Whether a file begins as a capture does, whole or not.
fn is_capture(path: &Path) -> bool {
    use CaptureError::{Directory, Empty, NotACapture, Open, Read};
    !matches!(
        CaptureReader::open(path),
        Err(Open { .. } | Directory { .. } | Empty { .. } | NotACapture { .. } | Read { .. })
    )
}

/// Reads a whole capture into memory, and says on standard error what of it is odd.
pub fn read_trace(path: &Path) -> Result<Trace, Failure> {
    let mut reader = open(path)?;
    let mut trace = Trace::default();
    while let Some(record) = reader.next().map_err(Failure::capture)? {
        trace.push(&record);
    }
    tell_remarks(&reader);
    if trace.is_empty() {
        return Err(Failure::usage(format!("{} has no packets", path.display())));
    }
    Ok(trace)
}

/// Says on standard error what a reader skipped or could not take as it was, for commands whose reports do not.
pub fn tell_remarks(reader: &CaptureReader) {
    let oddities = Oddities { remarks: reader.remarks(), has_ip: true, ..Oddities::default() };
    oddities.sentences().iter().for_each(|oddity| eprintln!("note: {oddity}"));
}

/// Opens the capture.
pub fn open(path: &Path) -> Result<CaptureReader, Failure> {
    check_capture(path)?;
    CaptureReader::open(path).map_err(Failure::usage)
}

/// Checks that what is to be read as a capture is no chain.
pub fn check_capture(path: &Path) -> Result<(), Failure> {
    let name = path.display();
    match is_chain(path) {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "{name} is a chain file, and a capture was expected\n\
             Name the chain first, and the capture with --pcap: `{name} --pcap IN.pcap`."
        ))),
    }
}

/// Whether a file is text in which a function begins as in a chain. Looks at its first kilobytes.
fn is_chain(path: &Path) -> bool {
    const LOOKED_AT_BYTES: u64 = 1 << 14;
    let mut begin = Vec::new();
    path.is_file()
        && fs::File::open(path).is_ok_and(|file| file.take(LOOKED_AT_BYTES).read_to_end(&mut begin).is_ok())
        && String::from_utf8_lossy(&begin).lines().any(|line| line.trim() == "[[function]]")
}

/// Progress that Ctrl-C and a polite `kill` can stop: the first one ends the run after the packets on their way, the
/// second one at once. Cores tell what they count in `telemetry`.
pub fn interruptible(telemetry: Option<Arc<Telemetry>>) -> Arc<Progress> {
    let progress = Arc::new(Progress { telemetry, ..Progress::default() });
    let shared = Arc::clone(&progress);
    let handler = move || {
        if shared.stop.swap(true, Ordering::Relaxed) {
            process::exit(i32::from(INTERRUPTED));
        }
        // What waits for input, or is in the middle of a measurement, does not end by itself at once. Where standard
        // error is closed nobody reads this.
        let _ = writeln!(std::io::stderr(), "stopping; again to stop at once");
    };
    // Without a handler either just ends the program, which is what it did before.
    let _ = ctrlc::set_handler(handler);
    progress
}

/// Tells metrics at `address` as long as what it returns is held, and says where.
pub fn serve(address: &Address, telemetry: &Arc<Telemetry>) -> Result<MetricsServer, Failure> {
    let server = MetricsServer::start(address.first(), Arc::clone(telemetry)).map_err(|error| {
        let help = match error.kind() {
            ErrorKind::AddrInUse => {
                "Another program listens there. Choose another port, or 0 for any that is free."
            }
            _ => "Give an address of this machine, such as 127.0.0.1:9100.",
        };
        Failure::usage(format!("cannot tell metrics at {address}: {error}\n{help}"))
    })?;
    eprintln!("metrics at http://{}/metrics", server.address());
    Ok(server)
}

/// A bar on the terminal that follows the reading of a file, or runs; none where there is no terminal, and none
/// before it would be of use.
pub struct Bar {
    bar: ProgressBar,
    begin: Instant,
    is_due: Cell<bool>,
}

/// How long a command goes on before it shows a bar.
const QUIET: Duration = Duration::from_millis(500);

/// Packets between two looks at the progress.
const PACKETS_PER_UPDATE: u64 = 4096;

impl Bar {
    pub fn new(what: &str, size_bytes: Option<u64>) -> Bar {
        Bar::with_template(what, size_bytes, "{msg} {wide_bar} {bytes}/{total_bytes} {eta}")
    }

    /// For so many runs.
    pub fn counting(what: &str, runs: u64) -> Bar {
        Bar::with_template(what, Some(runs), "{msg} {wide_bar} {pos}/{len} {eta}")
    }

    fn with_template(what: &str, size: Option<u64>, template: &str) -> Bar {
        let is_shown = size.is_some() && std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        Bar { bar, begin: Instant::now(), is_due: Cell::new(is_shown) }
    }

    /// Called for each packet.
    pub fn packet(&self, seq: u64, progress: &Progress) {
        if !seq.is_multiple_of(PACKETS_PER_UPDATE) {
            return;
        }
        self.bar.set_position(progress.read_bytes.load(Ordering::Relaxed));
        self.show();
    }

    /// Called after each run.
    pub fn next(&self) {
        self.advance(1);
    }

    /// Called after so many runs.
    pub fn advance(&self, runs: u64) {
        self.bar.inc(runs);
        self.show();
    }

    /// What the bar is about from here on.
    pub fn say(&self, what: String) {
        self.bar.set_message(what);
    }

    fn show(&self) {
        if self.is_due.get() && self.begin.elapsed() > QUIET {
            self.is_due.set(false);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
