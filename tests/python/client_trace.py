"""Calls of the client within a span of the process's own OpenTelemetry.

The argument is the port of a flow. Prints the ids of the trace, and those of the spans in which it was called, as JSON.
"""
import asyncio
import json
import sys

from flow_serve import Client, Document
from opentelemetry import baggage, context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id, format_trace_id

port = int(sys.argv[1])
tracer = TracerProvider().get_tracer("client")


def ids(span):
    own = span.get_span_context()
    return [format_trace_id(own.trace_id), format_span_id(own.span_id)]


def blocking():
    with tracer.start_as_current_span("blocking") as span:
        Client(port=port, tracing=True).post("/upper", [Document(text="a")])
        return ids(span)


async def waiting():
    with tracer.start_as_current_span("waiting") as span:
        client = Client(port=port, asyncio=True)
        async for _ in client.post("/upper", [Document(text="a")]):
            pass
        return ids(span)


def own_metadata():
    """What the caller gives wins."""
    trace = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"]
    with tracer.start_as_current_span("replaced"):
        metadata = {"traceparent": f"00-{trace[0]}-{trace[1]}-01"}
        Client(port=port).post("/upper", [Document(text="a")], metadata=metadata)
    return trace


def with_baggage():
    token = context.attach(baggage.set_baggage("tenant", "blue"))
    try:
        return blocking()
    finally:
        context.detach(token)


print(json.dumps([blocking(), asyncio.run(waiting()), own_metadata(), with_baggage()]))
