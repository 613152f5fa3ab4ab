from jina import Executor, requests


class TextEncoder(Executor):
    @requests
    def encode(self, docs, **kwargs):
        pass
