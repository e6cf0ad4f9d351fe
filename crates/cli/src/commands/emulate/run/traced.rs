//! `--trace-registers`: what the model's registers hold, for hardware to be held to.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

use pipeline::compiled::{Hardware, Image};
use pipeline::{Lost, Model, Registers};

use super::args::RunArgs;
use crate::explain::Code;
use crate::failure::Failure;

/// A file with a line for each thing that changes, cycle by cycle; `docs/rtl.md` describes it.
pub struct Traced {
    path: PathBuf,
    file: BufWriter<File>,
    error: Option<io::Error>,
    /// Bits of the words of a header vector.
    widths: Vec<u32>,
    /// What was written of each last.
    last: HashMap<String, Vec<u64>>,
}

impl Traced {
    /// One, where it is asked for.
    pub fn of(args: &RunArgs, image: &Image) -> Result<Option<Traced>, Failure> {
        let Some(path) = &args.trace_registers else { return Ok(None) };
        let Model::Rapid(rapid) = args.model() else {
            let message = format!("--trace-registers: there is no hardware of the model {}", args.model);
            return Err(Failure::usage(message));
        };
        let hardware = Hardware::new(image, &rapid, &args.options()).map_err(|error| {
            Failure::usage(format!("{}: {error}", image.name())).coded(Code::NotInHardware)
        })?;
        let failed = |error| {
            Failure::usage(format!("cannot write {}: {error}", path.display())).coded(Code::CannotWrite)
        };
        let file = BufWriter::new(File::create(path).map_err(failed)?);
        let (path, widths) = (path.clone(), hardware.widths);
        let mut traced = Traced { path, file, error: None, widths, last: HashMap::new() };
        let widths: String = traced.widths.iter().map(|width| format!(" {width}")).collect();
        traced.line(&format!("widths{widths}"));
        Ok(Some(traced))
    }

    /// What changed since the cycle before.
    pub fn cycle(&mut self, registers: &Registers) {
        self.line(&format!("@ {}", registers.cycle));
        for (name, numbers) in &registers.held {
            if self.last.get(name) == Some(numbers) {
                continue;
            }
            let text = match name.ends_with(".phv") {
                true => self.words(numbers),
                false => numbers.iter().fold(String::new(), hexadecimal),
            };
            self.line(&format!("{name}{text}"));
            self.last.insert(name.clone(), numbers.clone());
        }
    }

    /// A packet leaves in this cycle.
    pub fn left(&mut self, number: u64, phv: &[u64]) {
        let words = self.words(phv);
        self.line(&format!("left {:x}{words}", number + 1));
    }

    /// A packet is lost in this cycle.
    pub fn lost(&mut self, lost: &Lost) {
        self.line(&format!("lost {:x} {}", lost.number + 1, lost.cause.name()));
    }

    /// The end of the file.
    pub fn finish(mut self) -> Result<(), Failure> {
        let result = match self.error.take() {
            Some(error) => Err(error),
            None => self.file.flush(),
        };
        result.map_err(|error| Failure::usage(format!("cannot write {}: {error}", self.path.display())))
    }

    /// Words of a header vector that are in hardware.
    fn words(&self, phv: &[u64]) -> String {
        let there = phv.iter().zip(&self.widths).filter(|(_, width)| **width > 0);
        there.map(|(word, _)| word).fold(String::new(), hexadecimal)
    }

    fn line(&mut self, line: &str) {
        if self.error.is_none() {
            self.error = writeln!(self.file, "{line}").err();
        }
    }
}

fn hexadecimal(mut text: String, number: &u64) -> String {
    _ = write!(text, " {number:x}");
    text
}
