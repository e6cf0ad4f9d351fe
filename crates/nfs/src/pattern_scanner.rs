//! `pattern-scanner`: looks for byte patterns in the payload of TCP and UDP packets.
//!
//! The payload scanner of an intrusion detection or prevention system: every pattern is sought at
//! once, in one pass (Aho and Corasick, "Efficient string matching", CACM 18(6), 1975). Patterns are
//! written like the `content` of a Snort rule.
//!
//! ```toml
//! [[function]]
//! use = "pattern-scanner"
//! action = "drop"
//! patterns = [
//!     "/etc/passwd",                                              # text
//!     { content = "cmd.exe", nocase = true, ports = [80, 8080] }, # in any case, to these ports
//!     { name = "nop sled", content = "|90 90 90 90 90 90 90 90|", protocol = "tcp" }, # bytes
//!     { content = "SSH-1.|39 39|", action = "count" },            # both; to be counted and passed
//! ]
//! ```
//!
//! | option | unit | default | |
//! |---|---|---|---|
//! | `patterns` | | none | what to look for, at most 4,096: text, or tables as below |
//! | `action` | | `"drop"` | what a pattern that does not say so does: `"drop"`, or `"count"` to detect only |
//!
//! | of a pattern | default | |
//! |---|---|---|
//! | `content` | | 1 to 1,024 bytes: text, and bytes in hex between bars: `"GET /|00 ff|"` |
//! | `name` | the content | what the report calls it |
//! | `nocase` | false | whether the letters A to Z are found in either case |
//! | `protocol` | both | `"tcp"` or `"udp"` |
//! | `ports` | all | destination ports of the packets to look into, at most 64 |
//! | `action` | the function's | `"drop"` or `"count"` |
//!
//! In `content` a backslash takes its meaning from a bar and from `\ " ; :`, as Snort has it. In TOML,
//! content with backslashes is best put between single quotes. All contents together have at most
//! 131,072 bytes.
//!
//! # What is looked into
//!
//! The payload of each packet of TCP or UDP by itself, as far as the frame holds it:
//!
//! - *Nothing is put together.* A pattern that a sender spreads over two segments or two IP fragments
//!   is not found; of a fragmented packet only the first fragment has ports and is looked into. Payloads
//!   of other packets are not at hand where flows are replicated, so no state may depend on them; and
//!   this function has none.
//! - Of a frame that a capture cut (snap length), only what it holds is looked into.
//! - What is encrypted or packed is searched as it is.
//!
//! # Drops, events, report
//!
//! - `pattern`: a packet with at least one pattern whose action is to drop.
//! - Events: `packets-scanned`, those with a payload; `packets-matched`, those in which something was
//!   found; `patterns-found`, each pattern once for each packet that has it, however often; of these
//!   `pattern-01` to `pattern-32` by the pattern's number in the list, and `other-patterns` for the
//!   rest. The report says what the numbers stand for. They are events since counts are each core's own:
//!   patterns are found by what packets carry, so no state could count them.
//! - The pass goes on after a pattern that drops, so that counts do not depend on which comes first.
//! - It has no flows and no table.
//!
//! # What it costs
//!
//! One step of an automaton for each byte of payload, whatever the patterns and the bytes: no shortcut
//! that a sender could spoil. Each core reads the same automaton.
//!
//! - Patterns of 2,048 bytes or less together make a table of all steps, a DFA, in which a step is one
//!   access. It takes 1 KiB for each byte of them, less where they have few different ones: 2 MiB at
//!   most, what a core's second cache has.
//! - More make a contiguous NFA, in which some steps take several accesses: 128 bytes for each byte of
//!   129 patterns of 16 random bytes (260 KiB), 44 for each of 4,096 of 32 (5.6 MiB). A DFA of the
//!   latter would take 128 MiB.
//!
//! The report says what it is, and how large. A pattern that is the end of another is found with it,
//! and costs a step more each time.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use aho_corasick::automaton::Automaton;
use aho_corasick::nfa::contiguous;
use aho_corasick::{Anchored, MatchKind, dfa};
use nf::{
    About, Cx, EndedOf, Extras, Flows, FunctionReport, NetworkFunction, OptionError, Reload, Reports,
    Stateless, Verdict,
};
use wire::{Fields, Headers, Stamp, protocol};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

mod content;
mod options;

pub use options::{Action, Options, PatternOptions, ScannedProtocol};

const PATTERN: u8 = 0;

const PACKETS_SCANNED: usize = 0;
const PACKETS_MATCHED: usize = 1;
const PATTERNS_FOUND: usize = 2;
/// Event of the first pattern.
const PATTERN_01: usize = 3;
/// How many patterns have an event of their own.
const COUNTED_PATTERNS: usize = 32;

const PATTERNS_MAX: usize = 4096;
const CONTENT_BYTES_MAX: usize = 1024;
const CONTENTS_BYTES_MAX: usize = 128 << 10;
const PORTS_MAX: usize = 64;
/// Up to so many bytes of patterns make a DFA. It has at most one state more than these, of 256 steps
/// of 4 bytes: 2 MiB, what a core's second cache has these days.
const DFA_CONTENTS_BYTES_MAX: usize = 2048;

/// Letters of a content that the report shows.
const SHOWN_LETTERS: usize = 60;

#[rustfmt::skip]
const EVENTS: &[&str] = &[
    "packets-scanned", "packets-matched", "patterns-found",
    "pattern-01", "pattern-02", "pattern-03", "pattern-04", "pattern-05", "pattern-06", "pattern-07",
    "pattern-08", "pattern-09", "pattern-10", "pattern-11", "pattern-12", "pattern-13", "pattern-14",
    "pattern-15", "pattern-16", "pattern-17", "pattern-18", "pattern-19", "pattern-20", "pattern-21",
    "pattern-22", "pattern-23", "pattern-24", "pattern-25", "pattern-26", "pattern-27", "pattern-28",
    "pattern-29", "pattern-30", "pattern-31", "pattern-32", "other-patterns",
];

const _: () = assert!(EVENTS.len() == PATTERN_01 + COUNTED_PATTERNS + 1);

/// Looks for patterns in payloads: see the [module's page](self).
#[derive(Clone, Debug)]
pub struct PatternScanner {
    automaton: Search,
    /// In the order of the chain file, which is that of the automaton's numbers.
    patterns: Vec<Pattern>,
    /// Whether the automaton takes letters of either case, so that what it finds needs a second look.
    folds_case: bool,
}

/// All patterns in one. Not the crate's own choice of the two: that one makes a call for each byte.
#[derive(Clone, Debug)]
enum Search {
    Dfa(dfa::DFA),
    Nfa(contiguous::NFA),
}

#[derive(Clone, Debug)]
struct Pattern {
    bytes: Box<[u8]>,
    nocase: bool,
    drops: bool,
    /// TCP or UDP; `None` for both.
    protocol: Option<u8>,
    /// All, if none is named.
    ports: Box<[u16]>,
    name: String,
    /// As the chain file writes it.
    content: String,
}

/// The header fields that say which patterns matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoBytes, Immutable, TryFromBytes)]
#[repr(C)]
pub struct Meta {
    dst_port: u16,
    protocol: u8,
    zero: u8,
}

impl NetworkFunction for PatternScanner {
    const ABOUT: About = About {
        name: "pattern-scanner",
        summary: "looks for byte patterns in payloads, and drops or counts their packets",
        spec: "Aho and Corasick (CACM 1975); Snort's content option",
        options: options::OPTIONS,
        drop_reasons: &["pattern"],
        events: EVENTS,
    };
    const READS: Fields = Fields::DST_PORT.union(Fields::PROTOCOL).union(Fields::MARKS);
    const EXTRAS: Extras<Self> = Extras {
        reports: Reports { report: Self::report, ..Reports::NONE },
        inspect: Some(Self::inspect),
        reload: Reload::ANY,
        ..Extras::NONE
    };

    type Key = Stateless;
    type Meta = Meta;
    type State = ();
    type Pool = ();
    type Options = Options;

    fn new(options: Options) -> Result<Self, OptionError> {
        let error = |message| OptionError { option: "patterns", message };
        let Options { patterns, action } = options;
        if patterns.len() > PATTERNS_MAX {
            return Err(error(format!("are {}; at most {PATTERNS_MAX} are possible", patterns.len())));
        }
        let mut checked = Vec::with_capacity(patterns.len());
        for (number, pattern) in (1..).zip(patterns) {
            let content = pattern.content.clone();
            let pattern = Pattern::new(pattern, action).map_err(|wrong| {
                error(format!("have a pattern, number {number}, \"{}\", that {wrong}", shown(&content)))
            })?;
            checked.push(pattern);
        }
        PatternScanner::with(checked).map_err(error)
    }

    #[inline]
    fn project(headers: &Headers) -> Option<Meta> {
        let is_scanned = matches!(headers.protocol, protocol::TCP | protocol::UDP);
        (is_scanned && headers.has_transport()).then_some(Meta {
            dst_port: headers.dst_port,
            protocol: headers.protocol,
            zero: 0,
        })
    }

    #[inline]
    fn key(_: &Meta) -> Stateless {
        Stateless
    }

    #[inline]
    fn step(&self, _: &mut Option<()>, _: &Meta, _: &mut Cx<'_, ()>) -> Verdict {
        Verdict::Forward
    }

    fn idle_timeout_ns(&self, (): &()) -> u64 {
        u64::MAX
    }
}

impl PatternScanner {
    #[inline]
    fn inspect(&self, payload: &[u8], meta: &Meta, cx: &mut Cx<'_, ()>) -> Verdict {
        if payload.is_empty() {
            return Verdict::Forward;
        }
        cx.count(PACKETS_SCANNED);
        let found = match &self.automaton {
            Search::Dfa(dfa) => self.search(dfa, payload, meta),
            Search::Nfa(nfa) => self.search(nfa, payload, meta),
        };
        match found {
            Some(found) => self.conclude(&found, cx),
            None => Verdict::Forward,
        }
    }

    fn report(&self, _: Flows<'_, '_, Self>, _: &EndedOf<Self>, _: Stamp) -> Vec<FunctionReport> {
        let bytes: usize = self.patterns.iter().map(|pattern| pattern.bytes.len()).sum();
        let (kind, memory_bytes) = match &self.automaton {
            Search::Dfa(dfa) => ("a DFA", dfa.memory_usage()),
            Search::Nfa(nfa) => ("an NFA", nfa.memory_usage()),
        };
        let kib = memory_bytes.div_ceil(1024);
        let (count, shown) = (self.patterns.len(), self.patterns.len().min(COUNTED_PATTERNS));
        vec![FunctionReport {
            title: format!("The first {shown} of {count} patterns; {bytes} bytes in {kind} of {kib} KiB"),
            columns: vec!["pattern", "name", "content", "in", "action"],
            rows: (1..).zip(&self.patterns[..shown]).map(|(number, pattern)| pattern.row(number)).collect(),
        }]
    }

    /// Or what is wrong with the patterns together.
    fn with(patterns: Vec<Pattern>) -> Result<PatternScanner, String> {
        let bytes: usize = patterns.iter().map(|pattern| pattern.bytes.len()).sum();
        if bytes > CONTENTS_BYTES_MAX {
            return Err(format!("have {bytes} bytes together; at most {CONTENTS_BYTES_MAX} are possible"));
        }
        let folds_case = patterns.iter().any(|pattern| pattern.nocase);
        let contents = patterns.iter().map(|pattern| &pattern.bytes);
        // `Standard` is the one kind that tells all matches, also of patterns within patterns.
        let automaton = match bytes {
            0..=DFA_CONTENTS_BYTES_MAX => dfa::Builder::new()
                .match_kind(MatchKind::Standard)
                .ascii_case_insensitive(folds_case)
                .prefilter(false)
                .build(contents)
                .map(Search::Dfa),
            _ => contiguous::Builder::new()
                .match_kind(MatchKind::Standard)
                .ascii_case_insensitive(folds_case)
                .prefilter(false)
                .build(contents)
                .map(Search::Nfa),
        };
        let automaton = automaton.map_err(|error| format!("make no automaton: {error}"))?;
        Ok(PatternScanner { automaton, patterns, folds_case })
    }

    /// What a payload has of the patterns; `None` for nothing.
    #[inline]
    fn search<A: Automaton>(&self, automaton: &A, payload: &[u8], meta: &Meta) -> Option<Found> {
        // There is always one: automata are made for searches that begin anywhere.
        let mut state = automaton.start_state(Anchored::No).ok()?;
        let mut found = None;
        let mut end = 0;
        while let Some(before) = payload[end..].iter().position(|byte| {
            state = automaton.next_state(Anchored::No, state, *byte);
            automaton.is_special(state) && automaton.is_match(state)
        }) {
            end += before + 1;
            for pattern in (0..automaton.match_len(state)).map(|i| automaton.match_pattern(state, i)) {
                let number = pattern.as_usize();
                let hit = &payload[end - automaton.pattern_len(pattern)..end];
                if self.patterns[number].is_meant(hit, meta, self.folds_case) {
                    found.get_or_insert(Found::NOTHING).add(number);
                }
            }
        }
        found
    }

    /// Counts what was found in one packet, each pattern once, and says what becomes of it.
    #[cold]
    fn conclude(&self, found: &Found, cx: &mut Cx<'_, ()>) -> Verdict {
        cx.count(PACKETS_MATCHED);
        let mut verdict = Verdict::Forward;
        for (number, _) in (0..).zip(&self.patterns).filter(|(number, _)| found.has(*number)) {
            cx.count(PATTERNS_FOUND);
            cx.count(PATTERN_01 + number.min(COUNTED_PATTERNS));
            if self.patterns[number].drops {
                verdict = Verdict::Drop(PATTERN);
            }
        }
        verdict
    }
}

/// Which patterns a packet has, a bit for each.
struct Found([u64; PATTERNS_MAX / 64]);

impl Found {
    const NOTHING: Found = Found([0; PATTERNS_MAX / 64]);

    #[inline]
    fn add(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    fn has(&self, number: usize) -> bool {
        self.0[number / 64] & 1 << (number % 64) != 0
    }
}

impl Pattern {
    /// Or what is wrong with the pattern.
    fn new(options: PatternOptions, action: Action) -> Result<Pattern, String> {
        let PatternOptions { content, name, nocase, protocol, ports, action: own_action } = options;
        let bytes = content::parse(&content)?;
        if !(1..=CONTENT_BYTES_MAX).contains(&bytes.len()) {
            return Err(format!("has {} bytes; 1 to {CONTENT_BYTES_MAX} are possible", bytes.len()));
        }
        if ports.len() > PORTS_MAX {
            return Err(format!("has {} ports; at most {PORTS_MAX} are possible", ports.len()));
        }
        if ports.contains(&0) {
            return Err("has port 0; write ports from 1 to 65535, or none for all".into());
        }
        Ok(Pattern {
            bytes: bytes.into(),
            nocase,
            drops: own_action.unwrap_or(action) == Action::Drop,
            protocol: protocol.map(ScannedProtocol::number),
            ports: ports.into(),
            name: name.unwrap_or_else(|| content.clone()),
            content,
        })
    }

    /// Whether this pattern, found in `hit`, is looked for in such packets and in letters of this case.
    #[inline]
    fn is_meant(&self, hit: &[u8], meta: &Meta, folds_case: bool) -> bool {
        self.protocol.is_none_or(|protocol| protocol == meta.protocol)
            && (self.ports.is_empty() || self.ports.contains(&meta.dst_port))
            && (!folds_case || self.nocase || *hit == *self.bytes)
    }

    fn row(&self, number: usize) -> Vec<String> {
        let protocol = match self.protocol {
            None => "tcp, udp",
            Some(protocol::TCP) => "tcp",
            Some(_) => "udp",
        };
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let port = if ports.is_empty() { String::new() } else { format!(" port {}", ports.join(",")) };
        vec![
            number.to_string(),
            shown(&self.name),
            shown(&self.content),
            format!("{protocol}{port}"),
            if self.drops { "drop".into() } else { "count".into() },
        ]
    }
}

/// Text that anybody may have written, for one line: what cannot be printed is escaped, the rest cut.
fn shown(text: &str) -> String {
    let mut letters = text.chars();
    let mut shown: String = letters.by_ref().take(SHOWN_LETTERS).flat_map(char::escape_debug).collect();
    if letters.next().is_some() {
        shown += "...";
    }
    shown
}

#[cfg(test)]
mod tests;
