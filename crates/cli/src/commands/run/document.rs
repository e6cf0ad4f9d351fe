//! A page of a run, from the look ahead whether it can be written to the end.

use std::slice;
use std::sync::Arc;

use engine::report::RunReport;
use telemetry::Telemetry;

use super::options::RunArgs;
use super::page;
use crate::failure::Failure;
use crate::output::Files;
use crate::timeline::Timeline;

/// The file that a page of the run goes to.
pub struct Page(Files);

impl Page {
    /// Opened ahead of the run, so that what cannot be written is found before.
    pub fn open(args: &RunArgs) -> Result<Option<Page>, Failure> {
        let Some(path) = &args.report else { return Ok(None) };
        if path == "-" {
            return Err(Failure::usage("--report takes no `-`\nName a file."));
        }
        Ok(Some(Page(Files::open(slice::from_ref(path))?)))
    }

    /// Follows the run, if a page is asked for.
    pub fn follow(page: Option<&Page>, telemetry: Option<&Arc<Telemetry>>) -> Option<Timeline> {
        page.and(telemetry).map(|telemetry| Timeline::follow(Arc::clone(telemetry)))
    }

    pub fn write(self, report: &RunReport) -> Result<(), Failure> {
        self.0.write([Some(page::render(report))])
    }
}
