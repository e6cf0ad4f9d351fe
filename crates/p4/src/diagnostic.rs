//! What is wrong with a program, and where.

use std::fmt;
use std::sync::Arc;

use miette::{LabeledSpan, NamedSource, Severity, SourceCode};

use crate::source::{Sources, Span};

/// Errors that are shown at most, and warnings: after so many nobody reads on.
pub const MAX_ERRORS: usize = 20;

/// One mistake: message, place, and what to do.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Whether the program is refused for it.
    pub is_error: bool,
    /// What is wrong.
    pub message: String,
    /// Where.
    pub span: Span,
    /// What stands there.
    pub label: String,
    /// What to do.
    pub help: Option<String>,
    /// Nobody else can make one, and so a diagnostic that was not reported.
    proof: Reported,
}

/// Proof that an error was reported. Only [`Sink::error`] leads to one, so what has no value because of a mistake
/// cannot be left out of a program in silence.
#[derive(Clone, Copy, Debug)]
pub struct Reported(());

/// What the parser or the checker made, or proof that the reason why not was reported.
pub(crate) type Checked<T> = Result<T, Reported>;

impl Diagnostic {
    /// What to do about it.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// What is written beside the place.
    pub fn label(&mut self, label: impl Into<String>) -> &mut Diagnostic {
        self.label = label.into();
        self
    }

    /// Proof of this error. The parser and the checker are handed errors alone, never warnings.
    pub(crate) fn reported(&self) -> Reported {
        debug_assert!(self.is_error, "{}", self.message);
        self.proof
    }

    /// The error, as what a function gives that could not give what it should.
    pub(crate) fn refused<T>(&self) -> Checked<T> {
        Err(self.reported())
    }
}

/// Mistakes as they are found.
#[derive(Debug, Default)]
pub struct Sink {
    found: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    /// The last one past the bound, which nobody reads.
    past: Option<Diagnostic>,
}

impl Sink {
    /// The program is refused.
    pub fn error(&mut self, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.errors += 1;
        self.push(true, span, message.into())
    }

    /// The program is taken all the same. The label stands beside the place.
    pub fn warn(&mut self, span: Span, message: impl Into<String>, label: impl Into<String>) {
        self.warnings += 1;
        self.push(false, span, message.into()).label(label);
    }

    /// The compiler met something that its own rules exclude. Better no program than one without this statement.
    pub fn internal(&mut self, span: Span, what: &str) -> Reported {
        let error = self.error(span, format!("internal error: {what}"));
        error.help("this is a fault of the compiler, not of the program: please report it").reported()
    }

    /// A construct of P4 that the subset does not have.
    pub fn refuse(&mut self, span: Span, construct: &str) -> &mut Diagnostic {
        self.error(span, format!("{construct} not in the subset of P4 that is compiled here"))
            .help("docs/p4.md lists the subset")
    }

    fn push(&mut self, is_error: bool, span: Span, message: String) -> &mut Diagnostic {
        let diagnostic =
            Diagnostic { is_error, message, span, label: "here".into(), help: None, proof: Reported(()) };
        let so_far = if is_error { self.errors } else { self.warnings };
        if so_far > MAX_ERRORS {
            return self.past.insert(diagnostic);
        }
        self.found.push(diagnostic);
        self.found.last_mut().expect("just pushed")
    }

    /// Errors so far.
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Whether to give up.
    pub fn is_full(&self) -> bool {
        self.errors >= MAX_ERRORS
    }

    /// All of it, with the sources to point into.
    pub fn finish(mut self, sources: Sources) -> Diagnostics {
        self.found.sort_by_key(|found| found.span.start);
        self.found.dedup_by(|a, b| a.span == b.span && a.message == b.message);
        let findings = self.found.into_iter().map(|found| Finding::new(found, &sources)).collect();
        Diagnostics { findings }
    }
}

/// What was found in a program: shown by `miette` one by one.
#[derive(Debug, Default)]
pub struct Diagnostics {
    findings: Vec<Finding>,
}

impl Diagnostics {
    /// Each mistake.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many refuse the program.
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.diagnostic.is_error).count()
    }

    /// How many do not.
    pub fn warnings(&self) -> usize {
        self.findings.len() - self.errors()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
        match (self.errors(), self.warnings()) {
            (0, warnings) => write!(f, "{}", plural(warnings, "warning")),
            (errors, 0) => write!(f, "{}", plural(errors, "error")),
            (errors, warnings) => write!(f, "{}, {}", plural(errors, "error"), plural(warnings, "warning")),
        }
    }
}

impl std::error::Error for Diagnostics {}

impl miette::Diagnostic for Diagnostics {
    fn severity(&self) -> Option<Severity> {
        Some(if self.errors() == 0 { Severity::Warning } else { Severity::Error })
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        Some(Box::new(self.findings.iter().map(|finding| finding as &dyn miette::Diagnostic)))
    }
}

/// A mistake with the file that it is in.
#[derive(Debug)]
pub struct Finding {
    /// What it is.
    pub diagnostic: Diagnostic,
    /// The file's name, line and column from 1.
    pub place: (Arc<str>, usize, usize),
    source: NamedSource<Arc<str>>,
    offset: usize,
    len: usize,
}

impl Finding {
    fn new(diagnostic: Diagnostic, sources: &Sources) -> Finding {
        let (file, range) = sources.locate(diagnostic.span);
        let (line, column) = sources.position(diagnostic.span);
        let source = NamedSource::new(&*file.name, file.text.clone()).with_language("P4");
        let place = (file.name.clone(), line, column);
        Finding { place, source, offset: range.start, len: range.len(), diagnostic }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.diagnostic.message)
    }
}

impl std::error::Error for Finding {}

impl miette::Diagnostic for Finding {
    fn severity(&self) -> Option<Severity> {
        Some(if self.diagnostic.is_error { Severity::Error } else { Severity::Warning })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.diagnostic.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::new(Some(self.diagnostic.label.clone()), self.offset, self.len);
        Some(Box::new(std::iter::once(label)))
    }
}
