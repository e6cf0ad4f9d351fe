//! What is beside the cores.

use control::{Order, Orders};
use io::{Closed, Feeder, Waiting};
use strategy::Move;
use wire::Stamp;

use crate::chain::Chain;
use crate::path::packets::BATCH_PACKETS;
use crate::path::receive::Intake;
use crate::strategies::plan::Plan;
use crate::strategies::rsspp::mover::Mover;
use crate::strategies::scr::log::{HistoryWriter, history};
use crate::strategies::scr::replicator::Replicator;

/// Has flows handed over, ahead of the first packet that goes to their new cores.
pub(crate) fn give_orders(
    moves: &[Move],
    stamp: Stamp,
    orders: &mut Orders,
    feeder: &Feeder,
) -> Result<(), Closed> {
    for Move { entry, from, to } in moves {
        let from = usize::from(*from);
        let order = Order {
            entry: *entry,
            to: *to,
            after: feeder.sent(from),
            since_seq: stamp.seq,
            since_ns: stamp.time_ns,
        };
        let waiting = Waiting::default();
        // The core looks at its orders between any two batches.
        while orders.give(from, order).is_err() {
            if feeder.is_closed() {
                return Err(Closed);
            }
            waiting.wait();
        }
    }
    Ok(())
}

/// What cores are told beside their packets.
pub(crate) enum Tell {
    Nothing,
    /// Which flows to hand over.
    Orders(Orders),
    /// What packets the others have.
    History(Box<HistoryWriter>),
}

/// What stands before the chain of each core, and what they have to be told.
pub(crate) fn intakes(chain: &Chain, plan: &Plan) -> (Tell, Vec<Box<dyn Intake>>) {
    if plan.is_replicated() {
        // As many as can be in flight, so that none is overwritten before the last core has read it.
        let records = plan.cores * (io::QUEUE_FRAMES_MAX + 3 * BATCH_PACKETS);
        let (writer, reader) = history(chain.excerpt(), records);
        let intake =
            |_| -> Box<dyn Intake> { Box::new(Replicator::new(reader.clone(), chain, plan.cores, 0)) };
        return (Tell::History(Box::new(writer)), (0..plan.cores).map(intake).collect());
    }
    let Some(owners) = plan.owners() else {
        return (Tell::Nothing, (0..plan.cores).map(|_| -> Box<dyn Intake> { Box::new(()) }).collect());
    };
    let (orders, movers) = Mover::for_cores(&owners, plan.cores);
    let intakes = movers.into_iter().map(|mover| -> Box<dyn Intake> { Box::new(mover) });
    (Tell::Orders(orders), intakes.collect())
}
