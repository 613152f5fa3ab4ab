"""What the stock client sees of our executor behind a stock gateway.

    gateway_client.py PORT
"""
import sys

import grpc
from google.protobuf import empty_pb2
from jina import Client
from jina.proto import jina_pb2_grpc

from docs import IS_V2, Array, ArrayOfRich, differences, make, rich, run, texts_of

PORT = int(sys.argv[1])
client = Client(port=PORT)


def ready():
    return client.is_flow_ready()


def marked():
    return texts_of(client.post("/mark", make(["a", "b"]), return_type=Array))


def unbound():
    return texts_of(client.post("/nobody", make(["a"]), return_type=Array))


def fields():
    sent = rich()
    return differences(sent, client.post("/touch", sent, return_type=ArrayOfRich))


def parameters():
    sent = {"top_k": 5, "ours__own": True}
    response = client.post("/parameters", make(["x"]), parameters=sent, return_responses=True)[0]
    return list(response.parameters["__results__"].values())[0]


def failure():
    status = client.post("/fail", make(["x"]), return_responses=True, continue_on_error=True)[0].header.status
    return [status.code, status.description]


def endpoints():
    if not IS_V2:
        # The gateway of DocArray v1 cannot tell: it fails with an AttributeError of its own.
        return True
    with grpc.insecure_channel(f"127.0.0.1:{PORT}") as channel:
        told = jina_pb2_grpc.JinaDiscoverEndpointsRPCStub(channel).endpoint_discovery(empty_pb2.Empty())
    return "/mark" in told.endpoints


run({case.__name__: case for case in (ready, marked, unbound, fields, parameters, failure, endpoints)})
