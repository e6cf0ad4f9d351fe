//! What a service manager is told (`sd_notify(3)`): that a run is ready, reloads, stops, and that it goes on.
//!
//! All of it is best effort: where `NOTIFY_SOCKET` is not set nobody asks, and nothing is sent.

use std::env;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engine::Progress;
use sd_notify::NotifyState;

/// How often the state is told in words.
const STATUS: Duration = Duration::from_secs(5);
/// How often a thread looks whether the run has begun.
const LOOK: Duration = Duration::from_millis(1);

fn tell(states: &[NotifyState<'_>]) {
    // A service manager that does not listen any more misses nothing that the run depends on.
    let _ = sd_notify::notify(states);
}

/// A chain is about to take over, as long as this is held.
pub struct Reloading(());

impl Reloading {
    pub fn begin() -> Reloading {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            tell(&[NotifyState::Reloading, now]);
        }
        Reloading(())
    }
}

impl Drop for Reloading {
    fn drop(&mut self) {
        tell(&[NotifyState::Ready]);
    }
}

/// The thread that tells how a run goes on. Dropped at its end.
pub struct Service {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A run that a service manager watches.
pub struct Watched {
    pub progress: Arc<Progress>,
    /// What it says of itself when it runs.
    pub line: String,
    /// Each counts up as long as its thread asks for packets.
    pub pulses: Vec<Arc<AtomicU64>>,
}

impl Service {
    /// Says on standard error, and to the service manager if there is one, that packets go through, once they do.
    pub fn start(watched: Watched) -> Service {
        Service::when(watched, Watched::begins)
    }

    /// Says so of packets that go through already.
    pub fn start_running(watched: Watched) -> Service {
        watched.runs();
        Service::when(watched, |_, _| true)
    }

    fn when(watched: Watched, begins: fn(&Watched, &AtomicBool) -> bool) -> Service {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            if begins(&watched, &over) && env::var_os("NOTIFY_SOCKET").is_some() {
                watched.goes_on(&over, sd_notify::watchdog_enabled(), tell);
            }
        });
        Service { is_over, thread: Some(thread) }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        tell(&[NotifyState::Stopping, NotifyState::Status("ends after the packets on their way")]);
    }
}

impl Watched {
    /// Waits for the run to begin, and says so. `false` if it does not.
    fn begins(&self, is_over: &AtomicBool) -> bool {
        while !self.progress.reloads.has_begun() {
            if self.progress.stop.load(Ordering::Relaxed) || is_over.load(Ordering::Relaxed) {
                return false;
            }
            thread::sleep(LOOK);
        }
        self.runs();
        true
    }

    /// Says that it runs.
    fn runs(&self) {
        // Where standard error is closed nobody reads this.
        let _ = writeln!(io::stderr(), "{}; Ctrl-C ends it", self.line);
        tell(&[NotifyState::Ready, NotifyState::Status(&self.line)]);
    }

    /// Says that it goes on, until it is over; as often as `limit` asks for, if the service manager sets one.
    fn goes_on(&self, is_over: &AtomicBool, limit: Option<Duration>, tell: impl Fn(&[NotifyState<'_>])) {
        // Half of what is allowed, as the manual advises.
        let watchdog = limit.map(|limit| limit / 2);
        let pause = watchdog.map_or(STATUS, |half| half.min(STATUS)).max(LOOK);
        let (mut pulses, mut told) = (vec![0; self.pulses.len()], Instant::now());
        while !is_over.load(Ordering::Relaxed) {
            let now: Vec<u64> = self.pulses.iter().map(|pulse| pulse.load(Ordering::Relaxed)).collect();
            // A thread that hangs asks for no packets: the service manager is left to notice.
            if watchdog.is_some() && now.iter().zip(&pulses).all(|(now, before)| now != before) {
                tell(&[NotifyState::Watchdog]);
            }
            pulses = now;
            if told.elapsed() >= STATUS {
                told = Instant::now();
                tell(&[NotifyState::Status(&format!("{}, {}", self.line, self.packets()))]);
            }
            thread::park_timeout(pause);
        }
    }

    fn packets(&self) -> String {
        let telemetry = self.progress.telemetry.as_ref();
        let packets = telemetry
            .map_or(0, |telemetry| telemetry.snapshot().cores.iter().map(|core| core.counts.packets).sum());
        crate::output::plural(packets, "packet")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// How often the service manager is told within a second and a half that the run goes on.
    fn told(is_hung: bool) -> usize {
        let (pulse, is_over) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
        let pulses = vec![Arc::clone(&pulse)];
        let watched = Watched { progress: Arc::default(), line: "x".to_owned(), pulses };
        let count = Mutex::new(0);
        thread::scope(|scope| {
            let watching = scope.spawn(|| {
                watched.goes_on(&is_over, Some(Duration::from_millis(100)), |states| {
                    *count.lock().expect("no panic") +=
                        states.iter().filter(|state| matches!(state, NotifyState::Watchdog)).count();
                });
            });
            for _ in 0..150 {
                if !is_hung {
                    pulse.fetch_add(1, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(10));
            }
            is_over.store(true, Ordering::Relaxed);
            watching.thread().unpark();
        });
        count.into_inner().expect("no panic")
    }

    #[test]
    fn a_thread_that_hangs_is_left_for_the_service_manager_to_notice() {
        assert_eq!(told(true), 0);
        assert!(told(false) >= 3);
    }
}
