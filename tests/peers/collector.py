"""A collector of OpenTelemetry: prints its ports, and then each span that it is sent as a line of JSON."""
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

printing = threading.Lock()


def plain(attributes):
    return {it.key: getattr(it.value, it.value.WhichOneof("value")) for it in attributes}


def show(request):
    for resource in request.resource_spans:
        about = plain(resource.resource.attributes)
        for scope in resource.scope_spans:
            for span in scope.spans:
                line = {
                    "service": about.get("service.name"),
                    "version": about.get("service.version"),
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex(),
                    "name": span.name,
                    "kind": span.kind,
                    "start": span.start_time_unix_nano,
                    "end": span.end_time_unix_nano,
                    "attributes": {key: str(value) for key, value in plain(span.attributes).items()},
                    "links": [link.span_id.hex() for link in span.links],
                    "error": span.status.message if span.status.code == 2 else None,
                }
                with printing:
                    print(json.dumps(line), flush=True)


class Service(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request, context):
        show(request)
        return trace_service_pb2.ExportTraceServiceResponse()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        show(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
        self.send_response(200 if self.path == "/v1/traces" else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = grpc.server(ThreadPoolExecutor(4))
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(), server)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"grpc": port, "http": http.server_port}), flush=True)
threading.Thread(target=http.serve_forever, daemon=True).start()
sys.stdin.read()
