//! The classification head: turns the hidden state of the first token of a text or pair into one output per label.
//!
//! It is the head of the `…ForSequenceClassification` classes of the transformers library: a linear layer, an activation, and a
//! linear layer.

use flow_kernels::{Activation, Activations, CpuPrecision, Kernels, Linear, Storage};

use super::error::ModelError;
use crate::family::{Architecture, ClassificationActivation, ModelTensors};
use crate::weights::{WeightsError, WeightsFile};

/// Turns hidden states into outputs.
#[derive(Debug)]
pub(crate) struct ClassificationHead {
    /// Kernels for 32-bit floats on the CPU: the head is a thousandth of the work, and its precision is that of the outputs.
    kernels: Kernels,
    hidden: Linear,
    activation: ClassificationActivation,
    /// The weights of each label, label after label.
    weights: Vec<f32>,
    /// One value per label.
    biases: Vec<f32>,
}

impl ClassificationHead {
    /// Loads the head of a model.
    ///
    /// # Errors
    ///
    /// If the model has none, or one without labels, or it cannot be read.
    pub(crate) fn load(
        architecture: &Architecture,
        weights: &WeightsFile,
        kernels: Kernels,
    ) -> Result<Self, ModelError> {
        let path = || weights.path().to_owned();
        match architecture.check_classification(weights) {
            Ok(0) => return Err(ModelError::NoLabel { path: path() }),
            Ok(_) => {}
            Err(source @ WeightsError::Missing { .. }) => {
                let path = path();
                return Err(ModelError::NoHead { path, source });
            }
            Err(error) => return Err(error.into()),
        }
        let [hidden, labels] = ModelTensors::new(architecture, weights).classification()?;
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
            weights: labels.weights,
            biases: labels.bias,
        })
    }

    /// Number of labels.
    pub(crate) fn labels(&self) -> usize {
        self.biases.len()
    }

    /// The outputs of each text or pair, one per label: any number. `states` are the states of their first tokens, one after the
    /// other.
    pub(crate) fn outputs(&self, states: &[f32]) -> Vec<f32> {
        let width = self.weights.len() / self.labels();
        let count = states.len() / width;
        let mut first_states = Activations::new(width, Storage::F32);
        first_states.grow(count);
        let mut rows = first_states.rows_mut(0..count);
        for (text, state) in states.chunks_exact(width).enumerate() {
            rows.row(text).copy_from_slice(state);
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
        let activate = |value: &f32| match self.activation {
            // The kernel has applied it.
            ClassificationActivation::Relu => *value,
            ClassificationActivation::Tanh => value.tanh(),
        };
        let mut values = Vec::with_capacity(count * self.labels());
        for text in 0..count {
            let hidden: Vec<f32> = outputs.row(text).iter().map(activate).collect();
            let labels = self.weights.chunks_exact(width).zip(&self.biases);
            values.extend(labels.map(|(weights, bias)| dot(&hidden, weights) + bias));
        }
        values
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
