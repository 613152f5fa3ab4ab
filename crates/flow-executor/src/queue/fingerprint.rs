//! Fingerprints of parameters, by which the batcher compares requests.
//!
//! Parameters may be large. A fingerprint is computed once, before the queue is locked, and compared in no time.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::sdk::Parameters;

/// A hash of parameters.
///
/// It depends on random keys of this process, so clients cannot make different parameters with the same fingerprint, and
/// 128 bits do not collide by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint([u64; 2]);

static KEYS: LazyLock<[RandomState; 2]> =
    LazyLock::new(|| [RandomState::new(), RandomState::new()]);

impl Fingerprint {
    pub(crate) fn of(parameters: &Parameters) -> Self {
        Self([0, 1].map(|key: usize| KEYS[key].hash_one(parameters.as_map())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(parameters: Value) -> Fingerprint {
        let Value::Object(map) = parameters else {
            unreachable!()
        };
        Fingerprint::of(&Parameters::from(map))
    }

    #[test]
    fn equal_parameters_have_the_same_fingerprint_in_any_order() {
        let one = of(json!({"a": 1, "b": {"c": [1, 2], "d": null}}));
        assert_eq!(one, of(json!({"b": {"d": null, "c": [1, 2]}, "a": 1})));
    }

    #[test]
    fn different_parameters_have_different_fingerprints() {
        let all = [
            json!({}),
            json!({"a": 1}),
            json!({"a": 2}),
            json!({"a": "1"}),
            json!({"a": [1]}),
            json!({"a": {"b": 1}}),
            json!({"b": 1}),
        ];
        for (index, one) in all.iter().enumerate() {
            for other in &all[..index] {
                assert_ne!(of(one.clone()), of(other.clone()), "{one} {other}");
            }
        }
    }
}
