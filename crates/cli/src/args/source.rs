//! What is replayed: a capture, or packets by a model.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use engine::{Chain, Registry};
use io::Trace;
use io::capture::Record;
use traffic::Model;
use wire::LinkType;

use crate::failure::Failure;
use crate::input::{name_of_input, read_chain, read_trace};
use crate::progress::go_on;

/// What is replayed.
#[derive(Args)]
struct SourceArgs {
    /// Replay this capture: pcap or pcapng, plain, .gz or .zst; `-` is standard input
    #[arg(long, value_name = "IN", conflicts_with = "traffic")]
    pcap: Option<PathBuf>,
    /// Replay what this model of traffic generates, such as `university:packets=2000000` (see `paceline generate`)
    #[arg(long, value_name = "MODEL", default_value = "uniform:packets=1048576,flows=131072")]
    traffic: String,
}

/// A trace and what to call it.
pub struct Source {
    pub trace: Trace,
    pub name: String,
}

/// A chain, and what is replayed through it.
#[derive(Args)]
pub struct ReplayArgs {
    /// The chain of functions, TOML
    #[arg(value_name = "CHAIN.toml")]
    chain: PathBuf,
    #[command(flatten)]
    source: SourceArgs,
}

impl ReplayArgs {
    /// The files that are read.
    pub fn inputs(&self) -> Vec<&Path> {
        [Some(&self.chain), self.source.pcap.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect()
    }

    pub fn chain(&self, registry: &Registry) -> Result<Chain, Failure> {
        read_chain(&self.chain, registry)
    }

    pub fn source(&self, stop: &AtomicBool) -> Result<Source, Failure> {
        match &self.source.pcap {
            Some(path) => Source::capture(path, stop),
            None => Source::model(&self.source.traffic, stop),
        }
    }
}

impl Source {
    /// The packets of a capture.
    pub fn capture(path: &Path, stop: &AtomicBool) -> Result<Source, Failure> {
        Ok(Source { trace: read_trace(path, stop)?, name: name_of_input(path) })
    }

    /// Packets by a model.
    pub fn model(text: &str, stop: &AtomicBool) -> Result<Source, Failure> {
        let model = Model::parse(text).map_err(Failure::usage)?;
        Ok(Source { trace: generate(&model, stop)?, name: model.to_string() })
    }
}

/// The packets of a model, unless `stop` ends it.
pub fn generate(model: &Model, stop: &AtomicBool) -> Result<Trace, Failure> {
    let mut trace = Trace::default();
    model.generate_until(stop, |time_ns, data| {
        trace.push(&Record { time_ns, wire_len: data.len() as u32, link: LinkType::Ethernet, data });
    });
    go_on(stop).map(|()| trace)
}
