//! What a step of a shared state costs beside the step: under locks of several kinds, and with atomics.
//!
//! ```text
//! cargo run --release -p paceline-bench --example locks
//! ```
//!
//! States are of as many words as counts are changed; each is on cache lines of its own. "1 of 1024": the next
//! state is drawn from so many, so that two threads seldom want the same; "1 of 1": all want one.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crossbeam_utils::CachePadded;
use spin::mutex::SpinMutex;

const STEPS: u64 = 4_000_000;
const ROUNDS: usize = 3;
const WORDS: usize = 4;

fn main() {
    for threads in [1, 2] {
        for states in [1024, 1] {
            println!("{threads} threads, 1 of {states} states, ns per step and thread:");
            compare(threads, states);
        }
    }
}

fn compare(threads: u64, states: usize) {
    let mutexes = many(states, || Mutex::new([0u64; WORDS]));
    let spins = many(states, || SpinMutex::<_>::new([0u64; WORDS]));
    let atomics = many(states, || [const { AtomicU64::new(0) }; WORDS]);
    let step = |words: &mut [u64; WORDS]| words.iter_mut().for_each(|word| *word += 1);
    let add = |state: &[AtomicU64; WORDS], words: usize| {
        state[..words].iter().for_each(|word| _ = word.fetch_add(1, Ordering::Relaxed));
    };
    time("nothing", threads, states, |_| ());
    time("lock that others may sleep on (std)", threads, states, |state| {
        step(&mut mutexes[state].lock().expect("nobody panics"));
    });
    time("spinning lock", threads, states, |state| step(&mut spins[state].lock()));
    time("one atomic addition", threads, states, |state| add(&atomics[state], 1));
    time("two", threads, states, |state| add(&atomics[state], 2));
    time("four", threads, states, |state| add(&atomics[state], 4));
}

fn many<T>(count: usize, state: impl Fn() -> T) -> Vec<CachePadded<T>> {
    (0..count).map(|_| CachePadded::new(state())).collect()
}

/// The best of several rounds: in the others the system ran something else.
fn time(name: &str, threads: u64, states: usize, step: impl Fn(usize) + Sync) {
    let all_steps = || {
        for number in 0..STEPS / threads {
            step(black_box(draw(number) % states));
        }
    };
    let round = || {
        let begin = Instant::now();
        thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(all_steps)));
        begin.elapsed().as_nanos() as f64 / (STEPS / threads) as f64
    };
    let best = (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min);
    println!("  {name:36} {best:6.1}");
}

/// Fibonacci hashing: spreads numbers that count up.
fn draw(number: u64) -> usize {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
}
