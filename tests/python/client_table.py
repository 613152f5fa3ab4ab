"""What a client does, case by case: run with stock Jina and with flow_serve, whose results are compared.

    client_table.py PORT

The flow at PORT is an echo and `faulty`. The last line that is printed is a mapping of the cases.
"""
import asyncio
import json
import sys

import numpy as np
from docarray import Document, DocumentArray
from docarray.score import NamedScore
from jina import Client

PORT = int(sys.argv[1])
TEXTS = [str(number) for number in range(25)]
client = Client(port=PORT)


def documents(texts=TEXTS):
    return [Document(text=text) for text in texts]


def texts_of(docs):
    return sorted((doc.text for doc in docs), key=lambda text: (len(text), text))


def kind_of(value):
    """The name of a value's class, of which DocArray appends where it keeps documents."""
    return type(value).__name__.removesuffix("InMemory")


def caught(call):
    """The names of the exceptions' classes that a call raises, down to `Exception`."""
    try:
        return {"returned": kind_of(call())}
    except BaseException as error:  # Jina's client raises `CancelledError`
        names = [kind.__name__ for kind in type(error).__mro__]
        return names[: names.index("Exception" if "Exception" in names else "BaseException")]


def inputs_of_all_kinds():
    def generator():
        yield from documents()

    async def asynchronous():
        for doc in documents():
            yield doc

    kinds = {
        "list": documents(),
        "tuple": tuple(documents()),
        "array": DocumentArray(documents()),
        "generator": generator(),
        "function": generator,
        "asynchronous": asynchronous(),
        "map": map(lambda text: Document(text=text), TEXTS),
        "one": Document(text="7"),
        "nothing": None,
        "empty list": [],
        "mappings": [{"text": "a"}, {"text": "b"}],
        "arrays": [np.arange(3), np.arange(3)],
        "bytes": [b"a", b"b"],
    }
    return {name: texts_of(client.post("/any", inputs)) for name, inputs in kinds.items()}


def contents():
    [blob] = client.post("/any", [b"a"])
    [tensor] = client.post("/any", [np.arange(3, dtype="float32")])
    return [blob.blob.decode(), tensor.tensor.tolist(), str(tensor.tensor.dtype)]


def the_kind_that_is_returned():
    docs = client.post("/any", documents())
    return [kind_of(docs), kind_of(docs[0]), len(docs)]


def sizes_of_requests():
    def of(size, inputs):
        responses = client.post("/any", inputs, request_size=size, return_responses=True, results_in_order=True)
        return [len(response.docs) for response in responses]

    return [of(10, documents()), of(10, iter(documents())), of(-1, documents()), of(0, iter(documents())), of(25, documents())]


def order():
    in_order = client.post("/slow", documents(["200", "0"]), request_size=1, results_in_order=True)
    apart = client.post("/slow", documents(["200", "0"]), request_size=1, results_in_order=True, stream=False)
    return [[doc.text for doc in docs] for docs in (in_order, apart)]


def callbacks():
    def count(on, **options):
        seen = {"done": 0, "error": 0, "always": 0, "documents": 0}

        def called(name):
            def callback(response):
                seen[name] += 1
                seen["documents"] += len(response.docs)

            return callback

        given = {f"on_{name}": called(name) for name in ("done", "error", "always") if name not in options}
        back = client.post(on, documents(["a", "b", "c"]), request_size=1, **given)
        return [seen, back]

    return {
        "success": count("/any"),
        "failure": count("/fail"),
        "without done": count("/any", done=None),
        "without error and always": count("/any", error=None, always=None),
    }


def a_callback_by_position():
    seen = []
    client.post("/any", documents(["a"]), lambda response: seen.append(response.docs[0].text))
    return seen


def a_callback_that_fails():
    def broken(_):
        raise ValueError("not now")

    return {
        "raises": caught(lambda: client.post("/any", documents(["a"]), on_done=broken)),
        "goes on": caught(lambda: client.post("/any", documents(["a", "b"]), on_done=broken, continue_on_error=True)),
        "on error": caught(lambda: client.post("/fail", documents(["a"]), on_error=broken)),
    }


def failures():
    def on_error(_):
        pass

    return {
        "raises": caught(lambda: client.post("/fail", documents(["a"]))),
        "on_done only": caught(lambda: client.post("/fail", documents(["a"]), on_done=on_error)),
        "on_error": texts_of(client.post("/fail", documents(["a", "b"]), on_error=on_error)),
        "continue": texts_of(client.post("/fail", documents(["a", "b"]), continue_on_error=True)),
        "apart": caught(lambda: client.post("/fail", documents(["a"]), stream=False)),
    }


def what_a_failure_says():
    try:
        client.post("/fail", documents(["a"]))
    except Exception as error:
        status = error.args[0].status
        says = ["not today" in str(error), "request_id" in str(error), "ERROR" in str(error)]
        return [says, status.code, status.description, status.exception.name, list(status.exception.args)]


def responses():
    [response] = client.post("/any", documents(["a"]), return_responses=True, parameters={"top_k": 5})
    return {
        "code": response.header.status.code,
        "endpoint": response.header.exec_endpoint,
        "id": [len(response.header.request_id), response.request_id == response.header.request_id],
        "parameters": response.parameters,
        "routes": [route.executor for route in response.routes],
        "times": all(route.end_time.ToMilliseconds() > 1e12 for route in response.routes),
        "docs": [response.docs[0].text, response.data.docs[0].text],
        "status": response.status.code,
    }


def parameters():
    sent = {"top_k": 5, "deep": {"list": [1, "a", None, True]}, "faulty__own": 1.5, "echo__other": 1}
    [response] = client.post("/parameters", documents(["a"]), parameters=sent, return_responses=True)
    back = response.parameters
    return [back.pop("__results__") and sorted(back), sent]


def target_executor():
    return [texts_of(client.post("/mark", documents(["x"]), target_executor=name)) for name in ("faulty", "fa", "echo", "")]


def connections():
    nobody = Client(port=1)
    return {
        "refused": caught(lambda: nobody.post("/any", documents(["a"]))),
        "refused twice": caught(lambda: nobody.post("/any", documents(["a"]), max_attempts=2, initial_backoff=0.01)),
        "late": caught(lambda: client.post("/slow", documents(["3000"]), timeout=0.2)),
        "ready": [client.is_flow_ready(), nobody.is_flow_ready()],
    }


def inputs_that_fail():
    def broken():
        yield Document(text="a")
        raise KeyError("no more")

    return [caught(lambda: client.post("/any", broken, request_size=1)), caught(lambda: client.post("/any", [object()]))]


def nested():
    doc = Document(text="root", tags={"a": {"b": [1, 2.5, "x", None]}}, embedding=np.arange(4, dtype="float32"))
    doc.chunks = [Document(text="c0", chunks=[Document(text="cc")]), Document(tensor=np.eye(2))]
    doc.matches = [Document(text="m0", scores={"cosine": NamedScore(value=0.5)})]
    [back] = client.post("/any", doc)
    deepest = back.chunks[0].chunks[0]
    return {
        "same": back.id == doc.id,
        "texts": [back.text, back.chunks[0].text, deepest.text, back.matches[0].text],
        "places": [back.chunks[0].granularity, deepest.granularity, back.matches[0].adjacency],
        "parents": [back.chunks[0].parent_id == doc.id, deepest.parent_id == back.chunks[0].id],
        "tags": back.tags,
        "arrays": [back.embedding.tolist(), str(back.embedding.dtype), back.chunks[1].tensor.tolist()],
        "score": round(back.matches[0].scores["cosine"].value, 4),
    }


def crud():
    names = ("index", "search", "update", "delete")
    return [client_method(name)(documents(["a"]), return_responses=True)[0].header.exec_endpoint for name in names]


def client_method(name):
    return getattr(client, name)


async def asynchronous():
    own = Client(port=PORT, asyncio=True)

    async def generator():
        for text in TEXTS:
            await asyncio.sleep(0)
            yield Document(text=text)

    arrays = [docs async for docs in own.post("/any", generator(), request_size=10, results_in_order=True)]
    replies = [each async for each in own.post("/any", documents(), request_size=20, return_responses=True)]
    failed = "nothing"
    try:
        async for _ in own.post("/fail", documents(["a"])):
            pass
    except Exception as error:
        failed = type(error).__name__
    both = await asyncio.gather(*[count(own.post("/slow", documents(["50"]))) for _ in range(4)])
    return {
        "sizes": [len(docs) for docs in arrays],
        "kind": kind_of(arrays[0]),
        "failed": failed,
        "together": both,
        "ready": await own.is_flow_ready(),
    }


async def count(posted):
    return sum([len(docs) async for docs in posted])


def profile():
    return sorted(client.profiling(show_table=False)) if hasattr(client, "profiling") else None


CASES = (
    inputs_of_all_kinds,
    contents,
    the_kind_that_is_returned,
    sizes_of_requests,
    order,
    callbacks,
    a_callback_by_position,
    a_callback_that_fails,
    failures,
    what_a_failure_says,
    responses,
    parameters,
    target_executor,
    connections,
    inputs_that_fail,
    nested,
    crud,
    asynchronous,
)


def result_of(case):
    try:
        result = case()
        return asyncio.run(result) if asyncio.iscoroutine(result) else result
    except BaseException as error:
        return {"raised": type(error).__name__, "text": str(error)[:400]}


print(json.dumps({case.__name__: result_of(case) for case in CASES}))
