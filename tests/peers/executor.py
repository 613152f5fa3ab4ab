"""A stock executor, in either version of DocArray; `executor.yml` names it."""
from jina import Executor, requests

from docs import Array


class Stock(Executor):
    @requests(on="/upper")
    def upper(self, docs: Array, **kwargs) -> Array:
        for doc in docs:
            doc.text = doc.text.upper()
        return docs

    @requests(on="/fail")
    def fail(self, docs: Array, **kwargs) -> Array:
        raise ValueError("the stock executor is unwell")

    @requests(on="/parameters")
    def parameters(self, parameters, **kwargs):
        return {key: value for key, value in parameters.items() if key != "__results__"}
