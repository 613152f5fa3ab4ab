"""Documents of whichever DocArray version is installed, made and read in one way."""
import asyncio
import json
import sys

import docarray
import numpy as np

IS_V2 = not docarray.__version__.startswith("0.21")

if IS_V2:
    from typing import Dict, List, Optional

    from docarray import BaseDoc, DocList
    from docarray.typing import ImageUrl, NdArray

    class Text(BaseDoc):
        text: str = ""
        tags: Dict = {}
        embedding: Optional[NdArray] = None

    class Inner(BaseDoc):
        text: str = ""
        score: float = 0.0

    class Rich(BaseDoc):
        text: str = ""
        number: int = 0
        ratio: float = 0.0
        flag: bool = False
        blob: bytes = b""
        tensor: Optional[NdArray] = None
        embedding: Optional[NdArray] = None
        url: Optional[ImageUrl] = None
        nested: Optional[Inner] = None
        many: Optional[DocList[Inner]] = None
        tags: Dict = {}
        words: List[str] = []
        nothing: Optional[str] = None

    Array, ArrayOfRich = DocList[Text], DocList[Rich]
else:
    from docarray import Document, DocumentArray

    Array = ArrayOfRich = DocumentArray


def make(texts):
    one = Text if IS_V2 else Document
    return Array([one(text=text) for text in texts])


def texts_of(docs):
    return [doc.text for doc in docs]


def rich():
    """Documents with every field that their DocArray version has."""
    return ArrayOfRich(rich_v2() if IS_V2 else rich_v1())


def rich_v2():
    full = Rich(
        text="h\u00e9llo \u4f60\u597d", number=-7, ratio=0.1, flag=True, blob=b"\x00\xff\x80",
        tensor=np.arange(24, dtype="uint8").reshape(2, 3, 4), embedding=np.linspace(0, 1, 5, dtype="float32"),
        url="https://example.com/a.png", nested=Inner(text="in", score=0.5),
        many=DocList[Inner]([Inner(text="a", score=1.5), Inner(text="b")]),
        tags={"page": 3, "deep": {"list": [1, "two", None, 2.5, {"three": True}]}, "": "empty"},
        words=["a", "", "b"],
    )
    return [full, Rich()]


def rich_v1():
    fields = dict(
        granularity=1, adjacency=2, parent_id="parent", weight=0.25, uri="https://example.com/a.png",
        modality="text", mime_type="text/plain", offset=1.5, location=[1.0, 2.0, 3.5],
        embedding=np.linspace(0, 1, 5, dtype="float32"),
        tags={"page": 3, "deep": {"list": [1, "two", None, 2.5, {"three": True}]}, "": "empty"},
    )
    full = Document(text="h\u00e9llo \u4f60\u597d", **fields)
    full.scores["cosine"].value = 0.5
    full.scores["cosine"].op_name = "op"
    full.scores["cosine"].description = "why"
    full.evaluations["recall"].value = 0.75
    full.chunks = [Document(text="chunk", chunks=[Document(blob=b"\x00\xff")])]
    full.matches = [Document(tensor=np.arange(6, dtype="int64").reshape(2, 3), tags={"rank": 1})]
    tensor = Document(tensor=np.arange(24, dtype="uint8").reshape(2, 3, 4), embedding=np.eye(3))
    return [full, tensor, Document(blob=b"\x00\xff\x80", embedding=[1.0, 2.0]), Document()]


def differences(sent, back):
    """Documents that are not, field by field, what was sent."""
    # The client's own reading changes what is deep inside a document, so what was sent is read by it too.
    sent = [type(doc).from_protobuf(doc.to_protobuf()) for doc in sent]
    sent, back = [[doc.to_protobuf() for doc in docs] for docs in (sent, back)]
    wrong = [f"{s} became {b}" for s, b in zip(sent, back) if s != b]
    return wrong + ([] if len(sent) == len(back) else [f"{len(sent)} became {len(back)}"])


def run(cases):
    """Runs each case, and prints what they give as one line of JSON. A case that raises gives what it raised."""
    told = {}
    for name, case in cases.items():
        try:
            told[name] = asyncio.run(case()) if asyncio.iscoroutinefunction(case) else case()
        except Exception as error:
            told[name] = {"raised": type(error).__name__, "text": str(error)}
    sys.stdout.flush()
    print("\n" + json.dumps(told), flush=True)
