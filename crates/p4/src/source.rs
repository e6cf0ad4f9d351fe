//! Source files and positions in them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::ir::SourcePlace;

/// All files of a program together may have this many bytes.
pub const MAX_SOURCE_BYTES: usize = 16 << 20;

/// A range of bytes, counted through all files of a program in the order in which they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Past the last byte.
    pub end: u32,
}

impl Span {
    /// From the start of this to the end of the other.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        // What a macro gave may stand before what follows it.
        Span { start: self.start, end: if other.end >= self.start { other.end } else { self.end } }
    }
}

/// A file as it was read.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its path, or `core.p4` for one that is built in.
    pub name: Arc<str>,
    /// What is in it.
    pub text: Arc<str>,
    base: u32,
}

/// The files that a program was read from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
    size: usize,
}

impl Sources {
    /// Adds a file, and gives where it begins; `None` if there are too many bytes already.
    pub fn add(&mut self, name: &str, text: &str) -> Option<u32> {
        // One more byte, so that the end of one file is not the start of the next.
        let size = self.size.checked_add(text.len() + 1)?;
        if size > MAX_SOURCE_BYTES {
            return None;
        }
        let base = self.size as u32;
        self.files.push(SourceFile { name: name.into(), text: text.into(), base });
        self.size = size;
        Some(base)
    }

    /// The file of a position, and where in it.
    ///
    /// # Panics
    /// There are no files.
    pub fn locate(&self, span: Span) -> (&SourceFile, Range<usize>) {
        let index = self.files.partition_point(|file| file.base <= span.start).saturating_sub(1);
        let file = &self.files[index];
        let inside = |at: u32| ((at.saturating_sub(file.base)) as usize).min(file.text.len());
        let (start, end) = (inside(span.start), inside(span.end));
        (file, start..end.max(start))
    }

    /// What stands there.
    pub fn text(&self, span: Span) -> &str {
        let (file, range) = self.locate(span);
        file.text.get(range).unwrap_or_default()
    }

    /// File, line and column of each of these first bytes, which are in order. Cost: one pass through the files.
    pub fn places(&self, starts: impl Iterator<Item = u32>) -> Vec<SourcePlace> {
        let mut cursor = Cursor { file: 0, at: 0, line: 1, column: 1 };
        starts.map(|start| cursor.moved_to(start, &self.files)).collect()
    }

    /// The line around a byte, without the spaces around it and the `\` of a macro at its end.
    pub fn line(&self, start: u32) -> &str {
        let (file, range) = self.locate(Span { start, end: start });
        let (before, after) = file.text.split_at_checked(range.start).unwrap_or_default();
        let from = before.rfind('\n').map_or(0, |newline| newline + 1);
        let to = range.start + after.find('\n').unwrap_or(after.len());
        file.text.get(from..to).unwrap_or_default().trim().trim_end_matches('\\').trim_end()
    }

    /// Line and column, from 1.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let (file, range) = self.locate(span);
        let before = file.text.get(..range.start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// A place that only goes on.
struct Cursor {
    file: usize,
    at: usize,
    line: u32,
    column: u32,
}

impl Cursor {
    fn moved_to(&mut self, start: u32, files: &[SourceFile]) -> SourcePlace {
        while files.get(self.file + 1).is_some_and(|next| next.base <= start) {
            *self = Cursor { file: self.file + 1, at: 0, line: 1, column: 1 };
        }
        let Some(file) = files.get(self.file) else { return SourcePlace::default() };
        let to = (start.saturating_sub(file.base) as usize).min(file.text.len());
        for letter in file.text.get(self.at..to).unwrap_or_default().chars() {
            (self.line, self.column) =
                if letter == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.at = self.at.max(to);
        let name = Path::new(&*file.name).file_name().unwrap_or_default();
        SourcePlace { file: name.to_string_lossy().into_owned(), line: self.line, column: self.column }
    }
}
