"""sentence-transformers without a flow: the tutorial's 10,000 sentences, in calls of 32 as its executor makes them.

    .peers/torch/bin/python tests/load/encode_alone.py MODEL_FOLDER

Its last line is the number of seconds. Needs `cargo xtask setup --only torch`.
"""
import os
import sys
import time

import torch
from sentence_transformers import SentenceTransformer

SENTENCE = "Using a GPU allows you to significantly speed up encoding."
CALL = 32


def encode(model, count):
    texts = [SENTENCE] * count
    started = time.perf_counter()
    with torch.no_grad():
        for first in range(0, count, CALL):
            model.encode(texts[first : first + CALL], batch_size=CALL, show_progress_bar=False)
    return time.perf_counter() - started


if __name__ == "__main__":
    torch.set_num_threads(os.cpu_count())
    model = SentenceTransformer(sys.argv[1], device="cpu")
    encode(model, 320)
    print(f"{encode(model, 10_000):.3f}")
