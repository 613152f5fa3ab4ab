"""An executor with a class of documents of docarray 0.40."""

from typing import Optional

import numpy as np
from docarray import BaseDoc, DocList
from docarray.typing import NdArray
from jina import Executor, requests


class Text(BaseDoc):
    text: str = ""
    embedding: Optional[NdArray] = None


class Encoder(Executor):
    @requests(on="/encode")
    def encode(self, docs: DocList[Text], **kwargs) -> DocList[Text]:
        for doc in docs:
            assert isinstance(doc, Text), type(doc)
            doc.embedding = np.full(3, len(doc.text), dtype="float32")
        return docs
