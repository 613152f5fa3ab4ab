//! Jina's HTTP routes, over real sockets.

use flow_core::{Document, DocumentArray, Failure};
use flow_proto::Envelope;
use flow_spec::{Cors, Plan};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::{Code, Status};

use crate::fake_executor::{Call, FakeExecutor, first};
use crate::http_client::{Answer, delete, get, post, request};
use crate::test_gateway::{TestGateway, placement, plan};

/// A gateway before one executor, with what `change` does to its plan.
async fn gateway(executor: &FakeExecutor, change: impl FnOnce(&mut Plan)) -> TestGateway {
    let mut plan = plan(&["node"]);
    change(&mut plan);
    TestGateway::start(placement(plan, &[executor])).await
}

async fn echo() -> (FakeExecutor, TestGateway) {
    let echo = FakeExecutor::describing_documents(&["/encode", "/search", "/status"], None).await;
    let gateway = gateway(&echo, |_| ()).await;
    // Its endpoints are known from here on.
    get(&gateway, "/openapi.json").await;
    (echo, gateway)
}

fn endpoint_of(call: &Call) -> String {
    let header = call.parts[0].header.clone().unwrap();
    header.exec_endpoint.unwrap()
}

#[tokio::test]
async fn each_route_calls_its_endpoint() {
    let (echo, gateway) = echo().await;
    let body = json!({"data": [{"text": "a"}], "execEndpoint": "/any"});
    for (method, path, endpoint) in [
        ("POST", "/post", "/any"),
        ("POST", "/index", "/index"),
        ("POST", "/search", "/search"),
        ("PUT", "/update", "/update"),
        ("DELETE", "/delete", "/delete"),
        ("POST", "/encode", "/encode"),
        ("POST", "/status", "/status"),
    ] {
        let calls = echo.calls().len();
        let answer = request(&gateway, method, path, &[], body.to_string().as_bytes()).await;
        assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
        assert_eq!(answer.json()["data"][0]["text"], "a", "{method} {path}");
        // An endpoint that the executor does not offer is not called.
        if let Some(call) = echo.calls().get(calls) {
            assert_eq!(endpoint_of(call), endpoint);
        }
    }
}

/// What SageMaker sends, whose containers listen on a port that the flow file can name.
#[tokio::test]
async fn invocations_call_an_endpoint_and_ping_asks_for_the_health() {
    let executor = FakeExecutor::describing_documents(&["/invocations"], None).await;
    let gateway = gateway(&executor, |_| ()).await;
    get(&gateway, "/openapi.json").await;
    let body = json!({"data": [{"text": "a"}]});
    let answer = post(&gateway, "/invocations", &body).await;
    assert_eq!(answer.json()["data"][0]["text"], "a", "{answer:?}");
    assert_eq!(endpoint_of(&executor.calls()[0]), "/invocations");
    assert_eq!(get(&gateway, "/ping").await.status, 200);
    let csv = [("content-type", "text/csv")];
    let answer = request(&gateway, "POST", "/invocations", &csv, b"text\na\n").await;
    assert_eq!(answer.status, 422, "{answer:?}");
}

#[tokio::test]
async fn the_first_version_s_reply_has_a_header_routes_and_documents() {
    let (_echo, gateway) = echo().await;
    let body = json!({
        "data": [{"id": "d", "text": "a", "tags": {"a": 1, "b": true}}],
        "exec_endpoint": "/search",
        "target_executor": "no",
        "parameters": {"k": 5},
        "header": {"request_id": "r"},
    });
    let answer = post(&gateway, "/post", &body).await;
    let mut reply = answer.json();
    let routes = reply["routes"].take();
    assert_eq!(routes[0]["executor"], "gateway");
    let start = routes[0]["startTime"].as_str().unwrap();
    assert!(start.ends_with('Z') && start.contains('T'), "{start}");
    assert_eq!(
        reply,
        json!({
            "header": {"requestId": "r", "status": null, "execEndpoint": "/search", "targetExecutor": "no"},
            "parameters": {"k": 5},
            "routes": null,
            "data": [{"id": "d", "text": "a", "tags": {"a": 1, "b": true}}],
        })
    );
    assert_eq!(answer.header("x-request-id"), "r");
    assert!(answer.header("server-timing").starts_with("gateway;dur="));
}

#[tokio::test]
async fn the_second_version_s_reply_has_documents_parameters_and_a_header() {
    let (_echo, gateway) = echo().await;
    let document = json!({"id": "d", "title": "a", "embedding": [0.5, 1.0], "nested": {"n": 1}});
    let body = json!({"data": document, "parameters": null, "header": {"requestId": "r"}});
    let answer = post(&gateway, "/encode", &body).await;
    assert_eq!(
        answer.json(),
        json!({
            "data": [document],
            "parameters": {},
            "header": {"requestId": "r", "targetExecutor": null},
        })
    );
}

/// An executor whose replies report a failure.
async fn failing() -> FakeExecutor {
    FakeExecutor::start(|call| async {
        let failure = Failure::new(flow_core::Code::ExecutorFailed, "not today").at("node");
        let mut reply = first(call);
        let header = reply.get_mut().header.get_or_insert_default();
        header.status = Some(failure.to_status());
        Ok(reply)
    })
    .await
}

#[tokio::test]
async fn a_failure_of_an_executor_is_a_reply_in_the_first_version_and_a_status_in_the_second() {
    let failing = failing().await;
    let gateway = gateway(&failing, |_| ()).await;
    let answer = post(&gateway, "/post", &json!({"data": [{"text": "a"}]})).await;
    assert_eq!(answer.status, 200);
    let status = &answer.json()["header"]["status"];
    assert_eq!(status["code"], 1);
    assert_eq!(status["description"], "executor `node`: not today");
    assert_eq!(status["exception"]["executor"], "node");
    let answer = post(&gateway, "/default", &json!({"data": [{"title": "a"}]})).await;
    assert_eq!(answer.status, 500);
    assert_eq!(
        answer.json(),
        json!({"detail": "executor `node`: not today"})
    );
}

#[tokio::test]
async fn an_executor_that_does_not_answer_is_a_status_and_a_description() {
    let dead = FakeExecutor::failing(Status::new(Code::InvalidArgument, "no")).await;
    let down = gateway(&dead, |_| ()).await;
    drop(dead);
    for path in ["/post", "/default"] {
        let answer = post(&down, path, &json!({"data": [{"text": "a"}]})).await;
        assert_eq!(answer.status, 503, "{answer:?}");
        let status = &answer.json()["header"]["status"];
        assert_eq!(status["code"], 1);
        assert!(
            status["description"].as_str().unwrap().contains("node"),
            "{status}"
        );
    }
}

#[tokio::test]
async fn a_deadline_that_passes_is_a_504() {
    let never = FakeExecutor::start(|_| std::future::pending()).await;
    let gateway = gateway(&never, |_| ()).await;
    let headers = [("grpc-timeout", "50m")];
    let answer = request(&gateway, "POST", "/post", &headers, b"{\"data\": []}").await;
    assert_eq!(answer.status, 504, "{answer:?}");
}

#[tokio::test]
async fn a_body_that_is_not_a_request_is_a_422_with_the_reason() {
    let (_echo, gateway) = echo().await;
    for (body, text) in [
        (&b"{"[..], "the body is not valid JSON"),
        (b"[]", "the body must be a JSON object"),
        (b"{\"data\": [5]}", "`data[0]`: a document is a JSON object"),
    ] {
        let answer = request(&gateway, "POST", "/post", &[], body).await;
        assert_eq!(answer.status, 422);
        let problem = answer.json()["detail"][0]["msg"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(problem.contains(text), "{problem}");
    }
}

#[tokio::test]
async fn an_unknown_route_names_the_endpoints_and_a_wrong_method_is_refused() {
    let (_echo, gateway) = echo().await;
    let answer = post(&gateway, "/encod", &json!({})).await;
    assert_eq!(answer.status, 404);
    let text = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(text.contains("`/encode`, `/search`"), "{text}");
    assert_eq!(get(&gateway, "/encode").await.status, 405);
    assert_eq!(delete(&gateway, "/post").await.status, 405);
}

#[tokio::test]
async fn an_endpoint_comes_before_the_route_of_another_api_with_its_name() {
    let own = FakeExecutor::describing_documents(&["/predict"], None).await;
    let gateway = gateway(&own, |_| ()).await;
    get(&gateway, "/openapi.json").await;
    let answer = post(&gateway, "/predict", &json!({"data": [{"title": "a"}]})).await;
    assert_eq!(answer.json()["data"][0]["title"], "a", "{answer:?}");
    let answer = post(&gateway, "/rerank", &json!({"data": [{"title": "a"}]})).await;
    assert_eq!(answer.status, 404, "{answer:?}");
}

#[tokio::test]
async fn the_fixed_routes_answer() {
    let (_echo, gateway) = echo().await;
    assert_eq!(get(&gateway, "/").await.json(), json!({}));
    let status = get(&gateway, "/status").await.json();
    assert!(status["jina"].is_object() && status["envs"].is_object());
    assert_eq!(
        get(&gateway, "/dry_run").await.json(),
        json!({"code": 0, "description": "", "exception": null})
    );
    let page = get(&gateway, "/docs").await.text();
    for file in ["start.js", "swagger-ui.css", "swagger-ui-bundle.js"] {
        assert!(page.contains(&format!("docs/{file}")), "{page}");
        let answer = get(&gateway, &format!("/docs/{file}")).await;
        assert_eq!(answer.status, 200, "{file}");
        // This client takes no compressed answer.
        assert_eq!(answer.header("content-encoding"), "", "{file}");
    }
    let script = get(&gateway, "/docs/swagger-ui-bundle.js").await.text();
    assert!(script.contains("SwaggerUIBundle"), "{}", script.len());
    let paths = get(&gateway, "/openapi.json").await.json()["paths"].clone();
    for path in ["/post", "/encode", "/search", "/dry_run", "/status"] {
        assert!(paths[path].is_object(), "{path} in {paths}");
    }
}

#[tokio::test]
async fn the_flow_file_leaves_routes_out_and_adds_others() {
    let echo = FakeExecutor::describing_documents(&["/encode"], None).await;
    let gateway = gateway(&echo, |plan| {
        plan.gateway.http.no_debug_endpoints = true;
        plan.gateway.http.no_crud_endpoints = true;
        plan.gateway.http.title = Some("Vectors".to_owned());
        let exposed = flow_spec::ExposedEndpoint {
            path: "/vectors".to_owned(),
            methods: vec!["PUT".to_owned()],
            summary: None,
        };
        plan.gateway
            .http
            .exposed
            .insert("/encode".to_owned(), exposed);
    })
    .await;
    let document = get(&gateway, "/openapi.json").await.json();
    assert_eq!(document["info"]["title"], "Vectors");
    for path in ["/post", "/search", "/status"] {
        assert_eq!(post(&gateway, path, &json!({})).await.status, 404, "{path}");
        assert!(document["paths"][path].is_null());
    }
    let body = json!({"data": [{"text": "a"}]}).to_string();
    let answer = request(&gateway, "PUT", "/vectors", &[], body.as_bytes()).await;
    assert_eq!(answer.json()["header"]["execEndpoint"], "/encode");
}

#[tokio::test]
async fn executors_that_take_one_version_only_decide_for_all_requests() {
    let v2 = FakeExecutor::describing_documents(&["/encode"], Some("MyDoc")).await;
    let gateway = gateway(&v2, |_| ()).await;
    get(&gateway, "/openapi.json").await;
    let answer = post(
        &gateway,
        "/post",
        &json!({"data": [{"text": "a"}], "execEndpoint": "/encode"}),
    )
    .await;
    assert!(answer.json()["routes"].is_null(), "{answer:?}");
    let data = v2.calls()[0].parts[0].data.clone().unwrap();
    let documents = DocumentArray::decode(&data).unwrap();
    assert_eq!(documents.version(), flow_core::DocArrayVersion::V2);
}

#[tokio::test]
async fn a_request_s_id_is_taken_from_its_header_or_made() {
    let (_echo, gateway) = echo().await;
    let answer = request(
        &gateway,
        "POST",
        "/post",
        &[("x-request-id", "mine")],
        b"{}",
    )
    .await;
    assert_eq!(answer.header("x-request-id"), "mine");
    assert_eq!(answer.json()["header"]["requestId"], "mine");
    assert_eq!(get(&gateway, "/").await.header("x-request-id").len(), 32);
}

#[tokio::test]
async fn bodies_may_be_compressed_both_ways_within_the_limit() {
    let (_echo, gateway) = echo().await;
    let text = "0123456789".repeat(1000);
    let body = json!({"data": [{"text": text}]}).to_string();
    // 100 megabytes of blanks, above the limit after decompression.
    let blanks = vec![b' '; 100 << 20];
    for coding in ["gzip", "br", "zstd"] {
        let headers = [("content-encoding", coding), ("accept-encoding", coding)];
        let sent = compressed(coding, body.as_bytes()).await;
        let answer = request(&gateway, "POST", "/post", &headers, &sent).await;
        assert_eq!(answer.header("content-encoding"), coding);
        assert!(answer.body.len() < 1000, "{coding}: {}", answer.body.len());
        let reply = decompressed(coding, &answer.body).await;
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        assert_eq!(reply["data"][0]["text"], text, "{coding}");
        let bomb = compressed(coding, &blanks).await;
        let answer = request(&gateway, "POST", "/post", &headers[..1], &bomb).await;
        assert_eq!(answer.status, 413, "{coding}: {answer:?}");
        let broken = request(&gateway, "POST", "/post", &headers[..1], b"{}").await;
        assert_eq!(broken.status, 422, "{coding}: {broken:?}");
    }
    let odd = [("content-encoding", "zip")];
    let answer = request(&gateway, "POST", "/post", &odd, b"{}").await;
    assert_eq!(answer.status, 415);
}

#[tokio::test]
async fn a_compressed_body_counts_in_the_memory_of_the_gateway_while_it_grows() {
    let echo = FakeExecutor::echo().await;
    let memory = |config: &mut flow_gateway::Config| config.limits.memory_max = Some(1 << 20);
    let placement = placement(plan(&["node"]), &[&echo]);
    let gateway = TestGateway::configured(placement, memory).await;
    let blanks = vec![b' '; 16 << 20];
    for coding in ["gzip", "br", "zstd"] {
        let headers = [("content-encoding", coding)];
        let bomb = compressed(coding, &blanks).await;
        let answer = request(&gateway, "POST", "/post", &headers, &bomb).await;
        assert_eq!(answer.status, 429, "{coding}: {answer:?}");
    }
    assert_eq!(post(&gateway, "/post", &json!({})).await.status, 200);
}

async fn compressed(coding: &str, bytes: &[u8]) -> Vec<u8> {
    use async_compression::Level;
    use async_compression::tokio::write::{BrotliEncoder, GzipEncoder, ZstdEncoder};
    use tokio::io::AsyncWriteExt;
    let (level, mut out) = (Level::Fastest, Vec::new());
    let mut encoder: Box<dyn tokio::io::AsyncWrite + Unpin + Send> = match coding {
        "gzip" => Box::new(GzipEncoder::with_quality(&mut out, level)),
        "br" => Box::new(BrotliEncoder::with_quality(&mut out, level)),
        _ => Box::new(ZstdEncoder::with_quality(&mut out, level)),
    };
    encoder.write_all(bytes).await.unwrap();
    encoder.shutdown().await.unwrap();
    drop(encoder);
    out
}

async fn decompressed(coding: &str, bytes: &[u8]) -> Vec<u8> {
    use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder, ZstdDecoder};
    use tokio::io::AsyncReadExt;
    let mut out = Vec::new();
    let mut decoder: Box<dyn tokio::io::AsyncRead + Unpin + Send> = match coding {
        "gzip" => Box::new(GzipDecoder::new(bytes)),
        "br" => Box::new(BrotliDecoder::new(bytes)),
        _ => Box::new(ZstdDecoder::new(bytes)),
    };
    decoder.read_to_end(&mut out).await.unwrap();
    out
}

async fn preflight(gateway: &TestGateway) -> Answer {
    let headers = [
        ("origin", "https://a.b"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type"),
    ];
    request(gateway, "OPTIONS", "/post", &headers, b"").await
}

#[tokio::test]
async fn browsers_of_other_origins_may_call_if_the_flow_file_says_so() {
    let echo = FakeExecutor::echo().await;
    for (cors, allowed) in [
        (Cors::Off, ""),
        (Cors::Any, "*"),
        (Cors::Origins(vec!["https://a.b".to_owned()]), "https://a.b"),
        (Cors::Origins(vec!["https://c.d".to_owned()]), ""),
    ] {
        let gateway = gateway(&echo, |plan| plan.gateway.http.cors = cors.clone()).await;
        let answer = preflight(&gateway).await;
        assert_eq!(
            answer.header("access-control-allow-origin"),
            allowed,
            "{cors:?}"
        );
    }
}

#[tokio::test]
async fn browsers_call_grpc_services_over_http_1() {
    let (_echo, gateway) = echo().await;
    let headers = [("content-type", "application/grpc-web+proto")];
    let path = "/jina.JinaSingleDataRequestRPC/process_single_data";
    let documents: DocumentArray = [Document::from_text("a")].into_iter().collect();
    let message = prost::Message::encode_to_vec(&Envelope {
        data: Some(documents.encode()),
        ..Envelope::default()
    });
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message);
    let answer = request(&gateway, "POST", path, &headers, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer
            .header("content-type")
            .starts_with("application/grpc-web")
    );
    let len = u32::from_be_bytes(answer.body[1..5].try_into().unwrap()) as usize;
    let reply: Envelope = prost::Message::decode(&answer.body[5..5 + len]).unwrap();
    let documents = DocumentArray::decode(&reply.data.unwrap()).unwrap();
    assert_eq!(documents.iter().next().unwrap().text(), "a");
    let trailers = String::from_utf8_lossy(&answer.body[5 + len..]);
    assert!(trailers.contains("grpc-status:0"), "{trailers}");
}

#[tokio::test]
async fn several_ports_serve_everything_or_only_their_own_protocol() {
    let echo = FakeExecutor::echo().await;
    for only in [false, true] {
        let gateway = gateway(&echo, |plan| {
            use flow_spec::Protocol::{Grpc, Http, Websocket};
            let port = |protocol| flow_spec::GatewayPort {
                port: None,
                protocols: vec![protocol],
            };
            plan.gateway.protocols = vec![Grpc];
            plan.gateway.more_ports = vec![port(Http), port(Websocket)];
            plan.gateway.only_protocols = only;
        })
        .await;
        let statuses = [
            get(&gateway, "/docs").await.status,
            gateway.at(0).get("/docs").await.status,
            gateway.at(1).get("/docs").await.status,
        ];
        let wanted = if only {
            [400, 200, 404]
        } else {
            [200, 200, 200]
        };
        assert_eq!(statuses, wanted, "only_protocols: {only}");
        assert_eq!(gateway.at(1).get("/").await.status, 200);
        let grpc = gateway.at(0).grpc_status().await;
        assert_eq!(
            grpc,
            only.then_some(Code::Unimplemented),
            "only_protocols: {only}"
        );
    }
}

#[tokio::test]
async fn a_body_that_arrives_too_slowly_is_refused() {
    let echo = FakeExecutor::echo().await;
    // The time that passes is that of this thread.
    let gateway = TestGateway::on_one_thread(placement(plan(&["node"]), &[&echo])).await;
    for path in [
        "/post",
        "/v1/embeddings",
        "/embed",
        "/v2/embed",
        "/v2/models/m/infer",
    ] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 1000\r\n\r\n{{");
        stream.write_all(head.as_bytes()).await.unwrap();
        // While nothing happens, the time of timers passes at once.
        tokio::time::pause();
        let began = tokio::time::Instant::now();
        let mut first_line = Vec::new();
        while !first_line.ends_with(b"\r\n") {
            first_line.push(stream.read_u8().await.unwrap());
        }
        let waited = began.elapsed();
        tokio::time::resume();
        assert!(
            first_line.starts_with(b"HTTP/1.1 4"),
            "{path}: {first_line:?}"
        );
        assert!((29..35).contains(&waited.as_secs()), "{path}: {waited:?}");
    }
    let alive = post(&gateway, "/post", &json!({"data": [{"text": "a"}]})).await;
    assert_eq!(alive.status, 200, "{alive:?}");
}
