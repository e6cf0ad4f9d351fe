//! Dropped packets, written to a pcapng with the reason as comment.

use std::path::Path;

use io::capture::CommentedWriter;
use wire::LinkType;

use crate::failure::Failure;
use crate::output::{count, kept, plural};

/// A pcapng of dropped packets, so many for each second at most.
pub struct DropsFile {
    name: String,
    writer: CommentedWriter,
    per_second: u64,
    /// The second of the last packet, and how many were written in it.
    second: (u64, u64),
    written: u64,
    left_out: u64,
}

impl DropsFile {
    /// Creates the file.
    pub fn create(path: &Path, per_second: u64) -> Result<DropsFile, Failure> {
        let writer = CommentedWriter::create(path).map_err(Failure::usage)?;
        let name = if path == "-" { "standard output".to_owned() } else { path.display().to_string() };
        Ok(DropsFile { name, writer, per_second, second: (0, 0), written: 0, left_out: 0 })
    }

    /// Adds a packet that came in by `interface`, unless its second is full.
    pub fn packet(
        &mut self,
        interface: (&str, LinkType),
        time_ns: u64,
        (wire_len, bytes): (u32, &[u8]),
        comment: &str,
    ) -> Result<(), Failure> {
        let second = time_ns / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        if self.second.1 == self.per_second {
            self.left_out += 1;
            return Ok(());
        }
        self.second.1 += 1;
        self.written += 1;
        self.writer.write(interface, time_ns, wire_len, bytes, comment).map_err(Failure::usage)
    }

    /// Gives the file its name, and says what is in it; `left_out` packets were left out before they came here. `option`
    /// says how many may be written a second.
    pub fn finish(self, left_out: u64, option: &str, per_second: u64) -> Result<String, Failure> {
        let DropsFile { name, writer, written, .. } = self;
        writer.finish().map_err(Failure::usage)?;
        let written = plural(written, "dropped packet");
        Ok(match self.left_out + left_out {
            0 => format!("{written} written to {name}"),
            left_out => {
                format!(
                    "{written} written to {name}; {} not written, beyond {option} {per_second}",
                    count(left_out)
                )
            }
        })
    }

    /// Leaves the file as it was and the packets of a run that did not reach its end beside it, and says where.
    pub fn keep(mut self) -> Result<Option<String>, Failure> {
        self.writer.flush().map_err(Failure::usage)?;
        Ok(Some(kept((self.written, "dropped packet"), self.writer.partial(), &self.name)))
    }
}
