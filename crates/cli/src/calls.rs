//! Commands as calls: what a command finds, as data, for programs that are no shells. Python's package is made of these.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use engine::{Chain, Progress, Seen};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, Report};
use serde::Serialize;

use crate::commands::bench::BenchCommand;
use crate::commands::p4::P4Command;
use crate::commands::{Cli, Command, bench, emulate, p4, plan, run, sweep, verify};
use crate::explain::Code;
use crate::failure::{Failure, INTERRUPTED, USAGE};
use crate::{Program, hinted, output};

/// Why a call has no result: what the command would have said.
#[derive(Clone, Debug)]
pub struct CallError {
    /// The exit status that the command would have had.
    pub status: u8,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where: `FILE:LINE:COLUMN`, of a mistake in a file.
    pub place: Option<String>,
    /// What to do.
    pub help: Option<String>,
    /// What `paceline explain` says more of: `chain-file`. `None` of an interruption.
    pub code: Option<&'static str>,
    /// All of it, as the command prints it, without colours.
    pub text: String,
}

/// Each packet of a run, with the chain that ran when it came. An error ends the run.
pub type See<'a> = &'a mut dyn FnMut(&Chain, &Seen<'_>) -> Result<(), String>;

impl Program {
    /// Runs a chain over a capture, and shows each packet to `see`. `args` are those of `paceline run`. Returns the JSON
    /// that `--json` writes.
    ///
    /// # Errors
    /// As the command; [`CallError::status`] is that of an interruption where `progress` was stopped ahead of the run.
    pub fn call_run(
        &self,
        args: &[OsString],
        progress: &Progress,
        see: See<'_>,
    ) -> Result<String, CallError> {
        let Command::Run(args) = parse("run", args)? else { return Err(no_call("run")) };
        let mut see = |chain: &Chain, seen: &Seen<'_>| see(chain, seen).map_err(Failure::usage);
        as_json(run::call::call(&args, &self.functions, progress, &mut see))
    }

    /// The comparisons that a sweep with these arguments of `paceline sweep` is to make, as JSON: each one's key, capture, and
    /// number among those of its capture.
    ///
    /// # Errors
    /// As the command.
    pub fn call_sweep_cells(&self, args: &[OsString]) -> Result<String, CallError> {
        let Command::Sweep(args) = parse("sweep", args)? else { return Err(no_call("sweep")) };
        as_json(sweep::cells::cells(&args, &self.functions))
    }

    /// Makes one comparison of a sweep, and returns its row as JSON. A capture that cannot be read is an outcome. Where `capture` is
    /// the name of an object in a store, `fetched` is a file with what it has.
    ///
    /// # Errors
    /// As the command; where there is no such number.
    pub fn call_sweep_cell(
        &self,
        args: &[OsString],
        capture: PathBuf,
        fetched: Option<PathBuf>,
        number: u64,
        progress: &Progress,
    ) -> Result<String, CallError> {
        let Command::Sweep(args) = parse("sweep", args)? else { return Err(no_call("sweep")) };
        as_json(sweep::cells::compare(&args, capture, fetched, number, &self.functions, progress))
    }

    /// Does what a command does that writes JSON: `verify`, `plan`, `bench compare`, `p4 run` or `emulate`. Writes no
    /// report, and returns that JSON.
    ///
    /// # Errors
    /// As the command.
    pub fn call(&self, command: &str, args: &[OsString], progress: &Progress) -> Result<String, CallError> {
        let functions = &self.functions;
        match parse(command, args)? {
            Command::Verify(args) => as_json(verify::call(&args, functions, progress)),
            Command::Plan(args) => as_json(plan::call(&args, functions, progress)),
            Command::Bench(args) => match args.command {
                BenchCommand::Compare(args) => as_json(bench::compare::call(&args, functions, progress)),
                _ => Err(no_call("bench")),
            },
            Command::P4(args) => match args.command {
                P4Command::Run(args) => as_json(p4::call(&args, progress)),
                _ => Err(no_call("p4")),
            },
            Command::Emulate(args) if args.command.is_none() => {
                as_json(emulate::run::call(&args.run, progress))
            }
            _ => Err(no_call(command)),
        }
    }
}

/// What a command's arguments ask for.
fn parse(command: &str, args: &[OsString]) -> Result<Command, CallError> {
    let all = ["paceline", command].into_iter().map(OsString::from).chain(args.iter().cloned());
    let parsed = Cli::try_parse_from(all).map(|cli| cli.command);
    parsed.map_err(|error| {
        let said = hinted(error).to_string();
        // How the command is used, which comes last, is of no use to a caller.
        let mut parts = said.split("\n\n").map(str::trim);
        let message = parts.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let help: Vec<&str> = parts.filter_map(|part| part.strip_prefix("tip: ")).collect();
        let help = (!help.is_empty()).then(|| help.join("\n"));
        let text =
            [Some(&message), help.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>().join("\n");
        CallError { status: USAGE, message, place: None, help, code: Some(Code::Usage.page().name), text }
    })
}

fn no_call(command: &str) -> CallError {
    Failure::usage(format!("`{command}` with these arguments is no call")).into()
}

fn as_json(found: Result<impl Serialize, Failure>) -> Result<String, CallError> {
    found.and_then(|found| output::json(&found)).map_err(CallError::from)
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> CallError {
        match failure {
            Failure::Told(status, code, report) => CallError::of(status, code, &report),
            Failure::Interrupted | Failure::OutputClosed => {
                let message = failure.to_string();
                CallError {
                    status: INTERRUPTED,
                    text: message.clone(),
                    message,
                    place: None,
                    help: None,
                    code: None,
                }
            }
        }
    }
}

impl CallError {
    fn of(status: u8, code: Code, report: &Report) -> CallError {
        // A report of several mistakes has them beside it: the first one counts, and the text has all.
        let first = report.related().and_then(|mut related| related.next()).unwrap_or(report.as_ref());
        let message = first.to_string();
        let mut text = String::new();
        let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(110);
        if handler.render_report(&mut text, report.as_ref()).is_err() {
            text.clone_from(&message);
        }
        let help = first.help().map(|help| help.to_string());
        let text = format!("{}\n  more: {}", text.trim(), code.hint());
        CallError { status, message, place: place(first), help, code: Some(code.page().name), text }
    }
}

/// Where a mistake is: the file, and line and column from 1 on.
fn place(mistake: &dyn Diagnostic) -> Option<String> {
    let label = mistake.labels()?.next()?;
    let span = mistake.source_code()?.read_span(label.inner(), 0, 0).ok()?;
    let name = span.name().unwrap_or("text");
    Some(format!("{name}:{}:{}", span.line() + 1, span.column() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    fn failed(command: &str, text: &str) -> CallError {
        let call = Program::stock().call(command, &args(text), &Progress::default());
        call.expect_err("there is no such file")
    }

    #[test]
    fn an_error_has_message_place_and_help() {
        let folder = tempfile::tempdir().expect("a folder");
        let chain = folder.path().join("chain.toml");
        std::fs::write(&chain, "[[function]]\nuse = \"conntrak\"\n").expect("a chain");
        let error = failed("verify", &format!("{} --pcap no.pcap", chain.display()));
        assert_eq!(error.status, USAGE);
        let place = error.place.expect("a mistake in a file has a place");
        assert!(place.ends_with("chain.toml:2:7"), "{place}");
        assert!(error.text.contains("conntrak"), "{}", error.text);
        assert!(!error.text.contains('\u{1b}'), "no colours: {:?}", error.text);
    }

    #[test]
    fn wrong_arguments_are_an_error_with_a_tip() {
        let error = failed("verify", "chain.toml --pcap in.pcap --strategi rss");
        assert!(error.message.contains("--strategi"), "{}", error.message);
        assert!(error.help.is_some_and(|help| help.contains("--strategy")));
    }

    #[test]
    fn help_and_other_commands_are_no_calls() {
        assert!(failed("man", "--out x").message.contains("no call"));
        assert_eq!(failed("verify", "--help").status, USAGE);
        assert!(failed("p4", "check x.p4").message.contains("no call"));
    }

    /// A program in P4 may have several: the first one's place is the error's, and the text has all.
    #[test]
    fn the_first_of_several_mistakes_has_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("wrong.p4");
        std::fs::write(&program, "header h_t { bit<8> a; }\nnonsense here;\n").expect("a program");
        let error = failed("p4", &format!("run {} --packet 00", program.display()));
        assert!(error.place.is_some_and(|place| place.ends_with("wrong.p4:1:1")));
        assert!(error.message.contains("`main`") && error.text.contains("expected `(`"), "{}", error.text);
    }

    /// A call is the command: its JSON is what `--json` writes, and every packet is shown.
    #[test]
    fn a_run_shows_every_packet() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let text =
            format!("{root}/examples/edge.toml --pcap {root}/captures/edge.pcap --strategy rss --cores 2");
        let mut packets = 0_u64;
        let json = Program::stock().call_run(&args(&text), &Progress::default(), &mut |_, seen| {
            assert_eq!(seen.stamp.seq, packets, "in order of arrival");
            packets += 1;
            Ok(())
        });
        let json: serde_json::Value = serde_json::from_str(&json.expect("it runs")).expect("JSON");
        assert_eq!(json["packets"], packets);
        assert_eq!(json["complete"], true);
        assert!(packets > 0);
    }

    /// Cells are those of the command's journal, with its keys; each by itself says what the sweep said.
    #[test]
    fn cells_are_the_comparisons_of_the_sweep() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out");
        let text = format!(
            "--chains {root}/examples/edge.toml --strategies rss,scr --cores 2 --flows 8 --packets 200 --mutate 1 --simulate \
             --jobs 1 --out {} -- {root}/captures/edge.pcap {root}/captures",
            out.display()
        );
        let program = Program::stock();
        let Ok(Command::Sweep(swept)) = parse("sweep", &args(&text)) else { panic!("it is a sweep") };
        assert!(sweep::command(&swept, &program.functions).is_ok());
        let journal = std::fs::read_to_string(out.join("runs.jsonl")).expect("a journal");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        let cells = value(&program.call_sweep_cells(&args(&text)).expect("cells"));
        let cells = cells["cells"].as_array().expect("a list");
        assert_eq!(cells.len(), journal.lines().count());
        for (cell, line) in cells.iter().zip(journal.lines()) {
            let capture = PathBuf::from(cell["capture"].as_str().expect("a name"));
            let number = cell["number"].as_u64().expect("a number");
            let row = program.call_sweep_cell(&args(&text), capture, None, number, &Progress::default());
            assert_eq!(value(&row.expect("a row")), value(line));
            assert_eq!(cell["key"], value(line)["key"]);
        }
        let gone = program.call_sweep_cell(&args(&text), "gone.pcap".into(), None, 0, &Progress::default());
        assert_eq!(value(&gone.expect("a row"))["outcome"], "unreadable");
        let beyond =
            program.call_sweep_cell(&args(&text), "gone.pcap".into(), None, 1 << 40, &Progress::default());
        assert!(beyond.is_err_and(|error| error.message.contains("no comparison")));
    }

    #[test]
    fn what_sees_packets_can_end_the_run() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let text = format!("{root}/examples/edge.toml --pcap {root}/captures/edge.pcap");
        let call = Program::stock()
            .call_run(&args(&text), &Progress::default(), &mut |_, _| Err("enough".to_owned()));
        assert_eq!(call.expect_err("it ended").message, "enough");
    }
}
