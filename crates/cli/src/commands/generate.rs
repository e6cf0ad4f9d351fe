//! `paceline generate`: a model's packets as a capture.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use engine::Registry;
use io::capture::CaptureWriter;
use schemars::JsonSchema;
use serde::Serialize;
use traffic::{Analysis, Digest, FlowShare, Model, Profile};
use wire::LinkType;

use crate::failure::Failure;
use crate::output::{Reports, count, keep, percent, plural};
use crate::progress::{go_on, interruptible};

const MODELS: &str = "\
Models:
  uniform      UDP; each flow as likely as any other
  zipf         UDP; flows by Zipf's law: --exponent
  elephant     UDP; one flow has a --share of the packets, the others the rest
  datacenter   TCP connections, both directions; sizes of a web search's flows (DCTCP)
  backbone     TCP flows, one direction; skewed as CAIDA's traces of a backbone link are
  university   TCP connections, both directions; skewed as those of a university's data centre are
  single-flow  one TCP connection; --one-way leaves out what the server sends
  syn-flood    SYNs from random sources to one service, with a --legit share of connections
  port-scan    a --share of probes from some --scanners, among connections

A model can also be written in one argument, as the summary shows it and --traffic of other commands takes it:
  zipf:flows=100000,a=1.1,packets=1000000,seed=1

The same model gives the same bytes, on every machine. Connections begin and end within the trace, so that it
can be replayed over and over; there are at least as many packets as asked for, up to the end of the last
connection. Sources and fits are in docs/traffic.md.";

const PACKETS: &str = "Packets";
const OWN: &str = "Options of one model";

#[derive(Args)]
#[command(after_help = MODELS)]
pub struct GenerateArgs {
    /// The model: a name, or a name with options, such as zipf:flows=1000,a=1.1
    #[arg(value_name = "MODEL")]
    pub model: String,
    /// Write the packets to this pcap; `-` is standard output, and the summary then goes to standard error. Where it is
    /// stopped they are left in OUT.pcap.partial
    #[arg(long, value_name = "OUT.pcap")]
    pub out: PathBuf,
    /// Packets [default: 1000000]
    #[arg(long, value_name = "N")]
    pub packets: Option<String>,
    /// Flows to draw packets from [default: 100000], or connections, made bigger or smaller by one factor to
    /// give the packets [default: as many as give them by themselves]
    #[arg(long, value_name = "N")]
    pub flows: Option<String>,
    /// What all draws begin with [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<String>,
    /// Bytes of each frame without the frame check sequence; of connections, of those with data. The same as
    /// --sizes fixed:N
    #[arg(long, value_name = "N", conflicts_with = "sizes", help_heading = PACKETS)]
    pub frame_bytes: Option<String>,
    /// How long frames are: fixed:N, imix, or lengths with weights such as 60x7+590x4+1514 [default: fixed:60
    /// for UDP, fixed:1514 or a mix for connections]
    #[arg(long, value_name = "SIZES", help_heading = PACKETS)]
    pub sizes: Option<String>,
    /// Mean time from a packet to the next [default: 100]
    #[arg(long, value_name = "NS", help_heading = PACKETS)]
    pub gap_ns: Option<String>,
    /// Mean length of the trains in which a flow sends its packets back to back [default: 1, for
    /// university 3]
    #[arg(long, value_name = "PACKETS", help_heading = PACKETS)]
    pub burst: Option<String>,
    /// Share of the flows that are IPv6 [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = PACKETS)]
    pub ipv6_share: Option<String>,
    /// Connections alive at one time, at most [default: a tenth of them, 16 to 1000]
    #[arg(long, value_name = "N", help_heading = PACKETS)]
    pub concurrent: Option<String>,
    /// zipf: the exponent [default: 1.1]
    #[arg(long, value_name = "A", help_heading = OWN)]
    pub exponent: Option<String>,
    /// elephant, port-scan: share of the packets that are the elephant's [default: 0.5] or the scan's [default:
    /// 0.1]
    #[arg(long, value_name = "SHARE", help_heading = OWN)]
    pub share: Option<String>,
    /// single-flow: only what the client sends
    #[arg(long, help_heading = OWN)]
    pub one_way: bool,
    /// syn-flood: share of the packets of connections that mean it [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = OWN)]
    pub legit: Option<String>,
    /// syn-flood: sources to draw from [default: a new one with each SYN]
    #[arg(long, value_name = "N", help_heading = OWN)]
    pub sources: Option<String>,
    /// port-scan: sources that scan [default: 4]
    #[arg(long, value_name = "N", help_heading = OWN)]
    pub scanners: Option<String>,
    /// Write the summary as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What was generated, as JSON.
#[derive(Serialize, JsonSchema)]
pub struct Generation {
    /// Version of Paceline.
    paceline: &'static str,
    /// The model with all its options: gives the same bytes again.
    model: String,
    /// Packets.
    packets: u64,
    /// Their bytes, without frame check sequences.
    bytes: u64,
    /// Flows by 5-tuple; the two directions of a connection are two.
    flows: u64,
    /// The flow with the most packets, and its share.
    biggest: Option<FlowShare>,
    /// From the first packet to the last.
    seconds: f64,
    /// Hash of all times and bytes, hexadecimal: two traces that are alike have the same.
    digest: String,
}

pub fn command(args: &GenerateArgs, _: &Registry) -> Result<ExitCode, Failure> {
    let reports = Reports::open(&[], Some(&args.out), args.json.as_deref())?;
    let model = model(args)?;
    let writer = CaptureWriter::create(&args.out, LinkType::Ethernet).map_err(Failure::usage)?;
    let (profile, digest) = write(&model, writer, &args.out)?;
    let generation = Generation {
        paceline: env!("CARGO_PKG_VERSION"),
        model: model.to_string(),
        packets: profile.packets,
        bytes: profile.bytes,
        flows: profile.flows.five_tuple,
        biggest: profile.top10.into_iter().next(),
        seconds: profile.seconds,
        digest: digest.to_string(),
    };
    reports.write(&generation, &render(&generation))?;
    Ok(ExitCode::SUCCESS)
}

fn model(args: &GenerateArgs) -> Result<Model, Failure> {
    let sizes = args.frame_bytes.as_ref().map(|bytes| format!("fixed:{bytes}")).or(args.sizes.clone());
    let one_way = args.one_way.then(|| "true".to_owned());
    let options = [
        ("packets", &args.packets),
        ("flows", &args.flows),
        ("seed", &args.seed),
        ("sizes", &sizes),
        ("gap-ns", &args.gap_ns),
        ("burst", &args.burst),
        ("ipv6-share", &args.ipv6_share),
        ("concurrent", &args.concurrent),
        ("a", &args.exponent),
        ("share", &args.share),
        ("one-way", &one_way),
        ("legit", &args.legit),
        ("sources", &args.sources),
        ("scanners", &args.scanners),
    ];
    let given: Vec<(&str, &str)> =
        options.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    Model::parse_with(&args.model, &given).map_err(Failure::usage)
}

fn write(model: &Model, mut writer: CaptureWriter, out: &Path) -> Result<(Profile, Digest), Failure> {
    let progress = interruptible(None);
    let mut analysis = Analysis::new(1);
    let mut digest = Digest::default();
    let mut outcome = Ok(());
    model.generate_until(&progress.stop, |time_ns, frame| {
        if outcome.is_err() {
            return;
        }
        let wire_len = frame.len() as u32;
        analysis.packet(&wire::parse(LinkType::Ethernet, frame, wire_len), wire_len, time_ns);
        digest.packet(time_ns, frame);
        outcome = writer.write(time_ns, wire_len, frame);
    });
    outcome.map_err(Failure::usage)?;
    let profile = analysis.profile();
    if let Err(interrupted) = go_on(&progress.stop) {
        keep(writer, profile.packets, out).iter().for_each(|kept| eprintln!("note: {kept}"));
        return Err(interrupted);
    }
    writer.finish().map_err(Failure::usage)?;
    Ok((profile, digest))
}

fn render(generation: &Generation) -> String {
    let mut text = format!(
        "{}\n{} ({} bytes) of {} in {:.6} s\n",
        generation.model,
        plural(generation.packets, "packet"),
        count(generation.bytes),
        plural(generation.flows, "flow"),
        generation.seconds,
    );
    if let Some(biggest) = &generation.biggest {
        text += &format!("biggest flow: {} with {} of the packets\n", biggest.flow, percent(biggest.share));
    }
    text + &format!("digest of times and bytes: {}\n", generation.digest)
}
