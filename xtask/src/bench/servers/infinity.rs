//! Infinity, an embedding server in Python, with each of its engines for CPUs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::ours;
use crate::bench::process::Server;
use crate::bench::report::Report;
use crate::{setup, shell};

/// Part of the line by which uvicorn says that it takes requests.
const READY: &str = "Uvicorn running";

#[derive(Debug, Clone, Copy)]
pub(super) enum Engine {
    /// ONNX Runtime, through Hugging Face's package Optimum.
    Onnx,
    Torch,
}

impl Engine {
    /// Its name in Infinity's options.
    fn name(self) -> &'static str {
        match self {
            Self::Onnx => "optimum",
            Self::Torch => "torch",
        }
    }
}

/// Starts Infinity's server.
pub(super) struct Infinity {
    python: PathBuf,
    model: PathBuf,
    /// The same model with `model.onnx`.
    onnx_model: PathBuf,
}

impl Infinity {
    /// Exports the model; `None` where Infinity is not set up.
    pub(super) fn find(report: &Report) -> anyhow::Result<Option<Self>> {
        let Some(python) = setup::interpreter("infinity") else {
            eprintln!("servers · no Infinity: `cargo xtask setup --only infinity` installs it");
            return Ok(None);
        };
        let found = Self {
            python,
            model: setup::model()?,
            onnx_model: report.scratch("infinity-onnx"),
        };
        let mut export = found.script("infinity_model.py");
        shell::output(export.args([&found.model, &found.onnx_model]))?;
        Ok(Some(found))
    }

    /// Infinity's server, ready.
    pub(super) fn start(&self, engine: Engine) -> anyhow::Result<ours::Flow> {
        let port = ours::free_port()?;
        let mut command = self.script("infinity_server.py");
        command.arg(engine.name()).arg(self.model_of(engine));
        command.arg(port.to_string());
        let server = Server::start(&mut command, READY)?;
        Ok(ours::Flow { server, port })
    }

    fn model_of(&self, engine: Engine) -> &Path {
        match engine {
            Engine::Onnx => &self.onnx_model,
            Engine::Torch => &self.model,
        }
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(ours::root("tests/load").join(name));
        command
    }
}
