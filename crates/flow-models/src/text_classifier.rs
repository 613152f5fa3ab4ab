//! Classifies texts and pairs of texts.

use std::path::Path;

use crate::device::OpenDevices;
use crate::encode_times::{EncodeTimer, EncodeTimes};
use crate::encoder::{EncodeError, IsCancelled, LoadEncoderError};
use crate::engine::ScoreFunction;
use crate::options::EncoderOptions;
use crate::sequence_classifier::{ScoreRequest, SequenceClassifier};

/// A loaded model that classifies texts, or pairs of texts, on the CPU.
#[derive(Debug)]
pub struct TextClassifier {
    model: SequenceClassifier,
    labels: Vec<String>,
    function: ScoreFunction,
}

/// A text to classify, or a pair of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassifierInput {
    /// The text.
    pub text: String,
    /// The second text of a pair, such as the hypothesis of a model for entailment.
    pub pair: Option<String>,
}

/// The outputs of a classifier for some texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LabelOutputs {
    /// One value for each label, text after text, as the model gives it: any number, larger for a label that suits better.
    pub values: Vec<f32>,
    /// Number of tokens of each text or pair, after truncation.
    pub tokens: Vec<usize>,
    /// How long the stages took.
    pub times: EncodeTimes,
}

impl TextClassifier {
    /// Loads the model in `folder`. Options that concern prompts or vectors are not used.
    ///
    /// # Errors
    ///
    /// If a file of the model is invalid, it has no classification head, or the options do not suit it.
    pub fn load(
        folder: &Path,
        options: &EncoderOptions,
        devices: OpenDevices,
    ) -> Result<Self, LoadEncoderError> {
        let (model, config) = SequenceClassifier::load(folder, options, devices)?;
        let function = config.function(model.labels());
        let labels = config.labels(model.labels());
        let labels = labels.map_err(|source| LoadEncoderError::Model {
            folder: folder.to_owned(),
            source,
        })?;
        Ok(Self {
            model,
            labels,
            function,
        })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &SequenceClassifier {
        &self.model
    }

    /// The labels, in the order of the outputs.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Classifies texts and pairs, and returns the outputs in the same order.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails, an input is too long, or `is_cancelled` returns true between two batches.
    pub fn classify(
        &self,
        inputs: &[ClassifierInput],
        request: ScoreRequest,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<LabelOutputs, EncodeError> {
        let timer = EncodeTimer::start();
        let tokenizer = self.model.tokenizer();
        let tokens = |input: &ClassifierInput| {
            let text = tokenizer.text(&input.text, request.direction)?;
            Ok(match &input.pair {
                None => tokenizer.alone(text)?,
                Some(pair) => tokenizer.join(&text, tokenizer.text(pair, request.direction)?)?,
            })
        };
        let outputs = self
            .model
            .run(inputs, tokens, (request, &timer), is_cancelled)?;
        Ok(LabelOutputs {
            values: outputs.values,
            tokens: outputs.tokens,
            times: timer.end(),
        })
    }

    /// The scores of the outputs for one text, by the function that the model was trained with, as the pipelines of the transformers
    /// library choose it: the softmax, or or the sigmoid if several labels may apply to a text, or there is only one.
    #[must_use]
    pub fn scores(&self, outputs: &[f32]) -> Vec<f32> {
        self.function.apply(outputs)
    }
}
