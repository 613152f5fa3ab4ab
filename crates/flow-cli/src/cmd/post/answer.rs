//! What a reply holds, or why its request failed.

use flow_core::parameters::{RESULTS, to_json};
use flow_core::{DocumentArray, Flavour};
use flow_proto::Envelope;
use flow_proto::jina::StatusProto;
use flow_proto::jina::status_proto::StatusCode;
use serde_json::{Map, Value};

use super::offered::described;

/// The reply to a request that did not fail.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) documents: Vec<Value>,
    /// What executors returned besides documents, by their names.
    pub(super) results: Map<String, Value>,
}

impl Answer {
    /// Reads a reply; an error is why the request failed.
    pub(super) fn read(reply: &Envelope) -> Result<Self, String> {
        let status = reply.header.as_ref().and_then(|it| it.status.as_ref());
        if let Some(status) = status.filter(|status| status.code() == StatusCode::Error) {
            return Err(cause(status));
        }
        let documents = reply.data.as_ref().map(DocumentArray::decode).transpose();
        let documents = documents.map_err(|error| error.to_string())?;
        let documents = documents.iter().flatten();
        let documents = documents.map(|it| it.to_json().map_err(|error| error.to_string()));
        let results = to_json(reply.parameters.as_ref()).remove(RESULTS);
        Ok(Self {
            documents: documents.collect::<Result<_, _>>()?,
            results: match results {
                Some(Value::Object(results)) => results,
                _ => Map::new(),
            },
        })
    }
}

/// What a reply's status says. Stock sides leave the description empty now and then, but name the
/// exception; and they name the executor beside it, where ours begin with it.
fn cause(status: &StatusProto) -> String {
    let exception = status.exception.clone().unwrap_or_default();
    let description = match (status.description.as_str(), exception.name.as_str()) {
        ("", "") => "the executor failed and did not say why".to_owned(),
        ("", name) => format!("{name}: {}", exception.args.join(", ")),
        (description, _) => description.to_owned(),
    };
    if exception.executor.is_empty() || description.contains(&exception.executor) {
        description
    } else {
        format!("executor `{}`: {description}", exception.executor)
    }
}

/// Adds what to do to a failure that documents in a format cause which the other side does not read.
/// Stock executors only say that protobuf could not be decoded.
pub(super) fn with_hint(cause: String, sent: Flavour) -> String {
    if !cause.contains("DecodeError") {
        return cause;
    }
    let other = match sent {
        Flavour::V1 => Flavour::V2,
        Flavour::V2 => Flavour::V1,
    };
    format!(
        "{cause}; this looks like an executor with {}",
        described(other)
    )
}

#[cfg(test)]
mod tests {
    use flow_core::{Code, Document, Failure, parameters};
    use flow_proto::jina::HeaderProto;
    use serde_json::json;

    use super::*;

    fn reply(status: Option<StatusProto>, texts: &[&str]) -> Envelope {
        let documents: DocumentArray = texts.iter().map(|text| Document::from_text(text)).collect();
        Envelope {
            header: Some(HeaderProto {
                status,
                ..HeaderProto::default()
            }),
            data: Some(documents.encode()),
            ..Envelope::default()
        }
    }

    #[test]
    fn the_cause_of_a_failure_is_what_the_reply_says() {
        let failure = Failure::new(Code::ExecutorFailed, "no such file").at("encoder");
        let failed = reply(Some(failure.to_status()), &["a"]);
        assert_eq!(
            Answer::read(&failed),
            Err("executor `encoder`: no such file".to_owned())
        );

        let mut mute = failure.to_status();
        mute.description.clear();
        let cause = Answer::read(&reply(Some(mute), &[])).unwrap_err();
        assert_eq!(cause, "executor `encoder`: ExecutorError: no such file");
    }

    #[test]
    fn documents_come_back_as_json() {
        let answer = Answer::read(&reply(Some(StatusProto::default()), &["a", "b"])).unwrap();
        assert_eq!(answer.documents[1]["text"], "b");
        assert_eq!(answer.documents.len(), 2);
        assert!(answer.results.is_empty());
    }

    #[test]
    fn results_are_found_among_the_parameters() {
        let parameters = json!({"top_k": 5, "__results__": {"index/rep-0": {"count": 3}}});
        let answer = Answer::read(&Envelope {
            parameters: Some(parameters::from_json(parameters.as_object().unwrap())),
            ..Envelope::default()
        });
        let results = answer.unwrap().results;
        assert_eq!(Value::Object(results), json!({"index/rep-0": {"count": 3}}));
    }

    #[test]
    fn a_reply_that_is_no_documents_is_a_failure() {
        let broken = Envelope {
            data: Some(vec![0x0a, 0xff].into()),
            ..Envelope::default()
        };
        let cause = Answer::read(&broken).unwrap_err();
        assert!(cause.contains("not a valid protobuf message"), "{cause}");
    }

    #[test]
    fn documents_that_the_other_side_cannot_decode_bring_the_option_to_mind() {
        let said = with_hint(
            "DecodeError('Error parsing message')".to_owned(),
            Flavour::V1,
        );
        assert!(
            said.ends_with("DocArray 0.30 or newer: try `--flavour v2`"),
            "{said}"
        );
        let said = with_hint("DecodeError()".to_owned(), Flavour::V2);
        assert!(
            said.ends_with("DocArray up to 0.21: try `--flavour v1`"),
            "{said}"
        );
        assert_eq!(with_hint("no".to_owned(), Flavour::V1), "no");
    }
}
