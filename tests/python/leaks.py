"""Proves that ten thousand posts, and the calls of an executor that they cause, leave nothing in either process."""

import gc
import json
import sys
from collections import Counter

import numpy as np

from flow_serve import Client, Document, DocumentArray, Executor, Flow, NamedScore, _native, requests

WARM_UP, POSTS, FAILURES = 1_000, 10_000, 300

#: Most blocks of memory that may be there afterwards and were not before; a leak of one for each post would be 10,000. Caches
#: of the interpreter grow a little.
BLOCKS_MAX = 500

#: The same for objects of a type that the garbage collector sees.
OBJECTS_MAX = 50

#: Each object of a class in Rust holds a reference to its class, and the garbage collector does not see it.
NATIVE = (Document, DocumentArray, NamedScore, _native.Reply, _native.Exchange, _native.CallError)

#: Objects that are there once, and that code in Rust takes and gives back. Newer versions of Python do not count references to
#: most of them.
SHARED = {"None": None, "True": True, "()": (), "float32": np.dtype("float32"), "ndarray": np.ndarray, "dict": dict}


def use(docs):
    """Uses everything of a document that objects of Python are made for."""
    for doc in docs:
        assert doc.embedding.sum() == 28
        doc.tags["n"] = len(doc.text)
        doc.embedding = np.arange(8, dtype="float32")
        doc.chunks.append(Document(text=doc.text, blob=b"bytes"))
        doc.scores["s"].value = 0.5
    assert docs.embeddings.shape == (len(docs), 8)
    return docs[:]


def sent(number):
    """A document with an array. The text makes the numbers lie at different addresses modulo their size."""
    return Document(text="x" * (number % 4), embedding=np.arange(8, dtype="float32"), tags={"number": number})


def counts():
    """How many blocks and objects there are, and how many references."""
    for _ in range(3):
        gc.collect()
    types = Counter(type(each).__name__ for each in gc.get_objects())
    references = {cls.__name__: sys.getrefcount(cls) for cls in NATIVE}
    references.update({name: sys.getrefcount(each) for name, each in SHARED.items()})
    return {"blocks": sys.getallocatedblocks(), "types": dict(types), "references": references}


class Worker(Executor):
    @requests(on="/work")
    def work(self, docs, parameters, **kwargs):
        if parameters.get("fail"):
            raise ValueError("no way")
        return use(docs)

    @requests(on="/counts")
    def counts(self, **kwargs):
        return counts()


def grown(before, after):
    """What there is more of than may be."""
    more = {}
    if after["blocks"] - before["blocks"] > BLOCKS_MAX:
        more["blocks"] = after["blocks"] - before["blocks"]
    for part in ("types", "references"):
        for name, count in after[part].items():
            if count - before[part].get(name, 0) > OBJECTS_MAX:
                more[f"{part} {name}"] = count - before[part].get(name, 0)
    return more


def main():
    with Flow(quiet=True).add(name="worker", uses=Worker) as flow:
        client = Client(port=flow.port)
        failures = []

        def post(times, failing):
            for number in range(times):
                docs = client.post("/work", sent(number))
                assert len(docs) == 1 and docs[0].embedding[7] == 7 and docs[0].chunks[0].blob == b"bytes"
            for number in range(failing):
                client.post("/work", sent(number), parameters={"fail": True}, on_error=lambda response: failures.append(response.request_id))
            failures.clear()

        def measured():
            [response] = client.post("/counts", Document(), return_responses=True)
            [of_executor] = response.results.values()
            # As a text, which is one block of memory until it is read.
            return json.dumps({"client": counts(), "executor": of_executor})

        post(WARM_UP, FAILURES)
        measured()
        before = measured()
        post(POSTS, FAILURES)
        after = measured()
    before, after = json.loads(before), json.loads(after)
    for process in before:
        blocks = [each[process]["blocks"] for each in (before, after)]
        print(f"{process}: {blocks[0]:.0f} blocks before {POSTS} posts, {blocks[1]:.0f} after", file=sys.stderr)
        more = grown(before[process], after[process])
        assert not more, f"after {POSTS} posts, the {process} has more than before: {more}"
    print(json.dumps("fine"))


if __name__ == "__main__":
    main()
