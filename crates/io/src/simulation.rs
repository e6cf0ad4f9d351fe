//! Threads that are simulated on one: they take turns in an order that a seed draws.
//!
//! With real threads the operating system decides which thread is ahead, otherwise each time. In a [`Simulation`] the seed
//! does. So a run can be repeated, one that lasts a millisecond costs no change of threads, and a thread falls behind as
//! often as with many more threads than processors.
//!
//! A task goes on until it waits for another one ([`Waiting`](crate::Waiting), [`give_way`]). The ends of a
//! [`replay()`](crate::replay()) give way at each packet that is fed and collected, and ahead of each batch that is received or sent. What happens in
//! between is not interleaved with anything: for that there are models of each protocol, and real threads.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::thread;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use fastrand::Rng;

/// What can be run: it may borrow what the simulation outlives.
pub type Task<'env> = Box<dyn FnOnce() + 'env>;

/// Bytes of a task's stack, as much as the standard library gives to a thread.
const STACK_BYTES: usize = 2 << 20;

/// One task gets none of up to 2 to this turns, as a thread does not run whose processor is taken away.
const LONGEST_STALL: u32 = 12;

thread_local! {
    /// The yielder of the task whose turn it is on this thread.
    static TURN: Cell<Option<NonNull<Yielder<(), ()>>>> = const { Cell::new(None) };
}

/// Lets others work: other tasks, in a [`Simulation`]; other threads elsewhere.
pub fn give_way() {
    if !give_turn() {
        thread::yield_now();
    }
}

/// Lets other tasks of a [`Simulation`] work where nothing is waited for. Returns whether this was in one;
/// elsewhere it does nothing.
#[inline]
pub(crate) fn give_turn() -> bool {
    match TURN.get() {
        Some(yielder) => give(yielder),
        None => false,
    }
}

#[cold]
fn give(yielder: NonNull<Yielder<(), ()>>) -> bool {
    TURN.set(None);
    // SAFETY: `Turn` put it there, on the stack of this coroutine, and takes it away before that stack ends. Whenever another
    // coroutine, or the thread that resumes it, runs it is not there: the line above, and `Simulation::run`.
    unsafe { yielder.as_ref() }.suspend(());
    TURN.set(Some(yielder));
    true
}

/// While it lives, this coroutine has a turn to give.
struct Turn;

impl Turn {
    fn of(yielder: &Yielder<(), ()>) -> Turn {
        TURN.set(Some(NonNull::from(yielder)));
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TURN.set(None);
    }
}

/// Runs tasks in turns.
pub struct Simulation {
    random: RefCell<Rng>,
    /// The stacks of tasks that have ended, to be used again.
    stacks: RefCell<Vec<DefaultStack>>,
}

impl Simulation {
    /// The turns that `seed` draws.
    pub fn new(seed: u64) -> Simulation {
        Simulation { random: RefCell::new(Rng::with_seed(seed)), stacks: RefCell::default() }
    }

    /// Runs tasks until each has ended. Those of a later call go on with the same numbers drawn.
    ///
    /// # Errors
    /// There is no memory for their stacks. None has begun then.
    ///
    /// # Panics
    /// With what a task panics, which ends the others where they are.
    pub fn run(&self, tasks: Vec<Task<'_>>) -> std::io::Result<()> {
        let mut stacks = self.stacks.borrow_mut();
        let mut random = self.random.borrow_mut();
        while stacks.len() < tasks.len() {
            stacks.push(DefaultStack::new(STACK_BYTES)?);
        }
        let begun = |(task, stack): (Task<'_>, DefaultStack)| {
            let body = |yielder: &Yielder<(), ()>, ()| {
                let _turn = Turn::of(yielder);
                task();
            };
            // SAFETY: what the task borrows outlives this function, which drops the coroutine before it ends: it is in
            // `begun` and nowhere else.
            unsafe { Coroutine::<(), (), (), _>::with_stack_unchecked(stack, body) }
        };
        let rest = stacks.len() - tasks.len();
        // A task may have a simulation of its own. It has no turn before those of this one are gone, panic or not.
        let _outer = Outer(TURN.take());
        let mut begun: Vec<_> = tasks.into_iter().zip(stacks.drain(rest..)).map(begun).collect();
        let (mut stalled, mut left) = (0, 0);
        while !begun.is_empty() {
            if left == 0 {
                // Short ones are as likely as long ones.
                left = 1_u32 << random.u32(..=LONGEST_STALL);
                // Every other time nobody is.
                stalled = random.usize(..2 * begun.len());
            }
            left -= 1;
            let drawn = random.usize(..begun.len());
            let next = if drawn == stalled { (drawn + 1) % begun.len() } else { drawn };
            if let CoroutineResult::Return(()) = begun[next].resume(()) {
                stacks.push(begun.swap_remove(next).into_stack());
                left = 0;
            }
        }
        Ok(())
    }
}

/// Whose turn it was on this thread ahead of a simulation, and is again behind it.
struct Outer(Option<NonNull<Yielder<(), ()>>>);

impl Drop for Outer {
    fn drop(&mut self) {
        TURN.set(self.0);
    }
}

// Miri changes no stacks.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::Waiting;

    /// In which order so many tasks get their turns, each of which has so many.
    fn order(seed: u64, tasks: usize, turns: usize) -> Vec<usize> {
        let order = RefCell::new(Vec::new());
        let task = |task| {
            let order = &order;
            let run = move || {
                for _ in 0..turns {
                    order.borrow_mut().push(task);
                    give_way();
                }
            };
            Box::new(run) as Task<'_>
        };
        Simulation::new(seed).run((0..tasks).map(task).collect()).expect("stacks");
        order.into_inner()
    }

    #[test]
    fn a_seed_draws_the_same_order_each_time_and_each_seed_another() {
        assert_eq!(order(7, 4, 50), order(7, 4, 50));
        assert_ne!(order(7, 4, 50), order(8, 4, 50));
        let of_each = |task| order(7, 4, 50).iter().filter(|other| **other == task).count();
        assert_eq!([0, 1, 2, 3].map(of_each), [50; 4], "each to its end");
        assert_eq!(order(1, 1, 3), [0, 0, 0], "one alone is never stalled");
        assert!(Simulation::new(1).run(Vec::new()).is_ok());
    }

    #[test]
    fn a_task_falls_far_behind_now_and_then() {
        let longest = |seed| {
            let order = order(seed, 3, 20_000);
            let of_one = order.iter().enumerate().filter(|(_, task)| **task == 0).map(|(at, _)| at);
            of_one.clone().zip(of_one.skip(1)).map(|(at, next)| next - at).max()
        };
        assert!((0..4).any(|seed| longest(seed) > Some(1_000)));
    }

    #[test]
    fn whoever_waits_for_another_task_gets_what_it_waits_for() {
        let told = AtomicU64::new(0);
        let wait_for = |number: u64| {
            let told = &told;
            let run = move || {
                let waiting = Waiting::default();
                while told.load(Ordering::Relaxed) != number {
                    waiting.wait();
                }
                told.store(number + 1, Ordering::Relaxed);
            };
            Box::new(run) as Task<'_>
        };
        // From the last to the first, so that none could run through.
        Simulation::new(3).run((0..20).rev().map(wait_for).collect()).expect("stacks");
        assert_eq!(told.into_inner(), 20);
    }

    /// Planted: two tasks read, give way, and write. Some seed has one overwrite what the other wrote.
    #[test]
    fn planted_a_lost_update_is_found() {
        let counted = |seed| {
            let count = Cell::new(0);
            let add = || {
                let count = &count;
                let run = move || {
                    let before = count.get();
                    give_way();
                    count.set(before + 1);
                };
                Box::new(run) as Task<'_>
            };
            Simulation::new(seed).run(vec![add(), add()]).expect("stacks");
            count.get()
        };
        let counts: Vec<_> = (0..20).map(counted).collect();
        assert!(counts.contains(&1) && counts.contains(&2), "{counts:?}");
    }

    #[test]
    fn a_panic_ends_the_others_and_drops_what_they_have() {
        struct Dropped<'a>(&'a Cell<u32>);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let dropped = Cell::new(0);
        let wait_for_ever = || {
            let has = Dropped(&dropped);
            let run = move || {
                while has.0.get() < 3 {
                    give_way();
                }
            };
            Box::new(run) as Task<'_>
        };
        let panics = || -> () { panic!("planted") };
        let tasks = vec![wait_for_ever(), Box::new(panics) as Task<'_>, wait_for_ever()];
        let simulation = Simulation::new(1);
        let ended = catch_unwind(AssertUnwindSafe(|| simulation.run(tasks)));
        assert_eq!(ended.expect_err("a panic").downcast_ref::<&str>(), Some(&"planted"));
        assert_eq!(dropped.get(), 2);
        assert!(!give_turn(), "nobody has a turn");
    }

    #[test]
    fn a_task_may_have_a_simulation_of_its_own() {
        let ran = Cell::new(0);
        let outer = || {
            let ran = &ran;
            let run = move || {
                let inner = || {
                    give_way();
                    ran.set(ran.get() + 1);
                };
                Simulation::new(2).run(vec![Box::new(inner), Box::new(inner)]).expect("stacks");
                assert!(give_turn(), "the turn is the outer task's again");
            };
            Box::new(run) as Task<'_>
        };
        Simulation::new(1).run(vec![outer(), outer()]).expect("stacks");
        assert_eq!(ran.get(), 4);
    }
}
