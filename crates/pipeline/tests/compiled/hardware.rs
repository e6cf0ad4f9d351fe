//! Programs as hardware: what is written, and what is refused. That the hardware does what the model does is what `./x rtl` shows.

use std::fs;

use paceline_pipeline::compiled::{Hardware, HardwareError};
use paceline_pipeline::{Options, RapidOptions, WhenFull};

use crate::support::*;

fn hardware(subject: &Subject) -> Result<Hardware, HardwareError> {
    Hardware::new(&subject.image, &RapidOptions::default(), &Options::default())
}

/// `rtl/tests/rapid_program.sv`, which is there for tools that check the modules, is what is written now.
#[test]
fn the_program_of_the_checks_is_written_anew() {
    let path = root().join("rtl/tests/groups.p4");
    let text = fs::read_to_string(&path).expect("a program");
    let subject = Subject::new(lowered_text(&path.display().to_string(), &text), "").expect("compiled");
    let flows = 6;
    let rapid = RapidOptions {
        dirty_table: flows,
        block_queue: flows,
        suspend_queue: flows,
        schedule_queue: flows,
        ..RapidOptions::default()
    };
    let options = Options { stages: Some(6), ..Options::default() };
    let hardware = Hardware::new(&subject.image, &rapid, &options).expect("hardware");
    let written = fs::read_to_string(root().join("rtl/tests/rapid_program.sv")).expect("the file");
    assert!(
        hardware.verilog == written,
        "write it anew: paceline p4 rtl rtl/tests/groups.p4 --stages 6 --dtable 6 --out rtl/tests/rapid_program.sv"
    );
}

#[test]
fn a_word_has_the_bits_of_its_field() {
    let hardware = hardware(&Subject::example("port_knocking")).expect("hardware");
    assert!(hardware.verilog.contains("localparam int KEY_BITS = 64;"), "{}", hardware.verilog);
    assert!(hardware.verilog.contains("localparam int TABLE = 4096;"), "{}", hardware.verilog);
    let bits: u32 = hardware.widths.iter().sum();
    assert!(hardware.verilog.contains(&format!("localparam int PHV_BITS = {bits};")), "{bits}");
    // Number and time of a packet are not in hardware, nor is a field wider than its word.
    assert_eq!(hardware.widths[2..4], [0, 0]);
    assert!(hardware.widths.iter().all(|width| *width <= 64));
}

#[test]
fn what_there_is_no_hardware_for_is_refused_by_name() {
    let refused = |name: &str| match hardware(&Subject::example(name)) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{name} is not refused"),
    };
    for (name, why) in [
        ("elephant", "muTable ingress.flows (elephant.p4:17:13) is read and written in one stage"),
        ("nat_lb", "the program has 2 muTables, registers, counters and meters"),
        ("syn_cookie", "the program has 3 muTables"),
        (
            "stateful_firewall",
            "muTable ingress.connections (stateful_firewall.p4:26:13) has keys of more than 64 bits",
        ),
    ] {
        assert!(refused(name).contains(why), "{name}: {}", refused(name));
    }
    let knocking = Subject::example("port_knocking");
    let stalls = Options { when_full: WhenFull::Stall, ..Options::default() };
    let refused = Hardware::new(&knocking.image, &RapidOptions::default(), &stalls);
    assert_eq!(refused, Err(HardwareError::Stalls));
    let none = RapidOptions { phv_buffer: 0, ..RapidOptions::default() };
    assert!(matches!(
        Hardware::new(&knocking.image, &none, &Options::default()),
        Err(HardwareError::Setup(_))
    ));
}
