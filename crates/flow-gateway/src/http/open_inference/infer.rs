//! `POST /v2/models/{model}/infer`.

use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flow_core::json::Json;
use flow_core::{Code, Failure, ModelKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::api_error::{ApiError, ErrorKind};
use super::super::body::WholeBody;
use super::super::embeddings::{EmbedRequest, Embeddings, embed};
use super::super::json_request::parse;
use super::super::model_call::inputs_max;
use super::super::models::ServedModels;
use super::super::state::{HttpState, options};
use super::tensors::{check_shape, texts_of_bytes, texts_of_json};

/// The name of the output.
pub(crate) const OUTPUT: &str = "embedding";

/// The version of every model.
pub(crate) const VERSION: &str = "1";

/// The header that says where the JSON of a body ends and the bytes of its tensors begin.
const JSON_LEN: &str = "inference-header-content-length";

const FIELDS: &[&str] = &["id", "parameters", "inputs", "outputs"];

/// The JSON of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct InferBody {
    id: Option<String>,
    parameters: Parameters,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
}

/// The parameters that have a meaning here. The protocol allows others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parameters {
    binary_data: Option<bool>,
    binary_data_size: Option<usize>,
    binary_data_output: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
    shape: Vec<usize>,
    datatype: String,
    #[serde(default)]
    parameters: Parameters,
    data: Option<Json>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    name: String,
    #[serde(default)]
    parameters: Parameters,
}

/// The JSON of a reply.
#[derive(Serialize)]
struct InferReply<'r> {
    model_name: &'r str,
    model_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'r str>,
    outputs: [OutputTensor<'r>; 1],
}

#[derive(Serialize)]
struct OutputTensor<'r> {
    name: &'static str,
    datatype: &'static str,
    shape: [usize; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Flat<'r>>,
}

/// The values of all vectors, one after another.
struct Flat<'r>(&'r [Vec<f32>]);

impl Serialize for Flat<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().flatten())
    }
}

/// A request whose tensors are read.
#[derive(Debug)]
struct InferRequest {
    id: Option<String>,
    texts: Vec<String>,
    is_binary: bool,
}

pub(super) async fn infer(
    state: &HttpState,
    model: &str,
    headers: &HeaderMap,
    request: Request,
) -> Result<Response, ApiError> {
    let options = options(&request)?;
    let json_len = json_len(headers)?;
    let mut whole = WholeBody::read(request, state).await?;
    let (len, texts_max) = (whole.bytes.len(), inputs_max(&state.service));
    let read = move || {
        let json = &whole.bytes[..json_len.map_or(len, |it| it.min(len))];
        let held = whole.parse_memory.hold_for(json)?;
        let request = InferRequest::read(&whole.bytes, json_len, texts_max);
        whole.parse_memory.keep_texts(held, len);
        Ok((request, whole))
    };
    let (request, _whole) = state.service.heavy().run(len, read).await?;
    let request = request?;
    let models = ServedModels::of(&state.service.snapshot()).await;
    let found = models.find(ModelKind::Embedding, Some(model))?;
    let wanted = EmbedRequest {
        texts: request.texts,
        field: "inputs",
        ..EmbedRequest::default()
    };
    let embeddings = embed(&state.service, &models, found, wanted, &options).await?;
    let (name, id, len) = (model.to_owned(), request.id, embeddings.json_len());
    let headers = embeddings.headers();
    let is_binary = request.is_binary;
    let write = move || write(&name, id.as_deref(), &embeddings, is_binary);
    let (json_len, body) = state.service.heavy().run(len, write).await?;
    Ok((headers, reply(json_len, body)).into_response())
}

/// The length of the JSON, if tensors follow it.
fn json_len(headers: &HeaderMap) -> Result<Option<usize>, ApiError> {
    let Some(written) = headers.get(JSON_LEN) else {
        return Ok(None);
    };
    let len = written.to_str().ok().and_then(|text| text.parse().ok());
    let wrong = || {
        let message = "`Inference-Header-Content-Length` must be a number of bytes";
        ApiError::new(ErrorKind::Syntax, message)
    };
    len.map(Some).ok_or_else(wrong)
}

impl InferRequest {
    fn read(bytes: &Bytes, json_len: Option<usize>, texts_max: usize) -> Result<Self, ApiError> {
        let short = || {
            let message = "`Inference-Header-Content-Length` is more than the length of the body";
            ApiError::new(ErrorKind::Syntax, message)
        };
        let at = json_len.unwrap_or(bytes.len());
        let (json, binary) = bytes.split_at_checked(at).ok_or_else(short)?;
        let body: InferBody = parse(json, FIELDS)?;
        let [input] = <[Input; 1]>::try_from(body.inputs).map_err(|inputs| {
            let message = format!(
                "there must be one input, of texts; there are {}",
                inputs.len()
            );
            ApiError::invalid("inputs", message)
        })?;
        if let Some(other) = body.outputs.iter().find(|output| output.name != OUTPUT) {
            let message = format!("there is no output `{}`, only `{OUTPUT}`", other.name);
            return Err(ApiError::invalid("outputs", message));
        }
        let of_output = body.outputs.first();
        let of_output = of_output.and_then(|output| output.parameters.binary_data);
        Ok(Self {
            texts: input.texts(binary, texts_max)?,
            is_binary: of_output.or(body.parameters.binary_data_output) == Some(true),
            id: body.id,
        })
    }
}

impl Input {
    fn texts(self, binary: &[u8], max: usize) -> Result<Vec<String>, ApiError> {
        if self.datatype != "BYTES" {
            let message = format!(
                "input `{}` is `{}`; it must be `BYTES`, with one text in each element",
                self.name, self.datatype
            );
            return Err(ApiError::invalid("inputs", message));
        }
        let texts = match (self.parameters.binary_data_size, self.data) {
            (Some(size), None) if size == binary.len() => texts_of_bytes(binary, max)?,
            (Some(size), None) => {
                let message = format!(
                    "`binary_data_size` of input `{}` is {size}, and {} bytes follow the JSON",
                    self.name,
                    binary.len()
                );
                return Err(ApiError::invalid("inputs", message));
            }
            (None, Some(Json(data))) => texts_of_json(data)?,
            (Some(_), Some(_)) | (None, None) => {
                let message = format!(
                    "input `{}` must have either `data` or `binary_data_size`",
                    self.name
                );
                return Err(ApiError::invalid("inputs", message));
            }
        };
        check_shape(&self.shape, texts.len())?;
        Ok(texts)
    }
}

/// The body of a reply, and the length of its JSON if bytes follow it.
fn write(
    model: &str,
    id: Option<&str>,
    embeddings: &Embeddings,
    is_binary: bool,
) -> Result<(Option<usize>, Vec<u8>), Failure> {
    let vectors = &embeddings.vectors;
    let width = vectors.first().map_or(0, Vec::len);
    let size = size_of::<f32>() * width * vectors.len();
    let output = OutputTensor {
        name: OUTPUT,
        datatype: "FP32",
        shape: [vectors.len(), width],
        parameters: is_binary.then(|| serde_json::json!({ "binary_data_size": size })),
        data: (!is_binary).then_some(Flat(vectors)),
    };
    let reply = InferReply {
        model_name: model,
        model_version: VERSION,
        id,
        outputs: [output],
    };
    let json = serde_json::to_vec(&reply);
    let mut body = json.map_err(|error| Failure::from_error(Code::Internal, &error))?;
    if !is_binary {
        return Ok((None, body));
    }
    let json_len = body.len();
    let values = vectors.iter().flatten();
    body.extend(values.flat_map(|value| value.to_le_bytes()));
    Ok((Some(json_len), body))
}

fn reply(json_len: Option<usize>, body: Vec<u8>) -> Response {
    let mut response = Bytes::from(body).into_response();
    let headers = response.headers_mut();
    let kind = match json_len {
        Some(len) => {
            headers.insert(HeaderName::from_static(JSON_LEN), HeaderValue::from(len));
            "application/octet-stream"
        }
        None => "application/json",
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::model_call::ModelWork;
    use super::*;

    fn read(json: &Value, binary: &[u8]) -> Result<InferRequest, ApiError> {
        let mut body = serde_json::to_vec(json).unwrap();
        let len = body.len();
        body.extend(binary);
        InferRequest::read(&body.into(), (!binary.is_empty()).then_some(len), 100)
    }

    fn input(more: &Value) -> Value {
        let mut input = json!({"name": "text", "datatype": "BYTES", "shape": [2]});
        input
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "inputs": [input], "id": "7" })
    }

    #[test]
    fn texts_come_as_json_or_as_bytes_after_it() {
        let request = read(&input(&json!({"data": ["a", "b"]})), &[]).unwrap();
        assert_eq!(request.texts, ["a", "b"]);
        assert_eq!(
            (request.id.as_deref(), request.is_binary),
            (Some("7"), false)
        );
        let binary = b"\x01\0\0\0a\x02\0\0\0bc";
        let sized = input(&json!({"parameters": {"binary_data_size": binary.len()}}));
        assert_eq!(read(&sized, binary).unwrap().texts, ["a", "bc"]);
    }

    #[test]
    fn an_invalid_tensor_is_an_error_with_the_reason() {
        for more in [
            json!({"data": ["a"]}),
            json!({"data": [1, 2]}),
            json!({"datatype": "FP32", "data": [1.0, 2.0]}),
            json!({"parameters": {"binary_data_size": 3}}),
            json!({}),
        ] {
            let error = read(&input(&more), &[]).unwrap_err();
            assert_eq!(error.field, Some("inputs"), "{more}: {error:?}");
        }
        let none = json!({"inputs": []});
        assert_eq!(read(&none, &[]).unwrap_err().field, Some("inputs"));
        let mut other = input(&json!({"data": ["a", "b"]}));
        other["outputs"] = json!([{"name": "logits"}]);
        assert_eq!(read(&other, &[]).unwrap_err().field, Some("outputs"));
    }

    #[test]
    fn vectors_are_written_as_json_or_as_bytes_after_it() {
        let embeddings = Embeddings {
            vectors: vec![vec![1.0, -0.5], vec![0.0, 2.0]],
            work: ModelWork::default(),
        };
        let (len, body) = write("m", Some("7"), &embeddings, false).unwrap();
        let expected = json!({
            "model_name": "m", "model_version": "1", "id": "7",
            "outputs": [{"name": "embedding", "datatype": "FP32", "shape": [2, 2], "data": [1.0, -0.5, 0.0, 2.0]}],
        });
        assert_eq!(len, None);
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), expected);
        let (len, body) = write("m", None, &embeddings, true).unwrap();
        let (json, bytes) = body.split_at(len.unwrap());
        let json: Value = serde_json::from_slice(json).unwrap();
        assert_eq!(json["outputs"][0]["parameters"]["binary_data_size"], 16);
        assert_eq!(bytes[..8], [0, 0, 128, 63, 0, 0, 0, 191]);
        assert_eq!(bytes.len(), 16);
    }
}
