//! `paceline new`: a crate with a network function or a strategy of one's own, beside Paceline's sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use engine::Registry;
use engine::strategies::ALL;

use crate::explain::Code;
use crate::failure::Failure;
use crate::output;

/// What crates begin with. Both are compiled and tested as examples.
const FUNCTION: &str = include_str!("../../../examples/own_function.rs");
const STRATEGY: &str = include_str!("../../../examples/own_strategy.rs");
const CHAIN: &str = include_str!("../../../examples/fair.toml");

const EXAMPLES: &str = "\
Examples:
  paceline new my-function
  cd my-function && cargo test --release && cargo run --release -- nfs my-function
  paceline new my-strategy --strategy";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct NewArgs {
    /// What the crate, its folder and the function or strategy are called: small letters, digits and `-`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The folder of Paceline's sources [default: those that this program was built from, if they are there]
    #[arg(long, value_name = "DIR")]
    pub sources: Option<PathBuf>,
    /// Make a strategy, and a chain of stock functions to run under it, in place of a function
    #[arg(long)]
    pub strategy: bool,
}

pub fn command(args: &NewArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let name = args.name.as_str();
    check(name, registry)?;
    let sources = sources(args.sources.as_deref())?;
    let folder = Path::new(name);
    let cannot =
        |error| Failure::usage(format!("cannot make the folder {name}: {error}")).coded(Code::CannotWrite);
    // It is never made within one that is there.
    fs::create_dir(folder).map_err(cannot)?;
    fs::create_dir(folder.join("src")).map_err(cannot)?;
    let files = if args.strategy { files_of_strategy(name, &sources) } else { files(name, &sources) };
    for (file, text) in files {
        fs::write(folder.join(file), text).map_err(cannot)?;
    }
    if args.strategy {
        output::print(&format!(
            "{name}/ has a strategy `{name}`, and chain.toml to run under it:\n\n  \
             cd {name}\n  \
             cargo run --release -- generate university --packets 100000 --out traffic.pcap\n  \
             cargo run --release -- run chain.toml --pcap traffic.pcap --strategy {name} --cores 3\n  \
             cargo run --release -- verify chain.toml --pcap traffic.pcap --strategy {name} --cores 3\n  \
             cargo run --release -- plan chain.toml --pcap traffic.pcap      # beside the other strategies\n\n\
             src/main.rs is yours to change: which core gets a packet, what it counts, what its user may set, its rate.\n"
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&format!(
        "{name}/ has a function `{name}`, its test, and chain.toml, which uses it:\n\n  \
         cd {name}\n  \
         cargo test                                                    # the function alone\n  \
         cargo run --release -- nfs {name}\n  \
         cargo run --release -- generate university --packets 100000 --out traffic.pcap\n  \
         cargo run --release -- run chain.toml --pcap traffic.pcap\n  \
         cargo run --release -- verify chain.toml --pcap traffic.pcap --strategy scr --cores 2\n  \
         cargo run --release -- bench chain chain.toml                 # what a packet costs\n\n\
         src/main.rs is yours to change: what it reads of a packet, its key, its state, its step.\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// # Errors
/// The name is none of a crate, or a stock function or strategy has it.
fn check(name: &str, registry: &Registry) -> Result<(), Failure> {
    // Words that Rust has for itself.
    const KEPT: [&str; 12] =
        ["crate", "fn", "impl", "match", "mod", "self", "static", "struct", "super", "test", "trait", "type"];
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 64
        && name.chars().all(is_plain)
        && name.split('-').all(|part| part.starts_with(|c: char| c.is_ascii_lowercase()))
        && !KEPT.contains(&name);
    if !is_name {
        return Err(Failure::usage(format!(
            "`{name}` cannot be a crate's name\nTake words of small letters and digits with `-` between them, such as my-function."
        )));
    }
    if registry.functions().any(|info| info.about.name == name) {
        return Err(Failure::usage(format!("there is a function `{name}`\nTake another name.")));
    }
    if ALL.iter().any(|strategy| strategy.name() == name) {
        return Err(Failure::usage(format!("there is a strategy `{name}`\nTake another name.")));
    }
    Ok(())
}

/// The folder of Paceline's sources, from the root on.
fn sources(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let built = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let folder = given.unwrap_or(built);
    let is_there =
        folder.join("crates/nf/Cargo.toml").is_file() && folder.join("crates/cli/Cargo.toml").is_file();
    let whole = folder.canonicalize().ok().filter(|_| is_there);
    whole.ok_or_else(|| match given {
        Some(given) => Failure::usage(format!(
            "{} has no sources of Paceline\nName the folder that has `crates` in it.",
            given.display()
        )),
        None => Failure::usage(
            "the sources that this program was built from are not here\nName the folder of Paceline's sources with --sources.",
        ),
    })
}

/// Each file's name and text.
fn files(name: &str, sources: &Path) -> [(&'static str, String); 4] {
    let others = "serde = { version = \"1\", features = [\"derive\"] }\nzerocopy = { version = \"0.8\", features = [\"derive\"] }\n";
    let manifest = manifest(name, sources, &["nf", "wire"], others);
    // What the example says of itself ends with its first line that is no comment.
    let begin = FUNCTION.find("\nuse ").unwrap_or_default() + 1;
    let function = format!(
        "//! `{name}`, a network function, and a program that has it with every command of `paceline`.\n//!\n\
         //! It begins as a quota: each source may send so many bytes a second.\n\n{}",
        FUNCTION[begin..]
            .replace("name: \"quota\"", &format!("name: \"{name}\""))
            .replace("spec: \"this example\"", &format!("spec: \"{name}\""))
            .replace("Quota", &camel(name))
    );
    let begin = CHAIN.find("\nname = ").unwrap_or_default() + 1;
    let chain = format!(
        "# A chain with `{name}`: cargo run --release -- run chain.toml --pcap traffic.pcap\n\n{}",
        CHAIN[begin..].replace("use = \"quota\"", &format!("use = \"{name}\""))
    );
    [("Cargo.toml", manifest), ("src/main.rs", function), ("chain.toml", chain), ignored()]
}

/// Those of a strategy.
fn files_of_strategy(name: &str, sources: &Path) -> [(&'static str, String); 4] {
    let manifest = manifest(name, sources, &["engine", "io", "strategy"], "");
    let begin = STRATEGY.find("\nuse ").unwrap_or_default() + 1;
    let strategy = format!(
        "//! `{name}`, a strategy, and a program that has it with every command of `paceline`.\n//!\n\
         //! It begins as receive-side scaling by blocks of entries.\n\n{}",
        STRATEGY[begin..].replace("\"blocks\"", &format!("\"{name}\"")).replace("Blocks", &camel(name))
    );
    let chain = "# Stock functions, to be run under the strategy: their keys can be hashed.\n\nname = \"try\"\n\n\
                 [[function]]\nuse = \"conntrack\"\n\n[[function]]\nuse = \"flow-statistics\"\n";
    [("Cargo.toml", manifest), ("src/main.rs", strategy), ("chain.toml", chain.to_owned()), ignored()]
}

/// What git is to leave alone.
fn ignored() -> (&'static str, String) {
    (".gitignore", "/target\n*.pcap\n".to_owned())
}

/// The manifest of a crate that uses these of Paceline's crates, beside the program, and others.
fn manifest(name: &str, sources: &Path, ours: &[&str], others: &str) -> String {
    let crates = sources.join("crates");
    let crates = crates.display();
    let ours = ours
        .iter()
        .map(|ours| format!("{ours} = {{ package = \"paceline-{ours}\", path = \"{crates}/{ours}\" }}\n"));
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
         [dependencies]\n{}\
         paceline = {{ path = \"{crates}/cli\" }}\n{others}\n\
         # A workspace of its own, wherever the folder lies.\n[workspace]\n\n\
         # For measuring, at the price of minutes of building:\n# [profile.release]\n# lto = \"thin\"\n",
        ours.collect::<String>()
    )
}

/// `MyFunction` of `my-function`.
fn camel(name: &str) -> String {
    let part = |part: &str| part[..1].to_ascii_uppercase() + &part[1..];
    name.split('-').map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written is the example but for names, so what holds for that holds for this.
    #[test]
    fn a_new_crate_is_the_example_under_another_name() {
        let [_, (_, function), (_, chain), _] = files("my-function", Path::new("/paceline"));
        assert!(!function.contains("\"quota\"") && !chain.contains("\"quota\""));
        let named = function
            .replace("name: \"my-function\"", "name: \"quota\"")
            .replace("spec: \"my-function\"", "spec: \"this example\"")
            .replace("MyFunction", "Quota");
        let code = |text: &str| text[text.find("\nuse ").expect("imports")..].to_owned();
        assert_eq!(code(&named), code(FUNCTION));
        assert!(function.contains("Rig::new(MyFunction") && chain.contains("use = \"my-function\""));
    }

    #[test]
    fn a_new_strategy_is_the_example_under_another_name() {
        let [(_, manifest), (_, strategy), (_, chain), _] =
            files_of_strategy("my-way", Path::new("/paceline"));
        let named = strategy.replace("\"my-way\"", "\"blocks\"").replace("MyWay", "Blocks");
        let code = |text: &str| text[text.find("\nuse ").expect("imports")..].to_owned();
        assert_eq!(code(&named), code(STRATEGY));
        assert!(!strategy.contains("\"blocks\"") && strategy.contains("program.strategies.push(&MyWay)"));
        assert!(
            manifest
                .contains("engine = { package = \"paceline-engine\", path = \"/paceline/crates/engine\" }")
        );
        engine::Chain::parse("chain.toml", &chain, &stock::registry()).expect("a chain");
    }

    #[test]
    fn names_that_no_crate_can_have_are_refused() {
        let registry = stock::registry();
        for name in ["a", "my-function", "quota2"] {
            assert!(check(name, &registry).is_ok(), "{name}");
        }
        for name in
            ["", "-a", "a-", "a--b", "A", "1a", "a/b", "..", "fn", "nat", "rss", "a-1", &"a".repeat(65)]
        {
            assert!(check(name, &registry).is_err(), "{name}");
        }
    }
}
