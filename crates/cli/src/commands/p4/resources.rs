//! `paceline p4 resources`: what a program takes of a chip, stage by stage, or what does not fit.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::p4::ir::Program;
use ::p4::resources::check::check;
use ::p4::resources::plan::{PartPlace, Plan, plan};
use ::p4::resources::profile::{Number, Profile, RESOURCES, Resource};
use clap::Args;
use engine::nearest;

use crate::args::ProgramArgs;
use crate::explain::Code;
use crate::failure::Failure;
use crate::input::read_text;
use crate::output::{Reports, count, fitting, heading, json, table, wrapped};
use crate::page::markup::element;
use crate::page::svg::{bar, label};

#[derive(Args)]
pub struct ResourcesArgs {
    #[command(flatten)]
    pub source: ProgramArgs,
    /// The chip: `rapid`, `banzai`, `switch`, `sequencer`, or a TOML file (see docs/resources.md). Without it, which of these
    /// four the program fits
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Say where each number of the chip comes from
    #[arg(long, requires = "profile")]
    pub sources: bool,
    /// Draw the stages and what is in them as SVG; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub svg: Option<PathBuf>,
    /// Write the plan as JSON; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub json: Option<PathBuf>,
}

pub fn command(args: &ResourcesArgs) -> Result<ExitCode, Failure> {
    let path = &args.source.program;
    let documents = [("--json", args.json.as_deref()), ("--svg", args.svg.as_deref())];
    let file = args.profile.as_deref().filter(|name| is_file(name)).map(Path::new);
    let inputs: Vec<&Path> = std::iter::once(path.as_path()).chain(file).collect();
    let reports = Reports::open_documents(&inputs, &documents)?;
    let program = args.source.read()?;
    let Some(name) = &args.profile else {
        reports.write_documents(&[], &summary(&program))?;
        return Ok(ExitCode::SUCCESS);
    };
    let profile = profile(name)?;
    let planned = planned(&program, &profile)?.map_err(|unfit| {
        Failure::usage(format!("{}: {}", path.display(), unfit.join("\n"))).coded(Code::DoesNotFit)
    })?;
    let text = render(&planned) + &if args.sources { sources(&profile) } else { String::new() };
    let as_json = json(&planned)?;
    reports.write_documents(&[&|| as_json.clone(), &|| drawing(&planned)], &text)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a profile is named by its file.
fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

fn profile(name: &str) -> Result<Profile, Failure> {
    if is_file(name) {
        let text = read_text("the profile", Path::new(name))?;
        return Profile::read(&text).map_err(|error| Failure::usage(format!("the profile {name}: {error}")));
    }
    Profile::stock().find(|profile| profile.name == name).ok_or_else(|| {
        let stock: Vec<Profile> = Profile::stock().collect();
        let near = nearest(name, stock.iter().map(|profile| profile.name.as_str()));
        let near = near.map_or_else(String::new, |near| format!("Did you mean `{near}`? "));
        let names: Vec<String> = stock.iter().map(|profile| format!("`{}`", profile.name)).collect();
        Failure::usage(format!(
            "there is no profile `{name}`\n{near}There are {}, and TOML files.",
            names.join(", ")
        ))
        .coded(Code::UnknownName)
    })
}

/// The plan, or what does not fit. A plan that the judge rejects is a defect.
fn planned(program: &Program, profile: &Profile) -> Result<Result<Plan, Vec<String>>, Failure> {
    let placed = match plan(program, profile) {
        Ok(placed) => placed,
        Err(unfit) => {
            let fits = format!("it does not fit the profile `{}`", unfit.profile);
            return Ok(Err(std::iter::once(fits).chain(unfit.what).collect()));
        }
    };
    match check(&placed, profile).first() {
        None => Ok(Ok(Plan::new(&placed, profile, env!("CARGO_PKG_VERSION")))),
        Some(wrong) => Err(Failure::defect(format!("the plan for {} is wrong: {wrong}", program.name))),
    }
}

/// A row for each profile, and what does not fit.
fn summary(program: &Program) -> String {
    let (rows, unfit) = rows(program);
    let mut text = format!("{}\n", program.name) + &heading("what it takes of a chip");
    text += &table(&HEADER, &rows, 1);
    for (profile, what) in unfit {
        text += &wrapped(&format!("{profile}: {what}"), "", "  ");
    }
    text
}

const HEADER: [&str; 9] = [
    "profile",
    "stages",
    "SRAM blocks",
    "TCAM blocks",
    "hash units",
    "ALUs",
    "tables",
    "key bits",
    "vector bits",
];

/// For each profile that comes with Paceline what a program takes of it, or what does not fit.
pub fn rows(program: &Program) -> (Vec<Vec<String>>, Vec<(String, String)>) {
    let (mut rows, mut unfit) = (Vec::new(), Vec::new());
    for profile in Profile::stock() {
        let mut row = vec![profile.name.clone()];
        match planned(program, &profile) {
            Ok(Ok(plan)) => {
                row.push(format!("{} of {}", plan.stages.len(), profile.stages.number));
                row.extend(plan.total().map(count));
                row.push(count(plan.vector.field_bits));
            }
            Ok(Err(what)) => {
                row.push("does not fit".to_owned());
                row.extend(std::iter::repeat_n("-".to_owned(), HEADER.len() - 2));
                unfit.push((profile.name, what.into_iter().skip(1).collect::<Vec<_>>().join("; ")));
            }
            Err(defect) => unfit.push((profile.name, defect.to_string())),
        }
        rows.push(row);
    }
    (rows, unfit)
}

fn render(plan: &Plan) -> String {
    let profile = &plan.profile;
    let mut text = format!(
        "{} fits `{}`: {} of {} stages\n",
        plan.program,
        profile.name,
        plan.stages.len(),
        profile.stages.number
    );
    text += &heading("what is in use");
    let limits = profile.limits();
    let names = RESOURCES.map(Resource::name);
    let header: Vec<&str> = std::iter::once("stage").chain(names).collect();
    let row = |(number, stage): (usize, &::p4::resources::plan::Taken)| {
        let cells = stage
            .amounts()
            .into_iter()
            .zip(limits)
            .map(|(used, of)| format!("{}/{}", count(used), count(of)));
        std::iter::once(number.to_string()).chain(cells).collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<String>> = (1..).zip(&plan.stages).map(row).collect();
    let shares = RESOURCES.map(|resource| format!("{:.2}%", 100.0 * plan.share(resource)));
    rows.push(std::iter::once("chip".to_owned()).chain(shares).collect());
    text += &table(&header, &rows, 0);
    text += &picture(plan);
    text += &heading("the header vector");
    let containers = plan.vector.containers.iter();
    let row = |kind: &::p4::resources::plan::InUse| {
        vec![format!("{} bits", kind.bits), format!("{}/{}", count(kind.used), count(kind.of))]
    };
    text += &table(&["containers", "in use"], &containers.map(row).collect::<Vec<_>>(), 1);
    text += &wrapped(
        &format!(
            "Fields of {} bits are in containers of {}, of {}.",
            count(plan.vector.field_bits),
            count(plan.vector.container_bits),
            count(plan.vector.of_bits)
        ),
        "",
        "",
    );
    if let Some(ring) = &plan.ring {
        text += &wrapped(
            &format!(
                "The ring: a packet that is sent back takes {} of {} bits of payload, a state {}. The bus has {} bits.",
                count(ring.packet_bits),
                count(ring.payload_bits),
                count(ring.state_bits),
                count(ring.bus_bits)
            ),
            "",
            "",
        );
    }
    for warning in &plan.warnings {
        text += &format!("warning: {warning}\n");
    }
    text
}

/// Columns of the picture for names, and for a stage.
const NAME_COLUMNS: usize = 38;
const STAGE_COLUMNS: usize = 5;

/// Parts against stages. All stages that are in use are drawn, so that a chip of more than 12 is wider than 100 columns.
fn picture(plan: &Plan) -> String {
    let mut text = heading("where things are");
    let numbers: String = (1..=plan.stages.len()).map(|stage| format!("{stage:>STAGE_COLUMNS$}")).collect();
    _ = writeln!(text, "{:NAME_COLUMNS$}{numbers}", "blocks in stage");
    for part in &plan.parts {
        let name = format!("{} {}", part.kind, part.name);
        let name = &name[..fitting(&name, NAME_COLUMNS - 1)];
        let cells: String = (1..=plan.stages.len())
            .map(|stage| format!("{:>STAGE_COLUMNS$}", cell(part, stage as u16)))
            .collect();
        _ = writeln!(text, "{name:NAME_COLUMNS$}{}", cells.trim_end());
    }
    text += &wrapped(
        "A number is blocks of SRAM and TCAM together, * a part without memory, W the stage whose exit writes a state over the ring.",
        "",
        "",
    );
    text
}

fn cell(part: &PartPlace, stage: u16) -> String {
    let here = part.stages.iter().find(|here| here.stage == stage);
    let first = part.stages.first().map_or(0, |first| first.stage);
    match (here, part.written_from) {
        (Some(here), _) if here.taken.sram_blocks + here.taken.tcam_blocks == 0 => "*".to_owned(),
        (Some(here), _) => count(here.taken.sram_blocks + here.taken.tcam_blocks),
        (None, Some(writes)) if writes == stage => "W".to_owned(),
        (None, Some(writes)) if (first..writes).contains(&stage) => ".".to_owned(),
        _ => String::new(),
    }
}

fn sources(profile: &Profile) -> String {
    let stage = &profile.stage;
    let mut numbers: Vec<(String, &Number)> = vec![("stages".to_owned(), &profile.stages)];
    for (name, memory) in [("SRAM", &stage.sram), ("TCAM", &stage.tcam)] {
        numbers.push((format!("{name} blocks of a stage"), &memory.blocks));
        numbers.push((format!("rows of a block of {name}"), &memory.rows));
        numbers.push(("bits of such a row".to_owned(), &memory.bits));
    }
    numbers.push(("hash units of a stage".to_owned(), &stage.hash_units));
    numbers.push(("stateful ALUs of a stage".to_owned(), &stage.alus));
    numbers.push(("bits of a word of one".to_owned(), &stage.alu_bits));
    numbers.push(("tables of a stage".to_owned(), &stage.tables));
    numbers.push(("key bits of a stage".to_owned(), &stage.key_bits));
    for kind in &profile.containers {
        numbers.push((format!("containers of {} bits", kind.bits), &kind.count));
    }
    if let Some(ring) = &profile.ring {
        numbers.push(("payload of the ring, bits".to_owned(), &ring.payload_bits));
        numbers.push(("bus of the ring, bits".to_owned(), &ring.bus_bits));
    }
    let mut text = heading("where the numbers come from");
    for (what, number) in numbers {
        text += &wrapped(&format!("{what}: {} ({})", count(number.number.into()), number.source), "", "  ");
    }
    text
}

/// Width of a stage in the drawing, height of all its memory, of a line, and space between.
const STAGE_WIDTH: f64 = 150.0;
const MEMORY_HEIGHT: f64 = 220.0;
const LINE: f64 = 18.0;
const GAP: f64 = 14.0;

/// Stages side by side. What a part takes of a stage's SRAM and TCAM is the height of its box, which has room for its name at least.
fn drawing(plan: &Plan) -> String {
    let limits = plan.profile.limits();
    let blocks = (limits[Resource::Sram as usize] + limits[Resource::Tcam as usize]).max(1) as f64;
    let width = plan.stages.len().max(1) as f64 * (STAGE_WIDTH + GAP) + GAP;
    let mut parts = vec![label(
        (GAP, GAP + 10.0),
        "start",
        "heading",
        &format!("{} on {}", plan.program, plan.profile.name),
    )];
    let mut deepest: f64 = 0.0;
    for stage in 1..=plan.stages.len() {
        let left = GAP + (stage - 1) as f64 * (STAGE_WIDTH + GAP);
        let mut top = GAP + 2.0 * LINE;
        parts.push(label((left, top - 5.0), "start", "name", &format!("stage {stage}")));
        for (style, part) in plan.parts.iter().enumerate() {
            let Some(here) = part.stages.iter().find(|here| usize::from(here.stage) == stage) else {
                continue;
            };
            let taken = here.taken.sram_blocks + here.taken.tcam_blocks;
            let height = (MEMORY_HEIGHT * taken as f64 / blocks).max(LINE);
            let class = format!("series s{}", style % crate::page::svg::STYLES);
            parts.push(bar((left, top), (left + STAGE_WIDTH, top + height - 2.0), &class));
            let name = part.name.rsplit('.').next().unwrap_or_default();
            let text = format!("{name}: {taken}");
            parts.push(label((left + 5.0, top + 12.0), "start", "tick", &text[..fitting(&text, 23)]));
            top += height;
        }
        deepest = deepest.max(top);
    }
    for stage in 1..=plan.stages.len() {
        let left = GAP + (stage - 1) as f64 * (STAGE_WIDTH + GAP);
        let used = plan.stages[stage - 1].amounts();
        for (at, resource) in RESOURCES.into_iter().enumerate() {
            let text = format!("{}: {} of {}", resource.name(), used[at], limits[at]);
            parts.push(label((left, deepest + (at + 1) as f64 * LINE), "start", "tick", &text));
        }
    }
    let height = deepest + (RESOURCES.len() + 1) as f64 * LINE;
    let drawing = element("svg")
        .attr("xmlns", "http://www.w3.org/2000/svg")
        .attr("viewBox", format!("0 0 {width} {height}"))
        .attr("role", "img")
        .attr("aria-label", format!("{} on {}", plan.program, plan.profile.name))
        .child(element("style").raw(include_str!("../../page/drawing.css")))
        .child(element("rect").attr("width", "100%").attr("height", "100%").attr("fill", "#fff"))
        .children(parts);
    format!("{drawing}\n")
}
