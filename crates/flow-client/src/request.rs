//! Requests: documents for an endpoint, ready to be sent.

use bytes::Bytes;
use flow_core::{Document, DocumentArray, RequestId};
use flow_net::MESSAGE_LEN_MAX;
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use serde_json::{Map, Value};

/// Bytes that a message needs besides its documents and parameters.
const HEADER_LEN_MAX: usize = 64 << 10;

/// What all requests of an exchange have in common.
#[derive(Debug, Clone, Default)]
pub struct RequestTemplate {
    /// The endpoint, such as `/encode`.
    pub endpoint: String,
    /// A regular expression: only executors whose names begin with a match work on the documents.
    pub target: Option<String>,
    /// Parameters for the executors.
    pub parameters: Map<String, Value>,
}

/// A request with its documents encoded.
#[derive(Debug, Clone)]
pub struct Request(pub(crate) Envelope);

impl RequestTemplate {
    /// A request with these documents, which are encoded here. Without documents, the endpoint is called with none.
    #[must_use]
    pub fn request(&self, documents: Vec<Document>) -> Request {
        let documents: DocumentArray = documents.into_iter().collect();
        Request(Envelope {
            header: Some(HeaderProto {
                request_id: RequestId::random().into(),
                exec_endpoint: Some(self.endpoint.clone()),
                target_executor: self.target.clone(),
                ..HeaderProto::default()
            }),
            parameters: self.parameters_to_send(),
            data: (!documents.is_empty()).then(|| documents.encode()),
            ..Envelope::default()
        })
    }

    /// The parameters as they are sent. `None` if there are none.
    pub(crate) fn parameters_to_send(&self) -> Option<Bytes> {
        let parameters = Some(&self.parameters).filter(|it| !it.is_empty());
        parameters.map(flow_core::parameters::from_json)
    }
}

impl Request {
    /// Maximum bytes of the documents of a request.
    pub const LEN_MAX: usize = MESSAGE_LEN_MAX - HEADER_LEN_MAX;

    /// Bytes of the encoded documents.
    #[must_use]
    pub fn documents_len(&self) -> usize {
        self.0.data.as_ref().map_or(0, |data| data.len())
    }

    /// The id of the request, by which its reply is recognized.
    #[must_use]
    pub fn id(&self) -> &str {
        request_id(&self.0)
    }
}

/// The id in the header of a request or a reply. Empty if there is none.
pub(crate) fn request_id(envelope: &Envelope) -> &str {
    let header = envelope.header.as_ref();
    header.map_or("", |header| header.request_id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_documents_has_no_data() {
        let template = RequestTemplate {
            endpoint: "/status".to_owned(),
            ..RequestTemplate::default()
        };
        let request = template.request(Vec::new());
        assert_eq!((&request.0.data, request.documents_len()), (&None, 0));
        assert_eq!(request.id().len(), 32);
        let request = template.request(vec![Document::from_text("a")]);
        assert!(request.documents_len() > 0);
    }
}
