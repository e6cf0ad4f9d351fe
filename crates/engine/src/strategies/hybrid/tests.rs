//! Where flows are that come to exist while they are promoted: what is told of their packets decides it. Planted, an entry that is not
//! the flow's, and one that is in the core's other table, show.

use std::slice;

use control::{Change, Status, promotion};
use io::{Frame, Received};
use wire::{Headers, Marks, Stamp};

use crate::chain::Chain;
use crate::chain::registry::Registry;
use crate::path::batch::Batch;
use crate::path::no_packets::NoPackets;
use crate::path::receive::Intake;
use crate::strategies::HYBRID;
use crate::strategies::hybrid::core::Core;
use crate::strategies::hybrid::elephants::SLOTS;
use crate::strategies::hybrid::told::{Told, told};
use crate::strategies::plan::Plan;

const CORES: usize = 2;

/// Packets, all of one flow.
const PACKETS: u64 = 10;

/// Where the flow is promoted.
const SLOT: u16 = 3;

const END: Stamp = Stamp { seq: PACKETS, time_ns: PACKETS };

fn chain() -> Chain {
    let toml = "[[function]]\nuse = \"source-statistics\"\nflows = 16\n[[function]]\nuse = \"flow-statistics\"\nflows = 16";
    Chain::parse("test.toml", toml, &Registry::of_tests()).expect("a chain")
}

fn headers() -> Headers {
    Headers { marks: Marks::IPV4, protocol: 17, ..Headers::default() }
}

/// What each function of the chain has of the flow where nobody else is.
fn alone(chain: &Chain) -> Vec<u64> {
    let (mut core, mut batch) = (chain.core().expect("memory"), Batch::new());
    for seq in 0..PACKETS {
        batch.frames.push(Frame::without_bytes(Stamp { seq, time_ns: seq }));
        batch.headers[seq as usize] = headers();
        batch.live |= 1 << seq;
    }
    core.process(&mut batch, &NoPackets::ended(), &mut ());
    core.stages().map(|stage| stage.digest(END)).collect()
}

/// What each function has of the flow on each core, where the flow's packets are told of as at `slot`, and the flow
/// is promoted before all of them and demoted after them: its owner is to have it then, and nobody else.
fn told_at(slot: u16, chain: &Chain) -> Vec<Vec<u64>> {
    let plan = Plan::new(chain, HYBRID, CORES).expect("a plan");
    let mut chains = plan.cores_of(chain).expect("memory");
    let (mut changes, mut places, promotions) = promotion(CORES, 16);
    let (mut writer, readers) = told(chain, CORES, 256);
    let mut change = |status, since: u64, told| {
        let (since_seq, since_ns, after) = (since, since, 0);
        let given =
            changes.give(Change { status, entry: 100, slot: SLOT, owner: 1, since_seq, since_ns, after });
        assert!(given, "there is room");
        places.look();
        places.place(told);
    };
    change(Status::Promoted, 0, 0);
    for seq in 0..PACKETS {
        // Nobody gets them: to all they are history.
        writer.push(Told { stamp: Stamp { seq, time_ns: seq }, slot, core: CORES as u16 });
        writer.publish(slice::from_ref(&headers()));
    }
    change(Status::Demoted, PACKETS, PACKETS);
    drop(writer);
    let ends = promotions.into_iter().zip(readers).enumerate();
    let mut cores: Vec<Core> =
        ends.map(|(core, (promotion, reader))| Core::new(core, promotion, reader)).collect();
    let mut batch = Batch::new();
    // The owner's copy comes to the other one after its first turn.
    for _ in 0..4 {
        for (core, chain) in cores.iter_mut().zip(&mut chains) {
            if core.receive(&mut NoPackets::ended(), chain, &mut batch) == Received::Frames {
                core.step(chain, &mut batch, &NoPackets::ended(), &mut ());
            }
        }
    }
    assert!(cores.iter().all(|core| core.counters().replayed == PACKETS), "all of them are stepped");
    chains.iter().map(|chain| chain.stages().map(|stage| stage.digest(END)).collect()).collect()
}

#[test]
fn a_flow_that_began_promoted_goes_to_its_owner() {
    let chain = chain();
    let nothing = vec![0; chain.functions.len()];
    assert_ne!(alone(&chain), nothing);
    assert_eq!(told_at(SLOT, &chain), [nothing, alone(&chain)]);
}

#[test]
fn planted_an_entry_that_is_not_the_flows_is_found() {
    let chain = chain();
    assert_eq!(told_at(SLOT + 1, &chain), [alone(&chain), alone(&chain)], "it stays where it was replicated");
}

#[test]
fn planted_a_step_in_the_wrong_table_is_found() {
    let chain = chain();
    assert_eq!(told_at(SLOTS, &chain), [alone(&chain), alone(&chain)], "each core has it among its own");
}
