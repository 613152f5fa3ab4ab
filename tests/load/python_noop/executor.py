"""An executor that does nothing, for our runtime and for Jina's."""

from jina import Executor, requests


class Noop(Executor):
    @requests
    def nothing(self, docs, **kwargs):
        pass
