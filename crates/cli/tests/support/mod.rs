//! The program as a user meets it, for all tests of it.
#![allow(dead_code, reason = "no test needs all of it")]

pub mod vlan;

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn paceline(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_paceline")).current_dir(root()).args(args).output();
    output.expect("the program runs")
}

/// The program with arguments that have no spaces in them; `''` is an empty one.
pub fn by_line(args: &str) -> Output {
    paceline(&args.split_whitespace().map(|word| word.trim_matches('\'')).collect::<Vec<_>>())
}

/// The program with these arguments, while it runs.
pub fn start(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.current_dir(root()).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program runs")
}

/// Ends a program that a test left. If the test failed, what the program said last is shown: why a run ended, where it
/// ended of itself.
pub fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
    let mut said = String::new();
    if let (true, Some(stderr)) = (std::thread::panicking(), &mut child.stderr) {
        let _ = stderr.read_to_string(&mut said);
        eprintln!("the program said last: {said}");
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// What was said on standard error, its lines joined as if they had not been wrapped.
pub fn stderr(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).expect("text");
    text.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A file for one test, gone afterwards.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str, content: &[u8]) -> Scratch {
        let path = std::env::temp_dir().join(format!("paceline-{}-{name}", std::process::id()));
        fs::write(&path, content).expect("a temporary file");
        Scratch(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub fn json(output: &Output) -> serde_json::Value {
    serde_json::from_str(&stdout(output)).expect("nothing but JSON")
}

/// A folder for one test, gone afterwards.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = Folder::absent(name);
        fs::create_dir_all(&folder.0).expect("a temporary folder");
        folder
    }

    /// Where there is none yet.
    pub fn absent(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("paceline-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }

    /// A tracker and a NAT before the hosts of 10.0.0.0/24.
    pub fn nat_chain(&self) -> String {
        let chain = self.file("nat.toml");
        let text = "name = \"nat\"\ninside = [\"10.0.0.0/24\"]\n[[function]]\nuse = \"conntrack\"\n\
                    [[function]]\nuse = \"nat\"\ninside = [\"10.0.0.0/24\"]\nexternal = [\"203.0.113.1\"]\n\
                    hairpinning = false\n";
        fs::write(&chain, text).expect("a folder of the test");
        chain
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
