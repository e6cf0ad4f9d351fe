//! `paceline import nftables`: the forward chains of `nft -j list ruleset` as a chain with a `firewall`.
//!
//! | page | what it is |
//! |---|---|
//! | this | the command, and rulesets that it refuses as a whole |
//! | `ruleset` | the JSON as tables, chains and sets |
//! | `space` | sets of packets |
//! | `names` | numbers of names |
//! | `matches` | a condition as a set of packets |
//! | `limits` | limits as rates |
//! | `walk` | chains as a list of decisions |
//! | `write` | decisions as rules of `firewall` |
//! | `say` | expressions as people write them |

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use engine::{Chain as EngineChain, Registry};
use nf::prefix::parse_prefix;
use wire::Addr;

use crate::failure::{DIFFERENT, Failure};
use crate::input::{name_of_input, read_text_or_stdin};
use crate::output::{self, Reports, fitted};

mod limits;
mod matches;
mod names;
mod ruleset;
mod say;
mod space;
mod walk;
mod write;

#[cfg(test)]
mod tests;

use matches::{Context, Sides};
use ruleset::{Chain, Ruleset};
use space::Ranges;
use walk::{Failed, Problem, Walk};
use write::Writer;

const EXAMPLES: &str = "\
Examples:
  sudo nft -j list ruleset | paceline import nftables - --out firewall.toml
  paceline import nftables rules.json --inside eth1 --outside eth0 --inside-prefixes 10.0.0.0/8,fd00::/8
  paceline import nftables rules.json --leave-out 'ip nat'

The chain accepts nothing that the ruleset drops. What cannot be said as nft means it is listed on standard error, with
table, chain and rule; a rule that accepts is left out then, and one that drops is made wider. Exit status: 0 if all
fitted; 1 if the file is written and something did not fit; 2 if nothing is written.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct NftablesArgs {
    /// What `nft -j list ruleset` printed; `-` is standard input
    #[arg(value_name = "FILE")]
    pub ruleset: PathBuf,
    /// Write the chain file here; `-` is standard output
    #[arg(long, value_name = "CHAIN.toml", default_value = "-")]
    pub out: PathBuf,
    /// Whose chains: of packets on their way through, or of those for the host itself (`--host chain`)
    #[arg(long, value_enum, default_value_t = Hook::Forward)]
    pub hook: Hook,
    /// The interface of the ruleset that is the chain's inside
    #[arg(long, value_name = "IF", requires_all = ["outside", "inside_prefixes"])]
    pub inside: Option<String>,
    /// The interface of the ruleset that is the chain's outside
    #[arg(long, value_name = "IF", requires = "inside")]
    pub outside: Option<String>,
    /// All addresses that are behind the inside interface: destinations say by which interface a packet leaves
    #[arg(long, value_name = "PREFIX,...", value_delimiter = ',', requires = "inside")]
    pub inside_prefixes: Vec<String>,
    /// Leave out a table that you take care of, such as 'ip nat'; may be repeated
    #[arg(long, value_name = "TABLE")]
    pub leave_out: Vec<String>,
}

/// Whose chains are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Hook {
    Forward,
    Input,
}

/// What became of a ruleset.
#[derive(Debug)]
pub struct Imported {
    pub chain: String,
    pub problems: Vec<Problem>,
}

pub fn command(args: &NftablesArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let reports = Reports::open_documents(&[&args.ruleset], &[("--out", Some(&args.out))])?;
    let text = read_text_or_stdin("the ruleset", &args.ruleset)?;
    let name = name_of_input(&args.ruleset);
    let sides = args.sides()?;
    let imported = import(&text, args.hook, sides.as_ref(), &args.leave_out)
        .map_err(|wrong| Failure::usage(format!("{name} {wrong}")))?;
    // A list may be too long, or its rules too different, for `firewall`.
    EngineChain::parse(&name_of_input(&args.out), &imported.chain, registry).map_err(|error| {
        Failure::usage(format!("{name} makes a chain that does not run: {}", error.in_words()))
    })?;
    reports.write_documents(&[&|| imported.chain.clone()], "")?;
    for Problem { place, expression, why, instead } in &imported.problems {
        eprint!("{}", fitted(&format!("does not fit: {place}: {expression}: {why}; {instead}\n")));
    }
    match imported.problems.len() {
        0 => Ok(ExitCode::SUCCESS),
        number => {
            eprintln!(
                "{} did not fit, and nothing is accepted for it",
                output::plural(number as u64, "expression")
            );
            Ok(ExitCode::from(DIFFERENT))
        }
    }
}

impl NftablesArgs {
    fn sides(&self) -> Result<Option<Sides>, Failure> {
        let (Some(inside), Some(outside)) = (&self.inside, &self.outside) else { return Ok(None) };
        if inside == outside {
            return Err(Failure::usage(format!(
                "{inside} is both --inside and --outside; name two interfaces"
            )));
        }
        let prefixes = self.inside_prefixes.iter().map(|text| {
            let (ip, length) =
                parse_prefix(text).map_err(|wrong| Failure::usage(format!("--inside-prefixes {wrong}")))?;
            let host_bits = if ip.is_ipv4() { 32 - length } else { 128 - length };
            let first = u128::from_be_bytes(Addr::from(ip).0);
            Ok((first, first | 1_u128.checked_shl(host_bits).unwrap_or(0).wrapping_sub(1)))
        });
        let prefixes = Ranges::of(prefixes.collect::<Result<_, Failure>>()?);
        Ok(Some(Sides { inside: inside.clone(), outside: outside.clone(), prefixes }))
    }
}

/// A ruleset as a chain file.
///
/// # Errors
/// Why nothing is written, to follow the file's name in a sentence.
pub fn import(
    text: &str,
    hook: Hook,
    sides: Option<&Sides>,
    leave_out: &[String],
) -> Result<Imported, String> {
    let mut ruleset = Ruleset::parse(text)?;
    for table in leave_out {
        let before = ruleset.chains.len();
        ruleset.chains.retain(|chain| !is_table(chain, table));
        if ruleset.chains.len() == before {
            return Err(format!("has no chain in a table \"{table}\", which --leave-out names"));
        }
    }
    let dormant = std::mem::take(&mut ruleset.dormant);
    ruleset.chains.retain(|chain| !dormant.contains(&chain.table));
    refuse_others(&ruleset, hook)?;
    let mut bases: Vec<&Chain> = ruleset.chains.iter().filter(|chain| is_of_hook(chain, hook)).collect();
    bases.sort_by_key(|chain| chain.base.as_ref().map(|base| base.priority));
    let hook_name = hook.name();
    if bases.is_empty() {
        return Err(format!(
            "has no chain of type filter and hook {hook_name}, so there is nothing to import"
        ));
    }
    let forwards = hook == Hook::Forward;
    let walk =
        Walk::new(Context { ruleset: &ruleset, sides, forwards }, &bases).map_err(|failed| match failed {
            Failed::TooMany(place) => {
                format!("has rules that are too many, or too different, to be written one by one: {place}")
            }
            Failed::TooDeep(place) => format!("has chains that jump more than 16 deep: {place}"),
            Failed::NoChain(place) => format!("has a jump to a chain that is not there: {place}"),
        })?;
    let (chain, more) = Writer::new(&ruleset, sides).chain(&walk, "imported", &about(&bases, hook));
    let mut problems = walk.problems;
    problems.extend(more);
    problems.dedup();
    Ok(Imported { chain, problems })
}

impl Hook {
    fn name(self) -> &'static str {
        match self {
            Hook::Forward => "forward",
            Hook::Input => "input",
        }
    }
}

fn is_table(chain: &Chain, name: &str) -> bool {
    name.split_whitespace().eq([chain.table.family.as_str(), chain.table.name.as_str()])
}

fn is_of_hook(chain: &Chain, hook: Hook) -> bool {
    matches!(chain.table.family.as_str(), "ip" | "ip6" | "inet")
        && chain.base.as_ref().is_some_and(|base| base.kind == "filter" && base.hook == hook.name())
}

/// Refuses rulesets in which other chains have a say about the same packets.
fn refuse_others(ruleset: &Ruleset, hook: Hook) -> Result<(), String> {
    for chain in &ruleset.chains {
        let Some(base) = &chain.base else { continue };
        let is_met = match hook {
            Hook::Forward => !matches!(base.hook.as_str(), "input" | "output"),
            Hook::Input => matches!(base.hook.as_str(), "prerouting" | "ingress" | "input"),
        };
        if chain.table.family == "arp"
            || !is_met
            || is_of_hook(chain, hook)
            || (chain.rules.is_empty() && base.accepts)
        {
            continue;
        }
        let table = &chain.table;
        let does = match base.kind.as_str() {
            "nat" => {
                "changes addresses: write a function `nat` behind the firewall, where rules see addresses of the inside as \
                      they do here"
            }
            _ => "may drop packets before or behind them",
        };
        return Err(format!(
            "has the chain {table} {} (type {}, hook {}), which {does}\nSay --leave-out '{table}' once you have taken care \
             of it.",
            chain.name, base.kind, base.hook
        ));
    }
    Ok(())
}

/// What a chain file says of itself.
fn about(bases: &[&Chain], hook: Hook) -> Vec<String> {
    let named: Vec<String> = bases.iter().map(|chain| format!("{} {}", chain.table, chain.name)).collect();
    let mut about = vec![
        format!("The rules of nftables for hook {}: {}.", hook.name(), named.join(", ")),
        "Made by `paceline import nftables`. A comment names the rule that the lines below it come from.".to_owned(),
        "It accepts nothing that they drop, but ARP, neighbour discovery and later fragments (paceline nfs firewall).".to_owned(),
    ];
    for (family, name) in [("ip", "IPv4"), ("ip6", "IPv6")] {
        if !bases.iter().any(|chain| [family, "inet"].contains(&chain.table.family.as_str())) {
            about.push(format!("{name} passes: no chain of the hook sees it."));
        }
    }
    about
}
