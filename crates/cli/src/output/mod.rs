//! What people and programs read: where it goes, tables, numbers, JSON.

mod text;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ::io::capture::CaptureWriter;
use serde::Serialize;

pub use self::text::{
    ALL_MALFORMED, bar, bytes, count, fitted, fitting, heading, is_unprintable, item, percent, plural,
    plural_of, printable, table, wrapped,
};
use crate::explain::Code;
use crate::failure::Failure;

/// The most unfinished reports kept beside one.
const MAX_PARTIALS: usize = 100;

/// Where a command's report goes: text to standard output, or to standard error where packets go to
/// standard output; JSON to where `--json` says.
pub struct Reports {
    text: Text,
    json: Option<Sink>,
    documents: Vec<Option<Sink>>,
}

/// The option that names an output, and the file if it was given.
pub type Named<'a> = (&'static str, Option<&'a Path>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    Stdout,
    Stderr,
    /// Standard output is taken by JSON or a document.
    Nowhere,
}

/// Where JSON or a document goes.
enum Sink {
    Stdout,
    /// A pipe, a device: written as it is.
    Direct(PathBuf, File),
    /// Renamed to its name at the end.
    Partial(Partial),
}

impl Reports {
    /// Checks that nothing which is read would be overwritten, and creates the JSON file's partial, so
    /// that a folder that cannot be written is found before the work and not after it.
    ///
    /// # Errors
    /// Two of the files are one, two outputs share standard output, or the JSON cannot be created.
    pub fn open(inputs: &[&Path], out: Option<&Path>, json: Option<&Path>) -> Result<Reports, Failure> {
        check_outputs(inputs, &[("--out", out), ("--json", json)])?;
        let text = match (is_dash(out), is_dash(json)) {
            (true, _) => Text::Stderr,
            (_, true) => Text::Nowhere,
            _ => Text::Stdout,
        };
        tell_format(out);
        Ok(Reports { text, json: json.map(Sink::create).transpose()?, documents: Vec::new() })
    }

    /// As [`Reports::open`], for documents of other kinds than JSON.
    pub fn open_documents(inputs: &[&Path], documents: &[Named]) -> Result<Reports, Failure> {
        check_outputs(inputs, documents)?;
        let is_taken = documents.iter().any(|(_, path)| is_dash(*path));
        let text = if is_taken { Text::Nowhere } else { Text::Stdout };
        let open = documents.iter().map(|(_, path)| path.map(Sink::create).transpose());
        Ok(Reports { text, json: None, documents: open.collect::<Result<_, _>>()? })
    }

    /// These reports, beside packets that are written to `out`: text goes to standard error if `out` is standard
    /// output.
    pub fn beside(self, out: Option<&Path>) -> Reports {
        tell_format(out);
        if is_dash(out) { Reports { text: Text::Stderr, ..self } } else { self }
    }

    /// Whether people see the text.
    pub fn shows_text(&self) -> bool {
        self.text != Text::Nowhere
    }

    /// Writes the report. The text is shown even where the JSON could not be written.
    pub fn write(self, report: &impl Serialize, text: &str) -> Result<(), Failure> {
        let written = match self.json {
            Some(sink) => sink.write(json(report)?.as_bytes()),
            None => Ok(()),
        };
        self.text.show(text)?;
        written
    }

    /// Writes the documents that were asked for, in the order in which they were opened. The text is shown
    /// even where one could not be written.
    pub fn write_documents(self, contents: &[&dyn Fn() -> String], text: &str) -> Result<(), Failure> {
        let asked = self.documents.into_iter().zip(contents);
        let written: Vec<_> =
            asked.filter_map(|(sink, content)| Some(sink?.write(content().as_bytes()))).collect();
        self.text.show(text)?;
        written.into_iter().collect()
    }
}

/// A report as JSON.
pub fn json(report: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(report).map(|json| json + "\n").map_err(Failure::usage)
}

/// Files that are opened together and written at the end, each whole or not at all.
pub struct Files(Vec<Sink>);

impl Files {
    /// Opens all, so that what cannot be written is found before the work; [`check_outputs`] is the caller's.
    pub fn open(paths: &[PathBuf]) -> Result<Files, Failure> {
        paths.iter().map(|path| Sink::create(path)).collect::<Result<_, _>>().map(Files)
    }

    /// Writes them in the order in which they were opened. Without content a file stays as it was, and one that
    /// cannot be written does not keep the others from being so.
    pub fn write(self, contents: impl IntoIterator<Item = Option<impl AsRef<[u8]>>>) -> Result<(), Failure> {
        let written = self.0.into_iter().zip(contents);
        let written = written.filter_map(|(sink, content)| Some(sink.write(content?.as_ref())));
        written.collect::<Vec<_>>().into_iter().collect()
    }
}

impl Text {
    fn show(self, text: &str) -> Result<(), Failure> {
        match self {
            Text::Stdout => print(text)?,
            Text::Stderr => eprint!("{text}"),
            Text::Nowhere => {}
        }
        Ok(())
    }
}

/// Nothing that is read may be overwritten, and no two outputs may be one.
pub fn check_outputs(inputs: &[&Path], outputs: &[Named]) -> Result<(), Failure> {
    let to_stdout: Vec<_> = outputs
        .iter()
        .filter(|(_, path)| is_dash(*path))
        .map(|(option, _)| format!("`{option} -`"))
        .collect();
    if to_stdout.len() > 1 {
        return Err(Failure::usage(format!(
            "{} both want standard output\nGive one of them a file.",
            to_stdout.join(" and ")
        ))
        .coded(Code::Overwrites));
    }
    let inputs = inputs.iter().map(|path| ("the input", *path));
    let mut taken: Vec<(&str, &Path)> = inputs.collect();
    for (option, path) in outputs {
        let Some(path) = path else { continue };
        if let Some((what, other)) =
            taken.iter().find(|(what, other)| is_same_file(other, *what == "the input", path))
        {
            return Err(Failure::usage(format!(
                "{option} {} would overwrite {what} {}: they are one file\nGive another name.",
                path.display(),
                other.display()
            ))
            .coded(Code::Overwrites));
        }
        taken.push((option, path));
    }
    Ok(())
}

impl Sink {
    fn create(path: &Path) -> Result<Sink, Failure> {
        if is_dash(Some(path)) {
            return Ok(Sink::Stdout);
        }
        let failed = |error| cannot_write(path, &error);
        let target = match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(Failure::usage(format!("{} is a directory\nName a file.", path.display()))
                    .coded(Code::CannotWrite));
            }
            Ok(found) if !found.is_file() => {
                let file = File::options().write(true).open(path).map_err(failed)?;
                return Ok(Sink::Direct(path.to_owned(), file));
            }
            Ok(_) => fs::canonicalize(path).map_err(failed)?,
            Err(_) => path.to_owned(),
        };
        Partial::create(target).map(Sink::Partial).map_err(failed)
    }

    fn write(self, content: &[u8]) -> Result<(), Failure> {
        match self {
            Sink::Stdout => print_bytes(content),
            Sink::Direct(path, mut file) => {
                file.write_all(content).map_err(|error| cannot_write(&path, &error))
            }
            Sink::Partial(mut partial) => {
                partial.complete(content).map_err(|error| cannot_write(&partial.target, &error))
            }
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let hint = if error.kind() == io::ErrorKind::NotFound { "; check the name and its folder" } else { "" };
    Failure::usage(format!("cannot write {}: {error}{hint}", path.display())).coded(Code::CannotWrite)
}

/// A file beside its final name, which it gets when it is complete; removed if it never is.
struct Partial {
    target: PathBuf,
    path: PathBuf,
    file: File,
    is_complete: bool,
}

impl Partial {
    fn create(target: PathBuf) -> io::Result<Partial> {
        for number in 1..=MAX_PARTIALS {
            let mut name = target.as_os_str().to_owned();
            name.push(".partial");
            if number > 1 {
                name.push(number.to_string());
            }
            let path = PathBuf::from(name);
            match File::create_new(&path) {
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|file| Partial { target, path, file, is_complete: false }),
            }
        }
        Err(io::Error::other(format!("{MAX_PARTIALS} partial files are beside it already, remove some")))
    }

    fn complete(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        self.is_complete = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_complete {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn is_dash(path: Option<&Path>) -> bool {
    path == Some(Path::new("-"))
}

/// Whether an output would overwrite the other file, through links or not. Devices such as `/dev/null`
/// have room for all.
fn is_same_file(other: &Path, is_input: bool, output: &Path) -> bool {
    // What a shell connected may be a file, too.
    let real = |path: &Path, is_input: bool| match (is_dash(Some(path)), is_input) {
        (false, _) => path.to_owned(),
        (true, true) => PathBuf::from("/dev/stdin"),
        (true, false) => PathBuf::from("/dev/stdout"),
    };
    let (other, output) = (real(other, is_input), real(output, false));
    match (fs::metadata(&other), fs::metadata(&output)) {
        (Ok(a), Ok(b)) => {
            let holds = a.file_type().is_file() || a.file_type().is_fifo();
            holds && (a.dev(), a.ino()) == (b.dev(), b.ino())
        }
        (Err(_), Err(_)) => absolute(&other) == absolute(&output),
        _ => false,
    }
}

/// The path of a file that is not there yet, its folder's links followed.
fn absolute(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(fs::canonicalize(folder).ok()?.join(path.file_name()?))
}

/// Where packets are of a run that did not reach its end: beside the output, if a whole one would have replaced it.
pub fn kept((packets, what): (u64, &str), partial: Option<&Path>, name: &str) -> String {
    let written = plural(packets, what);
    match partial {
        None => format!("{written} written to {name}"),
        Some(_) if packets == 0 => format!("no {what} for {name}, which is left as it was"),
        Some(partial) => format!("{written} kept in {}; {name} is left as it was", partial.display()),
    }
}

/// Writes to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Writes bytes that need not be text to standard output.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::OutputClosed),
        Err(error) => {
            Err(Failure::usage(format!("cannot write to standard output: {error}")).coded(Code::CannotWrite))
        }
    }
}

/// Leaves an output as it was, and the packets of a command that did not reach its end beside it; says where. `None` where
/// writing failed, which the writer told of itself.
pub fn keep(mut writer: CaptureWriter, packets: u64, output: &Path) -> Option<String> {
    writer.flush().ok()?;
    Some(kept((packets, "packet"), writer.partial(), &name_of_output(output)))
}

/// Says what a capture is that is written under the name of another format.
pub fn tell_format(out: Option<&Path>) {
    let Some((path, extension)) = out.and_then(|path| Some((path, path.extension()?))) else { return };
    if ["gz", "zst", "pcapng"].iter().any(|other| extension == *other) {
        eprintln!("note: {} will be a plain pcap, whatever its name says", path.display());
    }
}

/// What an output is called.
pub fn name_of_output(path: &Path) -> String {
    if path == "-" { "standard output".to_owned() } else { path.display().to_string() }
}
