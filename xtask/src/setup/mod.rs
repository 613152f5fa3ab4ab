//! Sets up the stock peers that tests and benchmarks run against, in `.peers/`.
//!
//! | folder | what | needed by |
//! |---|---|---|
//! | `.peers/model` | all-MiniLM-L6-v2 | tests |
//! | `.peers/jina-v1` | Jina 3.27 with DocArray 0.21: documents of DocArray v1; Hypothesis | tests |
//! | `.peers/jina-v2` | Jina 3.34 with DocArray 0.40: documents of DocArray v2 | tests |
//! | `.peers/python` | NumPy, and the package `flow_serve` of this tree | tests |
//! | `.peers/python-oldest`, `.peers/python-newest` | NumPy for Python 3.9 and 3.13, the oldest and the newest that are tested | tests |
//! | `.peers/types` | mypy, and pyright with Node.js | tests |
//! | `.peers/notebook` | `ipykernel`, `nbclient` and `nbformat`, which run notebooks | tests |
//! | `.peers/maturin` | maturin, which makes wheels, and auditwheel, which checks them | `cargo xtask wheel` |
//! | `.peers/http-clients` | `openai`, `langchain-openai`, `llama-index`, `cohere`, `huggingface_hub`, `tritonclient` and `websockets` | tests |
//! | `.peers/openapi` | `openapi-spec-validator` and `schemathesis`, for the OpenAPI document | tests |
//! | `.peers/kubernetes` | the schemas of Kubernetes' API, for `flow export kubernetes` | tests |
//! | `.peers/helm` | the code of Helm, which renders exported charts | tests |
//! | `.peers/kubectl` | `kubectl` from Debian's package, which puts an export together with kustomize | tests |
//! | `.peers/cyclonedx` | the schemas of CycloneDX, for the SBOM of `cargo xtask dist` | tests |
//! | `.peers/registry` | Debian's registry of images, for `flow hub` | tests |
//! | `.peers/prometheus` | Debian's Prometheus, for `docker/observability` | tests |
//! | `.peers/grafana` | the types of Grafana's dashboards, for `docker/observability` | tests |
//! | `.peers/postgres` | PostgreSQL with pgvector, for `pgvector-index` | tests |
//! | `.peers/torch` | sentence-transformers and ONNX Runtime | benchmarks |
//! | `.peers/jina-v1-torch` | Jina 3.27 with sentence-transformers | benchmarks |
//! | `.peers/openvino` | OpenVINO and NNCF | benchmarks |
//! | `.peers/infinity` | Infinity, an embedding server, with torch and ONNX Runtime | benchmarks |
//!
//! This file decides what is set up and says what could not be; `venv.rs`, `model.rs` and `debian.rs` make
//! one folder each, `package.rs` puts our own package into one, `python.rs` runs the user's Python. A folder counts only when it is whole, so a
//! set-up that was cut short is done again, and one that is ready costs nothing.

mod debian;
mod model;
mod package;
mod python;
mod venv;

use std::cell::LazyCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;

pub(crate) use crate::setup::python::Python;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Groups to install; by default those that the tests need, which is all but `torch`.
    #[arg(long, value_enum)]
    only: Vec<Group>,

    /// Folder to install into; by default .peers/ in the repository.
    #[arg(long)]
    into: Option<PathBuf>,
}

/// What one asks for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// The model's files, 90 MB.
    Model,
    /// Stock Jina of both versions of DocArray, 500 MB.
    Clients,
    /// The package `flow_serve` of this tree, built with cargo, and NumPy, for three versions of Python, 180 MB.
    Python,
    /// The type checkers mypy and pyright, 380 MB.
    Types,
    /// What runs notebooks of Jupyter, 200 MB.
    Notebook,
    /// Maturin, which builds wheels, and auditwheel, which checks them, 30 MB.
    Maturin,
    /// Clients of the HTTP APIs of OpenAI, Cohere and others, 400 MB.
    HttpClients,
    /// A validator of the OpenAPI document and a generator of requests from it, 90 MB.
    Openapi,
    /// The schemas of Kubernetes' API, `kubectl` and Helm, 420 MB.
    Kubernetes,
    /// The schemas of CycloneDX, 20 MB.
    Cyclonedx,
    /// An image registry, 5 MB.
    Registry,
    /// Prometheus, 90 MB.
    Prometheus,
    /// The types of Grafana's dashboards, 25 MB.
    Grafana,
    /// PostgreSQL with pgvector, 70 MB.
    Postgres,
    /// The encoders of sentence-transformers and ONNX Runtime, 12 GB.
    Torch,
    /// The encoder of OpenVINO, 550 MB; `torch` exports the model for it.
    Openvino,
    /// The embedding server Infinity with its engines, 6 GB.
    Infinity,
}

/// What the tests need. They need no torch: its vectors are committed with them.
const FOR_TESTS: &[Group] = &[
    Group::Model,
    Group::Clients,
    Group::Python,
    Group::Types,
    Group::Notebook,
    Group::HttpClients,
    Group::Openapi,
    Group::Kubernetes,
    Group::Cyclonedx,
    Group::Registry,
    Group::Prometheus,
    Group::Grafana,
    Group::Postgres,
];

/// A folder that could not be set up, and why.
#[derive(Debug)]
pub(crate) struct SetupFailure {
    pub(crate) name: &'static str,
    pub(crate) why: anyhow::Error,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = args.into.clone().unwrap_or_else(folder);
    let groups = if args.only.is_empty() {
        FOR_TESTS
    } else {
        &args.only
    };
    let mut missing = prepare(&folder, groups)?;
    let made = |name: &str| missing.iter().all(|it| it.name != name);
    if groups.contains(&Group::Python) && made(package::FOLDER) {
        let built = package::build_and_install(&folder);
        missing.extend(built.err().map(|why| SetupFailure {
            name: package::FOLDER,
            why,
        }));
    }
    for SetupFailure { name, why } in &missing {
        eprintln!("{name}: {why:#}");
    }
    if !missing.is_empty() {
        bail!(
            "{} of the peers could not be set up in `{}`",
            missing.len(),
            folder.display()
        );
    }
    eprintln!("all that was asked for is ready in `{}`", folder.display());
    Ok(())
}

/// Sets up what the tests need; says what they will have to do without.
pub(crate) fn for_tests() -> anyhow::Result<Vec<SetupFailure>> {
    prepare(&folder(), FOR_TESTS)
}

/// `maturin`, which builds wheels, or `auditwheel`, which reports the systems that a wheel runs on. Set up if it is not there.
pub(crate) fn wheel_tool(name: &str) -> anyhow::Result<PathBuf> {
    match prepare(&folder(), &[Group::Maturin])?.pop() {
        Some(SetupFailure { why, .. }) => Err(why),
        None => Ok(folder().join(venv::MATURIN.folder).join("bin").join(name)),
    }
}

/// Puts the package `flow_serve`, which cargo has built beside this program, where the tests look for it.
pub(crate) fn install_package() -> anyhow::Result<()> {
    package::install(&folder())
}

/// Builds the package `flow_serve` for release, installs it, and returns the interpreter that has it.
pub(crate) fn install_release_package() -> anyhow::Result<PathBuf> {
    let folder = folder();
    if let Some(SetupFailure { why, .. }) = prepare(&folder, &[Group::Python])?.pop() {
        return Err(why);
    }
    package::build_and_install_release(&folder)?;
    Ok(folder.join(package::FOLDER).join("bin/python"))
}

/// The model's folder, set up if it is not there.
pub(crate) fn model() -> anyhow::Result<PathBuf> {
    match prepare(&folder(), &[Group::Model])?.pop() {
        Some(SetupFailure { why, .. }) => Err(why),
        None => Ok(folder().join(model::FOLDER)),
    }
}

/// Where the peers are.
pub(crate) fn folder() -> PathBuf {
    crate::repository::root().join(".peers")
}

/// The Python of one of the peers, if that peer is set up.
pub(crate) fn interpreter(venv: &str) -> Option<PathBuf> {
    let folder = folder().join(venv);
    folder
        .join(venv::READY)
        .exists()
        .then(|| folder.join("bin/python"))
}

/// The folder of an interpreter's packages.
pub(crate) fn site_packages(python: &Path) -> anyhow::Result<PathBuf> {
    let code = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let output = crate::shell::output(std::process::Command::new(python).args(["-c", code]))?;
    Ok(output.trim().into())
}

fn prepare(folder: &Path, groups: &[Group]) -> anyhow::Result<Vec<SetupFailure>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    // Two set-ups at once would empty each other's half-made folders.
    let lock = File::create(folder.join(".lock"))?;
    lock.lock().context("cannot lock the peers' folder")?;

    let python: Lazy = LazyCell::new(Python::find);
    let steps = groups.iter().flat_map(|group| steps(*group));
    Ok(steps
        .filter_map(|step| step.run(folder, &python).err())
        .collect())
}

/// Looked for when the first step needs it.
type Lazy = LazyCell<anyhow::Result<Python>>;

enum Step {
    Model,
    Debian(&'static debian::Package),
    Venv(&'static venv::Venv),
    /// A virtual environment of this version of Python.
    VenvOf(&'static venv::Venv, &'static str),
}

fn steps(group: Group) -> Vec<Step> {
    match group {
        Group::Model => vec![Step::Model],
        Group::Clients => vec![
            Step::Venv(&venv::JINA_V1),
            Step::Venv(&venv::HYPOTHESIS_IN_JINA_V1),
            Step::Venv(&venv::JINA_V2),
        ],
        Group::Python => vec![
            Step::Venv(&venv::PYTHON),
            Step::VenvOf(&venv::PYTHON_OLDEST, "3.9"),
            Step::VenvOf(&venv::PYTHON_NEWEST, "3.13"),
        ],
        Group::Types => vec![Step::Venv(&venv::TYPES)],
        Group::Notebook => vec![Step::Venv(&venv::NOTEBOOK)],
        Group::Maturin => vec![Step::Venv(&venv::MATURIN)],
        Group::HttpClients => vec![Step::Venv(&venv::HTTP_CLIENTS)],
        Group::Openapi => vec![Step::Venv(&venv::OPENAPI)],
        Group::Kubernetes => vec![
            Step::Venv(&venv::KUBERNETES),
            Step::Debian(&debian::KUBECTL),
            Step::Venv(&venv::HELM),
        ],
        Group::Cyclonedx => vec![Step::Venv(&venv::CYCLONEDX)],
        Group::Registry => vec![Step::Debian(&debian::REGISTRY)],
        Group::Prometheus => vec![Step::Debian(&debian::PROMETHEUS)],
        Group::Grafana => vec![Step::Venv(&venv::GRAFANA)],
        Group::Postgres => vec![Step::Venv(&venv::POSTGRES)],
        Group::Torch => vec![
            Step::Venv(&venv::TORCH),
            Step::Venv(&venv::JINA_V1_FOR_TORCH),
            Step::Venv(&venv::TORCH_IN_JINA_V1),
        ],
        Group::Openvino => vec![Step::Venv(&venv::OPENVINO)],
        Group::Infinity => vec![Step::Venv(&venv::INFINITY)],
    }
}

impl Step {
    fn name(&self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Debian(package) => package.folder,
            Self::Venv(venv) | Self::VenvOf(venv, _) => venv.folder,
        }
    }

    fn run(&self, folder: &Path, python: &Lazy) -> Result<(), SetupFailure> {
        let made = match self {
            Self::Model if model::is_ready(folder) => Ok(()),
            Self::Debian(package) if package.is_ready(folder) => Ok(()),
            Self::Venv(venv) | Self::VenvOf(venv, _) if venv.is_ready(folder) => Ok(()),
            Self::Debian(package) => package.make(folder),
            Self::Model => usable(python).and_then(|python| model::make(folder, python)),
            Self::Venv(venv) => usable(python).and_then(|python| venv.make(folder, python)),
            Self::VenvOf(venv, version) => {
                Python::of_version(version).and_then(|python| venv.make(folder, &python))
            }
        };
        made.map_err(|why| SetupFailure {
            name: self.name(),
            why,
        })
    }
}

/// Python is looked for once, but its absence is the reason of each step that needed it.
fn usable(python: &Lazy) -> anyhow::Result<&Python> {
    python
        .as_ref()
        .map_err(|error| anyhow::anyhow!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_python_each_step_says_so_and_what_is_ready_stays_usable() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("model")).expect("a model");
        let python: Lazy = LazyCell::new(|| Err(anyhow::anyhow!("there is no python3")));

        assert!(Step::Model.run(folder.path(), &python).is_ok());
        let missing = Step::Venv(&venv::JINA_V1)
            .run(folder.path(), &python)
            .expect_err("no Python");
        assert_eq!(missing.name, "jina-v1");
        assert_eq!(missing.why.to_string(), "there is no python3");
    }
}
