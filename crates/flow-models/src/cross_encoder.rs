//! Scores how well texts answer queries.

use std::path::Path;

use crate::device::OpenDevices;
use crate::encode_times::{EncodeTimer, EncodeTimes};
use crate::encoder::{EncodeError, IsCancelled, LoadEncoderError};
use crate::engine::ModelError;
use crate::options::EncoderOptions;
use crate::sequence_classifier::{ScoreRequest, SequenceClassifier};

/// A loaded model that scores how well a text answers a query (a cross-encoder; Nogueira and Cho, 2019).
#[derive(Debug)]
pub struct CrossEncoder(SequenceClassifier);

/// The scores of pairs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PairScores {
    /// The score of each pair, as the model gives it: any number, larger for a text that answers its query better.
    pub scores: Vec<f32>,
    /// Number of tokens of each pair, after truncation.
    pub tokens: Vec<usize>,
    /// How long the stages took.
    pub times: EncodeTimes,
}

impl CrossEncoder {
    /// Loads the model in `folder`. Options that concern prompts or vectors are not used.
    ///
    /// # Errors
    ///
    /// If a file of the model is invalid, it is not a cross-encoder with one score, or the options do not suit it.
    pub fn load(
        folder: &Path,
        options: &EncoderOptions,
        devices: OpenDevices,
    ) -> Result<Self, LoadEncoderError> {
        let (classifier, _) = SequenceClassifier::load(folder, options, devices)?;
        match classifier.labels() {
            1 => Ok(Self(classifier)),
            labels => Err(LoadEncoderError::Model {
                folder: folder.to_owned(),
                source: ModelError::NotOneLabel(labels),
            }),
        }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &SequenceClassifier {
        &self.0
    }

    /// Scores texts, each with the query that has this index among `queries`, and returns the scores in the same order. Each query is
    /// tokenized once.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails, a pair is too long, or `is_cancelled` returns true between two batches.
    ///
    /// # Panics
    ///
    /// If there is no query of an index.
    pub fn score<Q: AsRef<str> + Sync, T: AsRef<str> + Sync>(
        &self,
        queries: &[Q],
        texts: &[(usize, T)],
        request: ScoreRequest,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<PairScores, EncodeError> {
        let timer = EncodeTimer::start();
        let tokenizer = self.0.tokenizer();
        let query = |text: &Q| Ok(tokenizer.text(text.as_ref(), request.direction)?);
        let queries = timer.tokenize(|| self.0.workers().each(queries, query, is_cancelled))?;
        let pair = |(query, text): &(usize, T)| {
            let text = tokenizer.text(text.as_ref(), request.direction)?;
            Ok(tokenizer.join(&queries[*query], text)?)
        };
        let outputs = self.0.run(texts, pair, (request, &timer), is_cancelled)?;
        Ok(PairScores {
            scores: outputs.values,
            tokens: outputs.tokens,
            times: timer.end(),
        })
    }
}
