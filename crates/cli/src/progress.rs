//! How far a command is: a bar on the terminal, and the end that Ctrl-C asks for.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use telemetry::Telemetry;

use crate::failure::{Failure, INTERRUPTED};

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

/// Ends a command that was asked to, where there is nothing to report yet.
///
/// # Errors
/// [`Failure::Interrupted`], if it was.
pub fn go_on(stop: &AtomicBool) -> Result<(), Failure> {
    if stop.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
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
