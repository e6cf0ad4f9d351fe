use std::process::ExitCode;

use crate::args::InspectArgs;
use crate::failure::Failure;

pub fn command(_: &InspectArgs) -> Result<ExitCode, Failure> {
    Ok(ExitCode::SUCCESS)
}
