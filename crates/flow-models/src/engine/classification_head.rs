//! The classification head of a cross-encoder: turns the hidden state of a pair's first token into a score.
//!
//! It is the head of the `…ForSequenceClassification` classes of the transformers library: a linear layer, an activation, and a
//! linear layer with one output per label. A cross-encoder has one label (Nogueira and Cho, 2019).

use flow_kernels::{Activation, Activations, CpuPrecision, Kernels, Linear, Storage};

use super::error::ModelError;
use crate::family::{Architecture, ClassificationActivation, ModelTensors};
use crate::tokens::{HiddenStates, TokenBatch};
use crate::weights::{WeightsError, WeightsFile};

/// Turns hidden states into scores.
#[derive(Debug)]
pub(crate) struct ClassificationHead {
    /// Kernels for 32-bit floats: the head is a thousandth of the work, and its precision is that of the scores.
    kernels: Kernels,
    hidden: Linear,
    activation: ClassificationActivation,
    /// The weights of the one label.
    label: Vec<f32>,
    bias: f32,
}

impl ClassificationHead {
    /// Loads the head of a model.
    ///
    /// # Errors
    ///
    /// If the model has none, or one with another number of labels than one, or it cannot be read.
    pub(crate) fn load(
        architecture: &Architecture,
        weights: &WeightsFile,
        kernels: Kernels,
    ) -> Result<Self, ModelError> {
        match architecture.check_classification(weights) {
            Ok(1) => {}
            Ok(labels) => return Err(ModelError::Labels(labels)),
            Err(source @ WeightsError::Missing { .. }) => {
                let path = weights.path().to_owned();
                return Err(ModelError::NoHead { path, source });
            }
            Err(error) => return Err(error.into()),
        }
        let [hidden, label] = ModelTensors::new(architecture, weights).classification()?;
        let kernels = kernels.with_precision(CpuPrecision::F32);
        let activation = architecture.family.classification_activation();
        let packed = kernels.pack(&hidden.weights, architecture.hidden_size);
        let before_tanh = match activation {
            ClassificationActivation::Relu => Activation::Relu,
            ClassificationActivation::Tanh => Activation::None,
        };
        Ok(Self {
            kernels,
            hidden: Linear::new(packed, &hidden.bias, before_tanh),
            activation,
            label: label.weights,
            bias: label.bias[0],
        })
    }

    /// The score of each text or pair of a batch, as the model gives it: any number.
    pub(crate) fn scores(&self, batch: &TokenBatch, states: &HiddenStates) -> Vec<f32> {
        let (count, width) = (batch.lengths.len(), states.width);
        let mut first_states = Activations::new(width, Storage::F32);
        first_states.grow(count);
        let mut rows = first_states.rows_mut(0..count);
        for (pair, start) in states.starts.iter().enumerate() {
            let state = &states.values[start * width..][..width];
            rows.row(pair).copy_from_slice(state);
        }
        let mut outputs = Activations::new(width, Storage::F32);
        outputs.grow(count);
        let panels = 0..self.hidden.weights().panels();
        self.kernels.linear(
            &self.hidden,
            panels,
            first_states.rows(0..count),
            &mut outputs.rows_mut(0..count),
        );
        let outputs = outputs.rows(0..count);
        (0..count)
            .map(|pair| self.score(outputs.row(pair)))
            .collect()
    }

    fn score(&self, hidden: &[f32]) -> f32 {
        let activate = |value: f32| match self.activation {
            // The kernel has applied it.
            ClassificationActivation::Relu => value,
            ClassificationActivation::Tanh => value.tanh(),
        };
        let products = hidden.iter().zip(&self.label);
        let sum: f32 = products
            .map(|(value, weight)| activate(*value) * weight)
            .sum();
        sum + self.bias
    }
}
