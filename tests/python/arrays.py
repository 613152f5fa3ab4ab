"""Proves what arrays of documents do in Python: search, groups, merging."""
import json
import os
import sys
import tempfile

import numpy as np
from docarray import Document, DocumentArray

rng = np.random.default_rng(0)


def vectors(count, width=8):
    docs = DocumentArray([Document(text=str(number), tags={"even": number % 2 == 0, "number": number}) for number in range(count)])
    docs.embeddings = rng.normal(size=(count, width)).astype("float32")
    return docs


def raises(kind, call, part):
    try:
        call()
    except kind as error:
        assert part in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


# A search finds what NumPy finds.
docs, queries = vectors(50), vectors(3)
left, right = queries.embeddings, docs.embeddings
cosine = 1 - (left @ right.T) / np.outer(np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1))
squares = ((left[:, None] - right[None]) ** 2).sum(axis=2)
for metric, distances in {"cosine": cosine, "sqeuclidean": squares, "euclidean": np.sqrt(squares)}.items():
    found = docs.find(queries, metric=metric, limit=5)
    order = np.argsort(distances, axis=1)[:, :5]
    assert [[int(doc.text) for doc in each] for each in found] == order.tolist(), metric
    scores = [[doc.scores[metric].value for doc in each] for each in found]
    assert np.allclose(scores, np.take_along_axis(distances, order, axis=1), atol=1e-4), metric
one = docs.find(left[0])
assert len(one) == 20 and one[0].text == docs.find(queries)[0][0].text
assert len(docs.find(docs[3])) == 1 and docs.find(docs[3])[0][0].id == docs[3].id
assert docs.find(docs[3:5], exclude_self=True, limit=2)[0][0].id != docs[3].id
assert docs.find(left[0], only_id=True)[0].text == ""
inverted = docs.find(left[0], normalization=(1, 0), limit=50)
assert inverted[0].scores["cosine"].value > 0.99 and abs(inverted[-1].scores["cosine"].value) < 1e-3
raises(ValueError, lambda: docs.find(left[0], metric="manhattan"), "`cosine`, `euclidean` and `sqeuclidean`")
raises(TypeError, lambda: docs.find(left[0], limits=3), "`limits`")

queries.match(docs, limit=3)
assert [len(doc.matches) for doc in queries] == [3, 3, 3]
assert queries[0].matches[0].scores["cosine"].value <= queries[0].matches[1].scores["cosine"].value
assert queries[0].matches[0].adjacency == 1
docs.match(docs, limit=2)
assert docs[7].matches[0].id == docs[7].id and not docs[7].matches[0].matches

# Large arrays are searched in blocks, whose distances are few enough for memory, with the results of a single search.
many, wide = vectors(700, 4), vectors(9000, 4)
at_most = []


def watched(left, right):
    at_most.append(len(left) * len(right))
    return ((left[:, None] - right[None]) ** 2).sum(axis=2)


blocks = wide.find(many, metric=watched, metric_name="d", limit=3)
assert len(at_most) == 2 and max(at_most) <= 4 * 1024 * 1024, at_most
single = [wide.find(each, metric=watched, metric_name="d", limit=3) for each in many.embeddings[460:470]]
assert [docs[:, "id"] for docs in blocks[460:470]] == [docs[:, "id"] for docs in single]

# Filters are those of `when` in a flow file.
assert len(docs.find({"tags__number": {"$lt": 10}})) == 10
assert docs.find({"text": {"$eq": "7"}})[0] is docs[7]
raises(ValueError, lambda: docs.find({"text": {"$foo": 1}}), "$foo")

# Groups, batches and chance.
groups = docs.split_by_tag("even")
assert {key: len(group) for key, group in groups.items()} == {True: 25, False: 25}
assert [len(batch) for batch in docs.batch(20)] == [20, 20, 10]
assert [len(ids) for ids in docs.batch_ids(20)] == [20, 20, 10]
assert len(docs.sample(7, seed=1)) == 7 and docs.sample(7, seed=1)[:, "id"] == docs.sample(7, seed=1)[:, "id"]
assert sorted(docs.shuffle()[:, "text"]) == sorted(docs[:, "text"])

# Columns and paths.
assert docs.get_attributes("text") == docs[:, "text"] == docs.texts
assert docs[:2].get_attributes("text", "tags__number") == [["0", "1"], [0, 1]]
nested = DocumentArray([Document(chunks=[Document(text="a"), Document(text="b")]), Document(chunks=[Document(text="c")])])
assert [len(found) for found in nested.traverse("@c")] == [2, 1]
assert nested["@c"].texts == nested.traverse_flat("@c").texts == ["a", "b", "c"]
assert [len(found) for found in nested.traverse("@r,c")] == [2, 2, 1]

# Merging: the first array wins, and takes what it lacks.
first = DocumentArray([Document(id="x", text="one"), Document(id="y")])
second = DocumentArray([Document(id="x", text="two", weight=2.0, chunks=[Document(id="c")]), Document(id="z")])
first.reduce_all([second])
assert first[:, "id"] == ["x", "y", "z"]
assert (first[0].text, first[0].weight, first[0].chunks[0].id) == ("one", 2.0, "c")

assert DocumentArray.from_list(docs.to_list())[:, "text"] == docs.texts
assert len(DocumentArray.from_bytes(docs.to_protobuf())) == 50

# Files, which DocArray reads and writes as well.
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "docs")
    for compress in (None, "gzip", "bz2", "lzma"):
        docs.save_binary(path, compress=compress)
        assert DocumentArray.load_binary(path, compress=compress).to_bytes() == docs.to_bytes(), compress
    raises(ValueError, lambda: docs.save_binary(path, protocol="pickle-array"), "`protobuf-array`")
    raises(ValueError, lambda: docs.save_binary(path, compress="lz4"), "`gzip`, `bz2`, `lzma`")
    docs.save_json(path)
    assert DocumentArray.load_json(path)[:, "text"] == docs.texts
    table = DocumentArray([Document(id="a", text="one, two", tags={"x": "1"}), Document(id="b", tags={"y": "2"})])
    table.save_csv(path)
    read = DocumentArray.from_csv(path)
    assert [(each.id, each.text, each.tags) for each in read] == [("a", "one, two", {"x": "1"}), ("b", "", {"y": "2"})]
    Document(blob=b"bytes").save_blob_to_file(path)
    assert Document(uri=path).load_uri_to_blob().blob == b"bytes" and Document(uri=path).load_uri_to_text().text == "bytes"
assert Document(uri="data:,hello%20there").load_uri_to_text().text == "hello there"
raises(FileNotFoundError, lambda: Document(uri="/no/such").load_uri_to_text(), "`/no/such` is no file")
assert Document(tensor=np.arange(3.0)).convert_tensor_to_blob().blob == np.arange(3.0).tobytes()
assert Document(blob=np.arange(3.0).tobytes()).convert_blob_to_tensor().tensor.tolist() == [0, 1, 2]

# Functions over documents, on threads.
assert list(docs.map(lambda doc: doc.text, num_worker=2)) == docs.texts
assert [len(each) for each in docs.map_batch(lambda batch: batch, 20)] == [20, 20, 10]


def upper(doc):
    doc.modality = "upper"
    return doc


def marked(batch):
    for doc in batch:
        doc.modality += "!"
    return batch


assert docs.apply(upper) is docs and docs.apply_batch(marked, 20) is docs
assert set(docs[:, "modality"]) == {"upper!"}
raises(ValueError, lambda: list(docs.map(upper, backend="gpu")), "`thread` and `process`")

# Messages, and a single document.
assert DocumentArray.from_protobuf(docs.to_protobuf())[:, "id"] == docs[:, "id"]
assert Document.from_protobuf(docs[0].to_protobuf()).text == docs[0].text
asking = Document(embedding=docs[3].embedding)
assert asking.match(docs, limit=2) is asking and asking.matches[0].id == docs[3].id
asking.summary()
docs.summary()
assert "embedding" in docs._repr_html_()
print(json.dumps("fine"))
