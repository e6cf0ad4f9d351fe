//! Internet checksums over fields that nobody writes: the parser sums their words where they lie, in the packet's own order of bytes,
//! so that a program need not take each field apart, keep it, and put it together again.

use std::collections::BTreeSet;

use p4::ir::{Algorithm, FieldId, Operand, Program, StatementKind};

use crate::edited::edited;
use crate::names::Names;

/// Bytes of a header that are summed when it is extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    header: u32,
    /// Where they begin, and how many there are: both are even.
    from: u32,
    bytes: u32,
}

impl Run {
    /// The name of their sum.
    pub fn name(self, names: &Names) -> String {
        format!("{}_sum_{}_{}", names.headers[self.header as usize], self.from, self.bytes)
    }

    /// Their sum, where `at` is the header.
    pub fn sum(self) -> String {
        let (mut words, mut at, end) = (Vec::new(), self.from, self.from + self.bytes);
        while at < end {
            let bytes = (end - at).min(4);
            words.push(format!("raw{}(at + {at})", bytes * 8));
            at += bytes;
        }
        words.join(" + ")
    }
}

/// The runs that the checksums of a program are made of.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    runs: BTreeSet<Run>,
    edited: BTreeSet<FieldId>,
}

impl Sums {
    /// What the checksums of a program sum in the packet.
    pub fn of(program: &Program) -> Sums {
        let mut sums = Sums { runs: BTreeSet::new(), edited: edited(program) };
        let mut runs = BTreeSet::new();
        for body in [&program.verify_checksum, &program.compute_checksum] {
            program.visit(body, &mut |kind| {
                if let StatementKind::Checksum { algorithm: Algorithm::Csum16, data, .. } = kind {
                    runs.extend(sums.split(program, data).0);
                }
            });
        }
        sums.runs = runs;
        sums
    }

    /// All runs.
    pub fn all(&self) -> impl Iterator<Item = Run> {
        self.runs.iter().copied()
    }

    /// The runs of a header.
    pub fn of_header(&self, header: u32) -> impl Iterator<Item = Run> {
        self.all().filter(move |run| run.header == header)
    }

    /// The part of a checksum's data that lies in the packet as it came, and the rest. A run begins and ends with a word of the data, and of
    /// its header.
    pub fn split<'a>(&self, program: &Program, data: &'a [Operand]) -> (Vec<Run>, Vec<&'a [Operand]>) {
        let (mut runs, mut rest) = (Vec::new(), Vec::new());
        let (mut first, mut bits) = (0, 0_u32);
        let mut at = 0;
        while at < data.len() {
            let run = if bits.is_multiple_of(16) { self.run(program, &data[at..]) } else { None };
            let Some((run, operands)) = run else {
                bits += program.width(data[at]);
                at += 1;
                continue;
            };
            if first < at {
                rest.push(&data[first..at]);
            }
            runs.push(run);
            at += operands;
            first = at;
        }
        if first < data.len() {
            rest.push(&data[first..]);
        }
        (runs, rest)
    }

    /// The run that the data begins with, and how many operands it has.
    fn run(&self, program: &Program, data: &[Operand]) -> Option<(Run, usize)> {
        let Operand::Field(first) = *data.first()? else { return None };
        let (header, declared) =
            (0..).zip(&program.headers).find(|(_, header)| header.fields.contains(&first))?;
        let place = declared.fields.iter().position(|field| *field == first)?;
        let width = |field: &FieldId| program.fields[*field as usize].width;
        let from: u32 = declared.fields[..place].iter().map(width).sum();
        if !from.is_multiple_of(16) {
            return None;
        }
        let (mut bits, mut longest) = (0_u32, None);
        for (count, (field, operand)) in (1..).zip(declared.fields[place..].iter().zip(data)) {
            if *operand != Operand::Field(*field) || self.edited.contains(field) {
                break;
            }
            bits += width(field);
            if bits.is_multiple_of(16) {
                longest = Some((Run { header, from: from / 8, bytes: bits / 8 }, count));
            }
        }
        longest
    }
}
