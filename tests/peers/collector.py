"""A collector of OpenTelemetry: prints its ports, and then what it is sent, each thing as a line of JSON.

With a folder as its argument it also listens with TLS, with the certificate `gateway.pem` in it, and takes only clients that
have a certificate of the authority `ca.pem`.
"""
import gzip
import json
import ssl
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

printing = threading.Lock()


def show(signal, line):
    with printing:
        print(json.dumps({"signal": signal, **line}), flush=True)


def value(it):
    kind = it.WhichOneof("value")
    if kind == "array_value":
        return [value(each) for each in it.array_value.values]
    return getattr(it, kind)


def plain(attributes):
    return {it.key: value(it.value) for it in attributes}


def texts(attributes):
    return {key: str(value) for key, value in plain(attributes).items()}


def about(resource):
    attributes = plain(resource.resource.attributes)
    return {"service": attributes.get("service.name"), "version": attributes.get("service.version")}


def show_spans(request):
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                show("span", {
                    **about(resource),
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "name": span.name,
                    "kind": span.kind,
                    "start": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "attributes": texts(span.attributes),
                    "links": [link.span_id.hex() for link in span.links],
                    "error": span.status.message if span.status.code == 2 else None,
                })


def point_of(kind, point):
    if kind in ("sum", "gauge"):
        return {"value": point.as_double}
    shown = {"count": point.count, "sum": point.sum, "traces": [it.trace_id.hex() for it in point.exemplars]}
    if kind == "histogram":
        return {**shown, "bounds": list(point.explicit_bounds), "buckets": list(point.bucket_counts)}
    return {
        **shown,
        "scale": point.scale,
        "offset": point.positive.offset,
        "zero": point.zero_count,
        "buckets": list(point.positive.bucket_counts),
    }


def show_metrics(request):
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                data = getattr(metric, kind)
                # 2 is cumulative.
                assert kind == "gauge" or data.aggregation_temporality == 2, metric
                for point in data.data_points:
                    assert 0 < point.start_time_unix_nano <= point.time_unix_nano, metric
                    show("metric", {
                        **about(resource),
                        "name": metric.name,
                        "unit": metric.unit,
                        "kind": kind,
                        "labels": texts(point.attributes),
                        **point_of(kind, point),
                    })


def show_records(request):
    for resource in request.resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                show("record", {
                    **about(resource),
                    "target": scope.scope.name,
                    "severity": record.severity_text,
                    "number": record.severity_number,
                    "body": record.body.string_value,
                    "attributes": texts(record.attributes),
                    "trace": record.trace_id.hex(),
                    "span": record.span_id.hex(),
                })


def show_request(headers, encoding):
    show("request", {"token": headers.get("authorization"), "encoding": headers.get(encoding)})


SIGNALS = {
    "/v1/traces": (show_spans, trace_service_pb2.ExportTraceServiceRequest),
    "/v1/metrics": (show_metrics, metrics_service_pb2.ExportMetricsServiceRequest),
    "/v1/logs": (show_records, logs_service_pb2.ExportLogsServiceRequest),
}


def exporting(show_all, response):
    def export(self, request, context):
        show_request(dict(context.invocation_metadata()), "grpc-encoding")
        show_all(request)
        return response()

    return export


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    Export = exporting(show_spans, trace_service_pb2.ExportTraceServiceResponse)


class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    Export = exporting(show_metrics, metrics_service_pb2.ExportMetricsServiceResponse)


class Logs(logs_service_pb2_grpc.LogsServiceServicer):
    Export = exporting(show_records, logs_service_pb2.ExportLogsServiceResponse)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        show_request(self.headers, "content-encoding")
        known = SIGNALS.get(self.path)
        if known:
            show_all, message = known
            show_all(message.FromString(body))
        self.send_response(200 if known else 404)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def serve_http():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def with_tls(folder):
    """Listens with TLS as well."""
    certificate, key, ca = (folder / name for name in ("gateway.pem", "gateway.key", "ca.pem"))
    pairs = [(key.read_bytes(), certificate.read_bytes())]
    credentials = grpc.ssl_server_credentials(pairs, ca.read_bytes(), require_client_auth=True)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    http.socket = context.wrap_socket(http.socket, server_side=True)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    return {"grpcs": server.add_secure_port("127.0.0.1:0", credentials), "https": http.server_port}


server = grpc.server(ThreadPoolExecutor(4))
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(), server)
ports = {"grpc": server.add_insecure_port("127.0.0.1:0"), "http": serve_http().server_port}
if len(sys.argv) > 1:
    ports.update(with_tls(Path(sys.argv[1])))
server.start()
print(json.dumps(ports), flush=True)
sys.stdin.read()
