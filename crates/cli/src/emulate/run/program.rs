//! A program in P4.

use std::ops::Range;
use std::path::Path;

use ::p4::interpret::{Machine, Output};
use ::p4::passes;
use io::capture::CaptureWriter;
use pipeline::compiled::{Check, Compiled, Image, Input, MAX_WORDS, RunError, State, Watcher};
use pipeline::{DropCause, Observer, Outcome, Packet, Program, Snapshot, emulate};
use wire::LinkType;

use super::latencies::Latencies;
use super::{Run, RunArgs};
use crate::bench::source::Source;
use crate::failure::Failure;
use crate::output::plural;
use crate::p4::{read_program, test};
use crate::ports::Ports;

pub fn run(args: &RunArgs, path: &Path, source: &Source) -> Result<Run, Failure> {
    let program = read_program(path, &args.include, &args.define)?;
    let mut compiled = program.clone();
    passes::compile(&mut compiled);
    let reference = machine(program, args)?;
    let image = Image::new(machine(compiled, args)?)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let packets = packets(args, &Ports::new(args.port, &args.port_of)?, source)?;
    let mut watching = Watching::new(args, &image, &packets)?;
    let outcome = match image.words() {
        0..=32 => emulated::<32>(args, &image, &packets, &mut watching),
        33..=64 => emulated::<64>(args, &image, &packets, &mut watching),
        65..=128 => emulated::<128>(args, &image, &packets, &mut watching),
        _ => emulated::<MAX_WORDS>(args, &image, &packets, &mut watching),
    };
    let outcome = outcome.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let (check, trace, latencies) = watching.finish()?;
    let check = check.map(|check| check.finish(&image, reference, &packets, &outcome).into());
    Ok(Run {
        report: outcome.report,
        latencies,
        tables: image.tables().to_vec(),
        program_stages: image.stages(),
        check,
        trace,
    })
}

/// What [`pipeline::compiled::emulate_p4`] does, which does not say when packets leave.
fn emulated<const W: usize>(
    args: &RunArgs,
    image: &Image,
    packets: &[Input<'_>],
    watching: &mut Watching<'_>,
) -> Result<Outcome<State>, RunError> {
    let model = args.model();
    image.check(&model)?;
    let program = Compiled::<W>::new(image);
    let mut machine = image.machine().clone();
    let numbered = (0..).zip(packets);
    let arrivals: Vec<_> =
        numbered.map(|(number, packet)| program.arrival(&mut machine, number, packet)).collect();
    let mut departures = Departures { program: &program, machine, watching };
    Ok(emulate(&program, &model, &args.options(), arrivals, &mut departures)?)
}

/// The program with what its test file puts into its tables.
fn machine(program: ::p4::ir::Program, args: &RunArgs) -> Result<Machine, Failure> {
    let mut machine = Machine::new(program);
    if let Some(path) = &args.stf {
        let report = test(&mut machine, path)?;
        if let Some(failure) = report.failures.first() {
            let not_met = plural(report.failures.len() as u64, "expectation");
            let (path, line, message) = (path.display(), failure.line, &failure.message);
            return Err(Failure::check(format!("{not_met} not met, first {path}:{line}: {message}")));
        }
    }
    Ok(machine)
}

/// The packets; times that run back are those of the packet before.
fn packets<'a>(args: &RunArgs, ports: &Ports, source: &'a Source) -> Result<Vec<Input<'a>>, Failure> {
    let count = source.trace.len().min(args.packets.unwrap_or(usize::MAX));
    let mut time_ns = 0;
    let mut packets = Vec::with_capacity(count);
    for at in 0..count {
        let record = source.trace.packet(at);
        if record.link != LinkType::Ethernet {
            let name = &source.name;
            let message =
                format!("{name} has packets that are not Ethernet\nPrograms are run on Ethernet frames.");
            return Err(Failure::usage(message));
        }
        time_ns = record.time_ns.max(time_ns);
        let port = ports.of(record.data, record.wire_len);
        packets.push(Input { port, bytes: record.data, wire_len: record.wire_len, time_ns });
    }
    Ok(packets)
}

/// Takes what leaves: to the check, to the capture that is written.
struct Watching<'a> {
    check: Option<Check>,
    writer: Option<CaptureWriter>,
    write_error: Option<Failure>,
    packets: &'a [Input<'a>],
    /// Of the packet written last.
    time_ns: u64,
    latencies: Latencies,
    cycles: Range<u64>,
    trace: String,
}

impl<'a> Watching<'a> {
    fn new(args: &RunArgs, image: &Image, packets: &'a [Input<'a>]) -> Result<Watching<'a>, Failure> {
        let writer = args.out.as_deref().map(|out| CaptureWriter::create(out, LinkType::Ethernet));
        Ok(Watching {
            check: args.check.then(|| Check::new(image)),
            writer: writer.transpose().map_err(Failure::usage)?,
            write_error: None,
            packets,
            time_ns: 0,
            latencies: Latencies::default(),
            cycles: args.trace_cycles.clone().unwrap_or_default(),
            trace: String::new(),
        })
    }

    fn finish(self) -> Result<(Option<Check>, String, Latencies), Failure> {
        if let Some(error) = self.write_error {
            return Err(error);
        }
        if let Some(writer) = self.writer {
            writer.finish().map_err(Failure::usage)?;
        }
        Ok((self.check, self.trace, self.latencies))
    }

    fn departed(&mut self, number: u64, outputs: Vec<Output>, keys: &dyn Fn(usize) -> Option<u64>) {
        self.time_ns = self.packets[number as usize].time_ns.max(self.time_ns);
        if let Some(writer) = self.writer.as_mut().filter(|_| self.write_error.is_none()) {
            let written = outputs
                .iter()
                .try_for_each(|output| writer.write(self.time_ns, output.bytes.len() as u32, &output.bytes));
            self.write_error = written.err().map(Failure::usage);
        }
        if let Some(check) = &mut self.check {
            check.departed(number, outputs, keys);
        }
    }
}

/// Puts packets together that leave.
struct Departures<'a, 'b, const W: usize> {
    program: &'a Compiled<'a, W>,
    machine: Machine,
    watching: &'a mut Watching<'b>,
}

impl<const W: usize> Observer<[u64; W], State> for Departures<'_, '_, W> {
    fn departed(&mut self, packet: &Packet<[u64; W], State>, cycle: u64) {
        let Departures { program, machine, watching } = self;
        watching.latencies.record(cycle - packet.arrived);
        if watching.check.is_none() && watching.writer.is_none() {
            return;
        }
        let input = &watching.packets[packet.number as usize];
        let outputs = program.outputs(machine, packet.number, input, &packet.phv);
        watching.departed(packet.number, outputs, &|table| program.key(table, &packet.phv));
    }

    fn dropped(&mut self, number: u64, cause: DropCause) {
        if let Some(check) = &mut self.watching.check {
            check.dropped(number, cause);
        }
    }

    fn wants(&self, cycle: u64) -> bool {
        self.watching.cycles.contains(&cycle)
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.watching.trace += &snapshot.to_string();
    }
}
