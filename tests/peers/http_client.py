"""What the stock client sees of a flow over HTTP and over WebSocket.

    http_client.py PROTOCOL PORT STREAMING_PORT

The flow at PORT is an echo and `faulty`; the one at STREAMING_PORT is `faulty` alone.
"""
import asyncio
import sys

from jina import Client

from docs import Array, make, run, texts_of

PROTOCOL, PORT, STREAMING_PORT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
TEXTS = [str(number) for number in range(25)]
client = Client(protocol=PROTOCOL, port=PORT)


def post(on, texts=TEXTS, **options):
    return client.post(on, make(texts), return_type=Array, **options)


def responses(on, texts=TEXTS, **options):
    return post(on, texts, return_responses=True, **options)


def all_back():
    return sorted(map(int, texts_of(post("/any", request_size=4))))


def in_order():
    return texts_of(post("/slow", ["400", "0"], request_size=1, results_in_order=True))


def worked_on():
    return texts_of(post("/mark", ["x"]))


def parameters():
    sent = {"top_k": 5, "deep": {"list": [1, "a", None]}, "faulty__own": True}
    response = responses("/parameters", ["x"], parameters=sent)[0]
    back = dict(response.parameters)
    results = back.pop("__results__")
    return {"back": back == sent, "names": list(results), "seen": list(results.values())[0]}


def tags():
    docs = make(["x"])
    docs[0].tags = {"a": 1, "b": True, "c": 1.5, "d": "e"}
    back = client.post("/any", docs, return_type=Array)[0].tags
    return {name: back[name] for name in ("a", "b", "c", "d")}


def target_executor():
    return [texts_of(post("/mark", ["x"], target_executor=name)) for name in ("faulty", "echo")]


def ready():
    return [client.is_flow_ready(), Client(protocol=PROTOCOL, port=1).is_flow_ready()]


def failure():
    seen = {"done": 0, "error": 0, "always": 0}

    def count(name):
        return lambda _: seen.update({name: seen[name] + 1})

    post("/fail", ["x"], on_done=count("done"), on_error=count("error"), on_always=count("always"))
    return seen


def failure_raises():
    post("/fail", ["x"])


async def asynchronous():
    own = Client(protocol=PROTOCOL, port=PORT, asyncio=True)
    texts = []
    async for docs in own.post("/any", make(TEXTS), request_size=5, return_type=Array):
        texts += texts_of(docs)
    return sorted(map(int, texts))


async def letters():
    one = make(["abc"])[0]
    streaming = Client(protocol=PROTOCOL, port=STREAMING_PORT, asyncio=True)
    docs = streaming.stream_doc(on="/letters", inputs=one, return_type=type(one))
    return [doc.text async for doc in docs]


run({
    case.__name__: case
    for case in (
        all_back, in_order, worked_on, parameters, tags, target_executor, ready, failure, failure_raises, asynchronous,
        letters,
    )
})
