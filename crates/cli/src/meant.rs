//! Which file was meant, for errors about files that are not there.

use std::fs;
use std::path::{Path, PathBuf};

use engine::nearest;

/// A line with the file that was probably meant, where there is none of this name; else nothing.
pub fn tip(path: &Path) -> String {
    if path.exists() {
        return String::new();
    }
    meant(path).map_or_else(String::new, |near| format!("\nDid you mean `{}`?", near.display()))
}

/// A path that exists, each part of which is this one's or like it.
fn meant(path: &Path) -> Option<PathBuf> {
    // More names than a folder has in which one looks for a name.
    const LOOKED_AT: usize = 10_000;
    let mut there = PathBuf::new();
    for part in path.components() {
        let next = there.join(part);
        if next.exists() {
            there = next;
            continue;
        }
        let folder = if there.as_os_str().is_empty() { Path::new(".") } else { &there };
        let entries = fs::read_dir(folder).ok()?.take(LOOKED_AT);
        let names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        let near = nearest(part.as_os_str().to_str()?, names.iter().map(String::as_str))?;
        there.push(near);
    }
    there.is_file().then_some(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_a_name_like_its_own() {
        let root = Path::new("../../");
        let tips = [
            ("exampels/edge.toml", "examples/edge.toml"),
            ("examples/edgee.toml", "examples/edge.toml"),
            ("captures/edge.pcapng", "captures/edge.pcap"),
            ("capture/gatway.pcap", "captures/gateway.pcap"),
        ];
        for (wrong, right) in tips {
            let tip = tip(&root.join(wrong));
            assert_eq!(tip, format!("\nDid you mean `{}`?", root.join(right).display()), "{wrong}");
        }
        for none in ["examples/edge.toml", "zzz/edge.toml", "examples/zzz", "examplse", ""] {
            assert_eq!(tip(&root.join(none)), "", "{none}");
        }
    }
}
