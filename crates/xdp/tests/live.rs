//! Programs behind the XDP sequencer, live between namespaces: what leaves, and the state of every replica, is what the
//! interpreter says of what came, and faults are found.

use p4::ir::Program;
use paceline_xdp::Strategy;
use paceline_xdp::live::LiveError;
use paceline_xdp::load::LoadError;

use crate::common::{TABLE_1, compiled, example, lowered, object, random_packets};
use crate::rig::{Outcome, PACED, Rig};

/// Packets that the queue of a CPU holds.
const QUEUE: u32 = 2048;

/// Runs an example with so many replicas on two CPUs, after a change of its C; nothing, with a word why, where it cannot.
/// `label` is the test's own.
fn outcome(label: &str, name: &str, replicas: u32, change: &dyn Fn(String) -> String) -> Option<Outcome> {
    outcome_with(label, name, replicas, QUEUE, false, change)
}

fn outcome_with(
    label: &str,
    name: &str,
    replicas: u32,
    queue: u32,
    recovers: bool,
    change: &dyn Fn(String) -> String,
) -> Option<Outcome> {
    outcome_of(Strategy::Scr, label, name, (replicas, queue, recovers), change)
}

pub fn outcome_of(
    strategy: Strategy,
    label: &str,
    name: &str,
    settings: (u32, u32, bool),
    change: &dyn Fn(String) -> String,
) -> Option<Outcome> {
    outcome_for(strategy, label, &example(name), settings, change)
}

fn outcome_for(
    strategy: Strategy,
    label: &str,
    program: &Program,
    (replicas, queue, recovers): (u32, u32, bool),
    change: &dyn Fn(String) -> String,
) -> Option<Outcome> {
    let name = &program.name;
    let mut compiled = compiled(program, strategy);
    compiled.c = change(compiled.c);
    let object = object(&compiled, &format!("live-{label}"))?;
    let rig = Rig::new(label)?;
    let frames: Vec<Vec<u8>> = random_packets(23, 3000).into_iter().map(|packet| packet.bytes).collect();
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32).min(2);
    let cpus: Vec<u32> = (0..replicas).map(|replica| replica % cpus).collect();
    let started = rig.start(&compiled, &object, &cpus, queue, frames.len() as u32, recovers);
    let mut live = match started {
        Err(LiveError::Load(LoadError::NoRights(why))) => {
            eprintln!("skipped: no rights to load BPF programs: {why}");
            return None;
        }
        started => started.unwrap_or_else(|error| panic!("{name}: {error}")),
    };
    let outcome = rig.run(program, &mut live, &frames, &PACED).expect("the maps");
    println!(
        "{name}, {replicas} replicas: {:?} {:?}\n{}",
        outcome.sequenced, outcome.progress, outcome.verdict
    );
    Some(outcome)
}

#[test]
fn two_replicas_between_namespaces_equal_the_interpreter() {
    for name in TABLE_1 {
        let Some(outcome) = outcome("two", name, 2, &|c| c) else { return };
        assert!(outcome.verdict.is_equal(), "{name}: {}", outcome.verdict);
        assert_eq!(outcome.verdict.lost, 0);
        // A busy machine may lose some before the sequencer.
        assert!(outcome.verdict.came > 2000 && outcome.verdict.left > 10, "{}", outcome.verdict);
        assert!(outcome.progress.iter().all(|progress| progress.packets > 900 && progress.missed == 0));
        // What no packet brings any more was stepped at the end.
        let total = outcome.sequenced.packets;
        assert!(outcome.progress.iter().all(|progress| progress.next == total), "{:?}", outcome.progress);
        // Equal packets are taken for each other by the verdict, and replicas may write at the same moment.
        counts_agree(&outcome, 2);
        let counted: u64 = outcome.progress.iter().map(|progress| progress.inversions).sum();
        assert!(counted <= outcome.verdict.left, "{counted} inversions, {}", outcome.verdict);
    }
}

#[test]
fn as_many_replicas_as_fit_in_front_equal_the_interpreter() {
    let Some(outcome) = outcome("many", "port_knocking", 16, &|c| c) else { return };
    assert!(outcome.verdict.is_equal(), "{}", outcome.verdict);
}

/// Whether a fault that is planted in the C is found in the state of the replicas.
fn is_found(label: &str, replicas: u32, from: &str, to: &str) {
    let planted = |c: String| {
        assert!(c.contains(from), "{from}");
        c.replace(from, to)
    };
    // Its state forgets nothing, as port knocking's does.
    let Some(outcome) = outcome(label, "token_bucket", replicas, &planted) else { return };
    assert!(!outcome.verdict.is_equal(), "{}", outcome.verdict);
    assert!(!outcome.verdict.differences.is_empty(), "{}", outcome.verdict);
}

#[test]
fn an_item_missing_live_is_found() {
    is_found("missing", 2, "put16(q->front + 36, count);", "put16(q->front + 36, sequence % 5 ? count : 0);");
}

#[test]
fn a_pair_swapped_live_is_found() {
    let oldest = "count ? (sequence - count) % ring_items : 0";
    let planted = format!("(({oldest}) + (sequence % 5 == 4)) % ring_items");
    is_found("swapped", 3, oldest, &planted);
}

#[test]
fn a_replica_that_skips_its_own_step_live_is_found() {
    let run = "u64 leaves = run(&p, &s, packet, end, h.port, h.time_ns);";
    let skips = format!("if (h.sequence % 5 == 4)\n        return XDP_DROP;\n    {run}");
    is_found("skipped", 2, run, &skips);
}

/// What each replica lost before the last packet that it got, as the witnesses have it.
fn lost_before_the_last(outcome: &Outcome, replicas: usize) -> Vec<u64> {
    let of = |replica: usize| {
        let own: Vec<bool> =
            outcome.came.iter().skip(replica).step_by(replicas).map(|came| came.was_delivered).collect();
        let last = own.iter().rposition(|was_delivered| *was_delivered).map_or(0, |at| at + 1);
        own[..last].iter().filter(|was_delivered| !**was_delivered).count() as u64
    };
    (0..replicas).map(of).collect()
}

/// What is counted while packets pass is what came and left, and exactly what full queues lost.
fn counts_agree(outcome: &Outcome, replicas: usize) {
    let Outcome { counts, progress, verdict, sequenced, .. } = outcome;
    assert_eq!(&counts.replicas, progress);
    let lost: Vec<u64> = progress.iter().map(|progress| progress.lost).collect();
    assert_eq!(lost, lost_before_the_last(outcome, replicas));
    let left: u64 = counts.ports.iter().map(|port| port.left).sum();
    assert_eq!(left, verdict.left + verdict.unexpected);
    assert_eq!(left, progress.iter().map(|progress| progress.sent).sum::<u64>());
    let bytes: u64 =
        outcome.came.iter().filter(|came| came.was_delivered).map(|came| came.bytes.len() as u64).sum();
    assert_eq!(progress.iter().map(|progress| progress.bytes).sum::<u64>(), bytes);
    assert_eq!(outcome.came.len() as u64, sequenced.packets);
}

/// A replica that counts no gaps is found.
#[test]
fn counts_of_lost_packets_are_held_to_the_witnesses() {
    let no_gaps = |c: String| {
        assert!(c.contains("progress->lost += gap;"));
        c.replace("progress->lost += gap;", "")
    };
    let Some(outcome) = outcome_with("gaps", "token_bucket", 2, 1, true, &no_gaps) else { return };
    let lost: Vec<u64> = outcome.progress.iter().map(|progress| progress.lost).collect();
    assert_ne!(lost, lost_before_the_last(&outcome, 2));
}

/// The queue of a CPU that is full loses packets. They are counted, and what the replicas make of it is never called equal.
#[test]
fn what_a_full_queue_loses_is_told() {
    let Some(outcome) = outcome_with("full", "token_bucket", 2, 1, false, &|c| c) else { return };
    assert!(outcome.verdict.lost > 0, "{:?}", outcome.progress);
    assert!(outcome.progress.iter().any(|progress| progress.missed > 0), "{:?}", outcome.progress);
    assert!(!outcome.verdict.is_equal(), "{}", outcome.verdict);
}

/// SCR's Algorithm 1: replicas take what a full queue lost from each other's logs.
#[test]
fn what_a_full_queue_loses_is_recovered() {
    for (name, replicas) in TABLE_1.map(|name| (name, 2)).into_iter().chain([("token_bucket", 5)]) {
        let label = format!("recovered-{replicas}");
        let Some(outcome) = outcome_with(&label, name, replicas, 1, true, &|c| c) else { return };
        assert!(outcome.verdict.lost > 0, "{}", outcome.verdict);
        counts_agree(&outcome, replicas as usize);
        let recovered: u64 = outcome.progress.iter().map(|progress| progress.recovered).sum();
        assert!(recovered > 0, "{:?}", outcome.progress);
        let total = outcome.sequenced.packets;
        assert!(outcome.progress.iter().all(|progress| progress.next == total), "{:?}", outcome.progress);
        assert!(outcome.verdict.is_equal(), "{}", outcome.verdict);
    }
}

/// A replica that does not look into the logs of others, and steps on.
#[test]
fn a_replica_that_does_not_ask_others_is_found() {
    let planted = |c: String| {
        let faults =
            [("at <= MAX_RING_ITEMS && at < replicas", "at < 1"), ("if (is_open)", "if (is_open > 1)")];
        faults.into_iter().fold(c, |c, (from, to)| {
            assert!(c.contains(from), "{from}");
            c.replace(from, to)
        })
    };
    let Some(outcome) = outcome_with("alone", "token_bucket", 2, 1, true, &planted) else { return };
    // States may be alike again once buckets are full; what left was not.
    assert!(!outcome.verdict.is_equal(), "{}", outcome.verdict);
}

/// What cannot run is refused at the start, with what to do.
#[test]
fn what_cannot_be_sequenced_is_refused() {
    let program = example("port_knocking");
    let compiled = compiled(&program, Strategy::Scr);
    let Some(object) = object(&compiled, "live-refused") else { return };
    let Some(rig) = Rig::with_queues("refused", 2) else { return };
    let said = |cpus: &[u32]| match rig.start(&compiled, &object, cpus, QUEUE, 0, false) {
        Ok(_) => "started".to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(said(&[0]).contains("m0 has 2 receive queues"), "{}", said(&[0]));
    assert!(said(&[0; 65]).contains("65 CPUs, and 64 are the most here"), "{}", said(&[0; 65]));
    let no_queue = rig.start(&compiled, &object, &[0], 0, 0, false).err().expect("refused").to_string();
    assert!(no_queue.contains("1 to 16384 packets"), "{no_queue}");
    assert!(said(&[]).contains("at least one CPU"), "{}", said(&[]));
    assert!(said(&[1023]).contains("CPU 1023 is not online"), "{}", said(&[1023]));
}

/// What is redirected to a virtual interface vanishes unless its other end has GRO or a program: that is looked at before.
#[test]
fn an_end_that_drops_what_is_redirected_is_refused() {
    let program = example("port_knocking");
    let compiled = compiled(&program, Strategy::Scr);
    let Some(object) = object(&compiled, "live-gro") else { return };
    let Some(rig) = Rig::without_gro("gro") else { return };
    for peer in ["p1", "p2"] {
        let refused =
            rig.start(&compiled, &object, &[0], QUEUE, 0, false).err().expect("refused").to_string();
        assert!(refused.contains(&format!("`ethtool -K {peer} gro on`")), "{refused}");
        rig.set_gro(peer);
    }
    match rig.start(&compiled, &object, &[0], QUEUE, 0, false) {
        Ok(live) => assert_eq!(live.notes(), [""; 0]),
        Err(LiveError::Load(LoadError::NoRights(why))) => return eprintln!("skipped: {why}"),
        Err(error) => panic!("{error}"),
    }
    let Some(rig) = Rig::new("elsewhere") else { return };
    let live = rig.start(&compiled, &object, &[0], QUEUE, 0, false).expect("it starts");
    assert_eq!(live.notes().len(), 2, "{:?}", live.notes());
    assert!(
        live.notes()[0].contains("the other end of m1 is in another network namespace"),
        "{:?}",
        live.notes()
    );
}

/// Packets go to CPUs by a hash of the program's keys, and all shards together have the interpreter's state.
#[test]
fn two_shards_between_namespaces_equal_the_interpreter() {
    for name in TABLE_1.into_iter().chain(["stateful_firewall"]) {
        let settings = (2, QUEUE, false);
        let Some(outcome) = outcome_of(Strategy::Sharded, "shards", name, settings, &|c| c) else { return };
        assert!(outcome.verdict.is_equal(), "{name}: {}", outcome.verdict);
        assert_eq!(outcome.verdict.lost, 0);
        assert!(
            outcome.progress.iter().all(|progress| progress.packets > 100),
            "{name}: {:?}",
            outcome.progress
        );
    }
}

/// Registers under one index that the program computes, read and written in one step.
const SUMS: &str = "
#include \"headers.p4\"
struct metadata_t { bit<32> at; bit<32> sum; bit<16> last; }
EXAMPLE_PARSER(metadata_t)
control Sums(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    register<bit<32>>(256) sums;
    register<bit<16>>(512) lasts;
    apply {
        standard_metadata.egress_spec = 1;
        if (hdr.ipv4.isValid()) {
            hash(meta.at, HashAlgorithm.crc16, 32w0, { hdr.ipv4.src_addr, hdr.ipv4.dst_addr }, 32w256);
            sums.read(meta.sum, meta.at);
            meta.sum = meta.sum + (bit<32>)hdr.ipv4.total_len;
            sums.write(meta.at, meta.sum);
            lasts.read(meta.last, meta.at);
            lasts.write(meta.at, hdr.ipv4.identification);
            if (meta.sum[2:0] == 0) {
                mark_to_drop(standard_metadata);
            } else if (meta.last > hdr.ipv4.identification) {
                standard_metadata.egress_spec = 2;
            }
        }
    }
}
V1Switch(ExampleParser(), ExampleVerify(), Sums(), ExampleEgress(), ExampleCompute(), ExampleDeparser()) main;
";

#[test]
fn registers_equal_the_interpreter_under_all_strategies() {
    let program = lowered("sums.p4", SUMS);
    for strategy in [Strategy::Sharded, Strategy::Shared, Strategy::Scr] {
        let Some(outcome) = outcome_for(strategy, "sums", &program, (2, QUEUE, false), &|c| c) else {
            return;
        };
        assert!(outcome.verdict.is_equal(), "{strategy}: {}", outcome.verdict);
        assert!(outcome.progress.iter().all(|progress| progress.packets > 100), "{:?}", outcome.progress);
    }
}

/// What a full queue loses is lost with its step, and nothing else is.
#[test]
fn shards_that_lose_packets_equal_the_interpreter_without_them() {
    let Some(outcome) = outcome_of(Strategy::Sharded, "shard-loses", "token_bucket", (2, 1, false), &|c| c)
    else {
        return;
    };
    assert!(outcome.verdict.is_equal() && outcome.verdict.lost > 0, "{}", outcome.verdict);
}

#[test]
fn a_dispatch_that_does_not_follow_the_keys_is_found() {
    let planted = |c: String| {
        let from = "u64 replica = shard(&p, &s);";
        assert!(c.contains(from), "{c}");
        c.replace(from, "u64 replica = q->next & 1;")
    };
    let settings = (2, QUEUE, false);
    let Some(outcome) = outcome_of(Strategy::Sharded, "no-keys", "token_bucket", settings, &planted) else {
        return;
    };
    assert!(!outcome.verdict.differences.is_empty(), "{}", outcome.verdict);
}

/// Packets go to CPUs in turn, and each steps one state under a lock: in the order in which they had it.
#[test]
fn two_cpus_with_one_state_equal_the_interpreter() {
    for name in TABLE_1.into_iter().chain(["stateful_firewall"]) {
        let settings = (2, QUEUE, false);
        let Some(outcome) = outcome_of(Strategy::Shared, "shared", name, settings, &|c| c) else { return };
        assert!(outcome.verdict.is_equal(), "{name}: {}", outcome.verdict);
        assert!(
            outcome.progress.iter().all(|progress| progress.packets > 900),
            "{name}: {:?}",
            outcome.progress
        );
    }
}

#[test]
fn a_step_left_out_of_one_state_is_found() {
    let planted = |c: String| {
        let from = "ingress(p, s);\n    unlock(";
        assert!(c.contains(from), "{c}");
        c.replace(from, "if (p->turn % 5 != 4)\n        ingress(p, s);\n    unlock(")
    };
    let settings = (2, QUEUE, false);
    let Some(outcome) = outcome_of(Strategy::Shared, "shared-fault", "token_bucket", settings, &planted)
    else {
        return;
    };
    assert!(!outcome.verdict.differences.is_empty(), "{}", outcome.verdict);
}
