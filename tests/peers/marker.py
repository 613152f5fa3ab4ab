"""A stock executor that leaves its mark, in either version of DocArray; `marker` in `tests/src/bin/` is the same in Rust.

What it does tells which executors a document met, in which order, and with what.
"""
import time
from typing import Dict, List

from jina import Executor, requests

from docs import IS_V2, Array

if IS_V2:
    from docarray import BaseDoc, DocList

    class Marked(BaseDoc):
        # No `Dict`: the stock gateway of this version of DocArray cannot read the schema of one and never gets ready.
        text: str = ""
        number: int = 0
        even: bool = False
        kind: str = ""

    Array = DocList[Marked]


class Marker(Executor):
    def __init__(self, mark: str = "", **kwargs):
        super().__init__(**kwargs)
        self.mark = mark

    @requests(on="/mark")
    def mark_texts(self, docs: Array, parameters: Dict, **kwargs) -> Array:
        time.sleep(parameters.get("delay", 0) / 1000)
        for doc in docs:
            doc.text += self.mark
        return docs

    @requests(on="/tag")
    def tag(self, docs: Array, parameters: Dict, **kwargs) -> Array:
        time.sleep(parameters.get("delay", 0) / 1000)
        for doc in docs:
            doc.tags[self.mark] = True
        return docs

    @requests(on="/seen")
    def seen(self, docs: Array, parameters: Dict, **kwargs) -> Array:
        for doc in docs:
            doc.tags[self.mark] = {key: value for key, value in parameters.items() if key != "__results__"}
        return docs

    @requests(on="/results")
    def results(self, docs: Array, **kwargs) -> Array:
        # Not what it returns: the stock gateway of DocArray v2 starts only if each endpoint takes what the
        # one before it gives.
        return {"mark": self.mark, "count": len(docs)}

    @requests(on="/fail")
    def fail(self, docs: Array, parameters: Dict, **kwargs) -> Array:
        if parameters.get("who") == self.mark:
            raise ValueError("not today")
        return self.mark_texts(docs, {})

    @requests(on="/parts")
    def parts(self, docs: Array, docs_matrix: List[Array] = None, docs_map: Dict[str, Array] = None, **kwargs) -> Array:
        parts = docs_matrix or [docs]
        for doc in parts[0]:
            doc.tags["parts"] = [[other.text for other in part] for part in parts]
            doc.tags["map"] = sorted(docs_map or {})
        return parts[0]

    @requests(on="/drop")
    def drop(self, docs: Array, **kwargs) -> Array:
        return docs[:-1]
