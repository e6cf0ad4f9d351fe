//! Lines of C, indented, with the line of P4 that they come from before them.

use p4::ir::Program;

/// A text of C as it grows.
pub struct Writer<'a> {
    program: &'a Program,
    text: String,
    depth: usize,
    /// The place whose line was written last.
    place: u32,
}

impl<'a> Writer<'a> {
    /// An empty text.
    pub fn new(program: &'a Program) -> Writer<'a> {
        Writer { program, text: String::new(), depth: 0, place: 0 }
    }

    /// Adds a line. One that begins with `}` ends an indented block, one that ends with `{` begins one.
    pub fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if line.starts_with('}') {
            self.depth = self.depth.saturating_sub(1);
        }
        // Labels stand at the margin.
        let depth = if line.ends_with(":;") { 0 } else { self.depth };
        if !line.is_empty() {
            self.text.extend(std::iter::repeat_n("    ", depth));
            self.text += line;
        }
        self.text.push('\n');
        if line.ends_with('{') && !line.starts_with("//") {
            self.depth += 1;
        }
    }

    /// Adds the line of the source that a statement comes from, unless it was added for the statement before.
    pub fn source(&mut self, place: u32) {
        let Some(written) = self.program.places.get(place as usize).filter(|_| place != 0) else { return };
        if std::mem::replace(&mut self.place, place) != place {
            let at = &written.place;
            self.line(format!("// {}:{}  {}", at.file, at.line, written.text));
        }
    }

    /// Ends a function: the next one says its lines anew.
    pub fn end(&mut self) {
        self.line("}");
        self.line("");
        self.place = 0;
    }

    /// All of it.
    pub fn finish(self) -> String {
        self.text
    }
}
