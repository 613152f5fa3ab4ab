"""An executor with a method for each thing that a method may do. It runs on our runtime and on Jina's."""

import asyncio
import gc
import os
import sys
import threading
import time
import weakref

import numpy
from jina import Document, DocumentArray, Executor, dynamic_batching, monitor, requests


class Table(Executor):
    def __init__(self, suffix="from the code", **kwargs):
        super().__init__(**kwargs)
        self.suffix = suffix
        self.running = 0
        self.most = 0
        self.met = asyncio.Event()
        self.seen = weakref.WeakSet()
        self.logger.info("loaded")

    @requests(on="/in-place")
    def in_place(self, docs, **kwargs):
        for doc in docs:
            doc.text = doc.text.upper()

    @requests(on=["/replace", "/also"])
    def replace(self, docs, **kwargs):
        return DocumentArray([Document(text=f"{len(docs)} documents")])

    @requests(on="/results")
    def results(self, docs, parameters, **kwargs):
        docs[0].text = "changed"
        return {"documents": len(docs), "k": parameters.get("k"), "own": parameters.get("own"), "list": [1, {"a": None}]}

    @requests(on="/number")
    def number(self, **kwargs):
        return 5

    @requests(on="/fail")
    def fail(self, **kwargs):
        raise ValueError("it is unwell", 7)

    @requests(on="/own-error")
    def own_error(self, **kwargs):
        raise Unwell("its own class")

    @requests(on="/parts")
    def parts(self, docs, docs_matrix, docs_map, **kwargs):
        return {
            "documents": [doc.text for doc in docs],
            "matrix": [[doc.text for doc in part] for part in docs_matrix],
            "map": sorted(docs_map),
        }

    @requests(on="/about")
    def about(self, tracing_context=None, **kwargs):
        return {"suffix": self.suffix, "name": self.metas.name, "context": tracing_context, "keywords": sorted(kwargs)}

    @requests(on="/async")
    async def coroutine(self, docs, **kwargs):
        await asyncio.sleep(0)
        for doc in docs:
            doc.text += " after a pause"

    @requests(on="/meet")
    async def meet(self, docs, **kwargs):
        """Returns when two requests are in it at a time."""
        self.running += 1
        if self.running == 2:
            self.met.set()
        await self.met.wait()

    @requests(on="/alone")
    def alone(self, docs, **kwargs):
        """Counts how many requests are in it at a time."""
        self.running += 1
        self.most = max(self.most, self.running)
        time.sleep(0.02)
        self.running -= 1
        return {"most": self.most}

    @dynamic_batching(preferred_batch_size=4, timeout=200)
    @requests(on="/batch")
    def batch(self, docs, **kwargs):
        for doc in docs:
            doc.text = str(len(docs))

    @requests(on="/stream")
    def stream(self, doc: Document, **kwargs):
        for number in range(3):
            yield Document(text=f"{doc.text} {number}")

    @requests(on="/async-stream")
    async def async_stream(self, doc: Document, parameters, **kwargs):
        for number in range(3):
            await asyncio.sleep(0)
            if number == parameters.get("fail_at"):
                raise ValueError("the stream broke")
            yield Document(text=f"{doc.text} {number}")

    @dynamic_batching(preferred_batch_size=6, timeout=60_000, custom_metric=lambda doc: len(doc.text), use_custom_metric=True)
    @requests(on="/weigh")
    def weigh(self, docs, **kwargs):
        """Runs when the texts of the requests have six letters together."""
        together = "".join(sorted(docs.texts))
        for doc in docs:
            doc.text = together

    @requests(on="/measure")
    async def measure(self, docs, **kwargs):
        with self.monitor("block_seconds", "Time of a block"):
            for doc in docs:
                self.shout(doc)
        await self.wait()
        with self.monitor("failing_seconds", "Time of a block that fails"):
            return {"list": list(self.count()), "none": docs[0].nothing}

    @monitor(name="shouting_seconds", documentation="Time of shouting")
    def shout(self, doc):
        doc.text = doc.text.upper()

    @monitor()
    async def wait(self):
        await asyncio.sleep(0.01)

    @monitor()
    def count(self):
        yield 1
        time.sleep(0.01)
        yield 2

    @requests(on="/bad-metric")
    def bad_metric(self, **kwargs):
        with self.monitor("not a name"):
            pass

    @requests(on="/touch")
    def touch(self, docs, **kwargs):
        """Uses everything of a document that Python objects are made for."""
        for doc in docs:
            self.seen.add(doc)
            doc.tags["n"] = len(doc.text)
            doc.embedding = numpy.arange(8, dtype="float32")
            doc.chunks.append(Document(text=doc.text))
            doc.scores["s"].value = 0.5
        return docs[:]

    @requests(on="/norm")
    def norm(self, docs, **kwargs):
        for doc in docs:
            doc.tags["norm"] = float((doc.embedding**2).sum())

    @requests(on="/alive")
    def alive(self, **kwargs):
        """Counts the documents that are still in memory, and the memory of the process."""
        gc.collect()
        pages = int(open("/proc/self/statm").read().split()[1])
        return {"documents": len(self.seen), "kilobytes": pages * os.sysconf("SC_PAGE_SIZE") // 1024}

    @requests(on="/exit")
    def exit(self, **kwargs):
        sys.exit(3)

    @requests(on="/crash")
    def crash(self, **kwargs):
        os.abort()

    @requests(on="/block")
    def block(self, **kwargs):
        threading.Event().wait(3600)

    def close(self):
        self.logger.info("closed")


class WithDefault(Table):
    @requests
    def default(self, docs, **kwargs):
        for doc in docs:
            doc.text = "the default method"


class Unwell(Exception):
    pass
