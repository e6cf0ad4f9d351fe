//! What is replayed: a capture, or packets by a model.

use io::Trace;
use io::capture::Record;
use traffic::Model;
use wire::LinkType;

use crate::args::SourceArgs;
use crate::failure::Failure;
use crate::session;

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
    let model = Model::parse(&args.model).map_err(Failure::usage)?;
    Ok(Source { trace: generate(&model), name: model.to_string() })
}

pub fn generate(model: &Model) -> Trace {
    let mut trace = Trace::default();
    model.generate(|time_ns, data| {
        trace.push(&Record { time_ns, wire_len: data.len() as u32, link: LinkType::Ethernet, data });
    });
    trace
}
