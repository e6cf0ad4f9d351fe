//! The reference: what a program does to one packet after the other.
//!
//! The way of a packet is that of the v1model switch: parser, checksums verified, ingress, then for each port that
//! it goes to egress, checksums computed, deparser. A packet that the parser rejects goes on with `parser_error`
//! set; one that is dropped in the ingress ends there.

mod bits;
mod execute;
mod hash;
mod meter;
mod phv;
mod state;
mod table;

use crate::ir::{Object, Program, Standard, Statement, Target};

use execute::Run;

pub use bits::Writer;
pub use execute::drawn;
pub use hash::hash;
pub use meter::{Marker, Rates};
pub use phv::Phv;
pub use state::{ControlError, Dump, DumpedArray, DumpedEntry, DumpedTable, State};
pub use table::TableEntry;

/// The port of packets that are dropped.
pub const DROP_PORT: u128 = 511;

/// Transitions of the parser at most, so that a loop over a short packet ends.
const MAX_TRANSITIONS: usize = 4096;

/// `instance_type` of a copy for a group of ports.
const REPLICATED: u128 = 5;

/// A packet that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Where.
    pub port: u16,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A program with its state.
#[derive(Clone, Debug)]
pub struct Machine {
    program: Program,
    state: State,
    packets: u64,
}

impl Machine {
    /// A program with its tables' entries, and all else empty.
    pub fn new(program: Program) -> Machine {
        let state = State::new(&program);
        Machine { program, state, packets: 0 }
    }

    /// What it runs.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What it keeps from packet to packet.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The program, and what it keeps from packet to packet, to be changed: for the control plane.
    pub fn state_mut(&mut self) -> (&Program, &mut State) {
        (&self.program, &mut self.state)
    }

    /// Takes a packet through the whole program. Times never run back; ports are 0 to 510.
    pub fn packet(&mut self, port: u16, bytes: &[u8], time_ns: u64) -> Vec<Output> {
        let mut phv = self.parse(port, bytes, time_ns);
        self.ingress(&mut phv, None);
        self.leave(&phv)
    }

    /// Parses as [`parse`](Machine::parse) does, for the packet of this number, from 1.
    pub fn parse_numbered(&mut self, number: u64, port: u16, bytes: &[u8], time_ns: u64) -> Phv {
        self.packets = number - 1;
        self.parse(port, bytes, time_ns)
    }

    /// The packet as the parser leaves it, with checksums verified.
    pub fn parse(&mut self, port: u16, bytes: &[u8], time_ns: u64) -> Phv {
        self.packets += 1;
        let program = &self.program;
        let standard = program.standard;
        let mut phv = Phv {
            values: vec![0; program.fields.len()],
            chosen: vec![None; program.tables.len()],
            payload: Vec::new(),
            number: self.packets,
            draws: 0,
            time_ns,
        };
        let time_us = u128::from(time_ns / 1000);
        set(program, &mut phv, standard.ingress_port, u128::from(port));
        set(program, &mut phv, standard.packet_length, bytes.len() as u128);
        set(program, &mut phv, standard.ingress_global_timestamp, time_us);
        let mut run = Run::new(program, &mut self.state, &mut phv, bytes, None);
        let error = parser(&mut run, program);
        let at = run.position_bits().div_ceil(8).min(bytes.len());
        set(program, &mut phv, standard.parser_error, error);
        phv.payload = bytes[at..].to_vec();
        Run::new(program, &mut self.state, &mut phv, &[], None).block(&program.verify_checksum);
        phv
    }

    /// The ingress: all of it, or what is in this half of a stage ([`Statement::half`]).
    pub fn ingress(&mut self, phv: &mut Phv, half: Option<u16>) {
        for half in halves(&self.program, half) {
            rename(&self.program, phv, half, false);
            Run::new(&self.program, &mut self.state, phv, &[], half).block(&self.program.ingress);
        }
    }

    /// The ingress of a packet that is lost on its way: of the state only what `changes` names is changed, the rest
    /// stays as it is.
    pub fn ingress_changing(&mut self, phv: &mut Phv, changes: &dyn Fn(Object) -> bool) {
        let run = Run::new(&self.program, &mut self.state, phv, &[], None);
        run.changing_only(changes).block(&self.program.ingress);
    }

    /// Egress and deparser, for each port that the packet goes to.
    pub fn leave(&mut self, phv: &Phv) -> Vec<Output> {
        let mut renamed = phv.clone();
        let phv = &mut renamed;
        restore(&self.program, phv, false);
        let standard = self.program.standard;
        let group = phv.values[standard.mcast_grp as usize];
        let ports = match group {
            0 => vec![(phv.values[standard.egress_spec as usize], 0, 0)],
            group => {
                let members = self.state.multicast.get(&(group as u16)).cloned().unwrap_or_default();
                members.into_iter().zip(0..).map(|(port, rid)| (u128::from(port), rid, REPLICATED)).collect()
            }
        };
        let copies = ports.into_iter().filter(|(port, ..)| *port != DROP_PORT);
        copies.filter_map(|copy| self.copy(phv, copy)).collect()
    }

    fn copy(&mut self, phv: &Phv, (port, rid, kind): (u128, u128, u128)) -> Option<Output> {
        let mut phv = phv.clone();
        let program = &self.program;
        let Standard { egress_port, egress_rid, instance_type, egress_global_timestamp, egress_spec, .. } =
            program.standard;
        let time_us = u128::from(phv.time_ns / 1000);
        let values = [
            (egress_port, port),
            (egress_spec, port),
            (egress_rid, rid),
            (instance_type, kind),
            (egress_global_timestamp, time_us),
        ];
        for (field, value) in values {
            set(program, &mut phv, field, value);
        }
        let mut block = |body: &[Statement], phv: &mut Phv, half| {
            let mut run = Run::new(program, &mut self.state, phv, &[], half);
            run.block(body);
            run.take_output()
        };
        for half in halves(program, None) {
            rename(program, &mut phv, half, true);
            block(&program.egress, &mut phv, half);
        }
        restore(program, &mut phv, true);
        if phv.values[egress_spec as usize] == DROP_PORT {
            return None;
        }
        block(&program.compute_checksum, &mut phv, None);
        let mut bytes = block(&program.deparser, &mut phv, None);
        bytes.extend_from_slice(&phv.payload);
        Some(Output { port: port as u16, bytes })
    }
}

/// What a block is run in: the half that is asked for; else as a whole, or half by half where fields have copies.
fn halves(program: &Program, half: Option<u16>) -> impl Iterator<Item = Option<u16>> + use<> {
    let stages =
        program.layout.as_ref().filter(|layout| !layout.renamed.is_empty()).map(|layout| layout.stages);
    let each = stages.filter(|_| half.is_none()).map(|stages| (0..=2 * stages + 1).map(Some));
    let whole = each.is_none().then_some(half);
    each.into_iter().flatten().chain(whole)
}

/// Makes the copies of fields with which this half begins.
fn rename(program: &Program, phv: &mut Phv, half: Option<u16>, in_egress: bool) {
    for renamed in program.layout.iter().flat_map(|layout| &layout.renamed) {
        if Some(renamed.half()) == half && renamed.in_egress == in_egress {
            phv.values[renamed.to as usize] = phv.values[renamed.field as usize];
        }
    }
}

/// Puts copies of renamed fields back, where a block ends.
fn restore(program: &Program, phv: &mut Phv, in_egress: bool) {
    for renamed in program.layout.iter().flat_map(|layout| layout.renamed.iter().rev()) {
        if renamed.in_egress == in_egress {
            phv.values[renamed.field as usize] = phv.values[renamed.to as usize];
        }
    }
}

/// Sets a field of the architecture, cut to its bits.
fn set(program: &Program, phv: &mut Phv, field: u32, value: u128) {
    if let Some(declared) = program.fields.get(field as usize) {
        phv.values[field as usize] = value & crate::ir::ones(declared.width);
    }
}

/// Runs the parser; gives the number of its error, 0 for none.
fn parser(run: &mut Run<'_>, program: &Program) -> u128 {
    let error =
        |name: &str| program.errors.iter().position(|error| error == name).unwrap_or_default() as u128;
    let mut at = 0u32;
    for _ in 0..MAX_TRANSITIONS {
        let Some(state) = program.parser.get(at as usize) else { break };
        run.block(&state.body);
        if let Some(failure) = run.failure() {
            return match failure {
                execute::Failure::TooShort => error("PacketTooShort"),
                execute::Failure::OutOfBounds => error("StackOutOfBounds"),
                execute::Failure::Verify(number) => number,
            };
        }
        let case = state.cases.iter().find(|case| run.matches(&state.select, &case.keys));
        match case.map(|case| case.target) {
            Some(Target::State(next)) => at = next,
            Some(Target::Accept) => return 0,
            Some(Target::Reject) => return 0,
            None => return error("NoMatch"),
        }
    }
    error("ParserTimeout")
}
