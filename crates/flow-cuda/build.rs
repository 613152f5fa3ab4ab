//! Takes the compiled kernels into the crate, where there are any: `cargo xtask build-cuda` makes them.
//!
//! They lie beside the sources that they were made of. If those are not the sources that are here now, the kernels are
//! left out with a warning: a program with old kernels would compute something else than it says.
#![allow(
    clippy::disallowed_methods,
    reason = "variables are how cargo tells a build script where it is"
)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where they are made, below the repository.
const EMBED: &str = "../../target/cuda/embed";

const SOURCES: &str = "kernels";

/// What the program takes in: the kernels, what they are called, and for which GPUs they are.
const PARTS: [&str; 3] = ["kernels.fatbin", "kernels.names", "kernels.images"];

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let embed = here.join(EMBED);
    // A folder that is not there would make cargo run this each time.
    fs::create_dir_all(&embed)?;
    for watched in ["build.rs", SOURCES, EMBED] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let read = |name: &str| fs::read(embed.join(name)).unwrap_or_default();
    let is_there = embed.join(PARTS[0]).exists();
    let fits = is_there && read("kernels.sources") == sources(&here.join(SOURCES))?;
    if is_there && !fits {
        println!(
            "cargo::warning=the compiled CUDA kernels are of other sources and are left out: run `cargo xtask build-cuda`"
        );
    }
    for part in PARTS {
        let bytes = if fits { read(part) } else { Vec::new() };
        fs::write(out.join(part), bytes)?;
    }
    Ok(())
}

/// The text of every source, each under its name, in the order of names; as `cargo xtask build-cuda` writes it.
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
