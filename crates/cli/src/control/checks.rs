//! The thread that checks backends while a run goes on: a chain with what it found takes over.

use std::io::Write;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::health::{Found, write_news};
use super::subject::Subject;

/// How long it takes to try again where a chain with what checks found could not take over.
const AGAIN: Duration = Duration::from_secs(1);

/// The thread that checks, as long as this is held.
pub struct Checking(Arc<Subject>);

impl Checking {
    /// It sleeps while the chain has no checks.
    pub fn start(subject: &Arc<Subject>) -> Checking {
        let own = Arc::clone(subject);
        thread::spawn(move || {
            own.wait();
            own.check_backends();
        });
        Checking(Arc::clone(subject))
    }
}

impl Drop for Checking {
    fn drop(&mut self) {
        self.0.health.found().is_over = true;
        self.0.health.changed.notify_all();
    }
}

impl Subject {
    fn check_backends(&self) {
        self.health.found().is_stale = true;
        loop {
            let is_stale = std::mem::take(&mut self.health.found().is_stale);
            if is_stale && let Some((chain, _)) = self.progress.reloads.current() {
                self.health.take_up(&chain);
            }
            let mut is_told = true;
            if self.health.check() || is_stale {
                is_told = self.tell_health();
            }
            let found = self.health.found();
            let next = found.checks.values().map(|checked| checked.due).min();
            let until_next = next.map(|due| due.saturating_duration_since(Instant::now()));
            let wait = if is_told { until_next } else { Some(until_next.unwrap_or(AGAIN).min(AGAIN)) };
            let goes_on = |found: &mut Found| !found.is_stale && !found.is_over;
            let changed = &self.health.changed;
            let mut found = match wait {
                Some(wait) => {
                    changed.wait_timeout_while(found, wait, goes_on).unwrap_or_else(PoisonError::into_inner).0
                }
                None => changed.wait_while(found, goes_on).unwrap_or_else(PoisonError::into_inner),
            };
            if found.is_over {
                return;
            }
            found.is_stale |= !is_told;
        }
    }

    /// Has a chain take over that has what checks found; says whether it could, or nothing was new.
    fn tell_health(&self) -> bool {
        let changing = self.changes.begin();
        let Some((chain, _)) = self.progress.reloads.current() else { return true };
        let news = self.health.news(&chain);
        if news.is_empty() {
            return true;
        }
        let told = self.change_chain(|_, table| Ok(write_news(table, &news)));
        drop(changing);
        if let Err(why) = &told {
            // Where standard error is closed nobody reads this.
            let _ = writeln!(std::io::stderr(), "what checks found is not in the chain yet: {why}");
        }
        told.is_ok()
    }
}
