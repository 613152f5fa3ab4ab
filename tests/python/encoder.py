"""Proves that the encoder gives the vectors of sentence-transformers: `encoder.py TEXTS VECTORS MODEL`."""
import asyncio
import json
import os
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

from flow_serve import LangChainEmbeddings, SentenceEncoder
from flow_serve.exceptions import NotSupportedError

with open(sys.argv[1], encoding="utf-8") as lines:
    texts = [json.loads(line) for line in lines]
texts = [text["text"] if isinstance(text, dict) else text for text in texts]
expected = np.fromfile(sys.argv[2], dtype="<f4").reshape(len(texts), -1)

encoder = SentenceEncoder("sentence-transformers/all-MiniLM-L6-v2", device="cpu")
assert (encoder.device, encoder.get_sentence_embedding_dimension(), encoder.max_seq_length) == ("cpu", 384, 256)
vectors = encoder.encode(texts)
assert vectors.shape == expected.shape and vectors.dtype == np.float32 and vectors.flags.writeable
cosines = (vectors * expected).sum(axis=1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(expected, axis=1)
assert cosines.min() > 0.999999, cosines.min()

# The size of a batch, and other threads, change nothing; one text has one dimension.
assert np.allclose(encoder.encode(texts, batch_size=3), vectors, atol=1e-6)
assert encoder.encode(texts[0]).shape == (384,)
assert encoder.encode([]).shape == (0, 384)
assert np.allclose(encoder.encode(texts, show_progress_bar=True), vectors, atol=1e-6)
rows = encoder.encode(texts[:2], convert_to_numpy=False)
assert isinstance(rows, list) and rows[1].shape == (384,)
results = []
threads = [threading.Thread(target=lambda: results.append(encoder.encode(texts[:8]))) for _ in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert len(results) == 4 and all(np.allclose(each, vectors[:8], atol=1e-6) for each in results)

# The arguments of sentence-transformers, by position and by name.
assert np.allclose(encoder.encode(texts[:3], None, None, 2, False, "sentence_embedding", "float32", True, False), vectors[:3], atol=1e-6)
for options, part in [
    ({"output_value": "token_embeddings"}, "not of tokens"),
    ({"precision": "int8"}, "`float32`"),
    ({"device": "cuda"}, "make another one"),
    ({"pool": {"a": 1}}, "threads can share an encoder"),
]:
    try:
        encoder.encode("a", **options)
    except NotSupportedError as error:
        assert part in str(error), error
    else:
        raise AssertionError(options)
try:
    encoder.encode("a", batchsize=3)
except TypeError as error:
    assert "`batchsize`" in str(error), error
else:
    raise AssertionError("an unknown option was taken")

# Similarity.
few = vectors[:5]
for name, expected_matrix in {
    "cosine": few @ few.T / np.outer(np.linalg.norm(few, axis=1), np.linalg.norm(few, axis=1)),
    "dot": few @ few.T,
    "euclidean": -np.sqrt(((few[:, None] - few[None]) ** 2).sum(axis=2)),
    "manhattan": -np.abs(few[:, None] - few[None]).sum(axis=2),
}.items():
    encoder.similarity_fn_name = name
    assert np.allclose(encoder.similarity(few, few), expected_matrix, atol=2e-3), name
assert encoder.similarity(few[0], few).shape == (1, 5)

# Options.
short = SentenceEncoder(device="cpu", truncate_dim=64, prompts={"query": "query: "}, threads=1)
assert short.encode("a").shape == (64,)
prompted = short.encode("a", prompt_name="query")
assert np.allclose(prompted, short.encode("query: a"), atol=1e-6)
assert np.allclose(prompted, short.encode("a", prompt="query: "), atol=1e-6)
asked = SentenceEncoder(device="cpu", prompts={"query": "query: ", "passage": "passage: "}, threads=1)
assert np.allclose(asked.encode_query("a"), asked.encode("query: a"), atol=1e-6)
assert np.allclose(asked.encode_document("a"), asked.encode("passage: a"), atol=1e-6)
assert np.allclose(encoder.encode_query(texts[0]), vectors[0], atol=1e-6)
assert np.allclose(asked.encode_query("a", None, None, 2), asked.encode("query: a"), atol=1e-6)

# The model's own prompts: a default one, one that replaces it, and none for the texts of a role without one.
with tempfile.TemporaryDirectory() as folder:
    for file in Path(sys.argv[3]).iterdir():
        if file.is_file() and file.name != "config_sentence_transformers.json":
            os.symlink(file.resolve(), Path(folder, file.name))
    for file in ("1_Pooling", "2_Normalize"):
        if Path(sys.argv[3], file).is_dir():
            os.symlink(Path(sys.argv[3], file).resolve(), Path(folder, file))
    own = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    Path(folder, "config_sentence_transformers.json").write_text(json.dumps(own), encoding="utf-8")
    prompted = SentenceEncoder(folder, device="cpu", threads=1)
    plain = encoder.encode(["query: a", "a", "x: a"])
    assert np.allclose(prompted.encode("a"), plain[0], atol=1e-6)
    assert np.allclose(prompted.encode_query("a"), plain[0], atol=1e-6)
    assert np.allclose(prompted.encode_document("a"), plain[1], atol=1e-6)
    assert np.allclose(prompted.encode("a", prompt="x: "), plain[2], atol=1e-6)
    replaced = SentenceEncoder(folder, device="cpu", threads=1, prompts={"query": "x: "})
    assert np.allclose(replaced.encode("a"), plain[2], atol=1e-6)
for wrong, part in [({"device": "tpu"}, "`tpu`"), ({"precision": "f8"}, "`f8`"), ({"model_name_or_path": "/no/such"}, "/no/such")]:
    try:
        SentenceEncoder(**wrong)
    except (ValueError, RuntimeError) as error:
        assert part in str(error), error
    else:
        raise AssertionError(wrong)

# The methods of LangChain's `Embeddings`.
chain = LangChainEmbeddings(encoder)
assert np.allclose(chain.embed_query(texts[0]), vectors[0], atol=1e-6)
assert np.allclose(chain.embed_documents(texts[:2]), vectors[:2], atol=1e-6)
assert np.allclose(asyncio.run(chain.aembed_documents(texts[:2])), vectors[:2], atol=1e-6)
print(json.dumps("fine"))
