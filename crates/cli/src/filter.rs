//! Filters that users give, and what is wrong with them.

use io::filter::{Filter, FilterError};
use miette::{Diagnostic, NamedSource, SourceSpan};
use thiserror::Error;

use crate::explain::{Code, Explained};
use crate::failure::Failure;

/// A mistake in a filter, pointed at.
#[derive(Debug, Error, Diagnostic)]
#[error("this is no filter: {message}")]
#[diagnostic(help(
    "Filters are those of tcpdump, see pcap-filter(7): `tcp port 80 and host 192.0.2.1`, `icmp or icmp6`, `tcp[tcpflags] & tcp-syn != 0`."
))]
struct Mistake {
    message: String,
    #[source_code]
    expression: NamedSource<String>,
    #[label("here")]
    at: SourceSpan,
}

impl Explained for Mistake {
    fn explained_by(&self) -> Code {
        Code::Filter
    }
}

/// Compiles a filter.
pub fn read_filter(expression: &str) -> Result<Filter, Failure> {
    Filter::compile(expression).map_err(|error| match error {
        FilterError::Mistake { expression, message, at } => Failure::mistake(Mistake {
            message,
            // An empty span at the end is still shown.
            at: SourceSpan::from(at),
            expression: NamedSource::new("filter", expression),
        }),
        missing @ FilterError::NoLibrary { .. } => Failure::usage(missing),
    })
}
