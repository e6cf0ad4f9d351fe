//! Filters, which pick packets: expressions of `pcap-filter(7)`, as tcpdump and Wireshark take them.
//!
//! [`Filter::compile`] has libpcap compile an expression to classic BPF, which [`Program`] runs over packets. The library
//! is loaded when a filter is compiled: building Paceline, and running it without filters, takes no libpcap. A program is
//! plain numbers, so that another process, or another machine, may run what was compiled here.
//!
//! | file | what it is |
//! |---|---|
//! | `libpcap` | the library, and its compiler |
//! | `blame` | where in an expression a mistake is |
//! | `program` | classic BPF: checked once, then run over any bytes |

mod blame;
mod libpcap;
mod program;

use std::ops::Range;

use thiserror::Error;
use wire::LinkType;

use self::libpcap::Libpcap;
pub use self::program::{Instruction, Program, ProgramError};

/// What may come first in a frame.
const LINKS: [LinkType; 6] = [
    LinkType::Ethernet,
    LinkType::Null,
    LinkType::Loop,
    LinkType::RawIp,
    LinkType::LinuxSll,
    LinkType::LinuxSll2,
];

/// An expression, compiled for packets of each link type.
#[derive(Clone, Debug)]
pub struct Filter {
    expression: String,
    /// By link type; none where the expression makes no sense for it, such as `ether src` without Ethernet.
    programs: Vec<(LinkType, Program)>,
}

/// Why an expression is no filter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// There is a mistake in it.
    #[error("{message}")]
    Mistake {
        /// The expression.
        expression: String,
        /// What libpcap says.
        message: String,
        /// The bytes of the expression where the mistake is.
        at: Range<usize>,
    },
    /// The library is not on this machine.
    #[error(
        "a filter is compiled by libpcap, which cannot be loaded: {why}\n\
         Install it (Debian and Ubuntu: apt-get install libpcap0.8), or give '' to mean all packets."
    )]
    NoLibrary {
        /// What the loader says.
        why: String,
    },
}

impl Filter {
    /// Compiles an expression; an empty one matches all packets, and takes no library.
    ///
    /// # Errors
    /// [`FilterError`] names the mistake and its place, or says what is missing.
    pub fn compile(expression: &str) -> Result<Filter, FilterError> {
        let expression = expression.to_owned();
        if expression.trim().is_empty() {
            let programs = LINKS.map(|link| (link, Program::all())).into();
            return Ok(Filter { expression, programs });
        }
        let library = Libpcap::load().map_err(|why| FilterError::NoLibrary { why })?;
        let (mut programs, mut first) = (Vec::new(), None);
        for link in LINKS {
            match library.compile(link, &expression) {
                Ok(program) => programs.push((link, program)),
                Err(message) => _ = first.get_or_insert((link, message)),
            }
        }
        match first {
            Some((link, message)) if programs.is_empty() => {
                let compiles = |expression: &str| library.compile(link, expression);
                let at = blame::place(&expression, &message, &compiles);
                Err(FilterError::Mistake { expression, message, at })
            }
            _ => Ok(Filter { expression, programs }),
        }
    }

    /// A filter that was compiled elsewhere, for Ethernet.
    pub fn of_ethernet(expression: String, program: Program) -> Filter {
        Filter { expression, programs: vec![(LinkType::Ethernet, program)] }
    }

    /// The expression.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The program for packets of a link type; none if the expression makes no sense for it.
    pub fn program(&self, link: LinkType) -> Option<&Program> {
        self.programs.iter().find(|(of, _)| *of == link).map(|(_, program)| program)
    }

    /// Whether a packet matches: `bytes` of it are here, and it had `wire_len` on the wire.
    pub fn matches(&self, link: LinkType, bytes: &[u8], wire_len: u32) -> bool {
        self.program(link).is_some_and(|program| program.matches(bytes, wire_len))
    }
}

#[cfg(test)]
mod tests;
