//! Clients of every protocol and API, which ask for the same work and say in the same words how it ended.

use flow_core::Deadline;
use flow_net::grpc::inference::grpc_inference_service_client::GrpcInferenceServiceClient;
use flow_net::{Client, PostOptions};
use flow_proto::Envelope;
use flow_proto::inference::model_infer_request::InferInputTensor;
use flow_proto::inference::{InferTensorContents, ModelInferRequest};
use futures_util::{SinkExt, StreamExt, stream};
use prost::Message as _;
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::Channel;

use crate::fake_executor::documents;
use crate::http_client::{Answer, post, request as http};
use crate::test_gateway::{TestGateway, error, request};

/// A protocol, or an API of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    Unary,
    Stream,
    GrpcWeb,
    JinaV1,
    JinaV2,
    WebSocket,
    OpenAi,
    Tei,
    Cohere,
    InferHttp,
    InferGrpc,
}

impl Speaker {
    pub(super) const ALL: [Self; 11] = [
        Self::Unary,
        Self::Stream,
        Self::GrpcWeb,
        Self::JinaV1,
        Self::JinaV2,
        Self::WebSocket,
        Self::OpenAi,
        Self::Tei,
        Self::Cohere,
        Self::InferHttp,
        Self::InferGrpc,
    ];
}

/// What a client asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) texts: &'static [&'static str],
    /// An endpoint, or a model where clients name models.
    pub(super) known: bool,
    /// Whether texts may be truncated, where clients can say so.
    pub(super) truncate: Option<bool>,
}

impl Ask {
    fn endpoint(self) -> &'static str {
        if self.known { "/encode" } else { "/nowhere" }
    }

    fn model(self) -> &'static str {
        if self.known { "model" } else { "nowhere" }
    }

    fn envelope(self) -> Envelope {
        let parameters = self.truncate.map(|it| json!({ "truncate": it }));
        let parameters = parameters.as_ref().and_then(Value::as_object);
        Envelope {
            parameters: parameters.map(flow_core::parameters::from_json),
            ..request(self.endpoint(), self.texts)
        }
    }

    /// A request of Jina's HTTP and WebSocket gateways.
    fn jina(self) -> Value {
        let texts = self.texts.iter().map(|text| json!({ "text": text }));
        let mut body =
            json!({ "data": texts.collect::<Vec<_>>(), "execEndpoint": self.endpoint() });
        if let Some(truncate) = self.truncate {
            body["parameters"] = json!({ "truncate": truncate });
        }
        body
    }

    /// The body of an API with a field for texts and one for the model.
    fn body(self, field: &str) -> Value {
        let mut body = json!({ field: self.texts, "model": self.model() });
        if let Some(truncate) = self.truncate {
            body["truncate"] = json!(truncate);
        }
        body
    }
}

/// Sends one request: the number of documents or vectors that came back, or the error in its shape.
pub(super) async fn ask(speaker: Speaker, gateway: &TestGateway, ask: Ask) -> String {
    match speaker {
        Speaker::Unary => unary(gateway, ask).await,
        Speaker::Stream => streamed(gateway, ask).await,
        Speaker::GrpcWeb => grpc_web(gateway, ask).await,
        Speaker::JinaV1 => jina_v1(&post(gateway, "/post", &ask.jina()).await),
        Speaker::JinaV2 => {
            let answer = post(gateway, ask.endpoint(), &ask.jina()).await;
            said(&answer, "/data", "detail")
        }
        Speaker::WebSocket => web_socket(gateway, ask).await,
        Speaker::OpenAi => {
            let answer = post(gateway, "/v1/embeddings", &ask.body("input")).await;
            said(&answer, "/data", "error")
        }
        Speaker::Tei => {
            let answer = post(gateway, "/embed", &ask.body("inputs")).await;
            said(&answer, "", "error_type")
        }
        Speaker::Cohere => {
            let mut body = ask.body("texts");
            body["truncate"] = json!(ask.truncate.map(|_| "NONE"));
            let answer = post(gateway, "/v2/embed", &body).await;
            said(&answer, "/embeddings/float", "message")
        }
        Speaker::InferHttp => {
            let path = format!("/v2/models/{}/infer", ask.model());
            let shape = [ask.texts.len()];
            let input =
                json!({"name": "text", "datatype": "BYTES", "shape": shape, "data": ask.texts});
            let answer = post(gateway, &path, &json!({ "inputs": [input] })).await;
            said(&answer, "/outputs/0/data", "error")
        }
        Speaker::InferGrpc => infer(gateway, ask).await,
    }
}

async fn unary(gateway: &TestGateway, ask: Ask) -> String {
    let client = Client::connect(&gateway.url).await.unwrap();
    match client.single(ask.envelope(), Deadline::NEVER).await {
        Ok(reply) => replied(&reply),
        Err(failure) => format!("{:?}", flow_net::status::from_failure(&failure).code()),
    }
}

async fn streamed(gateway: &TestGateway, ask: Ask) -> String {
    let client = Client::connect(&gateway.url).await.unwrap();
    let requests = stream::iter([ask.envelope()]);
    let status = |failure| format!("{:?}", flow_net::status::from_failure(&failure).code());
    match client.post(&PostOptions::default(), requests).await {
        Ok(mut replies) => match replies.next().await {
            Some(Ok(reply)) => replied(&reply),
            Some(Err(failure)) => status(failure),
            None => "no reply".to_owned(),
        },
        Err(failure) => status(failure),
    }
}

/// The documents of a reply, or the failure in its header.
fn replied(reply: &Envelope) -> String {
    match error(reply).as_str() {
        "" => documents(reply).len().to_string(),
        _ => "header".to_owned(),
    }
}

async fn grpc_web(gateway: &TestGateway, ask: Ask) -> String {
    let message = ask.envelope().encode_to_vec();
    let len = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [&[0][..], &len, &message].concat();
    let headers = [("content-type", "application/grpc-web+proto")];
    let path = "/jina.JinaSingleDataRequestRPC/process_single_data";
    let answer = http(gateway, "POST", path, &headers, &body).await;
    let trailers = String::from_utf8_lossy(&answer.body);
    let status = match answer.header("grpc-status") {
        // Clients of gRPC take the status of HTTP for it if there is no other.
        "" if answer.status == 401 => "16",
        "" => trailers.split("grpc-status:").nth(1).unwrap_or_default(),
        status => status,
    };
    let status = status.split(['\r', '\n']).next().unwrap_or_default();
    match status.trim() {
        "0" => {
            let len = u32::from_be_bytes(answer.body[1..5].try_into().unwrap()) as usize;
            replied(&Envelope::decode(&answer.body[5..5 + len]).unwrap())
        }
        status => format!("{:?}", tonic::Code::from_bytes(status.as_bytes())),
    }
}

fn jina_v1(answer: &Answer) -> String {
    let json = answer.json();
    match json.pointer("/header/status/code").and_then(Value::as_i64) {
        Some(1..) => format!("{} header", answer.status),
        _ => said(answer, "/data", "detail"),
    }
}

async fn web_socket(gateway: &TestGateway, ask: Ask) -> String {
    let connected = connect_async(format!("ws://{}/", gateway.address)).await;
    let (mut socket, _) = match connected {
        Ok(connected) => connected,
        Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
            return response.status().as_u16().to_string();
        }
        Err(error) => panic!("{error}"),
    };
    let sent = Message::text(ask.jina().to_string());
    socket.send(sent).await.unwrap();
    match socket.next().await {
        Some(Ok(Message::Text(text))) => {
            let json: Value = serde_json::from_str(&text).unwrap();
            match json.pointer("/header/status/code").and_then(Value::as_i64) {
                Some(1..) => "header".to_owned(),
                _ => json["data"].as_array().map_or(0, Vec::len).to_string(),
            }
        }
        other => format!("{other:?}"),
    }
}

async fn infer(gateway: &TestGateway, ask: Ask) -> String {
    let address = gateway.url.replace("grpc://", "http://");
    let channel = Channel::from_shared(address).unwrap().connect().await;
    let mut client = GrpcInferenceServiceClient::new(channel.unwrap());
    let texts = ask.texts.iter().map(|it| it.as_bytes().to_vec().into());
    let input = InferInputTensor {
        name: "text".to_owned(),
        datatype: "BYTES".to_owned(),
        shape: vec![i64::try_from(ask.texts.len()).unwrap()],
        contents: Some(InferTensorContents {
            bytes_contents: texts.collect(),
            ..InferTensorContents::default()
        }),
        ..InferInputTensor::default()
    };
    let request = ModelInferRequest {
        model_name: ask.model().to_owned(),
        inputs: vec![input],
        ..ModelInferRequest::default()
    };
    match client.model_infer(request).await {
        Ok(reply) => reply.into_inner().outputs[0].shape[0].to_string(),
        Err(status) => format!("{:?}", status.code()),
    }
}

/// The number of entries at this place of the reply, or the status of an error that has this field.
fn said(answer: &Answer, at: &str, error: &str) -> String {
    let json = answer.json();
    match answer.status {
        200 => {
            let entries = json.pointer(at).and_then(Value::as_array);
            entries.map_or_else(|| format!("200 {json}"), |it| it.len().to_string())
        }
        status if json[error].is_null() => format!("{status} {json}"),
        status => format!("{status} {error}"),
    }
}
