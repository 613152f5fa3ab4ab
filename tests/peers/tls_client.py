"""Posts with the stock client over TLS, to a flow whose certificate an authority of the test has signed.

    tls_client.py PORT

The environment names the authority, as the client's libraries read it. Prints the texts that came back, by protocol.
"""
import asyncio
import json
import sys

from jina import Client

from docs import Array, make, texts_of

PORT = int(sys.argv[1])


def client(protocol, **options):
    return Client(protocol=protocol, host="localhost", port=PORT, tls=True, **options)


def post(protocol):
    return texts_of(client(protocol).post("/any", make(["a", "b"]), return_type=Array, results_in_order=True))


async def post_async(protocol):
    posted = client(protocol, asyncio=True).post("/any", make(["c"]), return_type=Array)
    return [text async for docs in posted for text in texts_of(docs)]


PROTOCOLS = ["grpc", "http", "websocket"]
back = {protocol: post(protocol) + asyncio.run(post_async(protocol)) for protocol in PROTOCOLS}
print(json.dumps(back))
