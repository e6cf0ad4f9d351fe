//! Records of connections as lines of JSON: `paceline run --connections`.

use std::path::{Path, PathBuf};

use engine::Chain;
use engine::report::RunReport;
use nfs::conntrack::RECORDS_TITLE;

use crate::failure::Failure;
use crate::output::{Files, plural};

/// Without a function that keeps records.
const NOBODY_RECORDS: &str = "--connections writes what a tracker has recorded, and no function of this chain records anything\n\
                              Set `records = 100000` for its `conntrack`: so many connections that have ended are kept.";

/// A file for the records, if one was asked for.
pub struct Connections(Option<(PathBuf, Files)>);

impl Connections {
    /// Opens the file.
    ///
    /// # Errors
    /// It cannot be written, or no function of the chain keeps records.
    pub fn open(path: Option<&Path>, chain: &Chain) -> Result<Connections, Failure> {
        let Some(path) = path else { return Ok(Connections(None)) };
        if !chain.reports(RECORDS_TITLE) {
            return Err(Failure::usage(NOBODY_RECORDS));
        }
        Ok(Connections(Some((path.to_owned(), Files::open(&[path.to_owned()])?))))
    }

    /// Takes the records out of a report, which keeps their number, and writes them; says so.
    ///
    /// # Errors
    /// The file cannot be written. The report is whole then, too.
    pub fn write(self, report: &mut RunReport) -> Result<Option<String>, Failure> {
        let tables = report.functions.iter_mut().flat_map(|function| &mut function.reports);
        let (mut lines, mut told) = (Vec::new(), String::new());
        for table in tables.filter(|table| table.title.starts_with(RECORDS_TITLE)) {
            told += table.title.split_once(';').map_or("", |(_, left_out)| left_out);
            table.columns.clear();
            lines.extend(std::mem::take(&mut table.rows).into_iter().flatten());
        }
        let Connections(Some((path, file))) = self else { return Ok(None) };
        let written = lines.len() as u64;
        let text: String = lines.into_iter().map(|line| line + "\n").collect();
        file.write([Some(text)])?;
        let name =
            if path.as_os_str() == "-" { "standard output".to_owned() } else { path.display().to_string() };
        let left_out = if told.is_empty() { told } else { format!(";{told}") };
        Ok(Some(format!("{} written to {name}{left_out}", plural(written, "connection"))))
    }
}
