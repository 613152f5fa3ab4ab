//! Reads requests whose body is JSON, and writes JSON replies.
//!
//! Large bodies are read and written on a thread for heavy work.

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use flow_core::json::Json;
use flow_core::{CallOptions, Code, Failure};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

use super::api_error::{ApiError, ErrorKind};
use super::body::WholeBody;
use super::parse_memory::ParseMemory;
use super::state::{HttpState, options};
use crate::shortened::{displayed, shortened};

/// Longest error that a client gets, and longest unknown name in it, in bytes.
const ERROR_LEN_MAX: usize = 500;
const NAME_LEN_MAX: usize = 100;

/// A request with a JSON body.
#[derive(Debug)]
pub(crate) struct JsonRequest<T> {
    pub(crate) body: T,
    pub(crate) options: CallOptions,
    /// The bytes, and what they became, count in the budget of the connection until this is dropped.
    whole: WholeBody,
}

impl<T> JsonRequest<T> {
    /// The options of its calls, and the memory that it takes.
    pub(crate) fn parts(&mut self) -> (&CallOptions, &mut ParseMemory) {
        (&self.options, &mut self.whole.parse_memory)
    }
}

impl<T: DeserializeOwned + Send + 'static> JsonRequest<T> {
    /// Reads a request. `fields` are the fields of `T`, all of which must be optional to the parser.
    pub(crate) async fn read(
        state: &HttpState,
        request: Request,
        fields: &'static [&'static str],
    ) -> Result<Self, ApiError> {
        let options = options(&request)?;
        let mut whole = WholeBody::read(request, state).await?;
        let len = whole.bytes.len();
        let parse = move || {
            let held = whole.parse_memory.hold_for(&whole.bytes)?;
            let body = parse(&whole.bytes, fields);
            whole.parse_memory.keep_texts(held, len);
            Ok((body, whole))
        };
        let (body, whole) = state.service.heavy().run(len, parse).await?;
        Ok(Self {
            body: body?,
            options,
            whole,
        })
    }
}

/// Parses a body. An error names the field that is wrong.
pub(crate) fn parse<T: DeserializeOwned>(
    bytes: &[u8],
    fields: &'static [&'static str],
) -> Result<T, ApiError> {
    let mut content = bytes.iter().filter(|byte| !byte.is_ascii_whitespace());
    if content.next() != Some(&b'{') {
        // The parser would take a list for the fields in their order.
        return Err(not_an_object(bytes));
    }
    let error = match serde_json::from_slice(bytes) {
        Ok(body) => return Ok(body),
        Err(error) => brief(&error),
    };
    let Ok(Json(Value::Object(map))) = serde_json::from_slice(bytes) else {
        return Err(not_an_object(bytes));
    };
    let found = map
        .into_iter()
        .find_map(|(name, value)| wrong_field::<T>(&name, value, fields));
    Err(found.unwrap_or_else(|| ApiError::new(ErrorKind::Invalid, error)))
}

/// An error as a client reads it. It quotes what it found, which may be as long as the body.
fn brief(error: &serde_json::Error) -> String {
    displayed(error, ERROR_LEN_MAX)
}

/// The error of a body that is not a JSON object.
fn not_an_object(bytes: &[u8]) -> ApiError {
    let message = match serde_json::from_slice::<IgnoredAny>(bytes) {
        Ok(_) => "the body must be a JSON object".to_owned(),
        Err(error) => format!("the body is not JSON: {}", brief(&error)),
    };
    ApiError::new(ErrorKind::Syntax, message)
}

/// The error of one field, which is read alone.
fn wrong_field<T: DeserializeOwned>(
    name: &str,
    value: Value,
    fields: &'static [&'static str],
) -> Option<ApiError> {
    let alone = Map::from_iter([(name.to_owned(), value)]);
    let error = serde_json::from_value::<T>(Value::Object(alone)).err()?;
    let error = brief(&error);
    Some(match fields.iter().find(|field| **field == name) {
        Some(field) => ApiError::invalid(field, format!("`{name}`: {error}")),
        None => ApiError::new(ErrorKind::Invalid, unknown(name, fields)),
    })
}

fn unknown(name: &str, fields: &[&str]) -> String {
    let name = shortened(name, NAME_LEN_MAX);
    match flow_core::closest(name, fields.iter().copied()) {
        Some(meant) => format!("there is no field `{name}`; did you mean `{meant}`?"),
        None => format!(
            "there is no field `{name}`; expected one of {}",
            fields.join(", ")
        ),
    }
}

/// A JSON reply. `len` is about how many bytes it has.
pub(crate) async fn json_reply<T: Serialize + Send + 'static>(
    state: &HttpState,
    len: usize,
    headers: HeaderMap,
    body: T,
) -> Result<Response, ApiError> {
    let write = move || {
        serde_json::to_vec(&body).map_err(|error| Failure::from_error(Code::Internal, &error))
    };
    let bytes = state.service.heavy().run(len, write).await?;
    let mut response = Bytes::from(bytes).into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().extend(headers);
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Body {
        size: Option<usize>,
        name: Option<String>,
    }

    #[track_caller]
    fn check(text: &str, kind: ErrorKind, field: Option<&'static str>, part: &str) {
        let error = parse::<Body>(text.as_bytes(), &["size", "name"]).unwrap_err();
        assert_eq!((error.kind, error.field), (kind, field), "{error:?}");
        assert!(error.message.contains(part), "{error:?}");
    }

    #[test]
    fn an_error_names_the_field_that_is_wrong() {
        let size = r#"{"name": "a", "size": "big"}"#;
        check(
            size,
            ErrorKind::Invalid,
            Some("size"),
            "`size`: invalid type",
        );
        let unknown = r#"{"nam": "a"}"#;
        check(unknown, ErrorKind::Invalid, None, "did you mean `name`?");
        check("[1]", ErrorKind::Syntax, None, "must be a JSON object");
        check("{", ErrorKind::Syntax, None, "is not JSON");
        assert_eq!(parse::<Body>(b"{}", &[]), Ok(Body::default()));
    }

    #[test]
    fn an_error_does_not_repeat_a_long_text() {
        let long = "\u{7f}".repeat(10_000);
        for text in [
            format!(r#"{{"size": "{long}"}}"#),
            format!(r#"{{"{long}": 1}}"#),
        ] {
            let error = parse::<Body>(text.as_bytes(), &["size"]).unwrap_err();
            assert!(error.message.len() < 1000, "{}", error.message.len());
        }
    }
}
