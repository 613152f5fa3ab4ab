//! Replies: the documents and results of one request.

use flow_core::parameters::{RESULTS, to_json};
use flow_core::{Code, DocumentArray, Failure};
use flow_proto::Envelope;
use serde_json::{Map, Value};

/// The reply to a request that did not fail.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its documents.
    pub documents: DocumentArray,
    /// What executors returned besides documents, by their names.
    pub results: Map<String, Value>,
}

impl Reply {
    /// Reads a reply; the error is the failure that the reply reports, or that its documents or its
    /// parameters cannot be decoded.
    pub(crate) fn read(envelope: &Envelope) -> Result<Self, Failure> {
        let header = envelope.header.as_ref();
        let status = header.and_then(|header| header.status.as_ref());
        if let Some(failure) = status.and_then(Failure::from_status) {
            return Err(failure);
        }
        let documents = envelope.data.as_ref().map(DocumentArray::decode);
        let documents = documents.transpose();
        let documents = documents.map_err(|error| Failure::from_error(Code::Internal, &error))?;
        let parameters = to_json(envelope.parameters.as_ref());
        let mut parameters =
            parameters.map_err(|error| Failure::from_error(Code::Internal, &error))?;
        let results = parameters.remove(RESULTS);
        Ok(Self {
            documents: documents.unwrap_or_default(),
            results: match results {
                Some(Value::Object(results)) => results,
                _ => Map::new(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use flow_core::{Document, parameters};
    use flow_proto::jina::{HeaderProto, StatusProto};
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
    fn a_failure_keeps_its_code_its_executor_and_its_message() {
        let failure = Failure::new(Code::BadRequest, "no such model").at("encoder");
        let failed = reply(Some(failure.to_status()), &["a"]);
        assert_eq!(Reply::read(&failed).unwrap_err(), failure);
    }

    #[test]
    fn a_reply_has_documents() {
        let reply = Reply::read(&reply(Some(StatusProto::default()), &["a", "b"])).unwrap();
        let texts: Vec<String> = reply.documents.iter().map(Document::text).collect();
        assert_eq!(texts, ["a", "b"]);
        assert!(reply.results.is_empty());
    }

    #[test]
    fn results_are_among_the_parameters() {
        let parameters = json!({"top_k": 5, "__results__": {"index/rep-0": {"count": 3}}});
        let reply = Reply::read(&Envelope {
            parameters: Some(parameters::from_json(parameters.as_object().unwrap())),
            ..Envelope::default()
        });
        let results = reply.unwrap().results;
        assert_eq!(Value::Object(results), json!({"index/rep-0": {"count": 3}}));
    }

    #[test]
    fn documents_that_cannot_be_decoded_are_a_failure() {
        let broken = Envelope {
            data: Some(vec![0x0a, 0xff].into()),
            ..Envelope::default()
        };
        let failure = Reply::read(&broken).unwrap_err();
        assert_eq!(failure.code(), Code::Internal);
        let text = failure.to_string();
        assert!(text.contains("not a valid protobuf message"), "{text}");
    }
}
