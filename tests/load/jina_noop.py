"""Stock Jina with one executor that does nothing: what Jina's own gateway costs.

    .peers/jina-v1/bin/python tests/load/jina_noop.py PORT [PROTOCOL]
"""
import os
import signal
import sys

os.environ.update(JINA_HIDE_SURVEY="1", JINA_OPTOUT_TELEMETRY="1")

from docarray import DocumentArray
from jina import Executor, Flow, requests


class Noop(Executor):
    @requests
    def noop(self, docs: DocumentArray, **kwargs):
        pass


if __name__ == "__main__":
    # Without this Jina's processes outlive a SIGTERM of their parent.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    protocol = sys.argv[2] if len(sys.argv) > 2 else "grpc"
    with Flow(port=int(sys.argv[1]), protocol=protocol).add(uses=Noop) as flow:
        print("ready", flush=True)
        flow.block()
