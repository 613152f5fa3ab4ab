//! Documents that an executor streams in answer to one document.

use std::time::Duration;

use flow_core::{Code, DocArrayVersion, Document, Failure, RequestId};
use flow_net::PostOptions;
use flow_net::grpc::metadata::Metadata;
use flow_proto::jina::{HeaderProto, SingleDocumentRequestProto};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};

use crate::request::RequestTemplate;

/// Documents as they are made.
pub type Documents = BoxStream<'static, Result<Document, Failure>>;

/// Sends a document to an endpoint whose method is a generator.
pub(crate) fn stream(
    client: &flow_net::Client,
    template: &RequestTemplate,
    document: &Document,
    timeout: Option<Duration>,
    metadata: Metadata,
) -> BoxFuture<'static, Result<Documents, Failure>> {
    let version = document.version();
    let options = PostOptions {
        timeout,
        metadata,
        ..PostOptions::default()
    };
    let opened = client.stream_documents(request(template, document), &options);
    async move {
        let documents = opened.await?;
        let documents = documents.map(move |reply| document_of(reply?, version));
        Ok(documents.boxed())
    }
    .boxed()
}

fn request(template: &RequestTemplate, document: &Document) -> SingleDocumentRequestProto {
    SingleDocumentRequestProto {
        header: Some(HeaderProto {
            request_id: RequestId::random().into(),
            exec_endpoint: Some(template.endpoint.clone()),
            target_executor: template.target.clone(),
            ..HeaderProto::default()
        }),
        parameters: template.parameters_to_send(),
        document: Some(document.encode()),
        ..SingleDocumentRequestProto::default()
    }
}

/// The document of a reply, or the failure that it reports. `sent` is the version of documents whose fields fit both.
fn document_of(
    reply: SingleDocumentRequestProto,
    sent: DocArrayVersion,
) -> Result<Document, Failure> {
    let status = reply.header.and_then(|header| header.status);
    if let Some(failure) = status.as_ref().and_then(Failure::from_status) {
        return Err(failure);
    }
    let raw = reply.document.unwrap_or_default();
    let version = DocArrayVersion::of(&raw).unwrap_or(sent);
    Document::decode(version, raw).map_err(|error| Failure::from_error(Code::Internal, &error))
}
