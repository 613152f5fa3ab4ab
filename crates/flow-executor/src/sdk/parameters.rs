//! The parameters of a call.

use bytes::Bytes;
use flow_core::parameters::{RESULTS, are_trivial, decode, specialised};
use flow_core::{BadDocument, Chain, from_struct};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::CallError;
use crate::options::reader::{ReadError, read_value};

/// The parameters of a call, as this executor gets them.
///
/// In a flow they may contain parameters of other executors too. [`Endpoints::accepts`](crate::Endpoints::accepts)
/// declares which ones a method reads, so that a misspelt one is refused.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters(Map<String, Value>);

/// A parameter has the wrong type.
#[derive(Debug, thiserror::Error)]
#[error("parameter `{name}` is invalid")]
struct BadParameter {
    name: String,
    source: ReadError,
}

impl Parameters {
    /// The parameters of a request as `executor` gets them.
    ///
    /// `enc__top_k: 5` and `enc: {top_k: 5}` set `top_k` for the executor `enc` only, and override a plain `top_k`. Other
    /// executors do not get the first form.
    ///
    /// # Errors
    ///
    /// If the bytes are not parameters.
    pub fn for_executor(all: Option<&Bytes>, executor: &str) -> Result<Self, BadDocument> {
        match all.filter(|all| !are_trivial(all)) {
            None => Ok(Self::default()),
            Some(all) => {
                let mut seen = specialised(decode(all)?, executor);
                seen.fields.remove(RESULTS);
                Ok(Self(from_struct(&seen)))
            }
        }
    }

    /// One parameter, or `None` if it was not sent.
    ///
    /// # Errors
    ///
    /// If it was sent with another type. To the caller, that is an invalid request, not a failure of the executor.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, CallError> {
        let Some(value) = self.0.get(name).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        read_value(value.clone()).map(Some).map_err(|source| {
            let name = name.to_owned();
            let error = BadParameter { name, source };
            CallError::bad_request(Chain(&error).to_string())
        })
    }

    /// The first of these parameters that was sent: one that has several names.
    ///
    /// # Errors
    ///
    /// If it was sent with another type.
    pub fn first<T: DeserializeOwned>(&self, names: &[&str]) -> Result<Option<T>, CallError> {
        for name in names {
            if let Some(value) = self.get(name)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// All parameters.
    #[must_use]
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }
}

impl From<Map<String, Value>> for Parameters {
    fn from(map: Map<String, Value>) -> Self {
        Self(map)
    }
}

#[cfg(test)]
mod tests {
    use flow_core::Code;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_executors_own_parameters_override_the_common_ones() {
        let sent = json!({"top_k": 1, "enc__top_k": 5, "other__top_k": 6});
        let sent = flow_core::parameters::from_json(sent.as_object().unwrap());
        let seen = Parameters::for_executor(Some(&sent), "enc").unwrap();
        assert_eq!(Value::Object(seen.0), json!({"top_k": 5}));
    }

    #[test]
    fn results_of_other_executors_are_not_parameters() {
        let sent = json!({"__results__": {"a/rep-0": {"x": 1}}});
        let sent = flow_core::parameters::from_json(sent.as_object().unwrap());
        let seen = Parameters::for_executor(Some(&sent), "enc").unwrap();
        assert_eq!(seen, Parameters::default());
        let none = Parameters::for_executor(None, "enc").unwrap();
        assert_eq!(none, Parameters::default());
    }

    #[test]
    fn a_parameter_of_the_wrong_type_is_named() {
        let Value::Object(map) = json!({"top_k": "five", "none": null}) else {
            unreachable!()
        };
        let parameters = Parameters::from(map);
        assert_eq!(parameters.get::<u32>("missing").unwrap(), None);
        assert_eq!(parameters.get::<u32>("none").unwrap(), None);
        let error = parameters.get::<u32>("top_k").unwrap_err().into_failure();
        let expected = "parameter `top_k` is invalid: must be a whole number of at least 0, is the text `five`";
        assert_eq!(error.message(), expected);
        assert_eq!(error.code(), Code::BadRequest);
    }

    #[test]
    fn a_parameter_may_have_several_names() {
        let Value::Object(map) = json!({"limit": 3, "k": 4, "top_k": null}) else {
            unreachable!()
        };
        let parameters = Parameters::from(map);
        let first = |names: &[&str]| parameters.first::<u32>(names).unwrap();
        assert_eq!(first(&["top_k", "limit", "k"]), Some(3));
        assert_eq!(first(&["top_k", "n"]), None);
        assert_eq!(first(&[]), None);
    }
}
