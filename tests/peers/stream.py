"""Prints the texts of the documents that an endpoint streams: `stream.py PORT ENDPOINT TEXT`."""
import asyncio
import json
import sys

from docarray import Document
from jina import Client


async def texts(port, endpoint, text):
    client = Client(port=int(port), asyncio=True)
    stream = client.stream_doc(on=endpoint, inputs=Document(text=text), return_type=Document)
    return [doc.text async for doc in stream]


print(json.dumps(asyncio.run(texts(*sys.argv[1:]))))
