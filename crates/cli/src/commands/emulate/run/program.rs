//! A program in P4.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use ::p4::interpret::{Machine, Output};
use ::p4::passes;
use io::capture::CaptureWriter;
use pipeline::compiled::{Check, Image, Input, Watcher, emulate_p4};
use pipeline::{Registers, Snapshot};
use wire::LinkType;

use super::args::RunArgs;
use super::report::{Departures, Run};
use super::traced::Traced;
use crate::args::{Ports, Source, read_program, run_test};
use crate::explain::Code;
use crate::failure::Failure;
use crate::output::{keep, plural};
use crate::progress::go_on;

pub fn run(args: &RunArgs, path: &Path, source: &Source, stop: &AtomicBool) -> Result<Run, Failure> {
    let program = read_program(path, &args.include, &args.define)?;
    let mut compiled = program.clone();
    passes::compile(&mut compiled);
    let reference = machine(program, args)?;
    let image = Image::new(machine(compiled, args)?)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())).coded(Code::NotEmulated))?;
    let packets = packets(args, &Ports::new(args.port, &args.port_of)?, source)?;
    let warnings =
        image.machine().program().layout.as_ref().map_or(Vec::new(), |layout| layout.warnings.clone());
    let mut watching = Watching::new(args, &image, &packets)?;
    let outcome = emulate_p4(&image, &args.model(), &args.options(), &packets, &mut watching, stop)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())).coded(Code::NotEmulated))?;
    if let Err(interrupted) = go_on(stop) {
        watching.keep(args.out.as_deref());
        return Err(interrupted);
    }
    let departures = watching.departures;
    let (check, trace) = watching.finish()?;
    let check = check.map(|check| check.finish(&image, reference, &packets, &outcome).into());
    Ok(Run {
        report: outcome.report,
        latency: outcome.latency,
        tables: image.tables().to_vec(),
        program_stages: image.stages(),
        departures,
        warnings,
        check,
        trace,
    })
}

/// The program with what its test file puts into its tables.
fn machine(program: ::p4::ir::Program, args: &RunArgs) -> Result<Machine, Failure> {
    let mut machine = Machine::new(program);
    if let Some(path) = &args.stf {
        let report = run_test(&mut machine, path)?;
        if let Some(failure) = report.failures.first() {
            let not_met = plural(report.failures.len() as u64, "expectation");
            let (path, line, message) = (path.display(), failure.line, &failure.message);
            return Err(Failure::difference(format!("{not_met} not met, first {path}:{line}: {message}"))
                .coded(Code::NotMet));
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
    /// Packets that went to the writer.
    written: u64,
    write_error: Option<Failure>,
    departures: Departures,
    packets: &'a [Input<'a>],
    /// Time of the packet written last, ns.
    time_ns: u64,
    cycles: Range<u64>,
    trace: String,
    traced: Option<Traced>,
}

impl<'a> Watching<'a> {
    fn new(args: &RunArgs, image: &Image, packets: &'a [Input<'a>]) -> Result<Watching<'a>, Failure> {
        let writer = args.out.as_deref().map(|out| CaptureWriter::create(out, LinkType::Ethernet));
        Ok(Watching {
            check: args.check.then(|| Check::on(image, &args.model(), packets)),
            writer: writer.transpose().map_err(Failure::usage)?,
            written: 0,
            write_error: None,
            departures: Departures::default(),
            packets,
            time_ns: 0,
            cycles: args.trace_cycles.clone().unwrap_or_default(),
            trace: String::new(),
            traced: Traced::of(args, image)?,
        })
    }

    /// Leaves what left beside the output, and says where.
    fn keep(self, out: Option<&Path>) {
        if let (Some(writer), Some(out)) = (self.writer, out) {
            keep(writer, self.written, out).iter().for_each(|kept| eprintln!("note: {kept}"));
        }
    }

    fn finish(self) -> Result<(Option<Check>, String), Failure> {
        if let Some(error) = self.write_error {
            return Err(error);
        }
        if let Some(writer) = self.writer {
            writer.finish().map_err(Failure::usage)?;
        }
        if let Some(traced) = self.traced {
            traced.finish()?;
        }
        Ok((self.check, self.trace))
    }
}

impl Watcher for Watching<'_> {
    fn wants_outputs(&self) -> bool {
        true
    }

    fn departed(&mut self, number: u64, outputs: Vec<Output>, keys: &dyn Fn(usize) -> Option<u64>) {
        self.departures.count(outputs.len());
        self.time_ns = self.packets[number as usize].time_ns.max(self.time_ns);
        if let Some(writer) = self.writer.as_mut().filter(|_| self.write_error.is_none()) {
            let written = outputs
                .iter()
                .try_for_each(|output| writer.write(self.time_ns, output.bytes.len() as u32, &output.bytes));
            self.written += outputs.len() as u64;
            self.write_error = written.err().map(Failure::usage);
        }
        if let Some(check) = &mut self.check {
            check.departed(number, outputs, keys);
        }
    }

    fn dropped(&mut self, lost: &pipeline::Lost) {
        if let Some(check) = &mut self.check {
            check.dropped(lost);
        }
        if let Some(traced) = &mut self.traced {
            traced.lost(lost);
        }
    }

    fn wants(&self, cycle: u64) -> bool {
        self.cycles.contains(&cycle)
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        self.trace += &snapshot.to_string();
    }

    fn wants_registers(&self) -> bool {
        self.traced.is_some()
    }

    fn registers(&mut self, registers: &Registers) {
        if let Some(traced) = &mut self.traced {
            traced.cycle(registers);
        }
    }

    fn left(&mut self, number: u64, phv: &[u64]) {
        if let Some(traced) = &mut self.traced {
            traced.left(number, phv);
        }
    }
}
