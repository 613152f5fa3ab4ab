//! Embeds the compiled kernels, if `cargo xtask build-cuda` has compiled any.
//!
//! A copy of their sources is stored beside them. If it differs from the current sources, the kernels are left out with a warning,
//! because outdated kernels could compute something else.
#![allow(
    clippy::disallowed_methods,
    reason = "cargo passes paths to build scripts in environment variables"
)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The folder of the compiled kernels.
const EMBED: &str = "../../target/cuda/embed";

const SOURCES: &str = "kernels";

/// The embedded files: the kernels, their names, and the GPUs that they run on.
const PARTS: [&str; 3] = ["kernels.fatbin", "kernels.names", "kernels.images"];

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let embed = here.join(EMBED);
    // If the folder were missing, cargo would run this script in every build.
    fs::create_dir_all(&embed)?;
    for watched in ["build.rs", SOURCES, EMBED] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let read = |name: &str| fs::read(embed.join(name)).unwrap_or_default();
    let exists = embed.join(PARTS[0]).exists();
    let is_current = exists && read("kernels.sources") == sources(&here.join(SOURCES))?;
    if exists && !is_current {
        println!(
            "cargo::warning=the compiled CUDA kernels are outdated and are left out: run `cargo xtask build-cuda`"
        );
    }
    for part in PARTS {
        let bytes = if is_current { read(part) } else { Vec::new() };
        fs::write(out.join(part), bytes)?;
    }
    Ok(())
}

/// The text of all sources, each after its name, in the order of names. `cargo xtask build-cuda` writes the same.
fn sources(folder: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|it| it == "cu" || it == "cuh"));
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        all.extend_from_slice(name.as_bytes());
        all.push(b'\n');
        all.extend_from_slice(&fs::read(&path)?);
    }
    Ok(all)
}
