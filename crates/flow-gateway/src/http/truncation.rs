//! What requests say about texts with more tokens than a model reads.

use serde_json::{Map, Value};

use super::api_error::ApiError;
use super::models::ServedModel;

/// Parameters of executors.
const TRUNCATE: &str = "truncate";
const DIRECTION: &str = "truncation_direction";

/// What happens to texts with more tokens than the model reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Truncation {
    /// Whether such a text is truncated, or refused; `None` leaves it to the executor.
    pub(crate) truncate: Option<bool>,
    /// The field that asks for cutting off the beginning of such a text. Without one, its end is cut off.
    pub(crate) left: Option<&'static str>,
}

impl Truncation {
    /// Adds what the request says to the parameters of a model's executor.
    pub(crate) fn write(
        self,
        parameters: &mut Map<String, Value>,
        model: &ServedModel,
    ) -> Result<(), ApiError> {
        if let Some(truncate) = self.truncate {
            parameters.insert(TRUNCATE.to_owned(), truncate.into());
        }
        let Some(field) = self.left else {
            return Ok(());
        };
        // An executor that reports nothing of its model may ignore the parameter, and cut off the end.
        if model.info.is_none() {
            let message = format!(
                "`{field}`: executor `{}` does not report its model, and may cut off the end of a text",
                model.executor
            );
            return Err(ApiError::invalid(field, message));
        }
        parameters.insert(DIRECTION.to_owned(), "left".into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flow_core::{DocArrayVersion, ModelInfo};
    use serde_json::json;

    use super::*;

    fn written(truncation: Truncation, info: Option<ModelInfo>) -> Result<Value, ApiError> {
        let model = ServedModel {
            id: "m".to_owned(),
            executor: "encoder".to_owned(),
            endpoint: "/encode".to_owned(),
            info,
            version: DocArrayVersion::default(),
        };
        let mut parameters = Map::new();
        truncation.write(&mut parameters, &model)?;
        Ok(Value::Object(parameters))
    }

    #[test]
    fn only_what_a_request_says_is_sent() {
        let written = |truncation| written(truncation, Some(ModelInfo::default())).unwrap();
        assert_eq!(written(Truncation::default()), json!({}));
        let whole = Truncation {
            truncate: Some(false),
            left: None,
        };
        assert_eq!(written(whole), json!({"truncate": false}));
        let left = Truncation {
            truncate: None,
            left: Some("side"),
        };
        assert_eq!(written(left), json!({"truncation_direction": "left"}));
    }

    #[test]
    fn an_executor_that_may_ignore_the_direction_does_not_get_it() {
        let left = Truncation {
            truncate: None,
            left: Some("side"),
        };
        let error = written(left, None).unwrap_err();
        assert_eq!(error.field, Some("side"));
        assert!(error.message.contains("executor `encoder`"), "{error:?}");
    }
}
