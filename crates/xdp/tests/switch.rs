//! The sequencer for a switch: what it sends, run by the interpreter, is what `Sequencing` sends, byte by byte.

use p4::interpret::Machine;
use p4::{Options, lower};
use paceline_xdp::Strategy;
use paceline_xdp::sequencing::Sequencing;
use paceline_xdp::switch::{Switch, sequencer};
use paceline_xdp::trial::Packet;

use crate::common::{EXAMPLES, captured, compiled, example, lowered, random_packets, root};
use crate::programs::random;

/// The first packet that a switch sends otherwise, after a change of its program.
fn difference(
    program: &p4::ir::Program,
    switch: Switch,
    packets: &[Packet],
    change: &dyn Fn(String) -> String,
) -> Option<String> {
    let compiled = compiled(program, Strategy::Scr);
    let text = change(sequencer(&compiled, switch).unwrap_or_else(|refused| panic!("{refused:#?}")));
    let (of_switch, _) =
        lower("switch.p4", &text, &Options::default()).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    let mut machine = Machine::new(of_switch);
    let mut sequencing = Sequencing::new(&compiled, switch.cores, switch.has_ethernet).expect("few cores");
    for (number, packet) in packets.iter().enumerate() {
        // A switch counts microseconds.
        let time_ns = packet.time_ns / 1000 * 1000;
        let sent = machine.packet(packet.port, &packet.bytes, time_ns - switch.base_ns.min(time_ns));
        let (placed, frame) = sequencing.next(packet.port, &packet.bytes, time_ns);
        let port = switch.first_port + placed.core as u16;
        if sent.len() != 1 || sent[0].port != port || sent[0].bytes != frame {
            return Some(format!("packet {number}: expected {port} {frame:02x?}, sent {sent:02x?}"));
        }
    }
    None
}

const SWITCH: Switch = Switch { cores: 8, has_ethernet: true, first_port: 0, base_ns: 0 };

#[test]
fn a_switch_sends_what_a_sequencer_sends() {
    for name in EXAMPLES {
        assert_eq!(
            difference(&example(name), SWITCH, &random_packets(47, 300), &|text| text),
            None,
            "{name}"
        );
    }
    let program = example("port_knocking");
    for (cores, has_ethernet, first_port) in [(1, true, 0), (2, false, 3), (3, false, 0), (64, true, 100)] {
        let switch = Switch { cores, has_ethernet, first_port, base_ns: 0 };
        assert_eq!(
            difference(&program, switch, &random_packets(53, 400), &|text| text),
            None,
            "{cores} cores"
        );
    }
}

/// Packets of these days, whose times take more than the 48 bits of a switch: the rest is its base.
#[test]
fn a_switch_sends_a_capture_as_a_sequencer_does() {
    let Some(packets) = captured(&root().join("captures/edge.pcap"), 2000) else { return };
    let window = 1000 << 48_u32;
    let first = packets.iter().map(|packet| packet.time_ns).min().unwrap_or_default();
    let switch = Switch { base_ns: first / window * window, ..SWITCH };
    for name in ["scr/ddos", "scr/connection_tracker"] {
        assert_eq!(difference(&example(name), switch, &packets, &|text| text), None, "{name}");
    }
}

#[test]
fn random_programs_have_a_sequencer_for_a_switch() {
    let mut tried = 0;
    for seed in 3000..3040 {
        let random = random(seed, 100);
        let program = lowered("x.p4", &random.source);
        let Ok(compiled) = paceline_xdp::compile(&program, Strategy::Scr) else { continue };
        if sequencer(&compiled, SWITCH).is_err() {
            continue;
        }
        tried += 1;
        assert_eq!(difference(&program, SWITCH, &random.packets, &|text| text), None, "seed {seed}");
    }
    assert!(tried >= 20, "{tried}");
}

#[test]
fn a_switch_with_a_fault_is_found() {
    for (from, to) in [
        ("now = last;", "now = now;"),
        ("count < SLOTS ? 0 : slot", "slot"),
        ("if (slot == 3) {", "if (slot == 2) {"),
        ("if (core == LAST_CORE) {", "if (core == SLOTS - 1) {"),
        ("turns.write(0, turn + 1);", ""),
        ("+ BASE_NS", "+ 1"),
    ] {
        let plant = |text: String| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        };
        let mut packets = random_packets(47, 300);
        // Its clock runs back once.
        packets[200].time_ns -= 50_000_000;
        assert!(difference(&example("token_bucket"), SWITCH, &packets, &plant).is_some(), "{from}");
        assert_eq!(difference(&example("token_bucket"), SWITCH, &packets, &|text| text), None);
    }
}
