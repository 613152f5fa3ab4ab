"""The main job by the stock client: texts in, vectors out, compared with sentence-transformers' own.

    encode.py PORT TEXTS VECTORS
"""
import json
import sys

import numpy as np
from jina import Client

from docs import Array, make, run

client = Client(port=int(sys.argv[1]))
with open(sys.argv[2], encoding="utf-8") as lines:
    TEXTS = [json.loads(line)["text"] for line in lines]
WANTED = np.fromfile(sys.argv[3], dtype="<f4").reshape(len(TEXTS), -1)
# To stock encoders an empty text is no text.
IS_TEXT = [text != "" for text in TEXTS]
TEXTS, WANTED = [text for text in TEXTS if text], WANTED[IS_TEXT]


def vectors(docs):
    return np.stack([np.asarray(doc.embedding) for doc in docs])


def encoded():
    docs = client.post(
        "/encode", make(TEXTS), request_size=32, return_type=Array, results_in_order=True, show_progress=True
    )
    got = vectors(docs)
    cosine = (got * WANTED).sum(1) / np.linalg.norm(got, axis=1) / np.linalg.norm(WANTED, axis=1)
    return {
        "texts": [doc.text for doc in docs] == TEXTS,
        "shape": list(got.shape),
        "dtype": str(got.dtype),
        "cosine": float(cosine.min()),
        "difference": float(np.abs(got - WANTED).max()),
    }


def types():
    of_type = {}
    for name in ("f16", "int8", "uint8", "binary", "ubinary"):
        docs = client.post(
            "/encode", make(TEXTS[:8]), parameters={"embedding_type": name}, return_type=Array, results_in_order=True
        )
        got = vectors(docs)
        of_type[name] = {"dtype": str(got.dtype), "shape": list(got.shape), "is_right": bool(is_right(name, got))}
    return of_type


def is_right(name, got):
    """Whether these are the numbers that the vectors of sentence-transformers become, but for values near to a limit."""
    wanted = WANTED[:8]
    if name == "f16":
        return np.abs(got.astype("<f4") - wanted).max() < 1e-3
    if name in ("binary", "ubinary"):
        # sentence_transformers.quantize_embeddings
        bits = np.packbits(wanted > 0, axis=1)
        numbers = bits if name == "ubinary" else (bits.astype(int) - 128).astype("int8")
        return (numbers != got).mean() < 0.01
    numbers = np.clip(np.round(127 * wanted / (8 / np.sqrt(wanted.shape[1]))), -127, 127)
    if name == "uint8":
        numbers += 128
    return np.abs(got.astype(int) - numbers).max() <= 1


def without_text():
    docs = client.post("/encode", make(["", "a text"]), return_type=Array, results_in_order=True)
    return [doc.embedding is not None for doc in docs]


def unary():
    docs = client.post("/encode", make(["a text"]), return_type=Array, stream=False)
    return len(docs[0].embedding)


run({case.__name__: case for case in (encoded, types, without_text, unary)})
