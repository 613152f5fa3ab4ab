//! Tensors of texts and of vectors, typed or as bytes.

use bytes::Bytes;
use flow_proto::inference::model_infer_request::InferInputTensor;
use flow_proto::inference::model_infer_response::InferOutputTensor;
use flow_proto::inference::{InferTensorContents, ModelInferRequest, ModelInferResponse};

use crate::http::api_error::ApiError;
use crate::http::open_inference::tensors::{check_shape, texts_of_bytes};
use crate::http::open_inference::{OUTPUT, VERSION};

/// The types of tensors.
pub(super) const TEXTS: &str = "BYTES";
pub(super) const FLOATS: &str = "FP32";

/// A request whose tensor is read.
#[derive(Debug, PartialEq)]
pub(super) struct Texts {
    pub(super) texts: Vec<String>,
    /// Whether the tensor came as bytes, as the vectors then leave.
    pub(super) is_raw: bool,
}

impl Texts {
    /// Reads the only input of a request, of at most `max` texts.
    pub(super) fn read(request: ModelInferRequest, max: usize) -> Result<Self, ApiError> {
        let [input] = <[InferInputTensor; 1]>::try_from(request.inputs).map_err(|inputs| {
            let count = inputs.len();
            wrong(format!(
                "there must be one input, of texts; there are {count}"
            ))
        })?;
        if let Some(other) = request.outputs.iter().find(|it| it.name != OUTPUT) {
            let message = format!("there is no output `{}`, only `{OUTPUT}`", other.name);
            return Err(ApiError::invalid("outputs", message));
        }
        if input.datatype != TEXTS {
            return Err(wrong(format!(
                "input `{}` is `{}`; it must be `{TEXTS}`, with one text in each element",
                input.name, input.datatype
            )));
        }
        let is_raw = !request.raw_input_contents.is_empty();
        let texts = match (input.contents, request.raw_input_contents.as_slice()) {
            (Some(contents), []) => typed(&contents)?,
            (None, [raw]) => texts_of_bytes(raw, max)?,
            _ => {
                return Err(wrong(format!(
                    "input `{}` must have either `contents` or one entry of `raw_input_contents`",
                    input.name
                )));
            }
        };
        check_shape(&shape(&input.shape)?, texts.len())?;
        Ok(Self { texts, is_raw })
    }
}

/// The texts of a typed tensor.
fn typed(contents: &InferTensorContents) -> Result<Vec<String>, ApiError> {
    let text = |bytes: &Bytes| {
        let text = std::str::from_utf8(bytes);
        text.map(str::to_owned)
            .map_err(|_| wrong("an element is not UTF-8"))
    };
    contents.bytes_contents.iter().map(text).collect()
}

fn shape(shape: &[i64]) -> Result<Vec<usize>, ApiError> {
    let len = |len: &i64| {
        usize::try_from(*len)
            .map_err(|_| wrong(format!("the shape has the length {len}, which is negative")))
    };
    shape.iter().map(len).collect()
}

fn wrong(message: impl Into<String>) -> ApiError {
    ApiError::invalid("inputs", message)
}

/// A reply with these vectors.
pub(super) fn reply(
    (model_name, id): (String, String),
    vectors: &[Vec<f32>],
    is_raw: bool,
) -> ModelInferResponse {
    let width = vectors.first().map_or(0, Vec::len);
    let shape = [vectors.len(), width];
    let values = vectors.iter().flatten();
    let (contents, raw) = match is_raw {
        true => (None, vec![values.flat_map(|it| it.to_le_bytes()).collect()]),
        false => {
            let contents = InferTensorContents {
                fp32_contents: values.copied().collect(),
                ..InferTensorContents::default()
            };
            (Some(contents), Vec::new())
        }
    };
    let output = InferOutputTensor {
        name: OUTPUT.to_owned(),
        datatype: FLOATS.to_owned(),
        shape: shape
            .map(|len| i64::try_from(len).unwrap_or(i64::MAX))
            .into(),
        contents,
        ..InferOutputTensor::default()
    };
    ModelInferResponse {
        model_name,
        model_version: VERSION.to_owned(),
        id,
        outputs: vec![output],
        raw_output_contents: raw,
        ..ModelInferResponse::default()
    }
}

#[cfg(test)]
mod tests {
    use flow_proto::inference::model_infer_request::InferRequestedOutputTensor;

    use super::*;

    fn request(texts: &[&'static str]) -> ModelInferRequest {
        let contents = InferTensorContents {
            bytes_contents: texts
                .iter()
                .map(|it| Bytes::from_static(it.as_bytes()))
                .collect(),
            ..InferTensorContents::default()
        };
        let input = InferInputTensor {
            name: "text".to_owned(),
            datatype: TEXTS.to_owned(),
            shape: vec![2],
            contents: Some(contents),
            ..InferInputTensor::default()
        };
        ModelInferRequest {
            inputs: vec![input],
            ..ModelInferRequest::default()
        }
    }

    #[test]
    fn texts_come_typed_or_as_bytes() {
        let typed = Texts::read(request(&["a", "bc"]), 100).unwrap();
        assert_eq!(
            (typed.texts, typed.is_raw),
            (vec!["a".to_owned(), "bc".to_owned()], false)
        );
        let mut raw = request(&[]);
        raw.inputs[0].contents = None;
        raw.raw_input_contents = vec![Bytes::from_static(b"\x01\0\0\0a\x02\0\0\0bc")];
        let raw = Texts::read(raw, 100).unwrap();
        assert_eq!(
            (raw.texts, raw.is_raw),
            (vec!["a".to_owned(), "bc".to_owned()], true)
        );
    }

    #[track_caller]
    fn check_wrong(change: impl FnOnce(&mut ModelInferRequest), part: &str) {
        let mut wrong = request(&["a", "b"]);
        change(&mut wrong);
        let error = Texts::read(wrong, 100).unwrap_err();
        assert!(error.message.contains(part), "{error:?}");
    }

    #[test]
    fn an_invalid_tensor_is_an_error_with_the_reason() {
        check_wrong(|it| it.inputs.clear(), "there are 0");
        check_wrong(
            |it| it.inputs[0].datatype = FLOATS.to_owned(),
            "must be `BYTES`",
        );
        check_wrong(|it| it.inputs[0].shape = vec![3], "the shape is [3]");
        check_wrong(
            |it| it.inputs[0].shape = vec![-1],
            "the length -1, which is negative",
        );
        check_wrong(|it| it.inputs[0].contents = None, "must have either");
        check_wrong(
            |it| it.raw_input_contents = vec![Bytes::new()],
            "must have either",
        );
        let not_utf8 = vec![Bytes::from_static(b"\xff"); 2];
        let contents = InferTensorContents {
            bytes_contents: not_utf8,
            ..InferTensorContents::default()
        };
        check_wrong(|it| it.inputs[0].contents = Some(contents), "not UTF-8");
        let output = InferRequestedOutputTensor {
            name: "logits".to_owned(),
            ..InferRequestedOutputTensor::default()
        };
        check_wrong(|it| it.outputs = vec![output], "no output `logits`");
    }

    #[test]
    fn vectors_leave_as_the_texts_came() {
        let vectors = [vec![1.0, -0.5], vec![0.0, 2.0]];
        let name = || ("m".to_owned(), "7".to_owned());
        let typed = reply(name(), &vectors, false);
        let contents = typed.outputs[0].contents.clone().unwrap();
        assert_eq!(contents.fp32_contents, [1.0, -0.5, 0.0, 2.0]);
        assert_eq!(
            (typed.outputs[0].shape.as_slice(), typed.id.as_str()),
            (&[2, 2][..], "7")
        );
        let raw = reply(name(), &vectors, true);
        assert_eq!(raw.outputs[0].contents, None);
        assert_eq!(
            raw.raw_output_contents[0][..8],
            [0, 0, 128, 63, 0, 0, 0, 191]
        );
    }
}
