"""Prints the seconds that `client.post` needs for 10,000 small documents, posted in several ways: `python_client.py PORT`

It runs with stock Jina's Python, and through `flow python` with ours. See `cargo xtask bench python`.
"""
import statistics
import sys
import time

from docarray import Document
from jina import Client

ROUNDS = 7
COUNT = 10_000
client = Client(port=int(sys.argv[1]))
documents = [Document(text=f"hello {number}") for number in range(COUNT)]


def generator():
    for number in range(COUNT):
        yield Document(text=f"hello {number}")


def post_list():
    return len(client.post("/any", documents))


def post_list_and_read():
    return len([doc.text for doc in client.post("/any", documents)])


def post_generator():
    return len(client.post("/any", generator))


for name, post in {
    "a list": post_list,
    "a list, and the texts are read": post_list_and_read,
    "a generator": post_generator,
}.items():
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        assert post() == COUNT
        seconds.append(time.perf_counter() - started)
    print(f"{name}: {statistics.median(seconds):.4f}")
