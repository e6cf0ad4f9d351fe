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

/// Functions are in the order of the stages, and not in that in which the program declares their muTables.
#[test]
fn each_function_has_its_numbers() {
    let path = root().join("rtl/tests/functions.p4");
    let text = fs::read_to_string(&path).expect("a program");
    let (turns, rest) =
        (text.find("    muTable turns").expect("one"), text.find("    action set_next").expect("one"));
    let ports = text.find("    muTable ports").expect("one");
    let turned = [&text[..ports], &text[turns..rest], &text[ports..turns], &text[rest..]].concat();
    for text in [text, turned] {
        let subject = Subject::new(lowered_text(&path.display().to_string(), &text), "").expect("compiled");
        let verilog = hardware(&subject).expect("hardware").verilog;
        for line in [
            "// Function 0: `ingress.sources`, STRICT.",
            "// Function 2: `ingress.turns`, STRICT.",
            "localparam int FUNCTIONS = 3;",
            "localparam int KEY_BITS = 56;",
            "localparam int VALUE_BITS = 24;",
            "localparam logic [95:0] OWN_KEY_BITS = {32'd56, 32'd48, 32'd32};",
            "localparam logic [95:0] OWN_VALUE_BITS = {32'd4, 32'd24, 32'd24};",
            "localparam logic [95:0] TABLE = {32'd64, 32'd32, 32'd64};",
        ] {
            assert!(verilog.contains(line), "{line} is not in {verilog}");
        }
    }
}

/// Each pipeline on the ring has the program's functions, in the nodes of its own stages.
#[test]
fn pipelines_have_functions_of_their_own() {
    let rapid = RapidOptions { pipelines: 2, ..RapidOptions::default() };
    let options = Options { stages: Some(3), ..Options::default() };
    let hardware =
        Hardware::new(&Subject::example("port_knocking").image, &rapid, &options).expect("hardware");
    for line in [
        "// Function 1: `ingress.port_knocking`, STRICT, pipeline 1.",
        "localparam int PIPELINES = 2;",
        "localparam int STAGES = 3;",
        "localparam int NODES = 6;",
        "localparam int FUNCTIONS = 2;",
        "localparam logic [63:0] READ = {32'd3, 32'd0};",
        "localparam logic [63:0] WRITE = {32'd4, 32'd1};",
        "localparam logic [191:0] FUNCTION_OF = {32'd0, 32'd1, 32'd1, 32'd0, 32'd0, 32'd0};",
    ] {
        assert!(hardware.verilog.contains(line), "{line} is not in {}", hardware.verilog);
    }
}

#[test]
fn a_word_has_the_bits_of_its_field() {
    let hardware = hardware(&Subject::example("port_knocking")).expect("hardware");
    assert!(hardware.verilog.contains("localparam int KEY_BITS = 64;"), "{}", hardware.verilog);
    assert!(hardware.verilog.contains("localparam logic [31:0] TABLE = {32'd4096};"), "{}", hardware.verilog);
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
        ("nat_lb", "is read and written in one stage"),
        ("syn_cookie", "is read and written in one stage"),
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
