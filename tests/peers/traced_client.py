"""Calls of the stock client with its own tracing.

    traced_client.py PORT COLLECTOR_PORT

Posts a document in a stream and another one alone, within a span each, and prints the ids of their traces.
"""
import json
import sys

from jina import Client
from opentelemetry import trace
from opentelemetry.trace import format_trace_id

from docs import Array, make

PORT, COLLECTOR = int(sys.argv[1]), int(sys.argv[2])
client = Client(
    port=PORT,
    tracing=True,
    traces_exporter_host="http://127.0.0.1",
    traces_exporter_port=COLLECTOR,
)


def post(**options):
    with client.tracer.start_as_current_span("caller") as span:
        client.post("/upper", make(["a"]), return_type=Array, **options)
        return format_trace_id(span.get_span_context().trace_id)


ids = [post(), post(stream=False)]
client.tracer_provider.force_flush()
print(json.dumps(ids))
