"""Proves that documents of the package docarray are taken and given back. Its argument is the port of an echo.

It runs with either generation of docarray.
"""
import asyncio
import json
import sys

import docarray
import numpy as np

import flow_serve
import flow_serve.exceptions
from flow_serve import Client

PORT = int(sys.argv[1])
client = Client(port=PORT)

if hasattr(docarray, "BaseDoc"):
    from typing import Optional

    from docarray import BaseDoc, DocList
    from docarray.typing import NdArray

    class Inner(BaseDoc):
        number: int

    class Outer(BaseDoc):
        text: str
        embedding: Optional[NdArray] = None
        inner: Optional[DocList[Inner]] = None

    docs = DocList[Outer](Outer(text=str(number), embedding=np.arange(3), inner=[Inner(number=number)]) for number in range(250))
    back = client.post("/any", docs, return_type=DocList[Outer], results_in_order=True)
    assert isinstance(back, DocList[Outer]) and back.text == docs.text
    assert back[249].inner[0].number == 249 and np.array_equal(back[0].embedding, docs[0].embedding)
    one = client.post("/any", Outer(text="one"), return_type=Outer)
    assert isinstance(one, Outer) and one.text == "one"
    # Without a type, the documents come back as the kind that was sent.
    assert client.post("/any", [Outer(text="one")])[0].text == "one"
    [response] = client.post("/any", Outer(text="one"), return_responses=True)
    assert isinstance(response.docs, DocList[Outer])
    assert len(client.post("/any", [], return_type=DocList[Outer])) == 0
    kind, asked = Outer, Outer
else:
    from docarray import Document, DocumentArray

    sent = Document(text="a", embedding=np.arange(3), chunks=[Document(text="c")], tags={"x": 1})
    back = client.post("/any", DocumentArray([sent]))
    assert isinstance(back, DocumentArray) and back[0].text == "a" and back[0].chunks[0].text == "c"
    assert back[0].embedding.tolist() == [0, 1, 2] and back[0].tags == {"x": 1.0}
    many = client.post("/any", (Document(text=str(number)) for number in range(250)), results_in_order=True)
    assert [doc.text for doc in many] == [str(number) for number in range(250)]
    ours = client.post("/any", flow_serve.Document(text="x"), return_type=DocumentArray)
    assert isinstance(ours, DocumentArray) and ours[0].text == "x"
    kind, asked = Document, DocumentArray


async def asynchronous():
    own = Client(port=PORT, asyncio=True)
    return [docs async for docs in own.post("/any", kind(text="z"), return_type=asked)]


[found] = asyncio.run(asynchronous())
assert (found if isinstance(found, kind) else found[0]).text == "z"
try:
    client.post("/any", [kind(text="a"), flow_serve.Document(text="b")])
except flow_serve.exceptions.BadClientInput as error:
    assert "separate requests" in str(error)
else:
    raise AssertionError("documents of both packages in one request")
print(json.dumps("fine"))
