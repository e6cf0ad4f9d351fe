//! `paceline sequence`: a capture as the cores of a replicated chain, or of a program in P4, get it, one file for each.

mod sequenced;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use engine::report::TimeRanBack;
use engine::strategies::SCR;
use engine::{ChecksumSample, Checksums, Plan, Progress, Registry, Sequenced, Sequencing};
use io::capture::{CaptureError, CaptureReader, CaptureWriter};
use schemars::JsonSchema;
use serde::Serialize;
use wire::LinkType;

use xdp::Strategy;

use self::sequenced::{Form, OfProgram, Sequencer};
use crate::args::{HistoryVersionArg, PortOf, Ports, read_program};
use crate::explain::Code;
use crate::failure::{Failure, INTERRUPTED};
use crate::input::{open_capture, read_chain, tell_remarks};
use crate::object::compile;
use crate::output::{self, Reports, count, plural};
use crate::progress::{Bar, interruptible};

#[derive(Args)]
pub struct SequenceArgs {
    /// The chain whose functions need the history, TOML; or a program in P4, for --backend xdp
    #[arg(value_name = "CHAIN.toml|PROGRAM.p4")]
    pub chain: PathBuf,
    /// The capture: pcap or pcapng, plain, .gz or .zst; `-` is standard input
    #[arg(long, value_name = "IN")]
    pub pcap: PathBuf,
    /// Cores that get packets, by turns; each packet has the history of one less
    #[arg(long, value_name = "N")]
    pub cores: usize,
    /// Write core-00.pcap and so on into this folder, which is made if it is not there. Where the input ends
    /// early, packets are left in core-00.pcap.partial and so on
    #[arg(long, value_name = "DIR")]
    pub out_dir: PathBuf,
    /// What items of history hold [default: 2 where the chain can have it, else 1; of a program 3]
    #[arg(long, value_enum, value_name = "VERSION")]
    pub history_version: Option<HistoryVersionArg>,
    /// What the hashes in the items are seeded with, version 2, so that files can be written again [default: drawn]
    #[arg(long, value_name = "N")]
    pub table_seed: Option<u64>,
    /// With a program in P4, the port that packets come in by, all but those of --port-of
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..511))]
    pub port: u16,
    /// With a program in P4, the port of the packets from a source, as `paceline p4 run` has it
    #[arg(long, value_name = "SOURCE=PORT")]
    pub port_of: Vec<PortOf>,
    /// Put an Ethernet header before the history, for cards and tools that look for one
    #[arg(long)]
    pub ethernet: bool,
    /// Write the summary as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What was written, as JSON: `docs/sequence.schema.json`.
#[derive(Serialize, JsonSchema)]
pub struct Sequence {
    /// Version of Paceline.
    paceline: &'static str,
    /// Name of the chain, or of the program, whose history the packets carry.
    chain: String,
    /// Packets, each of which is in one file.
    packets: u64,
    /// Their bytes on the wire, without history.
    bytes: u64,
    /// Version of the history format, `docs/history-format.md`: 1 holds headers, 2 what functions read of them, 3 fields of a program.
    history_version: u8,
    /// Bytes of an item of history, its time stamp included, if it has one.
    item_bytes: usize,
    /// Items before each packet: one less than cores.
    ring_items: usize,
    /// Bytes before each packet.
    prefix_bytes: usize,
    /// Whether checksums were verified, and why. Packets with wrong ones are malformed for all cores then. Absent of a program, which
    /// verifies what it wants to.
    #[serde(skip_serializing_if = "Option::is_none")]
    checksums: Option<ChecksumSample>,
    /// Whether an Ethernet header is before the history.
    ethernet: bool,
    /// The file of each core. They end with a flush, which is not counted.
    files: Vec<SequenceFile>,
    /// Packets whose own time lay before an earlier packet's; their stamps have the earlier time.
    time_ran_back: TimeRanBack,
    /// Whether the whole input is in the files. If not, they have other names: see `files`.
    complete: bool,
    /// Why it is not, if so.
    error: Option<String>,
}

/// The packets of one core.
#[derive(Serialize, JsonSchema)]
struct SequenceFile {
    /// The core, from 0.
    core: usize,
    /// Where they are; null if there are none in an incomplete output.
    path: Option<String>,
    /// How many.
    packets: u64,
}

pub fn command(args: &SequenceArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let mut reader = open_capture(&args.pcap)?;
    let (name, sequencer, checksums) = match args.chain.extension().is_some_and(|extension| extension == "p4")
    {
        true => of_program(args)?,
        false => of_chain(args, &mut reader, registry)?,
    };
    let paths = paths(args)?;
    let reports = Reports::open(&[], None, args.json.as_deref())?;
    let files = paths.into_iter().map(CoreFile::create).collect::<Result<_, _>>()?;
    let mut job = Job { sequencer, files, packets: 0, bytes: 0, checksums };

    let progress = interruptible(None);
    let bar = Bar::new(&name, reader.size_bytes());
    let end = job.sequence(&mut reader, &progress, &bar);
    drop(bar);
    tell_remarks(&reader);
    let end = match end {
        Err(Failed::Write(error)) => return Err(Failure::usage(error)),
        Err(Failed::Refused(refused)) => return Err(refused),
        Ok(()) => End::Complete,
        Err(Failed::Stopped) => End::Stopped,
        Err(Failed::Input(error)) if job.packets == 0 => return Err(Failure::usage(error)),
        Err(Failed::Input(error)) => End::Input(error),
    };
    let sequence = job.finish(name, args.ethernet, &end)?;
    reports.write(&sequence, &render(&sequence))?;
    match end {
        End::Complete => Ok(ExitCode::SUCCESS),
        End::Stopped => Ok(ExitCode::from(INTERRUPTED)),
        End::Input(error) => Err(Failure::cut_short(error)),
    }
}

/// What is sequenced for, by its name, what does it, and what was made of the packets' checksums.
type Prepared = (String, Box<dyn Sequencer>, Option<ChecksumSample>);

fn of_chain(
    args: &SequenceArgs,
    reader: &mut CaptureReader,
    registry: &Registry,
) -> Result<Prepared, Failure> {
    if args.port != 0 || !args.port_of.is_empty() {
        return Err(Failure::usage(
            "--port and --port-of are for programs in P4\nLeave them out: packets of a chain have no ports.",
        ));
    }
    let mut chain = read_chain(&args.chain, registry)?;
    chain.table_seed = args.table_seed.unwrap_or(chain.table_seed);
    // As `run` does: cores are told which are wrong.
    let checksums = chain.checksums.decide(reader);
    chain.checksums = Checksums::decided(&checksums);
    // What cannot be replicated needs no history.
    Plan::new(&chain, SCR, args.cores).map_err(Failure::usage)?;
    let version = args.history_version.map_or(chain.history_version(), HistoryVersionArg::version);
    let sequencing =
        Sequencing::with_version(&chain, version, args.cores, args.ethernet).map_err(Failure::usage)?;
    Ok((chain.name, Box::new(sequencing), Some(checksums)))
}

fn of_program(args: &SequenceArgs) -> Result<Prepared, Failure> {
    if args.history_version.is_some() || args.table_seed.is_some() {
        return Err(Failure::usage(
            "--history-version and --table-seed are for chains\nLeave them out: a program in P4 has version 3, without hashes.",
        ));
    }
    let program = read_program(&args.chain, &[], &[])?;
    let compiled = compile(&program, Strategy::Scr)?;
    let sequencing =
        xdp::sequencing::Sequencing::new(&compiled, args.cores, args.ethernet).map_err(Failure::usage)?;
    let ports = Ports::new(args.port, &args.port_of)?;
    Ok((program.name, Box::new(OfProgram { sequencing, ports }), None))
}

/// Which files to write. The folder is made if it is not there, and must not have files for more cores, which
/// would be taken for those of this capture.
fn paths(args: &SequenceArgs) -> Result<Vec<PathBuf>, Failure> {
    let folder = &args.out_dir;
    let failed = |error| {
        Failure::usage(format!("cannot use the folder {}: {error}", folder.display()))
            .coded(Code::CannotWrite)
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let others = engine::core_files(folder).map_err(failed)?;
    if let Some((core, path)) = others.into_iter().find(|(core, _)| *core >= args.cores) {
        return Err(Failure::usage(format!(
            "{} is of an earlier run, for more than {core} cores, and would be taken for a part of this one\n\
             Remove it, or name another folder.",
            path.display()
        )));
    }
    let paths: Vec<_> = (0..args.cores).map(|core| engine::core_file(folder, core)).collect();
    let outputs = paths.iter().map(|path| ("--out-dir", Some(path.as_path())));
    let outputs: Vec<_> = outputs.chain([("--json", args.json.as_deref())]).collect();
    output::check_outputs(&[&args.chain, &args.pcap], &outputs)?;
    Ok(paths)
}

struct Job {
    sequencer: Box<dyn Sequencer>,
    files: Vec<CoreFile>,
    packets: u64,
    bytes: u64,
    checksums: Option<ChecksumSample>,
}

struct CoreFile {
    path: PathBuf,
    writer: CaptureWriter,
    packets: u64,
}

impl CoreFile {
    fn create(path: PathBuf) -> Result<CoreFile, Failure> {
        let writer = CaptureWriter::create(&path, LinkType::Ethernet).map_err(Failure::usage)?;
        Ok(CoreFile { path, writer, packets: 0 })
    }
}

/// Why the capture is not sequenced to its end.
enum Failed {
    Input(CaptureError),
    Write(CaptureError),
    Refused(Failure),
    Stopped,
}

enum End {
    Complete,
    Stopped,
    Input(CaptureError),
}

impl Job {
    fn sequence(&mut self, reader: &mut CaptureReader, progress: &Progress, bar: &Bar) -> Result<(), Failed> {
        while let Some(record) = reader.next().map_err(Failed::Input)? {
            if progress.stop.load(Ordering::Relaxed) {
                return Err(Failed::Stopped);
            }
            let bytes = u64::from(record.wire_len);
            let Sequenced { core, record, .. } = self.sequencer.next(&record).map_err(Failed::Refused)?;
            let file = &mut self.files[core];
            file.writer.write(record.time_ns, record.wire_len, record.data).map_err(Failed::Write)?;
            file.packets += 1;
            self.packets += 1;
            self.bytes += bytes;
            bar.packet(self.packets, progress);
            progress.read_bytes.store(reader.position_bytes(), Ordering::Relaxed);
        }
        for (core, file) in self.files.iter_mut().enumerate() {
            let Sequenced { record, .. } = self.sequencer.flush(core);
            file.writer.write(record.time_ns, record.wire_len, record.data).map_err(Failed::Write)?;
        }
        Ok(())
    }

    /// Gives the files their names if they are whole; else leaves what was written beside them.
    fn finish(self, name: String, ethernet: bool, end: &End) -> Result<Sequence, Failure> {
        let ran_back = self.sequencer.ran_back();
        let Form { version, item_bytes, ring_items, prefix_bytes } = self.sequencer.form();
        let complete = matches!(end, End::Complete);
        let mut files = Vec::new();
        for (core, CoreFile { path, mut writer, packets }) in self.files.into_iter().enumerate() {
            let path = match complete {
                true => {
                    writer.finish().map_err(Failure::usage)?;
                    Some(path)
                }
                // Dropped without packets, the partial file goes.
                false if packets == 0 => None,
                false => {
                    writer.flush().map_err(Failure::usage)?;
                    Some(writer.partial().map_or(path, Path::to_owned))
                }
            };
            files.push(SequenceFile { core, path: path.map(|path| path.display().to_string()), packets });
        }
        let error = match end {
            End::Complete => None,
            End::Stopped => Some("interrupted".to_owned()),
            End::Input(error) => Some(error.to_string()),
        };
        Ok(Sequence {
            paceline: env!("CARGO_PKG_VERSION"),
            chain: name,
            packets: self.packets,
            bytes: self.bytes,
            history_version: version,
            item_bytes,
            ring_items,
            prefix_bytes,
            checksums: self.checksums,
            ethernet,
            files,
            time_ran_back: TimeRanBack::new(ran_back),
            complete,
            error,
        })
    }
}

fn render(sequence: &Sequence) -> String {
    let mut text = format!(
        "{}: {} ({} bytes) sequenced for {}, each behind {} bytes of history version {}: {} of {} bytes{}\n",
        sequence.chain,
        plural(sequence.packets, "packet"),
        count(sequence.bytes),
        plural(sequence.files.len() as u64, "core"),
        count(sequence.prefix_bytes as u64),
        sequence.history_version,
        plural(sequence.ring_items as u64, "item"),
        sequence.item_bytes,
        if sequence.ethernet { ", and an Ethernet header" } else { "" },
    );
    if let Some(checksums) = &sequence.checksums {
        text += &format!("checksums: {}\n", checksums.describe());
    }
    if let Some(error) = &sequence.error {
        text += &format!("INCOMPLETE, older files are left as they were: {error}\n");
    }
    for file in &sequence.files {
        if let Some(path) = &file.path {
            let end = if sequence.complete { " and a flush" } else { "" };
            text += &format!(" {path}: {}{end}\n", plural(file.packets, "packet"));
        }
    }
    text
}
