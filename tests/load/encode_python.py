"""Texts per second of `SentenceEncoder` of the Python package, on the texts of a file.

    encode_python.py MODEL TEXTS PRECISION [COUNT]

Its last line is the number of texts per second in one call with the default arguments. With COUNT, it is the number of megabytes by
which the process has grown while it encoded that many texts, after the first 10,000. Loading and a warm-up lie outside the clock.
"""
import json
import sys
import time

from flow_serve import SentenceEncoder

WARM_UP = 256
FIRST = 10_000


def resident():
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS:"))


def encode(encoder, texts, count):
    while count > 0:
        encoder.encode(texts)
        count -= len(texts)


if __name__ == "__main__":
    model, path, precision = sys.argv[1:4]
    with open(path, encoding="utf-8") as lines:
        texts = [json.loads(line) for line in lines]
    texts = [text["text"] if isinstance(text, dict) else text for text in texts]
    encoder = SentenceEncoder(model, device="cpu", precision=precision)
    encoder.encode(texts[:WARM_UP])
    if len(sys.argv) == 5:
        encode(encoder, texts, FIRST)
        before = resident()
        encode(encoder, texts, int(sys.argv[4]) - FIRST)
        print(f"{resident() - before:.1f}")
    else:
        started = time.perf_counter()
        encoder.encode(texts)
        print(f"{len(texts) / (time.perf_counter() - started):.1f}")
