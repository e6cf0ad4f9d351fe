//! The threads of a sweep: each makes one comparison after another, within limits of time and memory.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use engine::{Chain, Progress, Verified};

use crate::question::At;
use crate::{Capture, Outcome, Question, Row, Setting, Trial, outcome};

/// Time between two looks at whether a comparison has to end.
const LOOK: Duration = Duration::from_millis(50);

/// How long a comparison that was asked to end may take to do so before nobody waits for it any more.
const GRACE: Duration = Duration::from_secs(5);

/// What a sweep may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Comparisons at one time. With several, each has one processor for all its threads; one alone has them all.
    pub jobs: usize,
    /// The longest that a comparison may take.
    pub time_limit: Duration,
    /// Bytes of the tables of all comparisons at one time. One that needs more runs alone.
    pub memory_bytes: u64,
}

/// All that one comparison needs.
#[derive(Clone)]
pub struct Prepared {
    /// The packets.
    pub capture: Arc<Capture>,
    /// The chain as its file says.
    pub chain: Arc<Chain>,
    /// Under what it runs.
    pub setting: Setting,
}

/// Makes one comparison on a thread of its own; `None` if `stop` ended it. A thread that neither ends within the time
/// limit nor heeds the request to do so is left to itself.
pub fn try_once(prepared: &Prepared, time_limit: Duration, stop: &AtomicBool) -> Option<Trial> {
    let progress = Arc::new(Progress::default());
    let (sender, receiver) = mpsc::sync_channel(1);
    let (prepared, seen) = (prepared.clone(), Arc::clone(&progress));
    thread::spawn(move || {
        let tried = catch_unwind(AssertUnwindSafe(|| compare(&prepared, &seen)));
        // Nobody waits for it if the time was up.
        let _ = sender.send(tried.unwrap_or_else(|panic| Some(panicked(&*panic))));
    });
    let begin = Instant::now();
    let mut asked = None;
    loop {
        let is_late = begin.elapsed() > time_limit;
        let timed_out = || Trial { outcome: Outcome::TimedOut, packets: 0, exact: false };
        match receiver.recv_timeout(LOOK) {
            Ok(Some(trial)) => return Some(trial),
            Ok(None) if is_late => return Some(timed_out()),
            Ok(None) => return None,
            Err(RecvTimeoutError::Disconnected) => return Some(panicked(&"a thread ended without a word")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if is_late || stop.load(Ordering::Relaxed) {
            progress.stop.store(true, Ordering::Relaxed);
            let asked: Instant = *asked.get_or_insert_with(Instant::now);
            if asked.elapsed() > GRACE {
                return is_late.then(timed_out);
            }
        }
    }
}

fn compare(Prepared { capture, chain, setting }: &Prepared, progress: &Progress) -> Option<Trial> {
    let chain = setting.chain(chain);
    let result = setting.verify(&chain, capture, progress);
    let packets = result.as_ref().map_or(0, |verified| verified.packets);
    let exact = result.as_ref().is_ok_and(Verified::is_exact);
    let outcome = outcome(&chain, &result)?;
    Some(Trial { outcome, packets, exact })
}

fn panicked(panic: &(dyn Any + Send)) -> Trial {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let why = said.unwrap_or("a thread panicked").lines().next().unwrap_or_default().to_owned();
    Trial { outcome: Outcome::Panicked { why }, packets: 0, exact: false }
}

/// Makes all comparisons of `question` that are not done, and shows each to `each`, in no order that a sweep repeats.
/// Ends early, after at most some seconds, when `stop` is set. At one time a few captures are in memory, no more than
/// there are jobs and one.
pub fn sweep(
    question: &Question,
    limits: &Limits,
    is_done: &(dyn Fn(u64) -> bool + Sync),
    stop: &AtomicBool,
    each: &mut dyn FnMut(Row),
) {
    let feed = Mutex::new(Feed { question, is_done, next: 0, source: None, mutated: None });
    let budget = Budget::new(limits.memory_bytes);
    let (sender, receiver) = mpsc::sync_channel(2 * limits.jobs);
    thread::scope(|scope| {
        for job in 0..limits.jobs {
            let (feed, budget, sender) = (&feed, &budget, sender.clone());
            scope.spawn(move || {
                if limits.jobs > 1 {
                    // The threads of its comparisons inherit it.
                    engine::pin(job);
                }
                while !stop.load(Ordering::Relaxed) {
                    let Some(work) = lock(feed).next() else { return };
                    let Some(row) = work.done(question, limits, budget, stop) else { return };
                    if sender.send(row).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        receiver.into_iter().for_each(each);
    });
}

/// What comes next, and the captures that it needs.
struct Feed<'a> {
    question: &'a Question,
    is_done: &'a (dyn Fn(u64) -> bool + Sync),
    next: u64,
    source: Option<(usize, Loaded)>,
    mutated: Option<((usize, u32), Loaded)>,
}

type Loaded = Result<Arc<Capture>, String>;

enum Work {
    Compare(At, Prepared),
    /// A capture or a mutation that cannot be read, with all comparisons of it.
    Unreadable {
        at: At,
        why: String,
        runs: u64,
    },
}

impl Feed<'_> {
    fn next(&mut self) -> Option<Work> {
        loop {
            let at = self.question.at(self.next)?;
            if (self.is_done)(self.question.key(at)) {
                self.next += 1;
                continue;
            }
            match self.load(at) {
                Ok(capture) => {
                    self.next += 1;
                    let chain = Arc::clone(&self.question.chains[at.chain].chain);
                    let setting = self.question.setting(at);
                    return Some(Work::Compare(at, Prepared { capture, chain, setting }));
                }
                Err((at, why)) => {
                    let each = self.question.runs_of_each();
                    let whole = each * (u64::from(self.question.mutations) + 1);
                    let runs = if at.mutation == 0 { whole } else { each };
                    self.next = (self.next / runs + 1) * runs;
                    if !(self.is_done)(self.question.key(at)) {
                        return Some(Work::Unreadable { at, why, runs });
                    }
                }
            }
        }
    }

    /// The capture; or the first comparison of all that lack it, and why.
    fn load(&mut self, at: At) -> Result<Arc<Capture>, (At, String)> {
        let At { source, mutation, .. } = at;
        if self.source.as_ref().is_none_or(|(loaded, _)| *loaded != source) {
            // The last one goes before the next one comes.
            (self.source, self.mutated) = (None, None);
            let loaded = self.question.sources[source].load(self.question.most_packets);
            self.source = Some((source, loaded));
        }
        let first = |mutation| At { mutation, chain: 0, setting: 0, ..at };
        let whole = match &self.source {
            Some((_, Ok(capture))) => Arc::clone(capture),
            Some((_, Err(why))) => return Err((first(0), why.clone())),
            None => return Err((first(0), "not loaded".to_owned())),
        };
        if self.mutated.as_ref().is_none_or(|(made, _)| *made != (source, mutation)) {
            self.mutated = None;
            self.mutated = Some(((source, mutation), self.question.mutated(&whole, source, mutation)));
        }
        match &self.mutated {
            Some((_, Ok(capture))) => Ok(Arc::clone(capture)),
            Some((_, Err(why))) => Err((first(mutation), why.clone())),
            None => Ok(whole),
        }
    }
}

impl Work {
    fn done(self, question: &Question, limits: &Limits, budget: &Budget, stop: &AtomicBool) -> Option<Row> {
        match self {
            Work::Unreadable { at, why, runs } => {
                let trial = Trial { outcome: Outcome::Unreadable { why }, packets: 0, exact: false };
                Some(Row { runs, ..Row::new(question, at, trial, None) })
            }
            Work::Compare(at, prepared) => {
                let sized = prepared.setting.chain(&prepared.chain);
                let _taken = budget.take(prepared.setting.table_bytes(&sized));
                let trial = try_once(&prepared, limits.time_limit, stop)?;
                Some(Row::new(question, at, trial, prepared.capture.cut_short.clone()))
            }
        }
    }
}

/// Memory that comparisons share.
struct Budget {
    whole: u64,
    free: Mutex<u64>,
    given_back: Condvar,
}

struct Taken<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Budget {
    fn new(whole: u64) -> Budget {
        Budget { whole, free: Mutex::new(whole), given_back: Condvar::new() }
    }

    fn take(&self, bytes: u64) -> Taken<'_> {
        let bytes = bytes.min(self.whole);
        let mut free = lock(&self.free);
        while *free < bytes {
            free = self.given_back.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= bytes;
        Taken { budget: self, bytes }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *lock(&self.budget.free) += self.bytes;
        self.budget.given_back.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
