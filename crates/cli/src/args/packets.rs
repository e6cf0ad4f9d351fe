//! What `run` and `verify` read: a capture, or packets that come with their history.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use engine::strategies::{SCR, Strategy};
use engine::{
    Chain, ExternalInput, ExternalPackets, InputError, Loss, LossShare, Plan, Recovery, Registry,
    SequencedAs, SequencingError, Speed,
};
use io::capture::{CaptureError, CaptureReader};

use super::card::CardArgs;
use super::tables::TableArgs;
use crate::args::number;
use crate::explain::Code;
use crate::failure::Failure;
use crate::input::{check_capture, read_chain};
use crate::output::plural;

#[derive(Args)]
pub struct ChainArgs {
    /// The chain of functions, TOML
    #[arg(value_name = "CHAIN.toml")]
    pub chain: PathBuf,
    /// The capture: pcap or pcapng, plain, .gz or .zst; `-` is standard input, which `verify` cannot take
    #[arg(long, value_name = "IN", conflicts_with = "pcap_dir")]
    pub pcap: Option<PathBuf>,
    /// The interface of a pcapng capture, by its name or number (`capinfos` lists them), that the hosts inside are on: sides
    /// are those of interfaces then, and no longer those of source addresses. All other interfaces are outside
    #[arg(long, value_name = "NAME|ID", requires = "pcap")]
    pub inside_interface: Option<String>,
    /// What functions draw from, in place of the chain file's `seed` [default: drawn, where the file gives none]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How many cores [default: 1 for single, else all processors; with --pcap-dir one for each file]
    #[arg(long, value_name = "N", value_parser = number(..))]
    pub cores: Option<usize>,
}

impl ChainArgs {
    /// Reads the chain, whose functions are those of `registry`.
    pub fn read(&self, registry: &Registry) -> Result<Chain, Failure> {
        let chain = read_chain(&self.chain, registry)?;
        Ok(match self.seed {
            Some(seed) => chain.with_seed(seed),
            None => chain,
        })
    }
}

/// How replicas get the history of packets that other cores have, and what gets lost on the way.
#[derive(Args, Clone)]
#[command(next_help_heading = "History (strategy scr)")]
pub struct HistoryArgs {
    /// Where packets get the history that scr needs: from a core, which leaves it where all can read it; or from an
    /// external sequencer, which puts it before each packet [default: core]
    #[arg(long, value_enum, value_name = "WHERE")]
    pub sequencer: Option<SequencerArg>,
    /// Read what `paceline sequence` wrote, one file for each core. With --pcap and --sequencer external the capture
    /// is sequenced on the way
    #[arg(long, value_name = "DIR")]
    pub pcap_dir: Option<PathBuf>,
    /// What items of history hold where the capture is sequenced on the way; files say it themselves [default: 2 where
    /// the chain can have it]
    #[arg(long, value_enum, value_name = "VERSION")]
    pub history_version: Option<HistoryVersionArg>,
    /// Lose this share of the packets between an external sequencer and the cores; 0.01 is 1%
    #[arg(long, value_name = "SHARE")]
    pub loss: Option<LossShare>,
    /// What losses are drawn from [default: 1]
    #[arg(long, value_name = "N", requires = "loss")]
    pub loss_seed: Option<u64>,
    /// Whether cores get from each other what they lost [default: on]
    #[arg(long, value_enum, value_name = "ON|OFF")]
    pub recovery: Option<OnOff>,
}

impl HistoryArgs {
    /// Whether any of them was given.
    pub fn is_given(&self) -> bool {
        let HistoryArgs { sequencer, pcap_dir, history_version, loss, loss_seed, recovery } = self;
        let is_external = *sequencer == Some(SequencerArg::External);
        let is_of_packets = pcap_dir.is_some() || history_version.is_some();
        is_external || is_of_packets || loss.is_some() || loss_seed.is_some() || recovery.is_some()
    }
}

/// Where the sequencer is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SequencerArg {
    /// In this program: the core that dispatches
    Core,
    /// Before the cards: packets come with their history
    External,
}

/// A version of the history that packets carry, `docs/history-format.md`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HistoryVersionArg {
    /// Items hold header bytes, which each core projects and hashes again
    #[value(name = "1")]
    Headers,
    /// Items hold what functions read, with keys and their hashes
    #[value(name = "2")]
    Typed,
}

impl HistoryVersionArg {
    /// The version itself.
    pub fn version(self) -> sequencer::Version {
        match self {
            HistoryVersionArg::Headers => sequencer::Version::Headers,
            HistoryVersionArg::Typed => sequencer::Version::Typed,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    On,
    Off,
}

impl OnOff {
    pub fn is_on(self) -> bool {
        self == OnOff::On
    }
}

/// What to run, over what.
pub struct Setting {
    pub chain: Chain,
    pub plan: Plan,
    pub packets: Packets,
}

/// A capture, and which of its interfaces is inside, if sides are to be those of interfaces.
pub struct CaptureFile {
    path: PathBuf,
    inside: Option<String>,
}

/// Where packets come from.
pub enum Packets {
    /// A capture.
    Capture(CaptureFile),
    /// With history.
    External(External),
}

/// Where packets with history come from, and what gets lost.
pub struct External {
    source: Source,
    loss: Option<Loss>,
    recovery: Recovery,
}

enum Source {
    Capture(PathBuf, SequencedAs),
    /// By core.
    Files(Vec<PathBuf>),
}

/// Says of a chain with checks that nobody does them over a capture.
pub fn tell_unchecked(chain: &Chain) {
    let mut backends = chain.functions.iter().flat_map(|spec| spec.function.backends());
    if backends.any(|backend| backend.check.is_some()) {
        eprintln!("note: nobody checks backends over a capture: all are as the chain file has them");
    }
}

/// Reads the chain, finds the files, and checks that the one can run over the others as asked.
pub fn prepare(
    args: &ChainArgs,
    history: &HistoryArgs,
    strategy: &'static dyn Strategy,
    card: &CardArgs,
    tables: &TableArgs,
    registry: &Registry,
) -> Result<Setting, Failure> {
    let packets = find(args, history, strategy)?;
    let chain = tables.apply(args.read(registry)?)?;
    if history.history_version == Some(HistoryVersionArg::Typed)
        && chain.history_version() != sequencer::Version::Typed
    {
        return Err(Failure::usage(SequencingError::NotTyped));
    }
    packets.paths().into_iter().try_for_each(check_capture)?;
    if args.inside_interface.is_some() && chain.sides.is_none() {
        return Err(Failure::usage(format!(
            "--inside-interface: the chain {} has no inside, so nothing depends on sides\n\
             Add `inside = [\"10.0.0.0/8\"]`, with your prefixes, at the top of the chain file, or leave the option out.",
            chain.name
        )));
    }
    let files = match &packets {
        Packets::External(External { source: Source::Files(files), .. }) => Some(files.len()),
        _ => None,
    };
    let cores = match (args.cores, files) {
        (Some(cores), Some(files)) if cores != files => {
            return Err(Failure::usage(format!(
                "{} for {} cores: the folder has the packets of {}\n\
                 Leave out --cores, or sequence the capture for so many.",
                plural(files as u64, "file"),
                cores,
                plural(files as u64, "core"),
            ))
            .coded(Code::History));
        }
        (_, Some(files)) => files,
        (cores, None) => cores.unwrap_or_else(|| Plan::default_cores(strategy)),
    };
    let plan = card.plan(&chain, strategy, cores)?;
    Ok(Setting { chain, plan, packets })
}

fn find(
    args: &ChainArgs,
    history: &HistoryArgs,
    strategy: &'static dyn Strategy,
) -> Result<Packets, Failure> {
    let HistoryArgs { sequencer, pcap_dir, history_version, loss, loss_seed, recovery } = history;
    if *sequencer != Some(SequencerArg::External) {
        if pcap_dir.is_some() || history_version.is_some() || loss.is_some() || recovery.is_some() {
            return Err(Failure::usage(
                "--pcap-dir, --history-version, --loss and --recovery are for packets that come with their history\n\
                 Add `--strategy scr --sequencer external`, or leave them out.",
            ));
        }
        if sequencer.is_some() && strategy != SCR {
            return Err(no_history(strategy));
        }
        let path = args.pcap.clone().unwrap_or_default();
        return Ok(Packets::Capture(CaptureFile { path, inside: args.inside_interface.clone() }));
    }
    if strategy != SCR {
        return Err(no_history(strategy));
    }
    if args.inside_interface.is_some() {
        return Err(Failure::usage(
            "packets that come with their history do not say by which interface they came\n\
             Leave out --inside-interface, or --sequencer external.",
        ));
    }
    if pcap_dir.is_some() && history_version.is_some() {
        return Err(Failure::usage(
            "files say themselves of which version their history is\nLeave out --history-version, or sequence the \
             capture anew.",
        ));
    }
    let version = match history_version {
        Some(HistoryVersionArg::Headers) => SequencedAs::Headers,
        _ => SequencedAs::Newest,
    };
    let source = match (&args.pcap, pcap_dir) {
        (_, Some(folder)) => Source::Files(core_files(folder)?),
        (pcap, None) => Source::Capture(pcap.clone().unwrap_or_default(), version),
    };
    let loss = loss.map(|share| Loss::new(share, loss_seed.unwrap_or(1)));
    let recovery = if *recovery == Some(OnOff::Off) { Recovery::Off } else { Recovery::On };
    Ok(Packets::External(External { source, loss, recovery }))
}

fn no_history(strategy: &'static dyn Strategy) -> Failure {
    Failure::usage(format!(
        "under strategy `{}` cores need no history, and nobody sequences packets\n\
         Leave out --sequencer, or use `--strategy scr`.",
        strategy.name()
    ))
}

/// The files of all cores in a folder.
fn core_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let files = engine::core_files(folder).map_err(|error| {
        Failure::usage(format!("cannot read the folder {}: {error}", folder.display()))
            .coded(Code::CannotRead)
    })?;
    let write = "`paceline sequence` writes them.";
    let Some((last, _)) = files.last() else {
        let first = engine::core_file(folder, 0);
        return Err(Failure::usage(format!("there is no {}\n{write}", first.display())).coded(Code::History));
    };
    if let Some(missing) = (0..*last).find(|core| files.get(*core).is_none_or(|(found, _)| found != core)) {
        let missing = engine::core_file(folder, missing);
        return Err(Failure::usage(format!(
            "there is no {}, and there are files of later cores\n{write}",
            missing.display()
        ))
        .coded(Code::History));
    }
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

impl Packets {
    /// All files that are read.
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Packets::Capture(CaptureFile { path, .. })
            | Packets::External(External { source: Source::Capture(path, _), .. }) => vec![path],
            Packets::External(External { source: Source::Files(paths), .. }) => {
                paths.iter().map(PathBuf::as_path).collect()
            }
        }
    }
}

impl CaptureFile {
    /// Opens the file.
    pub fn open(&self) -> Result<CaptureReader, CaptureError> {
        let mut reader = CaptureReader::open(&self.path)?;
        self.inside.as_deref().map_or(Ok(()), |inside| reader.has_inside(inside))?;
        Ok(reader)
    }
}

impl External {
    /// Opens the files.
    pub fn open(&self, speed: Option<Speed>) -> Result<ExternalInput, InputError> {
        let packets = match &self.source {
            Source::Capture(path, version) => {
                ExternalPackets::Capture(CaptureReader::open(path)?.into(), *version)
            }
            Source::Files(paths) => {
                ExternalPackets::Files(paths.iter().map(CaptureReader::open).collect::<Result<_, _>>()?)
            }
        };
        Ok(ExternalInput { packets, speed, loss: self.loss, recovery: self.recovery })
    }
}

/// Bytes of all files together, where they are known.
pub fn size_bytes(input: &ExternalInput) -> Option<u64> {
    match &input.packets {
        ExternalPackets::Capture(reader, _) => reader.size_bytes(),
        ExternalPackets::Files(readers) => readers.iter().map(CaptureReader::size_bytes).sum(),
    }
}
