//! `cargo xtask build-cuda`: the GPU's kernels as one fatbin, and the program with it inside.
//!
//! Machine instructions are made for each capability that is asked for, and PTX for the newest of them, from which a
//! driver makes instructions for GPUs that came later. All `kernels/*.cu` are compiled as one file that includes them
//! in the order of their names, so that a fatbin is one module. The result and the sources it was made of lie in
//! `target/cuda/embed`, where the build script of `flow-cuda` looks.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, ensure};

use super::fatbin::{self, Image};
use super::toolkit::{self, Toolkit};
use crate::shell;

const SOURCES: &str = "crates/flow-cuda/kernels";

/// Of the kernels we have; the driver compiles nothing below.
const OLDEST: u32 = 75;

/// GPU generations of a released program.
pub(super) const CAPABILITIES: &[u32] = &[75, 80, 86, 89, 90];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Compute capabilities to compile for: 75 is Turing, 80 and 86 are Ampere, 89 is Ada, 90 is Hopper.
    #[arg(long, value_delimiter = ',', default_values_t = CAPABILITIES.to_vec())]
    cap: Vec<u32>,

    /// Build the program with optimisations.
    #[arg(long)]
    release: bool,

    /// Only compile the kernels; the next `cargo build` includes them.
    #[arg(long)]
    kernels_only: bool,
}

impl Args {
    /// The program as it is meant to be used.
    pub(super) fn release(capabilities: &[u32]) -> Self {
        Self {
            cap: capabilities.to_vec(),
            release: true,
            kernels_only: false,
        }
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let build = Build::new(&args.cap)?;
    if build.is_fresh() {
        eprintln!("the kernels in `{}` are fresh", build.fatbin().display());
    } else {
        build.compile(&Toolkit::ready()?)?;
    }
    build.tell()?;
    if args.kernels_only {
        return Ok(());
    }
    let mut command = shell::cargo();
    command.args(["build", "--package", "flow-cli"]);
    if args.release {
        command.arg("--release");
    }
    shell::run(&mut command)
}

/// The arguments of nvcc for each file. It fuses a product and a sum only where the source says so: then tiles of every size
/// round alike, and a text has the same vector, bit for bit, whatever is beside it.
const OPTIONS: &[&str] = &["-std=c++17", "-O3", "-fmad=false", "--Werror=all-warnings"];

struct Build {
    capabilities: Vec<u32>,
    /// What the build script compares with what it sees.
    sources: Vec<u8>,
    /// All that the outcome depends on.
    inputs: Vec<u8>,
    folder: PathBuf,
}

impl Build {
    fn new(capabilities: &[u32]) -> anyhow::Result<Self> {
        let mut capabilities = capabilities.to_vec();
        capabilities.sort_unstable();
        capabilities.dedup();
        let oldest = capabilities.first().context("no capability is asked for")?;
        ensure!(
            OLDEST <= *oldest,
            "capability {oldest} is older than {OLDEST}, which is the oldest that the kernels and nvcc 13 know"
        );
        let sources = sources()?;
        let requirements = toolkit::requirements()?;
        let head = format!("{requirements}\n{capabilities:?}\n{OPTIONS:?}\n");
        Ok(Self {
            capabilities,
            inputs: [head.as_bytes(), &sources].concat(),
            sources,
            folder: crate::repository::target("cuda"),
        })
    }

    fn newest(&self) -> u32 {
        self.capabilities.last().copied().unwrap_or(OLDEST)
    }

    /// What goes into the program: alone in a folder, so that the build script can watch it.
    fn embed(&self, name: &str) -> PathBuf {
        self.folder.join("embed").join(name)
    }

    fn fatbin(&self) -> PathBuf {
        self.embed("kernels.fatbin")
    }

    fn is_fresh(&self) -> bool {
        let written = fs::read(self.folder.join("inputs")).unwrap_or_default();
        let parts = ["kernels.fatbin", "kernels.names", "kernels.images"];
        parts.iter().all(|part| self.embed(part).exists()) && written == self.inputs
    }

    fn compile(&self, toolkit: &Toolkit) -> anyhow::Result<()> {
        fs::create_dir_all(self.embed(""))?;
        let whole = self.folder.join("kernels.cu");
        fs::write(&whole, including(&kernel_files()?))?;
        eprintln!(
            "compiling `{SOURCES}` with {} for {:?}",
            toolkit.version()?,
            self.capabilities
        );
        let mut steps: Vec<Command> = self
            .capabilities
            .iter()
            .map(|it| self.cubin(toolkit, *it))
            .collect();
        steps.push(self.ptx(toolkit));
        run_at_once(steps)?;
        let names = self.names()?;
        self.join(toolkit)?;
        fs::write(self.embed("kernels.names"), names.join("\n") + "\n")?;
        fs::write(self.embed("kernels.images"), self.images())?;
        fs::write(self.embed("kernels.sources"), &self.sources)?;
        // Last: it says that all the others are whole.
        Ok(fs::write(self.folder.join("inputs"), &self.inputs)?)
    }

    fn nvcc(&self, toolkit: &Toolkit, output: &Path) -> Command {
        let mut command = toolkit.program("nvcc");
        command.args(OPTIONS);
        command
            .arg("-I")
            .arg(crate::repository::root().join(SOURCES));
        command
            .arg("-o")
            .arg(output)
            .arg(self.folder.join("kernels.cu"));
        command
    }

    fn cubin(&self, toolkit: &Toolkit, capability: u32) -> Command {
        let mut command = self.nvcc(toolkit, &self.cubin_file(capability));
        command.arg("-cubin").arg(format!("-arch=sm_{capability}"));
        command
    }

    fn ptx(&self, toolkit: &Toolkit) -> Command {
        let mut command = self.nvcc(toolkit, &self.ptx_file());
        command
            .arg("-ptx")
            .arg(format!("-arch=compute_{}", self.newest()));
        command
    }

    fn cubin_file(&self, capability: u32) -> PathBuf {
        self.folder.join(format!("sm_{capability}.cubin"))
    }

    fn ptx_file(&self) -> PathBuf {
        self.folder.join("kernels.ptx")
    }

    /// The kernels' names, which must be the same for every capability.
    fn names(&self) -> anyhow::Result<Vec<String>> {
        let names = |capability: u32| fatbin::kernels(&fs::read(self.cubin_file(capability))?);
        let wanted = names(self.newest())?;
        ensure!(!wanted.is_empty(), "`{SOURCES}` has no kernel");
        for capability in &self.capabilities {
            let found = names(*capability)?;
            ensure!(
                found == wanted,
                "capability {capability} has the kernels {found:?}, but {} has {wanted:?}",
                self.newest()
            );
        }
        Ok(wanted)
    }

    /// A line for each image, for the program to know where its kernels run.
    fn images(&self) -> String {
        let sass = |capability: &u32| format!("sass {capability}\n");
        let sass: String = self.capabilities.iter().map(sass).collect();
        sass + &format!("ptx {}\n", self.newest())
    }

    fn join(&self, toolkit: &Toolkit) -> anyhow::Result<()> {
        let mut command = toolkit.program("fatbinary");
        command.args(["-64", "--compress-all"]);
        command.arg(format!("--create={}", self.fatbin().display()));
        for capability in &self.capabilities {
            let file = self.cubin_file(*capability);
            command.arg(format!(
                "--image3=kind=elf,sm={capability},file={}",
                file.display()
            ));
        }
        let (newest, file) = (self.newest(), self.ptx_file());
        command.arg(format!(
            "--image3=kind=ptx,sm={newest},file={}",
            file.display()
        ));
        shell::output(&mut command).map(drop)
    }

    /// Says what is inside, after having looked.
    fn tell(&self) -> anyhow::Result<()> {
        let bytes = fs::read(self.fatbin())?;
        let found = fatbin::images(&bytes)?;
        let sass = self.capabilities.iter().map(|it| Image::Sass(*it));
        let wanted: Vec<Image> = sass.chain([Image::Ptx(self.newest())]).collect();
        ensure!(
            found == wanted,
            "the fatbin has {found:?}, but was to have {wanted:?}"
        );
        let names = fs::read_to_string(self.embed("kernels.names"))?;
        println!(
            "{} kernels, instructions for {:?} and PTX for {}, {} KB: `{}`",
            names.lines().count(),
            self.capabilities,
            self.newest(),
            bytes.len() / 1000,
            self.fatbin().display()
        );
        Ok(())
    }
}

/// The text of every source, each under its name, in the order of names. The build script does the same.
fn sources() -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    for path in files(&["cu", "cuh"])? {
        all.extend_from_slice(name(&path).as_bytes());
        all.push(b'\n');
        all.extend_from_slice(&fs::read(&path)?);
    }
    Ok(all)
}

fn kernel_files() -> anyhow::Result<Vec<PathBuf>> {
    files(&["cu"])
}

fn files(extensions: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let folder = crate::repository::root().join(SOURCES);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read `{SOURCES}`"))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| {
        let extension = path.extension().unwrap_or_default();
        extensions.iter().any(|it| extension == *it)
    });
    paths.sort();
    Ok(paths)
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn including(files: &[PathBuf]) -> String {
    let line = |path: &PathBuf| format!("#include \"{}\"\n", name(path));
    files.iter().map(line).collect()
}

/// Runs compilers, as many at a time as there are cores.
fn run_at_once(mut commands: Vec<Command>) -> anyhow::Result<()> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    for commands in commands.chunks_mut(cores) {
        thread::scope(|scope| {
            let run = |command| scope.spawn(|| shell::output(command));
            let running: Vec<_> = commands.iter_mut().map(run).collect();
            let outcomes = running
                .into_iter()
                .map(|it| it.join().expect("it does not panic"));
            outcomes.collect::<anyhow::Result<Vec<String>>>()
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_put_in_order_and_too_old_ones_refused() {
        let build = Build::new(&[90, 75, 80, 75]).unwrap();
        assert_eq!(build.capabilities, [75, 80, 90]);
        assert_eq!(build.newest(), 90);
        assert!(Build::new(&[70, 90]).is_err());
        assert!(Build::new(&[]).is_err());
    }

    #[test]
    fn images_are_instructions_for_each_capability_and_text_for_the_newest() {
        let build = Build::new(&[90, 75]).unwrap();
        assert_eq!(build.images(), "sass 75\nsass 90\nptx 90\n");
    }

    #[test]
    fn another_choice_of_capabilities_is_another_build() {
        let inputs = |caps: &[u32]| Build::new(caps).unwrap().inputs;
        assert_eq!(inputs(&[75, 90]), inputs(&[90, 75]));
        assert_ne!(inputs(&[75, 90]), inputs(&[90]));
    }
}
