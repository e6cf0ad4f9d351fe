//! `paceline generate`: a model's packets as a capture.

use std::process::ExitCode;

use io::capture::{CaptureError, CaptureWriter};
use schemars::JsonSchema;
use serde::Serialize;
use traffic::{Analysis, Digest, FlowShare, Model, Profile};
use wire::LinkType;

use crate::args::GenerateArgs;
use crate::failure::Failure;
use crate::output::{Reports, count, percent, plural};

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

pub fn command(args: &GenerateArgs) -> Result<ExitCode, Failure> {
    let reports = Reports::open(&[], Some(&args.out), args.json.as_deref())?;
    let model = model(args)?;
    let writer = CaptureWriter::create(&args.out, LinkType::Ethernet).map_err(Failure::usage)?;
    let (profile, digest) = write(&model, writer).map_err(Failure::usage)?;
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

fn write(model: &Model, mut writer: CaptureWriter) -> Result<(Profile, Digest), CaptureError> {
    let mut analysis = Analysis::new(1);
    let mut digest = Digest::default();
    let mut outcome = Ok(());
    model.generate(|time_ns, frame| {
        if outcome.is_err() {
            return;
        }
        let wire_len = frame.len() as u32;
        analysis.packet(&wire::parse(LinkType::Ethernet, frame, wire_len), wire_len, time_ns);
        digest.packet(time_ns, frame);
        outcome = writer.write(time_ns, wire_len, frame);
    });
    outcome?;
    writer.finish()?;
    Ok((analysis.profile(), digest))
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
