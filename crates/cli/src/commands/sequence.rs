//! `paceline sequence`: a capture as the cores of a replicated chain get it, one file for each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use engine::report::TimeRanBack;
use engine::strategies::SCR;
use engine::{Chain, ChecksumSample, Checksums, Plan, Progress, Registry, Sequenced, Sequencing};
use io::capture::{CaptureError, CaptureReader, CaptureWriter};
use schemars::JsonSchema;
use serde::Serialize;
use wire::LinkType;

use crate::args::HistoryVersionArg;
use crate::explain::Code;
use crate::failure::{Failure, INTERRUPTED};
use crate::input::{open_capture, read_chain, tell_remarks};
use crate::output::{self, Reports, count, plural};
use crate::progress::{Bar, interruptible};

#[derive(Args)]
pub struct SequenceArgs {
    /// The chain whose functions need the history, TOML
    #[arg(value_name = "CHAIN.toml")]
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
    /// What items of history hold [default: 2 where the chain can have it, else 1]
    #[arg(long, value_enum, value_name = "VERSION")]
    pub history_version: Option<HistoryVersionArg>,
    /// What the hashes in the items are seeded with, version 2, so that files can be written again [default: drawn]
    #[arg(long, value_name = "N")]
    pub table_seed: Option<u64>,
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
    /// Name of the chain whose history the packets carry.
    chain: String,
    /// Packets, each of which is in one file.
    packets: u64,
    /// Their bytes on the wire, without history.
    bytes: u64,
    /// Version of the history format, `docs/history-format.md`: 1 holds headers, 2 what functions read of them.
    history_version: u8,
    /// Bytes of an item of history, its time stamp included.
    item_bytes: usize,
    /// Items before each packet: one less than cores.
    ring_items: usize,
    /// Bytes before each packet.
    prefix_bytes: usize,
    /// Whether checksums were verified, and why. Packets with wrong ones are malformed for all cores then.
    checksums: ChecksumSample,
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
    let mut chain = read_chain(&args.chain, registry)?;
    chain.table_seed = args.table_seed.unwrap_or(chain.table_seed);
    let mut reader = open_capture(&args.pcap)?;
    // As `run` does: cores are told which are wrong.
    let checksums = chain.checksums.decide(&mut reader);
    chain.checksums = Checksums::decided(&checksums);
    // What cannot be replicated needs no history.
    Plan::new(&chain, SCR, args.cores).map_err(Failure::usage)?;
    let version = args.history_version.map_or(chain.history_version(), HistoryVersionArg::version);
    let sequencing =
        Sequencing::with_version(&chain, version, args.cores, args.ethernet).map_err(Failure::usage)?;
    let paths = paths(args)?;
    let reports = Reports::open(&[], None, args.json.as_deref())?;
    let files = paths.into_iter().map(CoreFile::create).collect::<Result<_, _>>()?;
    let mut job = Job { sequencing, files, packets: 0, bytes: 0, checksums };

    let progress = interruptible(None);
    let bar = Bar::new(&chain.name, reader.size_bytes());
    let end = job.sequence(&mut reader, &progress, &bar);
    drop(bar);
    tell_remarks(&reader);
    let end = match end {
        Err(Failed::Write(error)) => return Err(Failure::usage(error)),
        Ok(()) => End::Complete,
        Err(Failed::Stopped) => End::Stopped,
        Err(Failed::Input(error)) if job.packets == 0 => return Err(Failure::usage(error)),
        Err(Failed::Input(error)) => End::Input(error),
    };
    let sequence = job.finish(&chain, args.ethernet, &end)?;
    reports.write(&sequence, &render(&sequence))?;
    match end {
        End::Complete => Ok(ExitCode::SUCCESS),
        End::Stopped => Ok(ExitCode::from(INTERRUPTED)),
        End::Input(error) => Err(Failure::cut_short(error)),
    }
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
    sequencing: Sequencing,
    files: Vec<CoreFile>,
    packets: u64,
    bytes: u64,
    checksums: ChecksumSample,
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
            let Sequenced { core, record, .. } = self.sequencing.next(&record);
            let file = &mut self.files[core];
            file.writer.write(record.time_ns, record.wire_len, record.data).map_err(Failed::Write)?;
            file.packets += 1;
            self.packets += 1;
            self.bytes += bytes;
            bar.packet(self.packets, progress);
            progress.read_bytes.store(reader.position_bytes(), Ordering::Relaxed);
        }
        for (core, file) in self.files.iter_mut().enumerate() {
            let Sequenced { record, .. } = self.sequencing.flush(core);
            file.writer.write(record.time_ns, record.wire_len, record.data).map_err(Failed::Write)?;
        }
        Ok(())
    }

    /// Gives the files their names if they are whole; else leaves what was written beside them.
    fn finish(self, chain: &Chain, ethernet: bool, end: &End) -> Result<Sequence, Failure> {
        let ran_back = self.sequencing.ran_back();
        let (item_bytes, prefix_bytes) = (self.sequencing.item_bytes(), self.sequencing.prefix_bytes());
        let (version, ring_items) = (self.sequencing.version(), self.sequencing.cores() - 1);
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
            chain: chain.name.clone(),
            packets: self.packets,
            bytes: self.bytes,
            history_version: version as u8,
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
    text += &format!("checksums: {}\n", sequence.checksums.describe());
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
