//! Compiles CUDA C++ to a shared library for this machine.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io};

/// The C++ compiler, by its conventional name on Unix.
const COMPILER: &str = "c++";

/// Compiler options. Contraction to fused operations is off because results would differ between machines, and
/// `_FORTIFY_SOURCE` because its checks of `longjmp` forbid a change of stacks.
const OPTIONS: &[&str] = &[
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-U_FORTIFY_SOURCE",
    "-DEMULATE",
];

/// Kernels could not be compiled for this machine.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// There is no C++ compiler.
    #[error("there is no C++ compiler `{COMPILER}`")]
    NoCompiler(#[source] io::Error),
    /// The sources are missing, because the test program was copied to another machine.
    #[error("the sources of the kernels are not in `{0}`")]
    NoSources(PathBuf),
    /// A file could not be read or written.
    #[error("cannot access `{path}`")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The compiler reported errors.
    #[error("`{COMPILER}` cannot compile `{path}`:\n{output}")]
    Failed {
        /// The source.
        path: PathBuf,
        /// Its output.
        output: String,
    },
}

impl CompileError {
    /// Whether this machine lacks the compiler or the sources, so that tests should be skipped.
    #[must_use]
    pub fn is_missing_tool(&self) -> bool {
        matches!(self, Self::NoCompiler(_) | Self::NoSources(_))
    }
}

/// The folder of `flow-cuda`'s kernels.
#[must_use]
pub fn kernels_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../flow-cuda/kernels")
}

/// Compiles the kernels in `source`, unless they have been compiled before, and returns the path of the library.
///
/// # Errors
///
/// If there is no compiler, or it reports errors.
pub fn compile_library(source: &Path) -> Result<PathBuf, CompileError> {
    if !kernels_folder().is_dir() {
        return Err(CompileError::NoSources(kernels_folder()));
    }
    // One thread compiles, and the others use its result.
    static COMPILING: Mutex<()> = Mutex::new(());
    let _guard = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = target_folder()?.join("emulator");
    fs::create_dir_all(&folder).map_err(|error| file(&folder, error))?;
    let library = folder.join(format!("{:016x}.so", digest(source)?));
    if library.exists() {
        return Ok(library);
    }
    // Other test programs may compile the same library at this moment. The last one replaces it by an identical file.
    let unfinished = library.with_extension(process::id().to_string());
    compile(source, &unfinished)?;
    fs::rename(&unfinished, &library).map_err(|error| file(&library, error))?;
    Ok(library)
}

fn compile(source: &Path, library: &Path) -> Result<(), CompileError> {
    let mut command = Command::new(COMPILER);
    command
        .args(OPTIONS)
        .arg("-I")
        .arg(kernels_folder())
        .args(["-x", "c++"]);
    command
        .arg(source)
        .arg(kernels_folder().join("emulate/emulate.cpp"));
    let output = command.arg("-o").arg(library).output();
    let output = output.map_err(CompileError::NoCompiler)?;
    if output.status.success() {
        return Ok(());
    }
    Err(CompileError::Failed {
        path: source.to_owned(),
        output: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The folder in which cargo has built this test program.
fn target_folder() -> Result<PathBuf, CompileError> {
    let program = env::current_exe().map_err(|error| file(Path::new("this program"), error))?;
    let folder = program.ancestors().nth(2).unwrap_or(Path::new("."));
    Ok(folder.to_owned())
}

/// A digest of the source, of all files that it may include, and of the compiler options.
fn digest(source: &Path) -> Result<u64, CompileError> {
    let mut hasher = DefaultHasher::new();
    let mut text = String::new();
    for option in OPTIONS {
        let written = write!(text, "{option} ");
        written.expect("writing to a string cannot fail");
    }
    text.hash(&mut hasher);
    let mut files = vec![source.to_owned()];
    for folder in [kernels_folder(), kernels_folder().join("emulate")] {
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

fn file(path: &Path, source: io::Error) -> CompileError {
    CompileError::File {
        path: path.to_owned(),
        source,
    }
}
