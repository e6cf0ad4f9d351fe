//! `paceline emulate sweep`: a grid of settings, each a run of its own.

use std::process::ExitCode;

use clap::Args;
use pipeline::programs::Synthetic;
use pipeline::spacing::Spacing;
use pipeline::{Model, Options, emulate};

use crate::failure::Failure;
use crate::output::{print, table};

#[derive(Args)]
pub struct SweepArgs {
    /// Models
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "rapid,blocking",
          value_parser = clap::builder::PossibleValuesParser::new(Model::NAMES))]
    models: Vec<String>,
    /// Stages from where the state is read to where it is written
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "2,3,4")]
    stages: Vec<usize>,
}

pub fn command(args: &SweepArgs) -> Result<ExitCode, Failure> {
    let mut rows = Vec::new();
    for model in args.models.iter().filter_map(|name| Model::named(name)) {
        for stages in &args.stages {
            let arrivals = Spacing::TRACE_2.arrivals(50_000, 30, 1);
            let program = Synthetic::new((*stages).max(1));
            let outcome = emulate(program, &model, &Options::default(), arrivals, &mut ());
            let report = outcome.map_err(Failure::usage)?.report;
            rows.push(vec![model.name().to_owned(), stages.to_string(), format!("{:.4}", report.throughput)]);
        }
    }
    print(&table(&["model", "stages", "packets/cycle"], &rows, 1))?;
    Ok(ExitCode::SUCCESS)
}
