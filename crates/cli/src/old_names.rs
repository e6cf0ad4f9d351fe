//! Command lines of the release before: names that changed, each with a warning. To be deleted with the next release.

use std::ffi::OsString;
use std::path::Path;

use clap::{ArgAction, Command, CommandFactory};

use crate::commands::Cli;

/// Commands that replay a capture or traffic by a model.
const REPLAYING: [&[&str]; 4] = [&["plan"], &["bench", "chain"], &["bench", "mlffr"], &["bench", "egress"]];

/// The words of a command line with the names of today. Warns on standard error of each that is not.
pub fn translated(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (words, changed) = translate(words.into_iter().collect());
    for (old, new) in changed {
        eprintln!(
            "warning: `{old}` is now `{new}`; the old way works in this release and will not in the next"
        );
    }
    words
}

/// The same, with what was changed into what.
fn translate(words: Vec<OsString>) -> (Vec<OsString>, Vec<(String, String)>) {
    let texts: Vec<&str> = words.iter().skip(1).map_while(|word| word.to_str()).collect();
    let is = |command: &[&str]| texts.starts_with(command);
    let Some(path) = REPLAYING.into_iter().chain(POSITIONAL).find(|command| is(command)) else {
        return (words, Vec::new());
    };
    let mut line = Line::read(&words, path);
    if REPLAYING.contains(&path) {
        line.rename("--trace", "--pcap");
        line.rename("--model", "--traffic");
    }
    match path {
        ["bench", "mlffr"] => line.virtual_cores(),
        ["bench", "compare"] => line.compare(),
        ["inspect"] => line.inspect(),
        ["sequence"] => line.sequence(),
        ["emulate", "sweep"] => line.sweep(),
        _ => {}
    }
    match line.changed.is_empty() {
        true => (words, Vec::new()),
        false => (line.written(), line.changed),
    }
}

/// Commands that took a capture without the name of an option.
const POSITIONAL: [&[&str]; 4] = [&["bench", "compare"], &["inspect"], &["sequence"], &["emulate", "sweep"]];

/// A command line in parts.
struct Line {
    /// The program and the command.
    begin: Vec<OsString>,
    parts: Vec<Part>,
    changed: Vec<(String, String)>,
}

enum Part {
    /// An option with its value, or a flag.
    Option {
        name: String,
        value: Option<OsString>,
    },
    Positional(OsString),
    /// What clap has to make sense of.
    Other(OsString),
}

impl Line {
    fn read(words: &[OsString], command: &[&str]) -> Line {
        let begin = words[..=command.len()].to_vec();
        let mut parts = Vec::new();
        let takes_value = options_with_values(command);
        let mut words = words[begin.len()..].iter().cloned();
        while let Some(word) = words.next() {
            let text = word.to_str().unwrap_or_default();
            parts.push(if text == "--" {
                parts.push(Part::Other(word));
                parts.extend(words.by_ref().map(Part::Other));
                break;
            } else if let Some((name, value)) = text.split_once('=').filter(|_| text.starts_with("--")) {
                Part::Option { name: name.to_owned(), value: Some(value.into()) }
            } else if text.starts_with('-') && text != "-" {
                let value = if takes_value.iter().any(|name| name == text) { words.next() } else { None };
                Part::Option { name: text.to_owned(), value }
            } else {
                Part::Positional(word)
            });
        }
        Line { begin, parts, changed: Vec::new() }
    }

    fn written(&self) -> Vec<OsString> {
        let mut words = self.begin.clone();
        for part in &self.parts {
            match part {
                Part::Positional(word) | Part::Other(word) => words.push(word.clone()),
                // Options whose value is optional take it behind an equals sign alone.
                Part::Option { name, value: Some(value) } => {
                    let mut word = OsString::from(format!("{name}="));
                    word.push(value);
                    words.push(word);
                }
                Part::Option { name, value: None } => words.push(name.into()),
            }
        }
        words
    }

    fn tell(&mut self, old: impl Into<String>, new: impl Into<String>) {
        self.changed.push((old.into(), new.into()));
    }

    fn rename(&mut self, old: &str, new: &str) {
        let mut is_old = false;
        for part in &mut self.parts {
            if let Part::Option { name, .. } = part
                && name == old
            {
                new.clone_into(name);
                is_old = true;
            }
        }
        if is_old {
            self.tell(old, new);
        }
    }

    fn virtual_cores(&mut self) {
        let given = |part: &Part| matches!(part, Part::Option { name, .. } if name == "--virtual-cores");
        if self.parts.iter().any(given) {
            self.rename("--virtual-cores", "--cores");
            self.changed.pop();
            self.parts.push(Part::Option { name: "--virtual".to_owned(), value: None });
            self.tell("--virtual-cores N", "--cores N --virtual");
        }
    }

    /// The source stood where the chain stands now.
    fn compare(&mut self) {
        let chain = self
            .parts
            .iter()
            .position(|part| matches!(part, Part::Option { name, value: Some(_) } if name == "--chain"));
        let Some(chain) = chain else { return };
        let Part::Option { value: Some(chain), .. } = self.parts.remove(chain) else { return };
        self.name_positionals();
        self.parts.insert(0, Part::Positional(chain));
        self.tell(
            "bench compare SOURCE --chain CHAIN.toml",
            "bench compare CHAIN.toml --pcap IN, or --traffic MODEL",
        );
    }

    fn inspect(&mut self) {
        let is_old = self.parts.iter().any(|part| matches!(part, Part::Positional(_)));
        if is_old {
            for part in &mut self.parts {
                if let Part::Positional(word) = part {
                    *part = Part::Option { name: "--pcap".to_owned(), value: Some(word.clone()) };
                }
            }
            self.tell("inspect IN", "inspect --pcap IN");
        }
    }

    /// The capture stood before the chain.
    fn sequence(&mut self) {
        let is_positional = |part: &&mut Part| matches!(part, Part::Positional(_));
        let mut both = self.parts.iter_mut().filter(is_positional);
        if let (Some(capture), Some(Part::Positional(_))) = (both.next(), both.next()) {
            let Part::Positional(word) = capture else { return };
            *capture = Part::Option { name: "--pcap".to_owned(), value: Some(word.clone()) };
            self.tell("sequence IN CHAIN.toml", "sequence CHAIN.toml --pcap IN");
        }
    }

    fn sweep(&mut self) {
        if self.name_positionals() {
            self.tell("emulate sweep TRAFFIC", "emulate sweep --traffic MODEL, or --pcap IN");
        }
    }

    /// Makes each positional the value of --pcap if it is a file or looks like one, else of --traffic.
    fn name_positionals(&mut self) -> bool {
        let mut is_any = false;
        for part in &mut self.parts {
            if let Part::Positional(word) = part {
                let name = if looks_like_file(word) { "--pcap" } else { "--traffic" };
                *part = Part::Option { name: name.to_owned(), value: Some(word.clone()) };
                is_any = true;
            }
        }
        is_any
    }
}

fn looks_like_file(word: &OsString) -> bool {
    let (path, text) = (Path::new(word), word.to_string_lossy());
    let is_path = text == "-" || path.exists() || path.extension().is_some() || text.contains('/');
    is_path && !text.contains(':')
}

/// Options of a command that take the next word as their value, those of the release before among them.
fn options_with_values(command: &[&str]) -> Vec<String> {
    let mut names: Vec<String> =
        ["--trace", "--model", "--virtual-cores", "--chain"].map(str::to_owned).into();
    let program = Cli::command();
    let found = command.iter().try_fold(&program, |found: &Command, word| found.find_subcommand(word));
    for arg in found.into_iter().flat_map(Command::get_arguments) {
        let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        if takes_value && !arg.is_require_equals_set() {
            names.extend(arg.get_long().map(|name| format!("--{name}")));
            names.extend(arg.get_short().map(|name| format!("-{name}")));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        ["paceline"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect()
    }

    #[test]
    fn each_old_line_becomes_a_line_of_today() {
        for (old, new, told) in [
            ("plan a.toml --trace t.pcap", "plan a.toml --pcap=t.pcap", 1),
            ("plan a.toml --model=zipf:flows=3", "plan a.toml --traffic=zipf:flows=3", 1),
            ("bench chain a.toml --model zipf --cores 2", "bench chain a.toml --traffic=zipf --cores=2", 1),
            ("bench egress a.toml --trace -", "bench egress a.toml --pcap=-", 1),
            ("bench mlffr a.toml --virtual-cores 4", "bench mlffr a.toml --cores=4 --virtual", 1),
            (
                "bench mlffr --trace t.pcap --virtual-cores=4 a.toml",
                "bench mlffr --pcap=t.pcap --cores=4 a.toml --virtual",
                2,
            ),
            ("bench compare t.pcap --chain a.toml", "bench compare a.toml --pcap=t.pcap", 1),
            (
                "bench compare --cores 1,2 university:packets=9 --chain=a.toml --virtual",
                "bench compare a.toml --cores=1,2 --traffic=university:packets=9 --virtual",
                1,
            ),
            ("inspect t.pcap -n 8", "inspect --pcap=t.pcap -n=8", 1),
            (
                "sequence t.pcap a.toml --cores 2 --out-dir d",
                "sequence --pcap=t.pcap a.toml --cores=2 --out-dir=d",
                1,
            ),
            (
                "emulate sweep uniform t.pcap --stages 2 --search --csv -",
                "emulate sweep --traffic=uniform --pcap=t.pcap --stages=2 --search --csv=-",
                1,
            ),
        ] {
            let (translated, changed) = translate(words(old));
            assert_eq!(translated, words(new), "{old}");
            assert_eq!(changed.len(), told, "{old}: {changed:?}");
            let (again, changed) = translate(translated);
            assert_eq!((again, changed.len()), (words(new), 0), "{new} is of today");
            if let Err(error) = Cli::try_parse_from(words(new)) {
                panic!("{new}: {error}");
            }
        }
    }

    #[test]
    fn lines_of_today_stay_as_they_are() {
        for line in
            ["run a.toml --pcap t.pcap", "emulate p.p4 --traffic zipf --model blocking", "inspect --help", ""]
        {
            let (translated, changed) = translate(words(line));
            assert_eq!((translated, changed.len()), (words(line), 0));
        }
    }
}
