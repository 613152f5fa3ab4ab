//! From CUDA C++ to a library of this machine's.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io};

/// The compiler; every C++ compiler on Unix answers to this name.
const COMPILER: &str = "c++";

/// What sources are compiled with: contraction into fused operations would make values differ from machine to machine,
/// and `longjmp` is checked by some systems in a way that forbids changing stacks.
const OPTIONS: &[&str] = &[
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-U_FORTIFY_SOURCE",
    "-DEMULATE",
];

/// Why kernels could not be compiled for this machine.
#[derive(Debug, thiserror::Error)]
pub enum BadCompile {
    /// A machine that cannot run the emulator at all.
    #[error("there is no C++ compiler `{COMPILER}`")]
    NoCompiler(#[source] io::Error),
    /// A test program that was taken to another machine.
    #[error("the sources of the kernels are not here, in `{0}`")]
    NoSources(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot use `{path}`")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The compiler refuses.
    #[error("`{COMPILER}` refuses `{path}`:\n{output}")]
    Refused {
        /// The source.
        path: PathBuf,
        /// What it says.
        output: String,
    },
}

impl BadCompile {
    /// Whether this machine lacks something, so that tests skip what needs it and say so.
    #[must_use]
    pub fn is_lack(&self) -> bool {
        matches!(self, Self::NoCompiler(_) | Self::NoSources(_))
    }
}

/// The folder of `flow-cuda`'s kernels.
#[must_use]
pub fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../flow-cuda/kernels")
}

/// The library of the kernels in `source`, compiled if it was not before.
///
/// # Errors
///
/// If there is no compiler, or it refuses the source.
pub fn library_of(source: &Path) -> Result<PathBuf, BadCompile> {
    if !kernels().is_dir() {
        return Err(BadCompile::NoSources(kernels()));
    }
    // One thread compiles, and the others find what it has made.
    static COMPILING: Mutex<()> = Mutex::new(());
    let _one = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = target()?.join("emulator");
    fs::create_dir_all(&folder).map_err(|error| file(&folder, error))?;
    let library = folder.join(format!("{:016x}.so", digest(source)?));
    if library.exists() {
        return Ok(library);
    }
    // Other test programs may do the same at this moment: whoever is last puts the same file there once more.
    let unfinished = library.with_extension(process::id().to_string());
    compile(source, &unfinished)?;
    fs::rename(&unfinished, &library).map_err(|error| file(&library, error))?;
    Ok(library)
}

fn compile(source: &Path, library: &Path) -> Result<(), BadCompile> {
    let mut command = Command::new(COMPILER);
    command
        .args(OPTIONS)
        .arg("-I")
        .arg(kernels())
        .args(["-x", "c++"]);
    command
        .arg(source)
        .arg(kernels().join("emulate/emulate.cpp"));
    let output = command.arg("-o").arg(library).output();
    let output = output.map_err(BadCompile::NoCompiler)?;
    if output.status.success() {
        return Ok(());
    }
    Err(BadCompile::Refused {
        path: source.to_owned(),
        output: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Beside this program: test programs lie in the folder of what cargo builds.
fn target() -> Result<PathBuf, BadCompile> {
    let program = env::current_exe().map_err(|error| file(Path::new("this program"), error))?;
    let folder = program.ancestors().nth(2).unwrap_or(Path::new("."));
    Ok(folder.to_owned())
}

/// Of the source, all that it may include, and how it is compiled.
fn digest(source: &Path) -> Result<u64, BadCompile> {
    let mut hasher = DefaultHasher::new();
    let mut text = String::new();
    for option in OPTIONS {
        let written = write!(text, "{option} ");
        written.expect("a string takes all that is written");
    }
    text.hash(&mut hasher);
    let mut files = vec![source.to_owned()];
    for folder in [kernels(), kernels().join("emulate")] {
        let entries = fs::read_dir(&folder).map_err(|error| file(&folder, error))?;
        let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
        files.extend(entries.filter(|path| is_source(path)));
    }
    files.sort();
    for path in files {
        let bytes = fs::read(&path).map_err(|error| file(&path, error))?;
        bytes.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn is_source(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    matches!(extension, Some("cu" | "cuh" | "cpp" | "h"))
}

fn file(path: &Path, source: io::Error) -> BadCompile {
    BadCompile::File {
        path: path.to_owned(),
        source,
    }
}
