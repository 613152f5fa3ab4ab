"""An executor with spans and metrics of its own, which runs on Jina's runtime and on ours."""

import asyncio

from jina import Executor, requests


class Observed(Executor):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.tracer.start_as_current_span("read_words") as span:
            span.set_attribute("words", 3)
        self.seen = self.meter.create_counter("documents.seen", unit="1", description="Documents")
        self.waiting = self.meter.create_up_down_counter("waiting")
        self.lengths = self.meter.create_histogram("text_length", unit="By", description="Lengths of texts")

    @requests(on="/sync")
    def sync(self, docs, tracing_context=None, **kwargs):
        with self.tracer.start_as_current_span("outer", context=tracing_context) as span:
            span.set_attribute("documents", len(docs))
            span.set_attributes({"share": 0.5, "is_last": False, "tags": ["a", "b"]})
            span.add_event("read", {"bytes": 7})
            with self.tracer.start_as_current_span("inner"):
                self.split(docs)
        for doc in docs:
            self.seen.add(1, {"length": len(doc.text), "runtime_name": "mine", "a.b": 1, "a_b": 2})
            self.lengths.record(len(doc.text) + 0.5)
        self.waiting.add(2)
        self.waiting.add(-1.5)

    def split(self, docs):
        span = self.tracer.start_span("split", attributes={"by": "space"})
        for doc in docs:
            doc.text = " ".join(doc.text.split())
        span.update_name("split texts")
        span.end()

    @requests(on="/many-series")
    def many_series(self, **kwargs):
        for number in range(250):
            self.seen.add(1, {"number": number})

    @requests(on="/async")
    async def waits(self, tracing_context=None, **kwargs):
        async def wait(name):
            with self.tracer.start_as_current_span(name, context=tracing_context):
                await asyncio.sleep(0.01)
                with self.tracer.start_as_current_span(f"after {name}"):
                    await asyncio.sleep(0.01)

        await asyncio.gather(wait("one"), wait("two"))

    @requests(on="/fails")
    def fails(self, tracing_context=None, **kwargs):
        with self.tracer.start_as_current_span("failing", context=tracing_context):
            raise ValueError("not today")
