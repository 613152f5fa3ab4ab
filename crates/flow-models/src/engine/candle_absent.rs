//! Takes the place of `candle.rs` in programs that are built without the Cargo feature `candle`.

use std::convert::Infallible;
use std::num::NonZeroUsize;

use serde::de::IgnoredAny;

use super::size::ModelSize;
use crate::tokens::{HiddenStates, TokenBatch};
use crate::weights::WeightsFile;

/// An engine that this program does not have: the type has no values.
#[derive(Debug)]
pub enum CandleEngine {}

/// The program does not have the engine.
#[derive(Debug, thiserror::Error)]
#[error("`engine: candle` needs a program that is built with the Cargo feature `candle`")]
pub struct CandleError;

/// An engine that does not exist does not fail.
pub type CandleForwardError = Infallible;

impl CandleEngine {
    /// # Errors
    ///
    /// Always.
    pub(super) fn load(
        _: &IgnoredAny,
        _: WeightsFile,
        _: NonZeroUsize,
    ) -> Result<Self, CandleError> {
        Err(CandleError)
    }

    pub(super) fn size(&self) -> ModelSize {
        match *self {}
    }

    pub(super) fn max_tokens(&self) -> usize {
        match *self {}
    }

    pub(super) fn threads(&self) -> usize {
        match *self {}
    }

    pub(super) fn forward(&self, _: &TokenBatch) -> Result<HiddenStates, CandleForwardError> {
        match *self {}
    }
}
