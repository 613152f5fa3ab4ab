//! `cargo xtask gpu-bundle`: everything that a machine with a GPU needs for tests and benchmarks, in one folder.
//!
//! What is packed: the program with its kernels, the model with its weights in half precision, the texts, stored
//! vectors of sentence-transformers, the tests that run on every device, and `tests/load/gpu/run.py`, which does
//! the rest there without a compiler and without a network. Large files lie there compressed, each for itself, and that
//! script unpacks them. Beside the folder lies an archive of it, for it is easier to carry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::half;
use super::kernels::{self, CAPABILITIES};
use crate::{setup, shell};

/// What the folder may weigh: more does not get through everywhere.
const BYTES_MAX: u64 = 60_000_000;

const SCRIPT: &str = "tests/load/gpu/run.py";

/// Texts that are hard to get right, and what sentence-transformers makes of them.
const HARD: &str = "crates/flow-models/tests/fidelity";

/// Files that are larger lie compressed.
const PLAIN_BYTES_MAX: u64 = 100_000;

/// Where tests are packed.
const TESTS: &str = "tests";

const CORPORA: [&str; 3] = ["tutorial", "mixed", "long"];

/// What of the model is packed besides its weights.
const MODEL_FILES: &[&str] = &[
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "1_Pooling/config.json",
];

const WEIGHTS: &str = "model.safetensors";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Bundle this program instead of building one, to try out the script.
    #[arg(long)]
    program: Option<PathBuf>,

    /// Folder for the bundle; by default target/gpu-bundle.
    #[arg(long)]
    into: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = args
        .into
        .clone()
        .unwrap_or_else(|| crate::repository::target("gpu-bundle"));
    let program = match &args.program {
        Some(program) => program.clone(),
        None => built()?,
    };
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    for part in ["", "model/1_Pooling", "texts", TESTS] {
        fs::create_dir_all(folder.join(part))?;
    }
    copy(&program, &folder.join("flow"))?;
    copy(
        &crate::repository::root().join(SCRIPT),
        &folder.join("run.py"),
    )?;
    model(&folder.join("model"))?;
    texts(&program, &folder.join("texts"))?;
    if args.program.is_none() {
        tests(&folder.join(TESTS))?;
    }
    compress(&folder)?;
    if BYTES_MAX < size(&folder)? && args.program.is_none() {
        eprintln!(
            "the tests that run on every device are left out: with them the folder is too large"
        );
        fs::remove_dir_all(folder.join(TESTS))?;
    }
    let (bytes, archive) = (size(&folder)?, archive(&folder)?);
    println!(
        "{} MB: `{}`, and the same as `{}`; there, run `python3 run.py`",
        bytes / 1_000_000,
        folder.display(),
        archive.display()
    );
    ensure!(
        bytes <= BYTES_MAX || args.program.is_some(),
        "the folder has {bytes} bytes, and {BYTES_MAX} are the most"
    );
    Ok(())
}

/// The program as it is meant to be used, with kernels for all capabilities.
fn built() -> anyhow::Result<PathBuf> {
    kernels::run(&kernels::Args::release(CAPABILITIES))?;
    Ok(release("flow"))
}

fn release(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| crate::repository::target(""), PathBuf::from);
    target.join("release").join(name)
}

fn model(to: &Path) -> anyhow::Result<()> {
    let from = setup::model()?;
    for name in MODEL_FILES {
        copy(&from.join(name), &to.join(name))?;
    }
    let weights = fs::read(from.join(WEIGHTS))?;
    Ok(fs::write(to.join(WEIGHTS), half::halved(&weights)?)?)
}

fn texts(program: &Path, to: &Path) -> anyhow::Result<()> {
    for corpus in CORPORA {
        let texts = shell::output(Command::new(program).args(["bench", "corpus", corpus]))?;
        fs::write(to.join(format!("{corpus}.jsonl")), texts)?;
    }
    let hard = crate::repository::root().join(HARD);
    copy(&hard.join("texts.jsonl"), &to.join("hard.jsonl"))?;
    copy(&hard.join("vectors.f32"), &to.join("hard.f32"))
}

/// The encoder's tests, of which those on GPUs take a real one where there is one.
fn tests(to: &Path) -> anyhow::Result<()> {
    let mut command = shell::cargo();
    command.args(["test", "--release", "--no-run", "--message-format=json"]);
    let output = shell::output(command.args(["--package", "flow-models", "--test", "it"]))?;
    for line in output.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        // Beside the tests, the executor's own program is built.
        if line["profile"]["test"] != true {
            continue;
        }
        if let (Some(path), Some(name)) =
            (line["executable"].as_str(), line["target"]["name"].as_str())
        {
            copy(Path::new(path), &to.join(name))?;
        }
    }
    Ok(())
}

/// Puts `NAME.xz` in the place of each large file.
fn compress(folder: &Path) -> anyhow::Result<()> {
    for path in files(folder)? {
        if fs::metadata(&path)?.len() > PLAIN_BYTES_MAX {
            shell::output(Command::new("xz").args(["-6", "-T0"]).arg(&path))?;
        }
    }
    Ok(())
}

/// Bytes of all files.
fn size(folder: &Path) -> anyhow::Result<u64> {
    let sizes = files(folder)?.into_iter().map(fs::metadata);
    Ok(sizes
        .map(|about| Ok(about?.len()))
        .sum::<std::io::Result<u64>>()?)
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

fn archive(folder: &Path) -> anyhow::Result<PathBuf> {
    let archive = folder.with_extension("tar");
    let parent = folder.parent().context("the folder lies in no other")?;
    let name = folder.file_name().context("the folder has no name")?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--file"]).arg(&archive);
    shell::output(tar.arg("--directory").arg(parent).arg(name))?;
    Ok(archive)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = fs::copy(from, to);
    copied.with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_lie_compressed_and_small_ones_as_they_are() {
        if let Err(error) = Command::new("xz").arg("--version").output() {
            eprintln!("SKIPPED, no bundle can be packed here: xz: {error}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("bundle");
        fs::create_dir_all(bundle.join("model")).unwrap();
        let large = vec![7; 100_001];
        fs::write(bundle.join("model/weights"), &large).unwrap();
        fs::write(bundle.join("run.py"), "print()").unwrap();
        compress(&bundle).unwrap();
        let mut names: Vec<PathBuf> = files(&bundle).unwrap();
        names.sort();
        assert_eq!(
            names,
            [bundle.join("model/weights.xz"), bundle.join("run.py")]
        );
        assert!((8..10_000).contains(&size(&bundle).unwrap()));
        let mut unpack = Command::new("xz");
        let weights = unpack
            .args(["--decompress", "--stdout"])
            .arg(&names[0])
            .output()
            .unwrap();
        assert_eq!(weights.stdout, large);
        assert!(archive(&bundle).unwrap().ends_with("bundle.tar"));
    }
}
