//! A function of your own, and a program that has it with every command of `paceline`:
//!
//! ```sh
//! cargo run -p paceline --example own_function -- nfs quota
//! cargo run -p paceline --example own_function -- run crates/cli/examples/fair.toml --pcap captures/edge.pcap
//! cargo run -p paceline --example own_function -- verify crates/cli/examples/fair.toml --pcap captures/edge.pcap \
//!     --strategy rss --cores 2
//! ```
//!
//! `quota` lets each source send so many bytes in a time, and drops the rest. It has all that a function can have: an
//! option, an event, a drop reason. The installed `paceline` knows the stock functions alone, so a function that is not
//! one of them takes a program such as this.
//!
//! In this workspace crates go by short names (`nf`, `wire`); CONTRIBUTING.md has the `Cargo.toml` that gives them these
//! names in yours.

use std::process::ExitCode;

use nf::{About, Cx, FlowKey, NetworkFunction, OptionDoc, OptionError, SrcAddr, Verdict};
use paceline::Program;
use wire::{Fields, Headers};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

fn main() -> ExitCode {
    program().main()
}

/// `paceline` with one function more that chain files may name.
pub fn program() -> Program {
    let mut program = Program::stock();
    program.functions.add::<Quota>();
    program
}

/// How long a quota lasts, ns.
const PERIOD_NS: u64 = 1_000_000_000;

/// Lets each source send so many bytes a second.
struct Quota {
    bytes: u64,
}

/// What a step reads of a packet, and no more: these bytes are what a strategy may have to carry.
/// Plain bytes, without padding.
#[derive(Clone, Copy, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
struct Meta {
    src: SrcAddr,
    bytes: u32,
}

/// One source's second. Plain bytes, without padding.
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
struct Spent {
    since_ns: u64,
    bytes: u64,
}

/// What a chain file may say. Unknown names are refused, with those that there are.
#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { bytes: 1_000_000 }
    }
}

impl NetworkFunction for Quota {
    const ABOUT: About = About {
        name: "quota",
        summary: "lets each source send so many bytes a second",
        spec: "this example",
        options: &[OptionDoc {
            name: "bytes",
            default: "1000000",
            help: "bytes that a source may send a second",
        }],
        // A verdict and a count name these by their index. A run that meets another index ends in an error.
        drop_reasons: &["over-quota"],
        events: &["quotas-begun"],
    };
    // What `project` reads, whether a packet is IP included.
    const READS: Fields = Fields::SRC_ADDR.union(Fields::L3_LEN).union(Fields::MARKS);

    // All packets of a source meet the same state; sharding follows from it.
    type Key = SrcAddr;
    type Meta = Meta;
    type State = Spent;
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        if options.bytes == 0 {
            return Err(OptionError { option: "bytes", message: "must be at least 1".into() });
        }
        Ok(Quota { bytes: options.bytes })
    }

    /// `None`: not this function's business, passes.
    fn project(headers: &Headers) -> Option<Meta> {
        headers.is_ip().then(|| Meta { src: SrcAddr::of(headers), bytes: headers.l3_len.into() })
    }

    fn key(meta: &Meta) -> SrcAddr {
        meta.src
    }

    /// Time is the packet's stamp, which never runs back; there is no other clock.
    fn step(&self, flow: &mut Option<Spent>, meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        let now_ns = cx.stamp.time_ns;
        let spent = match flow {
            Some(spent) if now_ns - spent.since_ns < PERIOD_NS => spent,
            // A new source, or a new second.
            other => {
                cx.count(0);
                other.insert(Spent { since_ns: now_ns, bytes: 0 })
            }
        };
        let bytes = spent.bytes + u64::from(meta.bytes);
        if bytes > self.bytes {
            return Verdict::Drop(0);
        }
        spent.bytes = bytes;
        Verdict::Forward
    }

    /// A source that has been silent for a second is a new one.
    fn idle_timeout_ns(&self, _: &Spent) -> u64 {
        PERIOD_NS
    }
}

#[cfg(test)]
mod tests {
    use nf::Rig;
    use wire::{Addr, Marks};

    use super::*;

    #[test]
    fn what_is_read_is_what_is_declared() {
        let samples: Vec<Headers> = nf::sample_headers(1).take(4_000).collect();
        assert_eq!(nf::check_reads::<Quota>(&samples), Ok(()));
    }

    /// One packet at a time, no threads, no capture.
    #[test]
    fn a_quota_is_for_one_source_and_one_second() {
        let mut rig = Rig::new(Quota { bytes: 250 });
        let from = |last| Headers {
            src: Addr::v4([192, 0, 2, last]),
            dst: Addr::v4([198, 51, 100, 1]),
            marks: Marks::IPV4,
            l3_len: 100,
            ..Headers::default()
        };
        let verdicts: Vec<_> = (0..3).map(|time_ns| rig.packet(time_ns, &from(1))).collect();
        assert_eq!(verdicts, [Verdict::Forward, Verdict::Forward, Verdict::Drop(0)]);
        assert_eq!(rig.packet(3, &from(2)), Verdict::Forward);
        assert_eq!(rig.packet(PERIOD_NS, &from(1)), Verdict::Forward);
        assert_eq!(rig.event("quotas-begun"), 3);
    }
}
