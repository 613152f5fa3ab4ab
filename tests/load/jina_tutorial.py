"""The tutorial on stock Jina: 10,000 sentences through one sentence-transformers executor on the CPU.

    .peers/jina-v1/bin/python tests/load/jina_tutorial.py MODEL_FOLDER

Its last line is the number of seconds that `post` took. Needs `cargo xtask setup --only torch`.
"""
import os
import sys
import time

os.environ.update(JINA_HIDE_SURVEY="1", JINA_OPTOUT_TELEMETRY="1")

import torch
from docarray import Document, DocumentArray
from jina import Executor, Flow, requests

SENTENCE = "Using a GPU allows you to significantly speed up encoding."


class Encoder(Executor):
    def __init__(self, model: str, **kwargs):
        super().__init__(**kwargs)
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(os.cpu_count())
        self.model = SentenceTransformer(model, device="cpu")

    @requests
    def encode(self, docs: DocumentArray, **kwargs):
        with torch.no_grad():
            docs.embeddings = self.model.encode(docs.texts, batch_size=32, show_progress_bar=False)


def post(flow, count):
    started = time.perf_counter()
    flow.post(on="/encode", inputs=(Document(text=SENTENCE) for _ in range(count)), request_size=32)
    return time.perf_counter() - started


if __name__ == "__main__":
    with Flow().add(uses=Encoder, uses_with={"model": sys.argv[1]}) as flow:
        post(flow, 320)
        seconds = post(flow, 10_000)
    print(f"\n{seconds:.3f}")
