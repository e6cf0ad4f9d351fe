//! Compiles the XDP programs in `bpf/` with clang. Without clang each of them is an empty file, and the crate says so
//! when one is to be attached.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const PROGRAMS: [&str; 4] = ["steer", "source", "sink", "slow"];

fn main() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let objects = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-changed={}", sources.display());
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-env-changed=PATH");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let is_there = compiles_bpf(&clang);
    if !is_there {
        println!(
            "cargo:warning=`{clang}` with the target bpf is not here: built without AF_XDP; apt-get install clang"
        );
    }
    for name in PROGRAMS {
        let object = objects.join(name).with_extension("bpf.o");
        match is_there {
            true => compile(&clang, &sources.join(name).with_extension("bpf.c"), &object),
            false => fs::write(&object, []).expect("OUT_DIR is writable"),
        }
    }
}

fn compiles_bpf(clang: &str) -> bool {
    let output = Command::new(clang).arg("-print-targets").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("bpf"))
}

/// `-g` is for the maps: their definitions are types, which the loader reads from BTF.
fn compile(clang: &str, source: &Path, object: &Path) {
    let flags = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-c"];
    let output = Command::new(clang).args(flags).arg(source).arg("-o").arg(object).output();
    let output = output.unwrap_or_else(|error| panic!("{clang}: {error}"));
    assert!(
        output.status.success(),
        "{clang} could not compile {}:\n{}",
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}
