//! The files of a sequenced capture, one for each core.

use std::io;
use std::path::{Path, PathBuf};

/// Where the packets of a core are in a folder: `core-00.pcap`.
pub fn core_file(folder: &Path, core: usize) -> PathBuf {
    folder.join(format!("core-{core:02}.pcap"))
}

/// The files of cores that a folder has, by core.
///
/// # Errors
/// The folder cannot be read.
pub fn core_files(folder: &Path) -> io::Result<Vec<(usize, PathBuf)>> {
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        let name = entry?.file_name();
        let core =
            name.to_str().and_then(|name| name.strip_prefix("core-")?.strip_suffix(".pcap")?.parse().ok());
        if let Some(core) = core.filter(|core| core_file(folder, *core).ends_with(&name)) {
            files.push((core, folder.join(name)));
        }
    }
    files.sort();
    Ok(files)
}
