//! Traffic that speculates wrongly as often as can be, on pipelines of all shapes.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use p4::interpret::Output;
use paceline_pipeline::compiled::{Watcher, emulate_p4};
use paceline_pipeline::{Consistency, Model, Options, RapidOptions, WhenFull};
use proptest::prelude::*;
use traffic::Share;

use crate::support::*;

/// A program that shows the state it read, in two or three stages, and edits what it reads.
pub fn witness(next: &str, stages: usize) -> String {
    let second = if stages > 2 { "second.apply();" } else { "meta.next = meta.first;" };
    format!(
        "#include <v1model.p4>
header h_t {{ bit<32> key; bit<32> tag; bit<32> seen; bit<8> updates; bit<8> hops; }}
struct headers {{ h_t h; }}
struct metadata {{ bit<32> first; bit<32> next; }}
parser P(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {{
    state start {{ packet.extract(hdr.h); transition accept; }}
}}
control Nothing(inout headers hdr, inout metadata meta) {{ apply {{ }} }}
control Egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {{ apply {{ }} }}
control Ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {{
    muTable flows {{ keys = {{ hdr.h.key; }} values = {{ bit<32> last; }} size = 4096; }}
    action advance() {{ meta.first = {next}; hdr.h.hops = hdr.h.hops + 1; }}
    action pass() {{ meta.next = meta.first; }}
    table first {{ key = {{ hdr.h.seen: ternary; }} actions = {{ advance; }} default_action = advance(); }}
    table second {{ key = {{ meta.first: ternary; }} actions = {{ pass; }} default_action = pass(); }}
    apply {{
        standard.egress_spec = 1;
        hdr.h.seen = flows.read(hdr);
        first.apply();
        {second}
        if (hdr.h.updates == 1) {{ flows.write(hdr, meta.next); }}
    }}
}}
control Deparser(packet_out packet, in headers hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), Nothing(), Ingress(), Egress(), Nothing(), Deparser()) main;
"
    )
}

/// Two functions, one behind the other: what the second adds to its state depends on what the first read.
fn two_functions() -> Subject {
    let text = witness(ALL, 2)
        .replacen("struct metadata {", "struct metadata { bit<32> other; bit<32> sum;", 1)
        .replacen(
            "action pass()",
            "muTable others { keys = { hdr.h.key; } values = { bit<32> sum; } size = 4096; }
             action add() { meta.sum = meta.other * 3 + meta.next; }
             table third { key = { meta.other: ternary; } actions = { add; } default_action = add(); }
             action pass()",
            1,
        )
        .replacen(
            "if (hdr.h.updates == 1) {",
            "if (meta.next != 1) {
                 meta.other = others.read(hdr);
                 third.apply();
                 others.write(hdr, meta.sum);
                 hdr.h.tag = meta.sum;
             }
             if (hdr.h.updates == 1) {",
            1,
        );
    Subject::new(lowered_text("two.p4", &text), "").expect("a program that pipelines can run")
}

/// All that packets of a flow did can be told from its state.
pub const ALL: &str = "hdr.h.seen * 0x9e3779b1 + hdr.h.tag";

/// The state is the tag of the last packet that updated it.
const LAST: &str = "hdr.h.tag";

pub fn subject(next: &str, stages: usize) -> Subject {
    let program = lowered_text("witness.p4", &witness(next, stages));
    Subject::new(program, "").expect("a program that pipelines can run")
}

/// A packet of the witness.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    pub key: u32,
    pub tag: u32,
    pub updates: bool,
}

pub fn frames(packets: &[Shown]) -> Vec<Frame> {
    let frame = |packet: &Shown| {
        let words = [packet.key, packet.tag, 0].map(u32::to_be_bytes);
        let mut bytes = words.concat();
        bytes.extend([packet.updates.into(), 0]);
        Frame { port: 0, bytes, time_ns: 0 }
    };
    packets.iter().map(frame).collect()
}

#[derive(Clone, Debug)]
pub struct Case {
    stages: usize,
    pub model: RapidOptions,
    pub options: Options,
    pub packets: Vec<Shown>,
}

/// Few flows, mostly in runs; buffers of 1, few or many places.
pub fn case() -> impl Strategy<Value = Case> {
    let size = || prop_oneof![Just(1_usize), 2_usize..6, Just(64)];
    let sizes = (size(), size(), size(), size(), size(), prop_oneof![Just(None), (0_u32..5).prop_map(Some)]);
    let traffic = prop::collection::vec((0_u32..4, 1_usize..12, 0_u32..4), 1..40);
    let rest = (any::<bool>(), prop_oneof![Just(0), 0_u32..600_000], any::<u64>(), 2_usize..4, 4_usize..8);
    (sizes, traffic, rest).prop_map(|(sizes, traffic, rest)| {
        let (resubmitted_buffer, dirty_table, phv_buffer, ring_from_pipeline, ring_from_ring, threshold) =
            sizes;
        let (stalls, busy, seed, stages, stage_cycles) = rest;
        let model = RapidOptions {
            resubmitted_buffer,
            dirty_table,
            phv_buffer,
            ring_from_pipeline,
            ring_from_ring,
            blocking_threshold: threshold,
            ..RapidOptions::default()
        };
        let options = Options {
            stage_cycles: Some(stage_cycles),
            when_full: if stalls { WhenFull::Stall } else { WhenFull::Drop },
            egress_busy: Share::from_millionths(busy).expect("a share"),
            seed,
            ..every_cycle()
        };
        let mut packets = Vec::new();
        for (flow, length, update_share) in traffic {
            for _ in 0..length {
                let tag = packets.len() as u32 + 1;
                let draw = nf::hash_bytes(&tag.to_le_bytes(), seed);
                let key = if draw >> 8 & 3 == 0 { (draw >> 10) as u32 & 7 } else { flow };
                packets.push(Shown { key, tag, updates: draw as u32 & 3 < update_share });
            }
        }
        Case { stages, model, options, packets }
    })
}

/// Numbers of packets and the states that they saw, in order of departure.
#[derive(Default)]
struct Seen(Vec<(u64, u32)>);

impl Watcher for Seen {
    fn wants_outputs(&self) -> bool {
        true
    }

    fn departed(&mut self, number: u64, outputs: Vec<Output>, _: &dyn Fn(usize) -> Option<u64>) {
        let seen = outputs[0].bytes[8..12].try_into().expect("four bytes");
        self.0.push((number, u32::from_be_bytes(seen)));
    }
}

/// The most packets of a flow in a row that did not see the last update before them.
fn most_stale(packets: &[Shown], seen: &Seen) -> u32 {
    let mut flows = BTreeMap::new();
    let mut most = 0;
    for (number, seen) in &seen.0 {
        let packet = packets[*number as usize];
        let (last, stale) = flows.entry(packet.key).or_insert((0, 0));
        *stale = if seen == last { 0 } else { *stale + 1 };
        most = most.max(*stale);
        if packet.updates {
            *last = packet.tag;
        }
    }
    most
}

fn watch(
    model: RapidOptions,
    options: &Options,
    packets: &[Shown],
    stages: usize,
) -> (Seen, Vec<(u64, u64)>) {
    let subject = subject(LAST, stages);
    let (frames, mut seen) = (frames(packets), Seen::default());
    let model = Model::Rapid(model);
    let outcome =
        emulate_p4(&subject.image, &model, options, &inputs(&frames), &mut seen, &AtomicBool::new(false))
            .expect("a run");
    let states = outcome.tables[0].iter().map(|(key, state)| (*key, state[0])).collect();
    (seen, states)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn strict_is_the_reference(case in case()) {
        let Case { stages, model, options, packets } = case;
        let (_, found) = run(&subject(ALL, stages), &Model::Rapid(model), &options, &frames(&packets));
        prop_assert!(found.is_equal(), "{found:?}");
    }

    #[test]
    fn two_functions_on_one_ring_are_the_reference(case in case()) {
        let Case { model, options, packets, .. } = case;
        let (_, found) = run(&two_functions(), &Model::Rapid(model), &options, &frames(&packets));
        prop_assert!(found.is_equal(), "{found:?}");
    }

    #[test]
    fn bounded_staleness_keeps_its_bound(case in case(), stale in 0_u32..5) {
        let Case { stages, model, options, packets } = case;
        let model = RapidOptions { consistency: Some(Consistency::BoundedStaleness(stale)), ..model };
        let (seen, _) = watch(model, &options, &packets, stages);
        prop_assert!(most_stale(&packets, &seen) <= stale);
    }

    #[test]
    fn weak_consistency_converges(case in case()) {
        let Case { stages, model, options, packets } = case;
        let model = RapidOptions { consistency: Some(Consistency::Weak), ..model };
        let (seen, states) = watch(model, &options, &packets, stages);
        prop_assert_eq!(seen.0.len(), packets.len());
        let updates = packets.iter().filter(|packet| packet.updates);
        let last: BTreeMap<u64, u64> = updates.map(|packet| (packet.key.into(), packet.tag.into())).collect();
        prop_assert_eq!(states, last.into_iter().collect::<Vec<_>>());
    }
}

/// Every packet of one flow updates it, with buffers of one place: the flow goes packet by packet.
#[test]
fn a_flow_that_always_updates_goes_one_by_one() {
    let packets: Vec<Shown> = (1..200).map(|tag| Shown { key: 7, tag, updates: true }).collect();
    let one = RapidOptions {
        resubmitted_buffer: 1,
        dirty_table: 1,
        phv_buffer: 1,
        ring_from_pipeline: 1,
        ring_from_ring: 1,
        ..RapidOptions::default()
    };
    for model in [one, RapidOptions::default()] {
        let (report, found) = run(&subject(ALL, 2), &Model::Rapid(model), &every_cycle(), &frames(&packets));
        assert!(found.is_equal() && found.lost == 0, "{found:?}");
        assert!(report.cycles > 199 * 36, "{} cycles", report.cycles);
    }
}

/// The bound is used: else the property above would hold for strict consistency as well.
#[test]
fn staleness_is_used() {
    let packets: Vec<Shown> = (1..30).map(|tag| Shown { key: 7, tag, updates: true }).collect();
    for stale in [1, 3] {
        let consistency = Some(Consistency::BoundedStaleness(stale));
        let model = RapidOptions { consistency, ..RapidOptions::default() };
        let (seen, _) = watch(model, &every_cycle(), &packets, 2);
        assert_eq!(most_stale(&packets, &seen), stale);
    }
}
