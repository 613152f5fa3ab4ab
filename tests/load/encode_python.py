"""Texts per second of `SentenceEncoder` of the Python package, on the texts of a file.

    encode_python.py rate MODEL TEXTS PRECISION PASSES
    encode_python.py growth MODEL TEXTS PRECISION COUNT

Its last line is a number. `rate`: the texts per second of the median pass; each pass is one call with all texts and the default
arguments. `growth`: the megabytes by which the process has grown while it encoded COUNT texts, after the first 10,000. Loading and a
warm-up lie outside the clock.
"""
import json
import statistics
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


def rate(encoder, texts, passes):
    seconds = []
    for _ in range(passes):
        started = time.perf_counter()
        encoder.encode(texts)
        seconds.append(time.perf_counter() - started)
    return len(texts) / statistics.median(seconds)


def growth(encoder, texts, count):
    encode(encoder, texts, FIRST)
    before = resident()
    encode(encoder, texts, count - FIRST)
    return resident() - before


if __name__ == "__main__":
    what, model, path, precision, number = sys.argv[1:6]
    with open(path, encoding="utf-8") as lines:
        texts = [json.loads(line) for line in lines]
    texts = [text["text"] if isinstance(text, dict) else text for text in texts]
    encoder = SentenceEncoder(model, device="cpu", precision=precision)
    encoder.encode(texts[:WARM_UP])
    measure = {"rate": rate, "growth": growth}[what]
    print(f"{measure(encoder, texts, int(number)):.1f}")
