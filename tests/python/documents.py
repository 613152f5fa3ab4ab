"""Proves what documents do in Python, on the native module alone. Fails with the line that does not hold."""

import copy
import gc
import pickle

import numpy as np

from flow_serve import Document, DocumentArray, NamedScore


def raises(kind, call, part):
    try:
        call()
    except kind as error:
        assert part in str(error), f"{error} does not say {part!r}"
    else:
        raise AssertionError(f"no {kind.__name__}")


# Attributes, as keywords and by assignment.
doc = Document(text="hello", tags={"a": 1}, uri="file.png", weight=0.5, unknown="x")
assert doc.text == doc.content == "hello" and doc.content_type == "text"
assert doc.tags == {"a": 1, "unknown": "x"}
assert (doc.uri, doc.weight, doc.mime_type, doc.location) == ("file.png", 0.5, "", [])
assert len(doc.id) == 32 and Document().id != Document().id
doc.offset, doc.location, doc.modality, doc.mime_type = 3.0, [0, 5], "text", "text/plain"
assert (doc.offset, doc.location, doc.modality, doc.mime_type) == (3.0, [0.0, 5.0], "text", "text/plain")
doc.id = "own"
assert doc.id == "own"

# Text, blob and tensor exclude each other.
doc.blob = b"\x00\xff"
assert (doc.text, doc.blob, doc.content_type) == ("", b"\x00\xff", "blob")
doc.tensor = np.arange(6).reshape(2, 3)
assert (doc.blob, doc.content_type) == (b"", "tensor")
doc.text = "back"
assert doc.tensor is None and doc.content == "back"
doc.text = None
assert doc.content_type is None and doc.content is None

# What is changed in place is kept, and survives the wire.
doc = Document(text="x")
doc.tags["k"] = [1, {"deep": None}]
doc.embedding = np.zeros(3, dtype=np.float32)
doc.embedding[1] = 7
doc.scores["cosine"].value = 0.25
doc.scores["other"] = NamedScore(value=1, op_name="op")
doc.chunks.append(Document(text="chunk"))
doc.chunks[0].text = "changed"
doc.matches = [Document(text="m1"), Document(text="m2")]
again = Document.from_bytes(doc.to_bytes())
assert again.tags == {"k": [1.0, {"deep": None}]} and isinstance(again.tags["k"][0], float)
assert again.embedding.tolist() == [0, 7, 0] and again.embedding.dtype == np.float32
assert again.scores["cosine"].value == 0.25 and again.scores["other"].op_name == "op"
assert again.chunks[0].text == "changed"
assert (again.chunks[0].parent_id, again.chunks[0].granularity) == (doc.id, 1)
assert again.matches.texts == ["m1", "m2"] and again.matches[1].adjacency == 1
assert again == doc and again is not doc
assert not again.embedding.flags.writeable
raises(ValueError, lambda: Document(chunks=[doc]).to_bytes() and doc.chunks.append(doc) or doc.to_bytes(), "itself")

# Every type of array that the wire has.
for kind in ["float64", "float32", "float16", "int64", "int8", "uint8", "bool", ">f4"]:
    value = np.arange(6).reshape(3, 2).astype(kind)
    back = Document.from_bytes(Document(tensor=value).to_bytes()).tensor
    assert back.dtype == value.dtype and (back == value).all(), kind
assert Document.from_bytes(Document(embedding=[1, 2]).to_bytes()).embedding.tolist() == [1, 2]
strided = np.arange(12).reshape(3, 4)[:, ::2]
assert (Document.from_bytes(Document(tensor=strided).to_bytes()).tensor == strided).all()
raises(TypeError, lambda: Document(tensor=[object()]).to_bytes(), "Python objects")
raises(TypeError, lambda: Document(tags={"a": object()}).to_bytes(), "cannot be sent")
raises(ValueError, lambda: Document(tags={"a": float("nan")}).to_bytes(), "not finite")
assert Document.from_bytes(Document(tags={"a": np.float32(0.5), "b": np.arange(2)}).to_bytes()).tags == {"a": 0.5, "b": [0, 1]}



# An array that arrived is a view of the message, which it keeps. It is a copy where the numbers are not aligned.
def arrived(**fields):
    return Document.from_bytes(Document(**fields).to_bytes())


def is_view(array):
    return type(array.base).__name__ == "TensorView"


pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
doc = arrived(tensor=pixels)
array, twin = doc.tensor, copy.copy(doc).tensor
assert is_view(array) and np.shares_memory(array, twin) and doc.tensor is array
raises(ValueError, lambda: array.setflags(write=True), "WRITEABLE")
raises(ValueError, lambda: array.__setitem__((0, 0), 1), "read-only")
assert Document.from_bytes(doc.to_bytes()).tensor.tolist() == pixels.tolist()
del doc, twin
gc.collect()
others = [bytes(64) for _ in range(10_000)]
assert (array == pixels).all() and (pickle.loads(pickle.dumps(array)) == pixels).all()
for kind, size in [("<f2", 2), ("<f4", 4), ("<f8", 8), ("<i2", 2), ("<i4", 4), ("<i8", 8), ("<u2", 2), ("<u4", 4), ("<u8", 8)]:
    value = np.arange(6).reshape(2, 3).astype(kind)
    # With texts of these lengths, the numbers are at each address modulo their size once.
    read = [arrived(text="x" * length, embedding=value).embedding for length in range(size)]
    assert sum(is_view(array) for array in read) == 1, kind
    for array in read:
        assert array.dtype == kind and (array == value).all() and not array.flags.writeable and array.flags.aligned
swapped, text = arrived(tensor=np.arange(3).astype(">f4")).tensor, arrived(tensor=np.array(["ab", "c"])).tensor
assert swapped.tolist() == [0, 1, 2] and text.tolist() == ["ab", "c"] and not is_view(swapped) and not is_view(text)
assert arrived(tensor=np.array(True)).tensor.shape == () and arrived(tensor=np.zeros((2, 0))).tensor.shape == (2, 0)
# The arrays of all documents are one array of its own, which can be changed.
rows = DocumentArray([arrived(embedding=np.ones(3)), arrived(embedding=np.zeros(3))])
rows = DocumentArray.from_bytes(rows.to_bytes()).embeddings
rows /= 2
assert rows.tolist() == [[0.5] * 3, [0.0] * 3]

# Arrays of documents.
docs = DocumentArray(Document(text=str(i), id=f"id{i}") for i in range(5))
assert len(docs) == 5 and docs[0] is docs[0] and docs[-1].text == "4" and docs["id2"].text == "2"
for doc in docs:
    doc.text += "!"
assert docs.texts == ["0!", "1!", "2!", "3!", "4!"]
assert docs[1:3].texts == ["1!", "2!"] and docs[1:3][0] is docs[1]
assert docs[[0, -1]].texts == ["0!", "4!"] and docs[["id1"]].texts == ["1!"]
assert docs[[True, False, True, False, False]].texts == ["0!", "2!"]
assert docs[np.array([True, False, False, False, True])].texts == ["0!", "4!"]
assert docs[np.int64(1)].text == "1!"
assert docs[:, "text"] == docs.texts and docs[0, "text"] == "0!"
assert docs[:2, ["id", "text"]] == [["id0", "id1"], ["0!", "1!"]]
docs[:, "tags"] = [{"n": i} for i in range(5)]
assert docs[3].tags == {"n": 3}
assert "id3" in docs and docs[0] in docs and "none" not in docs and Document() not in docs
raises(IndexError, lambda: docs[5], "document 5 of an array with 5 documents")
raises(KeyError, lambda: docs["none"], "none")
raises(TypeError, lambda: docs.append("text"), "Document")
raises(TypeError, lambda: DocumentArray(["text"]), "expected a `Document`, got `str`")

docs.embeddings = np.arange(10, dtype=np.float32).reshape(5, 2)
assert docs.embeddings.shape == (5, 2) and docs[1].embedding.tolist() == [2, 3]
assert DocumentArray.from_bytes(docs.to_bytes()).embeddings.tolist() == docs.embeddings.tolist()
raises(ValueError, lambda: setattr(docs, "embeddings", np.zeros((4, 2))), "5 documents, but 4 values")
docs.embeddings = None
assert docs.embeddings is None
docs.texts = ["a", "b", "c", "d", "e"]
docs.insert(0, Document(text="first"))
docs.extend([Document(text="last")])
assert docs.pop().text == "last" and docs.pop(0).text == "first"
del docs["id4"], docs[0]
assert docs.texts == ["b", "c", "d"]
docs.sort(key=lambda doc: doc.text, reverse=True)
assert docs.texts == ["d", "c", "b"]
docs.reverse()
docs[0] = Document(text="set")
docs += [Document(text="plus")]
assert (docs + docs).texts == ["set", "c", "d", "plus"] * 2
docs.remove(docs[1])
assert docs.texts == ["set", "d", "plus"]
docs.clear()
assert not docs and docs.texts == []

# Access paths.
root = Document(text="r", chunks=[Document(text="c1", chunks=[Document(text="cc")]), Document(text="c2")], matches=[Document(text="m")])
docs = DocumentArray([root])
for path, expected in [("@r", ["r"]), ("@c", ["c1", "c2"]), ("@cc", ["cc"]), ("@m", ["m"]), ("@r,c", ["r", "c1", "c2"]), ("@c[:1]", ["c1"]), ("@c[-1]", ["c2"])]:
    assert docs[path].texts == expected, path
assert docs["@c", "text"] == ["c1", "c2"] and docs.traverse_flat("c").texts == ["c1", "c2"]
docs["@c"][0].text = "deep"
assert root.chunks[0].text == "deep" and docs[...].texts == ["cc", "deep", "c2", "m", "r"]
raises(ValueError, lambda: docs["@x"], "not an access path")

# Copies, pickles, JSON and dictionaries.
for twin in [copy.copy(root), copy.deepcopy(root), pickle.loads(pickle.dumps(root)), Document(root)]:
    assert twin == root and twin is not root
assert pickle.loads(pickle.dumps(docs))[0] == root
assert Document.from_dict(root.to_dict()) == root and Document.from_json(root.to_json()) == root
assert DocumentArray.from_json(docs.to_json())[0] == root
assert repr(Document(text="x", id="i")) == "<Document ('id', 'text') at i>"
assert Document(text="x", id="i").non_empty_fields == ["id", "text"]
raises(AttributeError, lambda: Document().nothing, "nothing")


class Own(Document):
    @property
    def shout(self):
        return self.text.upper()


assert Own(text="a").shout == "A"
print('"fine"')
