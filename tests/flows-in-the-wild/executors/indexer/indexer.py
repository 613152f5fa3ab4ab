from jina import Executor, requests


class SimpleIndexer(Executor):
    @requests(on='/index')
    def index(self, docs, **kwargs):
        pass

    @requests(on='/search')
    def search(self, docs, **kwargs):
        pass
