"""What the stock client sees of a flow.

    client.py PORT STREAMING_PORT

The flow at PORT is an echo and two replicas of `faulty`; the one at STREAMING_PORT is `faulty` alone.
"""
import sys

import grpc
from jina import Client

from docs import Array, ArrayOfRich, differences, make, rich, run, texts_of

PORT, STREAMING_PORT = int(sys.argv[1]), int(sys.argv[2])
TEXTS = [str(number) for number in range(25)]
client = Client(port=PORT)


def post(on, texts=TEXTS, **options):
    return client.post(on, make(texts), return_type=Array, **options)


def responses(on, texts=TEXTS, **options):
    return post(on, texts, return_responses=True, **options)


def streamed():
    return sorted(map(int, texts_of(post("/any", request_size=4))))


def unary():
    return sorted(map(int, texts_of(post("/any", request_size=4, stream=False))))


def in_order():
    return texts_of(post("/slow", ["400", "0"], request_size=1, results_in_order=True))


def as_done():
    return texts_of(post("/slow", ["400", "0"], request_size=1))


def in_order_unary():
    return texts_of(post("/slow", ["400", "0"], request_size=1, results_in_order=True, stream=False))


def prefetch():
    return texts_of(post("/any", request_size=1, prefetch=1, results_in_order=True))


def request_size():
    sizes = [len(response.docs) for response in responses("/any", request_size=10, results_in_order=True)]
    whole = [len(response.docs) for response in responses("/any", request_size=-1)]
    return [sizes, whole]


def parameters():
    sent = {"top_k": 5, "deep": {"list": [1, "a", None]}, "faulty__own": True, "echo__other": 1}
    response = responses("/parameters", ["x"], parameters=sent)[0]
    back = dict(response.parameters)
    results = back.pop("__results__")
    return {"back": back == sent, "names": list(results), "seen": list(results.values())[0]}


def without_input():
    response = client.post("/any", return_responses=True)[0]
    return {"docs": len(response.docs), "code": response.header.status.code}


def target_executor():
    return [texts_of(post("/mark", ["x"], target_executor=name)) for name in ("faulty", "fa", "echo", "")]


def compression():
    return [sorted(map(int, texts_of(post("/any", compression=name)))) for name in ("Gzip", "Deflate", "NoCompression")]


def ready():
    return [client.is_flow_ready(), Client(port=1).is_flow_ready()]


def profiling():
    return sorted(client.profiling(show_table=False))


def routes():
    routes = responses("/any", ["x"])[0].routes
    timed = all(route.start_time.seconds and route.end_time.seconds for route in routes)
    return {"names": [route.executor for route in routes], "timed": timed}


def failure():
    seen = {"done": 0, "error": 0, "always": 0}

    def count(name):
        return lambda _: seen.update({name: seen[name] + 1})

    post("/fail", ["x"], on_done=count("done"), on_error=count("error"), on_always=count("always"))
    return seen


def failure_raises():
    post("/fail", ["x"])


def failure_goes_on():
    statuses = [response.header.status for response in responses("/fail", ["x", "y"], request_size=1, continue_on_error=True)]
    return [[status.code, status.description, status.exception.executor] for status in statuses]


def timeout():
    post("/slow", ["3000"], timeout=0.2)


def fields():
    back = {}
    for name, options in {"streamed": {}, "unary": {"stream": False}}.items():
        for on in ("/any", "/touch"):
            sent = rich()
            docs = client.post(on, sent, return_type=ArrayOfRich, **options)
            back[f"{name} {on}"] = differences(sent, docs)
    return back


def large():
    sent = make(["0123456789abcdef" * (100 * 2**20 // 16)])
    back = {name: client.post("/any", sent, return_type=Array, stream=name == "streamed") for name in ("streamed", "unary")}
    return {name: docs[0].text == sent[0].text for name, docs in back.items()}


async def letters():
    one = make(["abc"])[0]
    streaming = Client(port=STREAMING_PORT, asyncio=True)
    docs = streaming.stream_doc(on="/letters", inputs=one, return_type=type(one))
    return [doc.text async for doc in docs]


def services():
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    with grpc.insecure_channel(f"127.0.0.1:{PORT}") as channel:
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        question = reflection_pb2.ServerReflectionRequest(list_services="")
        answers = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([question]))
        names = [service.name for answer in answers for service in answer.list_services_response.service]
    return {"health": health.status, "names": sorted(names)}


run({
    case.__name__: case
    for case in (
        streamed, unary, in_order, as_done, in_order_unary, prefetch, request_size, parameters, without_input,
        target_executor, compression, ready, profiling, routes, failure, failure_raises, failure_goes_on, timeout,
        fields, large, letters, services,
    )
})
