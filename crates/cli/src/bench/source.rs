//! What is replayed: a capture, or packets by recipe.

use io::Trace;
use io::capture::Record;
use traffic::{Recipe, Skew};
use wire::LinkType;

use crate::args::SourceArgs;
use crate::failure::Failure;
use crate::session;

/// Packets that are generated where there is no capture.
const GENERATED_PACKETS: usize = 1 << 20;

/// A trace and what to call it.
pub struct Source {
    pub trace: Trace,
    pub name: String,
}

pub fn read(args: &SourceArgs) -> Result<Source, Failure> {
    if let Some(path) = &args.trace {
        let trace = Trace::read(session::open(path)?).map_err(Failure::check)?;
        if trace.is_empty() {
            return Err(Failure::usage(format!("{} has no packets", path.display())));
        }
        return Ok(Source { trace, name: path.display().to_string() });
    }
    let skew = args.zipf.map_or(Skew::Uniform, Skew::Zipf);
    let recipe = Recipe {
        flows: args.flows,
        skew,
        packets: GENERATED_PACKETS,
        frame_bytes: args.frame_bytes,
        gap_ns: 100,
        seed: args.seed,
    };
    let skew = args.zipf.map_or("even".to_owned(), |exponent| format!("Zipf {exponent}"));
    let Recipe { flows, packets, frame_bytes, seed, .. } = recipe;
    let name = format!("{packets} packets of {frame_bytes} bytes, {flows} flows, {skew}, seed {seed}");
    Ok(Source { trace: generate(&recipe), name })
}

pub fn generate(recipe: &Recipe) -> Trace {
    let mut trace = Trace::default();
    recipe.generate(|time_ns, data| {
        trace.push(&Record { time_ns, wire_len: data.len() as u32, link: LinkType::Ethernet, data });
    });
    trace
}
