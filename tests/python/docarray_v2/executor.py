"""An executor with classes of documents of docarray 0.40, and a class of parameters."""

from typing import List, Optional

import numpy as np
from docarray import BaseDoc, DocList
from docarray.typing import NdArray
from jina import Executor, requests
from pydantic import BaseModel


class Text(BaseDoc):
    text: str = ""
    embedding: Optional[NdArray] = None


class Part(BaseDoc):
    name: str
    price: float = 0.0


class Found(BaseDoc):
    """What a search found."""

    names: List[str]
    first: Optional[Part] = None
    picture: Optional[NdArray[2, 3]] = None


class Assembly(BaseDoc):
    parts: DocList[Part]


class Settings(BaseModel):
    top_k: int = 2


class Encoder(Executor):
    @requests(on="/encode")
    def encode(self, docs: DocList[Text], **kwargs) -> DocList[Text]:
        for doc in docs:
            assert isinstance(doc, Text), type(doc)
            doc.embedding = np.full(3, len(doc.text), dtype="float32")
        return docs

    @requests(on="/find")
    def find(self, docs: DocList[Text], parameters: Settings, **kwargs) -> DocList[Found]:
        def found(name):
            return Found(names=[name] * parameters.top_k, first=Part(name=name))

        return DocList[Found](found(doc.text) for doc in docs)

    @requests(on="/named", request_schema=DocList[Text], response_schema=DocList[Found])
    def named(self, docs, **kwargs):
        return DocList[Found](Found(names=[type(doc).__name__]) for doc in docs)

    @requests(on="/one")
    def one(self, doc: Text, **kwargs) -> Found:
        return Found(names=[doc.text])

    @requests(on="/any")
    def any(self, **kwargs):
        pass


class Assembler(Encoder):
    """Its class with an array of documents has no schema on Jina's runtime with pydantic 2."""

    @requests(on="/assemble")
    def assemble(self, docs: "DocList[Text]", **kwargs) -> "DocList[Assembly]":
        return DocList[Assembly](Assembly(parts=[Part(name=part) for part in doc.text.split()]) for doc in docs)
