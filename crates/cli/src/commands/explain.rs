//! `paceline explain`: what an error's code, or a drop reason, means.

use std::process::ExitCode;

use clap::Args;
use engine::{Registry, nearest};

use crate::explain::{ALL, Code, Dropped, Page, Shown, drop_reasons, dropped};
use crate::failure::Failure;
use crate::output::{print, wrapped};

const EXAMPLES: &str = "\
Examples:
  paceline explain
  paceline explain keys-conflict
  paceline explain over-rate
  paceline explain nat/no-mapping";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// What an error ends in, such as `keys-conflict`, or a drop reason of a report, such as `over-rate` or
    /// `nat/no-mapping`; without it all are listed
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

pub fn command(args: &ExplainArgs, registry: &Registry) -> Result<ExitCode, Failure> {
    let text = match &args.name {
        None => list(registry),
        Some(name) => explained(name, registry).ok_or_else(|| unknown(name, registry))?,
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Every code with its title, and the names of drop reasons.
fn list(registry: &Registry) -> String {
    let longest = ALL.iter().map(|code| code.page().name.len()).max().unwrap_or_default();
    let rest = " ".repeat(longest + 4);
    let line = |code: &Code| {
        let Page { name, title, .. } = code.page();
        wrapped(title, &format!("  {name:longest$}  "), &rest)
    };
    "Errors\n".to_owned()
        + &ALL.iter().map(line).collect::<String>()
        + "\nDrop reasons\n"
        + &wrapped(&drop_reasons(registry).join(", "), "  ", "  ")
        + "\n`paceline explain NAME` says what one means, and what to do.\n"
}

/// What a name means as a code, and as a drop reason. Nothing where it is neither.
fn explained(name: &str, registry: &Registry) -> Option<String> {
    let code = ALL.iter().map(|code| code.page()).find(|page| page.name == name).map(page);
    // As reports have it: `nat/no-mapping`.
    let (by, reason_name) = name.split_once('/').map_or((None, name), |(by, name)| (Some(by), name));
    let mut reasons = dropped(reason_name, registry);
    reasons.retain(|reason| by.is_none_or(|by| reason.by == by));
    let reason = |reason: &Dropped| {
        let Dropped { by, means } = reason;
        wrapped(&format!("dropped by {by}: {means}"), "  ", "    ")
    };
    let reasons = (!reasons.is_empty())
        .then(|| format!("{name}: a drop reason\n\n{}", reasons.iter().map(reason).collect::<String>()));
    let parts: Vec<String> = code.into_iter().chain(reasons).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// The page of a code, for a terminal.
fn page(page: &Page) -> String {
    let Page { name, title, means, remedy, shown } = page;
    let shown = match shown {
        Shown::By(lines) => lines.lines().map(|line| format!("  $ {line}\n")).collect(),
        Shown::Only(what) => wrapped(what, "  ", "  "),
    };
    wrapped(title, &format!("{name}: "), "  ")
        + "\n"
        + &wrapped(means, "  ", "  ")
        + "\nWhat to do\n"
        + &wrapped(remedy, "  ", "  ")
        + "\nHow to see it\n"
        + &shown
}

fn unknown(name: &str, registry: &Registry) -> Failure {
    let codes = ALL.iter().map(|code| code.page().name);
    let near = nearest(name, codes.chain(drop_reasons(registry)));
    let near = near.map_or_else(String::new, |near| format!("Did you mean `{near}`? "));
    Failure::usage(format!(
        "there is no code and no drop reason `{name}`\n{near}`paceline explain` lists them."
    ))
    .coded(Code::UnknownName)
}
