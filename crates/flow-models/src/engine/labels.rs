//! What a model's configuration says of its labels.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::ModelError;

/// The fields of `config.json` that concern labels.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct LabelConfig {
    /// The name of each label, by its index in decimal digits. It is read only if the names are asked for.
    #[serde(default)]
    id2label: Value,
    #[serde(default)]
    problem_type: Value,
}

/// The function that turns outputs into scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScoreFunction {
    /// Scores are the outputs.
    None,
    /// Each score is from 0 to 1: several labels may apply to a text.
    Sigmoid,
    /// Scores are from 0 to 1, and their sum is 1: exactly one label applies.
    Softmax,
}

impl LabelConfig {
    /// The name of each label. Those without a name are called as in the transformers library.
    ///
    /// # Errors
    ///
    /// If the names are no map, or a name belongs to no label, or to two.
    pub(crate) fn labels(&self, count: usize) -> Result<Vec<String>, ModelError> {
        let none = Map::new();
        let names = match &self.id2label {
            Value::Null => &none,
            Value::Object(names) => names,
            _ => return Err(ModelError::LabelNames),
        };
        let is_index = |id: &String| id.parse().is_ok_and(|index: usize| index < count);
        if let Some(id) = names.keys().find(|id| !is_index(id)) {
            let id = id.clone();
            return Err(ModelError::UnknownLabel { id, count });
        }
        let mut seen = BTreeSet::new();
        let name = |index: usize| {
            let name = match names.get(&index.to_string()) {
                None | Some(Value::Null) => format!("LABEL_{index}"),
                Some(Value::String(name)) => name.clone(),
                Some(other) => other.to_string(),
            };
            match seen.insert(name.clone()) {
                true => Ok(name),
                false => Err(ModelError::RepeatedLabel(name)),
            }
        };
        (0..count).map(name).collect()
    }

    /// The function that turns the outputs for a text into scores, as the pipelines of the transformers library choose it.
    pub(crate) fn function(&self, count: usize) -> ScoreFunction {
        match self.problem_type.as_str() {
            Some("regression") => ScoreFunction::None,
            Some("multi_label_classification") => ScoreFunction::Sigmoid,
            _ if count == 1 => ScoreFunction::Sigmoid,
            _ => ScoreFunction::Softmax,
        }
    }
}

impl ScoreFunction {
    /// The scores of outputs.
    pub(crate) fn apply(self, outputs: &[f32]) -> Vec<f32> {
        match self {
            Self::None => outputs.to_vec(),
            Self::Sigmoid => outputs.iter().map(|it| 1.0 / (1.0 + (-it).exp())).collect(),
            Self::Softmax => {
                // The largest exponent is 0, so that none is infinite.
                let max = outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let powers: Vec<f32> = outputs.iter().map(|it| (it - max).exp()).collect();
                let sum: f32 = powers.iter().sum();
                powers.iter().map(|it| it / sum).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_core::Chain;
    use serde_json::json;

    use super::*;

    fn config(fields: Value) -> LabelConfig {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn labels_have_the_names_of_the_configuration() {
        let labels = |fields, count| {
            let labels = config(fields).labels(count);
            labels.map_err(|error| Chain(&error).to_string())
        };
        let named = json!({"id2label": {"1": "good", "0": "bad"}});
        assert_eq!(labels(named.clone(), 2).unwrap(), ["bad", "good"]);
        assert_eq!(labels(named.clone(), 3).unwrap()[2], "LABEL_2");
        assert_eq!(labels(json!({}), 1).unwrap(), ["LABEL_0"]);
        let error = labels(named, 1).unwrap_err();
        assert!(error.contains("`1`, but the model has 1 label"), "{error}");
        let odd = json!({"id2label": {"0": 0, "1": null}});
        assert_eq!(labels(odd, 2).unwrap(), ["0", "LABEL_1"]);
        let list = json!({"id2label": ["bad"]});
        assert!(labels(list, 1).unwrap_err().contains("must be a map"));
        let twice = json!({"id2label": {"1": "bad", "0": "bad"}});
        assert!(labels(twice, 2).unwrap_err().contains("`bad`"));
    }

    #[test]
    fn the_function_is_that_of_the_problem() {
        let function = |problem: Option<&str>, count| {
            config(json!({ "problem_type": problem })).function(count)
        };
        assert_eq!(function(None, 2), ScoreFunction::Softmax);
        assert_eq!(function(None, 1), ScoreFunction::Sigmoid);
        let several = Some("multi_label_classification");
        assert_eq!(function(several, 3), ScoreFunction::Sigmoid);
        let single = Some("single_label_classification");
        assert_eq!(function(single, 3), ScoreFunction::Softmax);
        assert_eq!(function(Some("regression"), 1), ScoreFunction::None);
    }

    #[test]
    fn large_outputs_have_finite_scores() {
        let outputs = [1000.0, -1000.0, 1000.0];
        assert_eq!(ScoreFunction::Softmax.apply(&outputs), [0.5, 0.0, 0.5]);
        assert_eq!(ScoreFunction::Sigmoid.apply(&outputs), [1.0, 0.0, 1.0]);
        assert_eq!(ScoreFunction::None.apply(&outputs), outputs);
        let thirds = ScoreFunction::Softmax.apply(&[0.0, 2f32.ln()]);
        assert!((thirds[0] - 1.0 / 3.0).abs() < 1e-6 && (thirds[1] - 2.0 / 3.0).abs() < 1e-6);
    }
}
