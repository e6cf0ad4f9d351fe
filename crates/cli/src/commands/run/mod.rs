//! `paceline run`: a chain over a capture, or on network interfaces.

mod answering;
pub mod call;
mod card;
mod document;
mod guarding;
mod live;
mod metrics;
mod opening;
mod options;
mod page;
mod record;
mod trace;
mod web;
pub mod xdp;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use engine::report::{DroppedPacket, RunReport};
use engine::{
    Chain, ExternalInput, Input, Plan, Registry, Reload, RunOutcome, Seen, Speed, replay_external,
    replay_reloading,
};
use io::Fate;
use io::capture::CaptureWriter;
use wire::LinkType;

use self::answering::Answering;
use self::document::Page;
use self::metrics::serve;
pub use self::options::RunArgs;
use self::trace::Tracer;
use crate::args::{self, Packets, Setting};
use crate::connections::Connections;
use crate::drops::DropsFile;
use crate::failure::{Failure, Failures, INTERRUPTED};
use crate::output::{Reports, check_outputs, kept, name_of_output, plural};
use crate::progress::{Bar, interruptible};
use crate::rule_log::RuleLog;
use crate::timeline::Timeline;

/// Why a chain takes over in plain captures alone.
pub const WITH_HISTORY: &str = "--reload-at and --cores-at are for captures without history\n\
                                The history before packets is of the first chain: sequence the capture for each.";

/// Without a capture and without interfaces.
const NOWHERE: &str = "nothing says where packets come from\n\
                       Give a capture with --pcap, what `paceline sequence` wrote with --pcap-dir, or interfaces with --inside and \
                       --outside, --on or --mirror; or name them in the chain file, in [[interface]].";

pub fn command(args: &RunArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    if args.live.backend.is_some() {
        if args.live.inside.len() > 1 {
            return Err(Failure::usage(
                "--backend xdp stands between two interfaces: a P4 program knows two ports here\nGive --inside once.",
            ));
        }
        let place = args.live.place(&[])?;
        return place.map_or_else(|| Err(Failure::usage(NOWHERE)), |place| xdp::command(args, &place));
    }
    let is_of_capture = args.chain.pcap.is_some() || args.history.pcap_dir.is_some();
    let is_program = args.chain.chain.extension().is_some_and(|extension| extension == "p4");
    if args.live.has_names() || !(is_of_capture || is_program) {
        let chain = args.chain.read(registry)?;
        if let Some(place) = args.live.place(&chain.interfaces)? {
            return live::command(args, &place, &chain, registry);
        }
    }
    if args.chain.pcap.is_none() && args.history.pcap_dir.is_none() {
        return Err(Failure::usage(NOWHERE));
    }
    if args.web.web_control {
        return Err(Failure::usage(
            "--web-control is for interfaces: over a capture no other chain is asked for\nSay when one takes over with --reload-at.",
        ));
    }
    let (Setting { chain, plan, packets }, reloads) = prepare(args, registry)?;
    let inputs = [vec![args.chain.chain.as_path()], packets.paths()].concat();
    // Where something else is on standard output, the text is not.
    let (lines, packets_dropped) = (args.trace.trace_json.as_deref(), args.drops.drops.as_deref());
    let written = [("--out", args.out.as_deref()), ("--json", args.json.as_deref())];
    let outputs = [&written[..], &[("--trace-json", lines), ("--report", args.report.as_deref())]].concat();
    let (log, records) = (args.drops.log.as_deref(), args.connections.as_deref());
    let others = [("--drops", packets_dropped), ("--log", log), ("--connections", records)];
    check_outputs(&inputs, &[&outputs[..], &others].concat())?;
    let taken = [lines, packets_dropped, log, records].into_iter().flatten().find(|path| *path == "-");
    let tracer = Tracer::prepare(args)?;
    let reports = Reports::open(&inputs, args.out.as_deref().or(taken), args.json.as_deref())?;
    args::tell_unchecked(&chain);
    let source = Source::open(&packets, args.speed)?;
    let per_second = args.drops.drops_per_second;
    let mut drops =
        args.drops.drops.as_deref().map(|path| DropsFile::create(path, per_second)).transpose()?;
    let mut log = log.map(|path| RuleLog::open(path, args.drops.log_per_second)).transpose()?;
    let connections = Connections::open(records, &chain)?;
    let document = Page::open(args)?;
    let listener = args.web.listen()?;
    let is_seen = args.metrics.is_some() || document.is_some() || listener.is_some();
    let telemetry = is_seen.then(|| Arc::new(plan.telemetry(&chain)));
    let server = args.metrics.as_ref().zip(telemetry.as_ref());
    // Ends with the run.
    let _server = server.map(|(address, telemetry)| serve(address, telemetry)).transpose()?;
    let _page = args.web.serve(listener, telemetry.as_ref(), None)?;
    let timeline = Page::follow(document.as_ref(), telemetry.as_ref());
    let progress = interruptible(telemetry);
    let tracer = tracer.map(|tracer| tracer.begin(&plan, &progress)).transpose()?;
    let bar = Bar::new(&chain.name, source.size_bytes());
    let mut out = args.out.as_deref().map(Output::new);
    let mut answering = Answering::new(&chain, &reloads);
    let mut see = |seen: &Seen<'_>| {
        bar.packet(seen.stamp.seq, &progress);
        if drops.is_some() || log.is_some() {
            // The chain that ran when it came.
            let last = reloads.iter().rev().find(|reload| reload.after <= seen.stamp.seq);
            write_drop((&mut drops, &mut log), last.map_or(&chain, |reload| &reload.chain), seen)?;
        }
        let answer = answering.answer(seen);
        match &mut out {
            Some(out) => out.packet(seen, answer),
            None => Ok(()),
        }
    };
    let outcome = match source {
        Source::Capture(input) => replay_reloading(&chain, &plan, &reloads, input, &progress, &mut see),
        Source::External(_) if args.reload.is_given() => return Err(Failure::usage(WITH_HISTORY)),
        Source::External(input) => replay_external(&chain, &plan, input, &progress, &mut see),
    };
    drop(bar);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            // What has failed tells so itself.
            let kept = [out.map(Output::keep), drops.map(DropsFile::keep)].into_iter().flatten();
            kept.filter_map(Result::ok).flatten().for_each(|kept| eprintln!("note: {kept}"));
            return Err(Failure::of_run(error));
        }
    };
    if outcome.packets == 0 && outcome.input_error.is_some() {
        // Not one packet could be read: there is nothing to report.
        return outcome.input_error.map_or(Ok(ExitCode::SUCCESS), |error| Err(Failure::usage(error)));
    }
    args.reload.tell_unreached(outcome.packets);
    // Outputs are for whole answers: an older one is not overwritten by a part of one.
    let is_whole = outcome.input_error.is_none() && !outcome.stopped;
    let mut failures = Failures::default();
    let written = out.map(|out| if is_whole { out.finish().map(Some) } else { out.keep() });
    let written = written.and_then(|written| failures.of(written)).flatten();

    let last = reloads[..outcome.reloads.len()].last();
    let (chain, plan) = last.map_or((&chain, &plan), |last| (&last.chain, &last.plan));
    let timeline = timeline.map(Timeline::finish);
    let answers = answering.report();
    let mut report = RunReport { timeline, answers, ..RunReport::new(chain, plan, &outcome) };
    let recorded = failures.of(connections.write(&mut report)).flatten();
    failures.of(document.map_or(Ok(()), |document| document.write(&report)));
    if let Some(written) = written.as_ref().filter(|_| !reports.shows_text() && !report.complete) {
        eprintln!("note: {written}");
    }
    let dropped = drops.map(|drops| match is_whole {
        true => drops.finish(0, "--drops-per-second", per_second).map(Some),
        false => drops.keep(),
    });
    let dropped = dropped.and_then(|dropped| failures.of(dropped)).flatten();
    let logged = log.and_then(|log| failures.of(log.finish("--log-per-second")));
    let dropped: String = [dropped, logged, recorded].into_iter().flatten().map(|told| told + "\n").collect();
    if !reports.shows_text() && !dropped.is_empty() {
        eprint!("note: {dropped}");
    }
    let traced = tracer.and_then(|tracer| failures.of(tracer.finish())).unwrap_or_default();
    failures.of(reports.write(&report, &(traced + &args.text(&report, written.as_deref()) + &dropped)));
    failures.first()?;
    exit_status(outcome, &report)
}

/// Reads the chain, the plan of its run, and the chains that take over from it.
fn prepare(args: &RunArgs, registry: &Registry) -> Result<(Setting, Vec<Reload>), Failure> {
    let strategy = args.strategy.of_chain()?;
    let setting = args::prepare(&args.chain, &args.history, strategy, &args.card, &args.tables, registry)?;
    let plan = Plan { egress: args.egress.0, ..setting.plan };
    let plan = args.reload.cores(plan, &setting.chain)?;
    let reloads = args.reload.reloads((&setting.chain, &plan), &args.card, &args.tables, registry)?;
    Ok((Setting { plan, ..setting }, reloads))
}

/// Writes a packet that is dropped.
fn write_drop(
    (drops, log): (&mut Option<DropsFile>, &mut Option<RuleLog>),
    chain: &Chain,
    seen: &Seen<'_>,
) -> Result<(), Failure> {
    let Seen { stamp, fate, bytes, wire_len, link, refused, .. } = *seen;
    let Some(why) = chain.why_dropped(&DroppedPacket { fate, bytes, wire_len, link, refused }) else {
        return Ok(());
    };
    if let Some(log) = log {
        log.packet((stamp.seq, stamp.time_ns), (link, wire_len, bytes), &why)?;
    }
    let Some(drops) = drops else { return Ok(()) };
    let comment = format!("{} (packet {})", why.text(), stamp.seq + 1);
    drops.packet(("", link), stamp.time_ns, (wire_len, bytes), &comment)
}

fn exit_status(outcome: RunOutcome, report: &RunReport) -> Result<ExitCode, Failure> {
    let rejected = report.history.as_ref().filter(|_| report.packets == 0).map(|history| &history.rejected);
    match outcome.input_error {
        Some(error) => Err(Failure::cut_short(error)),
        None if outcome.stopped => Ok(ExitCode::from(INTERRUPTED)),
        None if let Some(rejected) = rejected.filter(|rejected| !rejected.is_empty()) => {
            let reasons: Vec<_> =
                rejected.iter().map(|(reason, packets)| format!("{packets} for `{reason}`")).collect();
            Err(Failure::nothing_found(format!(
                "no packet was taken: all were dropped for their history, {}\n\
                 Run the chain that they were sequenced for; docs/history-format.md has the reasons.",
                reasons.join(", ")
            )))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Opened packets.
enum Source {
    Capture(Input),
    External(ExternalInput),
}

impl Source {
    fn open(packets: &Packets, speed: Option<Speed>) -> Result<Source, Failure> {
        Ok(match packets {
            Packets::Capture(file) => {
                Source::Capture(Input { reader: file.open().map_err(Failure::usage)?, speed })
            }
            Packets::External(external) => Source::External(external.open(speed).map_err(Failure::usage)?),
        })
    }

    fn size_bytes(&self) -> Option<u64> {
        match self {
            Source::Capture(input) => input.reader.size_bytes(),
            Source::External(input) => args::size_bytes(input),
        }
    }
}

/// The capture of packets that leave.
struct Output<'a> {
    path: &'a Path,
    writer: Option<(CaptureWriter, LinkType)>,
    packets: u64,
}

impl<'a> Output<'a> {
    fn new(path: &'a Path) -> Output<'a> {
        Output { path, writer: None, packets: 0 }
    }

    /// A packet, or the answer to one that was rejected.
    fn packet(&mut self, seen: &Seen<'_>, answer: Option<&[u8]>) -> Result<(), Failure> {
        let (writer, link) = match &mut self.writer {
            Some(opened) => opened,
            none => {
                none.insert((CaptureWriter::create(self.path, seen.link).map_err(Failure::usage)?, seen.link))
            }
        };
        let (wire_len, bytes) = match (seen.fate, answer) {
            (Fate::Forward | Fate::TransmitBack, _) => (seen.wire_len, seen.bytes),
            (_, Some(answer)) => (answer.len() as u32, answer),
            _ => return Ok(()),
        };
        if *link != seen.link {
            return Err(Failure::usage(format!(
                "packet {} has link type {:?} and those before it {link:?}: a pcap file holds one\n\
                 Split the input by interface first, or run without --out.",
                seen.stamp.seq + 1,
                seen.link
            )));
        }
        writer.write(seen.stamp.time_ns, wire_len, bytes).map_err(Failure::usage)?;
        self.packets += 1;
        Ok(())
    }

    /// Gives the output its name, and says what was written.
    fn finish(self) -> Result<String, Failure> {
        let writer = match self.writer {
            Some((writer, _)) => writer,
            None => CaptureWriter::create(self.path, LinkType::Ethernet).map_err(Failure::usage)?,
        };
        writer.finish().map_err(Failure::usage)?;
        Ok(format!("{} written to {}", plural(self.packets, "packet"), name_of_output(self.path)))
    }

    /// Leaves the output as it was and the packets of a run that did not reach its end beside it, and
    /// says where, if any was begun.
    fn keep(self) -> Result<Option<String>, Failure> {
        let Some((mut writer, _)) = self.writer else { return Ok(None) };
        writer.flush().map_err(Failure::usage)?;
        Ok(Some(kept((self.packets, "packet"), writer.partial(), &name_of_output(self.path))))
    }
}
