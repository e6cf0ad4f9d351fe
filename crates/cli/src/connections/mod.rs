//! Records of connections: `paceline run --connections`, as lines of JSON or as IPFIX.

mod collector;
mod ipfix;

use std::path::{Path, PathBuf};

use engine::Chain;
use engine::report::RunReport;
use nfs::conntrack::RECORDS_TITLE;

use self::collector::Collector;
use crate::failure::Failure;
use crate::output::{Files, name_of_output, plural};

/// Without a function that keeps records.
const NOBODY_RECORDS: &str = "--connections writes what a tracker has recorded, and no function of this chain records anything\n\
                              Set `records = 100000` for its `conntrack`: so many connections that have ended are kept.";

/// Where the records go, if they were asked for.
pub struct Connections(Option<To>);

enum To {
    /// A file with a line of JSON each.
    Lines(PathBuf, Files),
    /// A file of IPFIX messages (RFC 5655).
    Ipfix(PathBuf, Files),
    /// A collector, by UDP.
    Collector(Collector),
}

impl Connections {
    /// Opens the file, or a socket to the collector: `NAME.ipfix` is IPFIX, `udp:HOST:PORT` a collector, all else lines of JSON.
    ///
    /// # Errors
    /// The file cannot be written, the collector has no address, or no function of the chain keeps records.
    pub fn open(path: Option<&Path>, chain: &Chain) -> Result<Connections, Failure> {
        let Some(path) = path else { return Ok(Connections(None)) };
        if !chain.reports(RECORDS_TITLE) {
            return Err(Failure::usage(NOBODY_RECORDS));
        }
        if let Some(collector) = Collector::named(path) {
            return Ok(Connections(Some(To::Collector(collector?))));
        }
        let (name, file) = (path.to_owned(), Files::open(&[path.to_owned()])?);
        let is_ipfix = path.extension().is_some_and(|extension| extension == "ipfix");
        Ok(Connections(Some(if is_ipfix { To::Ipfix(name, file) } else { To::Lines(name, file) })))
    }

    /// Takes the records out of a report, which keeps their number, and writes them; says so.
    ///
    /// # Errors
    /// The file cannot be written, or the collector does not take them. The report is whole then, too.
    pub fn write(self, report: &mut RunReport) -> Result<Option<String>, Failure> {
        let tables = report.functions.iter_mut().flat_map(|function| &mut function.reports);
        let (mut lines, mut told) = (Vec::new(), String::new());
        for table in tables.filter(|table| table.title.starts_with(RECORDS_TITLE)) {
            told += table.title.split_once(';').map_or("", |(_, left_out)| left_out);
            table.columns.clear();
            lines.extend(std::mem::take(&mut table.rows).into_iter().flatten());
        }
        let Connections(Some(to)) = self else { return Ok(None) };
        let written = plural(lines.len() as u64, "connection");
        let how = match to {
            To::Lines(path, file) => {
                let text: String = lines.into_iter().map(|line| line + "\n").collect();
                file.write([Some(text)])?;
                format!("{written} written to {}", name_of_output(&path))
            }
            To::Ipfix(path, file) => {
                file.write([Some(ipfix::messages(&lines).map_err(Failure::usage)?.concat())])?;
                format!("{written} written to {}", name_of_output(&path))
            }
            To::Collector(collector) => {
                let sent = collector.send(&ipfix::messages(&lines).map_err(Failure::usage)?)?;
                format!("{written} sent to the collector at {sent}")
            }
        };
        let left_out = if told.is_empty() { told } else { format!(";{told}") };
        Ok(Some(format!("{how}{left_out}")))
    }
}
