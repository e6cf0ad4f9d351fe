//! What a dispatcher tells one core, in a ring that the core looks at between any two batches.

use control::{Order, Orders};
use io::{Closed, Waiting};
use strategy::Move;
use wire::Stamp;

use crate::strategies::dispatch::Queues;

/// Has `give` give something to a core, which is woken. It gives back what finds no room; then this waits, and it tries
/// again.
///
/// # Errors
/// [`Closed`] if the cores take nothing any more.
pub(crate) fn give<T>(
    mut something: T,
    core: usize,
    queues: &dyn Queues,
    mut give: impl FnMut(T) -> Result<(), T>,
) -> Result<(), Closed> {
    let waiting = Waiting::default();
    while let Err(back) = give(something) {
        if queues.is_closed() {
            return Err(Closed);
        }
        something = back;
        waiting.wait();
    }
    queues.wake(core);
    Ok(())
}

/// Tells the old core of an entry to send its flows: ahead of the packet with this stamp, the first that the new one gets.
///
/// # Errors
/// [`Closed`] if the cores take nothing any more.
pub(crate) fn give_order(
    Move { entry, from, to }: Move,
    stamp: Stamp,
    orders: &mut Orders,
    queues: &dyn Queues,
) -> Result<(), Closed> {
    let from = usize::from(from);
    let after = queues.sent(from);
    let order = Order { entry, to, after, since_seq: stamp.seq, since_ns: stamp.time_ns };
    give(order, from, queues, |order| orders.give(from, order))
}
