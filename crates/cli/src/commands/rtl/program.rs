//! The sequencer of a program in P4: its parser as hardware, and items of the history's version 3.
//!
//! A way through the parser passes a state at each stage. A stage has a register behind it, with the bytes that no header has
//! taken yet, the first of them in the highest bits.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ::p4::ir::{Case, FieldId, KeySet, Operand, Program, State, StatementKind, Target};
use xdp::Strategy;
use xdp::history::{HEADER_BYTES, Item, MAX_RING_ITEMS, Slice};
use xdp::subset::refusals;

use super::args::SequencerArgs;
use super::pins::{PORTS, connected, declared, module_name};
use crate::explain::Code;
use crate::failure::Failure;
use crate::output::printable;

/// Bytes of headers that the hardware keeps of a frame.
const MAX_WINDOW: usize = 256;

/// The port by which frames come, which a chain's sequencer does not have.
const CAME_BY: (&str, &str) = ("s_axis_tid", "input  wire [15:0]       ");

/// The module of the parser, and that of the sequencer.
pub fn sequencer_module(program: &Program, args: &SequencerArgs) -> Result<String, Failure> {
    let refused = |why: String| Failure::usage(format!("{}: {why}", program.name)).coded(Code::NotInHardware);
    let most = MAX_RING_ITEMS as usize + 1;
    if args.cores > most {
        return Err(refused(format!("{} cores; the history of a program is for {most} at most", args.cores)));
    }
    if args.ethernet {
        let why = "no Ethernet header comes before the history of a program\nLeave `--ethernet` out.";
        return Err(refused(why.to_owned()));
    }
    if let Some(refusal) = refusals(program, Strategy::Scr).first() {
        return Err(refused(format!("no replica runs it: {refusal}")));
    }
    let item = Slice::of(program).item(program);
    let parser = Parser::new(program, &item).map_err(refused)?;
    let name = module_name(program.name.trim_end_matches(".p4"));
    Ok(parser.module(&name) + &wrapper(program, args, &item, parser.window, &name))
}

/// What connects `dispatch`, `gather` and the program's parser.
fn wrapper(program: &Program, args: &SequencerArgs, item: &Item, window: usize, name: &str) -> String {
    let ports: Vec<_> = PORTS.into_iter().chain([CAME_BY]).collect();
    let timestamp = program.standard.ingress_global_timestamp;
    let time_at = item.parts.iter().find(|part| part.field == timestamp).map(|part| part.offset as i64);
    format!(
        "// The sequencer of rtl/sequencer for the program `{program}` on {cores} cores: written by `paceline rtl sequencer`.\n\
         // An item of history has {bytes} bytes, what comes before a packet {prefix}. docs/rtl.md says what the ports mean.\n\
         module {name} #(\n    \
             parameter int BUFFER = 256,\n    \
             parameter int FRAMES = 64,\n    \
             parameter int ROWS_IN_RAM = 0,\n    \
             localparam int WIDTH = {width}\n\
         ) (\n{declared}\n);\n\n  \
           wire beat_in;\n  \
           wire beat_in_first;\n  \
           wire [7:0] beat_in_bytes;\n  \
           wire kept_valid;\n  \
           wire [{bytes}*8-1:0] kept;\n  \
           dispatch #(\n      \
               .WIDTH(WIDTH), .CORES({cores}), .VERSION(3), .LAYOUT(64'h{layout:016x}), .KEPT({bytes}), .TIME_AT({time_at}),\n      \
               .FLUSH_CYCLES(0), .BUFFER(BUFFER), .FRAMES(FRAMES), .ROWS_IN_RAM(ROWS_IN_RAM)\n  \
           ) dispatch (\n      \
               .beat_in(beat_in), .beat_in_first(beat_in_first), .beat_in_bytes(beat_in_bytes),\n      \
               .kept_valid(kept_valid), .kept_in(kept),\n{connected}\n  );\n\n  \
           wire whole;\n  \
           wire [{window}*8-1:0] first;\n  \
           wire [16:0] length;\n  \
           wire [15:0] came_by;\n  \
           gather #(.WIDTH(WIDTH), .BYTES({window})) gather (\n      \
               .clk(clk), .resetn(resetn),\n      \
               .beat_valid(beat_in), .beat(s_axis_tdata), .beat_bytes(beat_in_bytes), .beat_first(beat_in_first),\n      \
               .beat_last(s_axis_tlast), .port(s_axis_tid),\n      \
               .out_valid(whole), .out(first), .length(length), .came_by(came_by)\n  );\n  \
           {name}_parser parser (\n      \
               .clk(clk), .resetn(resetn),\n      \
               .in_valid(whole), .in(first), .length(length), .came_by(came_by), .out_valid(kept_valid), .out(kept)\n  );\n\n\
         endmodule\n",
        program = printable(&program.name),
        cores = args.cores,
        bytes = item.bytes,
        prefix = HEADER_BYTES + (args.cores - 1) * item.bytes,
        width = args.width / 8,
        declared = declared(&ports),
        layout = item.number(),
        time_at = time_at.unwrap_or(-1),
        connected = connected(&ports),
    )
}

/// A parser as stages.
struct Parser<'a> {
    program: &'a Program,
    item: &'a Item,
    /// The states of each stage: those that a way passes after as many others.
    stages: Vec<BTreeSet<u32>>,
    /// Bytes of all headers on the longest way.
    window: usize,
    /// Fields that stages hand on: those of the item, and those that states look at.
    carried: BTreeSet<FieldId>,
}

impl<'a> Parser<'a> {
    /// `Err` says what there is no hardware for.
    fn new(program: &'a Program, item: &'a Item) -> Result<Parser<'a>, String> {
        let mut verified = BTreeSet::new();
        program.visit_writes(&program.verify_checksum, &mut |field| _ = verified.insert(field));
        if let Some(part) = item.parts.iter().find(|part| verified.contains(&part.field)) {
            let name = &part.name;
            return Err(format!(
                "state depends on {name}, which `verify_checksum` sets; there is no hardware for that"
            ));
        }
        let mut stages: Vec<BTreeSet<u32>> = Vec::new();
        let mut here = BTreeSet::from([0]);
        while !here.is_empty() {
            // A way of more states than there are passes one twice.
            if stages.len() == program.parser.len() {
                return Err("the parser comes to a state twice; there is no hardware for that".to_owned());
            }
            let next = here.iter().flat_map(|state| targets(&program.parser[*state as usize])).collect();
            stages.push(std::mem::replace(&mut here, next));
        }
        let mut carried: BTreeSet<FieldId> = item.parts.iter().map(|part| part.field).collect();
        let mut windows = vec![0; program.parser.len()];
        for number in stages.iter().rev().flatten() {
            let state = &program.parser[*number as usize];
            let behind = targets(state).map(|target| windows[target as usize]).max().unwrap_or_default();
            windows[*number as usize] = behind + taken_bytes(program, state)?;
            carried.extend(state.select.iter().filter_map(|operand| match operand {
                Operand::Field(field) => Some(*field),
                Operand::Constant(_) => None,
            }));
        }
        match windows[..] {
            [window @ 1..=MAX_WINDOW, ..] => Ok(Parser { program, item, stages, window, carried }),
            [bytes, ..] => {
                Err(format!("the parser takes {bytes} bytes; there is hardware for 1 to {MAX_WINDOW}"))
            }
            [] => Err("there is no parser".to_owned()),
        }
    }

    fn width(&self, field: FieldId) -> u32 {
        self.program.fields[field as usize].width
    }

    fn module(&self, name: &str) -> String {
        let mut text = format!(
            "// What history needs of a frame, as the parser of the program `{program}` finds it: written by `paceline rtl sequencer`.\n\
             // An item: {item}\n\
             // verilator lint_off DECLFILENAME\n// verilator lint_off UNUSEDSIGNAL\n\
             module {name}_parser (\n    \
                 input  wire         clk,\n    \
                 // Synchronous, active low. After it no frame is under way.\n    \
                 input  wire         resetn,\n    \
                 // The frame's first bytes, the first one in the highest bits; those behind its `length` are anything.\n    \
                 input  wire         in_valid,\n    \
                 input  wire [{bits}:0] in,\n    \
                 input  wire [16:0]  length,\n    \
                 input  wire [15:0]  came_by,\n    \
                 // {depth} cycles later; byte i is bits 8i + 7 to 8i.\n    \
                 output wire         out_valid,\n    \
                 output wire [{kept}:0] out\n\
             );\n\n  \
               // A packet between two states.\n  \
               typedef struct packed {{\n    \
                 logic valid;\n    \
                 logic is_done;        // it has no state ahead\n    \
                 logic [15:0] state;   // that ahead\n    \
                 logic [16:0] left;    // bytes that no header has taken, and the first of them\n    \
                 logic [{bits}:0] bytes;\n",
            program = printable(&self.program.name),
            item = printable(&self.item.layout()),
            bits = self.window * 8 - 1,
            depth = self.stages.len(),
            kept = self.item.bytes * 8 - 1,
        );
        for field in &self.carried {
            let declared = &self.program.fields[*field as usize];
            _ = writeln!(
                text,
                "    logic [{}:0] f{field}; // {}",
                declared.width - 1,
                printable(&declared.name)
            );
        }
        text += "  } packet_t;\n\n  packet_t p0;\n  always_comb begin\n    p0 = '0;\n    p0.valid = in_valid;\n    p0.left = length;\n    \
                 p0.bytes = in;\n";
        let standard = self.program.standard;
        for (field, value, bits) in
            [(standard.ingress_port, "came_by", 16), (standard.packet_length, "length", 17)]
        {
            if self.carried.contains(&field) {
                let width = self.width(field);
                let value = if width < bits {
                    format!("{value}[{}:0]", width - 1)
                } else {
                    format!("{width}'({value})")
                };
                _ = writeln!(text, "    p0.f{field} = {value};");
            }
        }
        text += "  end\n";
        for (stage, states) in self.stages.iter().enumerate() {
            let next = stage + 1;
            _ = write!(
                text,
                "\n  packet_t p{next};\n  packet_t n{stage};\n  always_comb begin\n    n{stage} = p{stage};\n{}  end\n  \
                 always_ff @(posedge clk) begin\n    p{next} <= n{stage};\n    p{next}.valid <= resetn && n{stage}.valid;\n  end\n",
                states.iter().map(|state| self.state(*state, stage)).collect::<String>(),
            );
        }
        let last = self.stages.len();
        _ = writeln!(text, "\n  assign out_valid = p{last}.valid;");
        text += &self.packed(last);
        text + "\nendmodule\n\n"
    }

    /// A state: it takes its headers, and then says which is next.
    fn state(&self, number: u32, stage: usize) -> String {
        let state = &self.program.parser[number as usize];
        let name = printable(&state.name);
        let mut text =
            format!("    if (!p{stage}.is_done && p{stage}.state == 16'd{number}) begin // {name}\n");
        for statement in &state.body {
            if let StatementKind::Extract { header } = &statement.kind {
                text += &self.extract(*header, stage);
            }
        }
        _ = writeln!(text, "      if (!n{stage}.is_done) begin\n        n{stage}.is_done = 1'b1;");
        let mut is_else = "";
        for case in &state.cases {
            let goal = match case.target {
                Target::State(next) => format!("n{stage}.is_done = 1'b0; n{stage}.state = 16'd{next};"),
                Target::Accept | Target::Reject => String::new(),
            };
            let condition = self.condition(state, case, stage);
            _ = writeln!(text, "        {is_else}if ({condition}) begin {goal} end");
            is_else = "else ";
        }
        let error = self.error("NoMatch", stage);
        if is_else.is_empty() {
            _ = writeln!(text, "        {error}");
        } else if !error.is_empty() {
            _ = writeln!(text, "        else begin {error} end");
        }
        text + "      end\n    end\n"
    }

    /// A header that is cut short is not taken, and ends the parser.
    fn extract(&self, header: u32, stage: usize) -> String {
        let header = &self.program.headers[header as usize];
        let (bits, top) = (header_bits(self.program, header), self.window * 8 - 1);
        let mut text = format!(
            "      if (!n{stage}.is_done) begin // {}\n        if (n{stage}.left < 17'd{}) begin n{stage}.is_done = 1'b1; {} end\n        else begin\n",
            printable(&header.name),
            bits / 8,
            self.error("PacketTooShort", stage),
        );
        let mut at = 0;
        for field in &header.fields {
            let width = self.width(*field) as usize;
            if self.carried.contains(field) {
                _ = writeln!(text, "          n{stage}.f{field} = n{stage}.bytes[{} -: {width}];", top - at);
            }
            at += width;
        }
        if self.carried.contains(&header.valid) {
            _ = writeln!(text, "          n{stage}.f{} = 1'b1;", header.valid);
        }
        _ = writeln!(
            text,
            "          n{stage}.bytes = n{stage}.bytes << {bits};\n          n{stage}.left = n{stage}.left - 17'd{};\n        end\n      end",
            bits / 8
        );
        text
    }

    fn error(&self, name: &str, stage: usize) -> String {
        let field = self.program.standard.parser_error;
        let number = self.program.errors.iter().position(|error| error == name).unwrap_or_default();
        match self.carried.contains(&field) {
            true => format!("n{stage}.f{field} = {}'d{number};", self.width(field)),
            false => String::new(),
        }
    }

    fn condition(&self, state: &State, case: &Case, stage: usize) -> String {
        let keys = state.select.iter().zip(&case.keys);
        let conditions: Vec<_> = keys
            .filter_map(|(operand, key)| {
                let value = match operand {
                    Operand::Field(field) => format!("n{stage}.f{field}"),
                    Operand::Constant(constant) => format!("{}'h{:x}", constant.width, constant.value),
                };
                let bits = self.program.width(*operand);
                Some(match key.as_ref()? {
                    KeySet::Masked { value: wanted, mask } if mask.value == ::p4::ir::ones(bits) => {
                        format!("{value} == {bits}'h{:x}", wanted.value)
                    }
                    KeySet::Masked { value: wanted, mask } => {
                        format!(
                            "({value} & {bits}'h{:x}) == {bits}'h{:x}",
                            mask.value,
                            wanted.value & mask.value
                        )
                    }
                    KeySet::Range { low, high } => {
                        format!("{value} >= {bits}'h{:x} && {value} <= {bits}'h{:x}", low.value, high.value)
                    }
                })
            })
            .collect();
        if conditions.is_empty() { "1'b1".to_owned() } else { conditions.join(" && ") }
    }

    /// The item, of the packet behind the last stage: fields in whole bytes, big-endian. `dispatch` puts the time there.
    fn packed(&self, last: usize) -> String {
        let mut text = String::new();
        let mut rest = self.item.bytes;
        for part in &self.item.parts {
            let pad = part.bytes as u32 * 8 - part.width;
            let pad = if pad > 0 { format!("{pad}'d0, ") } else { String::new() };
            let (name, field, bytes) = (printable(&part.name), part.field, part.bytes);
            _ = writeln!(
                text,
                "  wire [{}:0] part_{field}; // {name}\n  assign part_{field} = {{{pad}p{last}.f{field}}};",
                bytes * 8 - 1
            );
            for byte in 0..bytes {
                let (to, from) = (8 * (part.offset + byte), 8 * (bytes - 1 - byte));
                _ = writeln!(text, "  assign out[{to} +: 8] = part_{field}[{from} +: 8];");
            }
            rest -= bytes;
        }
        if rest > 0 {
            _ = writeln!(text, "  assign out = {}'d0;", rest * 8);
        }
        text
    }
}

fn targets(state: &State) -> impl Iterator<Item = u32> {
    state.cases.iter().filter_map(|case| match case.target {
        Target::State(next) => Some(next),
        Target::Accept | Target::Reject => None,
    })
}

/// Bytes of the headers that a state takes. `Err` names what else it does.
fn taken_bytes(program: &Program, state: &State) -> Result<usize, String> {
    let mut bits = 0;
    for statement in &state.body {
        match &statement.kind {
            StatementKind::Extract { header } => {
                bits += header_bits(program, &program.headers[*header as usize])
            }
            _ => {
                let place =
                    program.places.get(statement.place as usize).filter(|written| written.place.line > 0);
                let place = place.map(|written| format!("{}: ", written.place)).unwrap_or_default();
                let name = &state.name;
                return Err(format!(
                    "{place}state {name} does more than `extract`; there is no hardware for that"
                ));
            }
        }
    }
    Ok(bits / 8)
}

fn header_bits(program: &Program, header: &::p4::ir::Header) -> usize {
    header.fields.iter().map(|field| program.fields[*field as usize].width as usize).sum()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::args::read_program;

    fn args(cores: usize, ethernet: bool) -> SequencerArgs {
        SequencerArgs { source: PathBuf::new(), cores, width: 1024, ethernet, out: "-".into() }
    }

    fn program(name: &str) -> Program {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/p4").join(name);
        read_program(&path, &[], &[]).unwrap_or_else(|_| panic!("{name} is a program"))
    }

    fn program_refusal(program: &Program, args: &SequencerArgs) -> String {
        match sequencer_module(program, args) {
            Err(Failure::Told(_, _, report)) => report.to_string(),
            _ => panic!("{} is not refused", program.name),
        }
    }

    #[test]
    fn a_module_has_a_programs_parser_and_item() {
        let module = sequencer_module(&program("scr/token_bucket.p4"), &args(4, false)).ok().unwrap();
        for line in [
            "module sequencer_token_bucket_parser (",
            "module sequencer_token_bucket #(",
            "An item of history has 25 bytes, what comes before a packet 123.",
            ".KEPT(25), .TIME_AT(19),",
            ".s_axis_tid(s_axis_tid)\n  );",
        ] {
            assert!(module.contains(line), "no `{line}` in\n{module}");
        }
        let module = sequencer_module(&program("scr/ddos.p4"), &args(1, false)).ok().unwrap();
        assert!(module.contains(".KEPT(5), .TIME_AT(-1),"), "{module}");
    }

    #[test]
    fn programs_that_the_hardware_does_not_read_are_refused() {
        let knocking = program("port_knocking.p4");
        assert!(program_refusal(&knocking, &args(17, false)).contains("for 16 at most"));
        assert!(program_refusal(&knocking, &args(4, true)).contains("no Ethernet header"));
        let mut looping = knocking.clone();
        for state in &mut looping.parser {
            state.cases.iter_mut().for_each(|case| case.target = Target::State(0));
        }
        assert!(program_refusal(&looping, &args(4, false)).contains("no replica runs it"));
        let mut computing = knocking;
        let copy = ::p4::ir::Compute::Copy { from: Operand::Field(computing.standard.packet_length) };
        let statement = StatementKind::Compute { to: computing.standard.egress_rid, value: copy };
        computing.parser[0].body.push(statement.into());
        assert!(program_refusal(&computing, &args(4, false)).contains("does more than `extract`"));
    }
}
