//! Which systems a benchmark runs, and how often.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use crate::setup;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum System {
    /// What lies underneath: tonic without a gateway, the encoder without a flow.
    Bare,
    /// Us.
    Flow,
    /// Stock Jina, from .peers/jina-v1.
    Jina,
}

/// What the subjects share.
pub(super) struct Bench {
    pub(super) rounds: usize,
    /// How long each configuration of `collector` is loaded.
    pub(super) load: Duration,
    pub(super) systems: Vec<System>,
}

impl Bench {
    pub(super) fn has(&self, system: System) -> bool {
        self.systems.contains(&system)
    }

    /// Jina's Python, if Jina takes part.
    pub(super) fn jina(&self) -> anyhow::Result<Option<PathBuf>> {
        if !self.has(System::Jina) {
            return Ok(None);
        }
        let python = setup::interpreter("jina-v1");
        python
            .context("stock Jina is not set up: run `cargo xtask setup`")
            .map(Some)
    }

    /// The Python of Jina with its encoder, if Jina takes part.
    pub(super) fn jina_with_encoder(&self) -> anyhow::Result<Option<PathBuf>> {
        if !self.has(System::Jina) {
            return Ok(None);
        }
        let python = setup::interpreter("jina-v1-torch");
        python
            .context("Jina's encoder is not set up: run `cargo xtask setup --only torch`")
            .map(Some)
    }
}
