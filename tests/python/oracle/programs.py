"""Programs over documents, as plain values that either package can run.

A program is a list of documents, described by mappings, and a list of steps. A step is a tuple: the name of a function
of `steps.py` and its arguments, which are plain values too.
"""

import itertools

import numpy
from hypothesis import strategies as st

#: Numbers that 32 bits hold, as a document's message has them.
NUMBERS = st.sampled_from([0.0, 0.5, 1.0, -2.25, 3.0, 1024.5])
TEXTS = st.sampled_from(["", "a", "b", "hello world", "ünïcode 🙂", "line\nbreak", "{x}"])
NAMES = st.sampled_from(["x", "y", "price", "deep"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), NUMBERS, TEXTS)
TAGS = st.dictionaries(NAMES, st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(NAMES, SCALARS, max_size=2)), max_size=3)
SCORES = st.dictionaries(NAMES, st.fixed_dictionaries({"value": NUMBERS}, optional={"op_name": TEXTS, "ref_id": TEXTS}), max_size=2)
TYPES = ("float32", "float64", "int64", "uint8", "bool")


def array_of(shape, kind):
    """Arrays of a shape and a type, as mappings with their values in lists."""
    size = int(numpy.prod(shape))
    values = st.lists(st.integers(0, 5), min_size=size, max_size=size)
    return values.map(lambda values: {"array": numpy.array(values, dtype=kind).reshape(shape).tolist(), "type": kind})


ARRAYS = st.one_of([array_of(shape, kind) for shape in [(1,), (3,), (2, 2), (2, 1, 2)] for kind in TYPES])
VECTORS = array_of((3,), "float32")

#: Attributes that are set to a value, and how the values are made.
PLAIN = {
    "text": TEXTS,
    "blob": st.sampled_from([b"", b"a", b"\x00\xff"]),
    "tensor": ARRAYS,
    "embedding": VECTORS,
    "uri": st.sampled_from(["", "http://x/y", "noending"]),
    "mime_type": st.sampled_from(["", "text/plain", "image/png"]),
    "modality": TEXTS,
    "weight": NUMBERS,
    "offset": NUMBERS,
    "location": st.lists(NUMBERS, max_size=3),
    "tags": TAGS,
    "scores": SCORES,
    "evaluations": SCORES,
}

#: What a document has one of.
CONTENTS = ("text", "blob", "tensor")

ATTRIBUTES = st.sampled_from(sorted(set(PLAIN) - {"scores", "evaluations"}) + ["id", "granularity", "adjacency", "parent_id", "content"])


def is_ordered(names):
    """Whether DocArray gives the values in the order of the names; it does not if tensors and embeddings are among them."""
    return not {"embedding", "tensor"} <= set(names)




def document(*parts):
    """The description of a document of the descriptions of its parts. `numbered` gives it an id."""
    described = {"id": None}
    for part in parts:
        described.update(part)
    return described


def one_of_them(names):
    return st.one_of([PLAIN[name].map(lambda value, name=name: (name, value)) for name in names])


CONTENT = st.lists(one_of_them(CONTENTS), max_size=1).map(dict)
OTHERS = st.lists(one_of_them(sorted(set(PLAIN) - set(CONTENTS))), max_size=3).map(dict)
LEAVES = st.builds(document, CONTENT, OTHERS)


def holding(inner):
    nested = st.one_of([st.lists(inner, max_size=2).map(lambda docs, name=name: {name: docs} if docs else {}) for name in ("chunks", "matches")])
    return st.builds(document, CONTENT, OTHERS, nested, nested)


SHALLOW = holding(LEAVES)
DOCUMENTS = holding(st.one_of(LEAVES, SHALLOW))

POSITIONS = st.integers(-4, 4)
IDS = st.sampled_from([f"d{number}" for number in range(1, 9)])
BOUNDS = st.one_of(st.none(), st.integers(-4, 4))
SLICES = st.builds(lambda start, stop, step: {"slice": [start, stop, step]}, BOUNDS, BOUNDS, st.sampled_from([None, 1, 2, -1]))
LETTERS = st.sampled_from(["r", "c", "m", "cc", "cm", "mc", "mm"])
PARTS = st.sampled_from(["", "", "[:1]", "[1:]", "[0]", "[-2:]", "[::2]", "0", ":1"])
PATHS = st.lists(st.builds(lambda letters, part: letters + part, LETTERS, PARTS), min_size=1, max_size=2).map(",".join)
MASKS = st.lists(st.booleans(), min_size=1, max_size=5)

#: What selects one document.
ONE = st.one_of(POSITIONS, IDS)
#: What selects several documents.
SEVERAL = st.one_of(
    SLICES,
    MASKS,
    st.lists(POSITIONS, min_size=1, max_size=3),
    st.lists(IDS, min_size=1, max_size=3),
    PATHS.map(lambda path: "@" + path),
    st.just({"ellipsis": True}),
)
#: Several documents of the array itself, each once.
OWN = st.one_of(SLICES, MASKS, st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True), st.lists(IDS, min_size=1, max_size=3, unique=True))

FIELDS = st.sampled_from(["text", "tags__x", "tags__price", "tags__deep__x", "weight", "id", "uri", "modality", "mime_type"])
COMPARISONS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), st.one_of(NUMBERS, TEXTS.filter(lambda text: "{" not in text), st.booleans())),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), NUMBERS),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(st.one_of(NUMBERS, TEXTS), max_size=3)),
    st.tuples(st.just("$exists"), st.booleans()),
    st.tuples(st.just("$regex"), st.sampled_from(["a", "^h", "o w", "b$", ".*"])),
    st.tuples(st.just("$size"), st.integers(0, 3)),
)
CONDITIONS = st.builds(lambda field, comparison: {field: dict([comparison])}, FIELDS, COMPARISONS)
FILTERS = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.builds(lambda name, inner: {name: inner}, st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda inner: {"$not": inner}, inner),
    ),
    max_leaves=3,
)
METRICS = st.sampled_from(["cosine", "euclidean", "sqeuclidean"])


SEVERAL_DOCUMENTS = st.lists(SHALLOW, min_size=1, max_size=2)
#: The name of an attribute, and a value for it.
SETTINGS = st.one_of([st.one_of(PLAIN[name], st.none()).map(lambda value, name=name: (name, value)) for name in sorted(PLAIN)])

STEPS = st.one_of(
    st.tuples(st.just("get"), st.one_of(ONE, SEVERAL)),
    st.tuples(st.just("get_attributes"), st.one_of(ONE, SEVERAL), st.one_of(ATTRIBUTES, IDS, st.lists(ATTRIBUTES, min_size=2, max_size=3, unique=True).filter(is_ordered))),
    st.tuples(st.just("attributes_of"), st.lists(st.one_of(ATTRIBUTES, st.sampled_from(["tags__x", "tags__deep__x"])), min_size=1, max_size=3, unique=True).filter(is_ordered)),
    st.tuples(st.just("set"), st.one_of(st.integers(0, 4), IDS), SHALLOW),
    st.tuples(st.just("set_slice"), SLICES, SEVERAL_DOCUMENTS),
    st.tuples(st.just("set_column"), OWN, st.sampled_from(["text", "weight", "modality"])),
    st.tuples(st.just("delete"), st.one_of(ONE, OWN)),
    st.tuples(st.just("append"), SHALLOW),
    st.tuples(st.just("extend"), SEVERAL_DOCUMENTS),
    st.tuples(st.just("insert"), POSITIONS, SHALLOW),
    st.tuples(st.just("pop"), POSITIONS),
    st.tuples(st.just("remove"), POSITIONS),
    st.tuples(st.just("clear")),
    st.tuples(st.just("plus"), SEVERAL_DOCUMENTS),
    st.tuples(st.just("plus_in_place"), SEVERAL_DOCUMENTS),
    st.tuples(st.just("contains"), IDS),
    st.tuples(st.just("assign"), POSITIONS, SETTINGS),
    st.tuples(st.just("content"), POSITIONS, st.one_of(PLAIN["text"], PLAIN["blob"], PLAIN["tensor"])),
    st.tuples(st.just("append_nested"), POSITIONS, st.sampled_from(["chunks", "matches"]), SHALLOW),
    st.tuples(st.just("assign_nested"), POSITIONS, st.sampled_from(["chunks", "matches"]), SEVERAL_DOCUMENTS),
    st.tuples(st.just("tag"), POSITIONS, NAMES, SCALARS),
    st.tuples(st.just("score"), POSITIONS, NAMES, NUMBERS),
    st.tuples(st.just("pop_attributes"), POSITIONS, st.lists(st.sampled_from(sorted(PLAIN)), min_size=1, max_size=2)),
    st.tuples(st.just("traverse_flat"), PATHS),
    st.tuples(st.just("traverse"), PATHS),
    st.tuples(st.just("filter"), FILTERS),
    st.tuples(st.just("find"), VECTORS, METRICS, st.sampled_from([1, 2, 20]), st.booleans()),
    st.tuples(st.just("match"), METRICS, st.sampled_from([1, 2, 20]), st.booleans()),
    st.tuples(st.just("column"), st.sampled_from(["texts", "blobs", "embeddings", "tensors", "contents"])),
    st.tuples(st.just("set_texts"), st.lists(TEXTS, min_size=1, max_size=4)),
    st.tuples(st.just("set_embeddings"), st.integers(1, 4)),
    st.tuples(st.just("clear_column"), st.sampled_from(["texts", "blobs", "embeddings", "tensors"])),
    st.tuples(st.just("batch"), st.integers(0, 3)),
    st.tuples(st.just("split_by_tag"), st.sampled_from(["x", "price", "deep__x"])),
    st.tuples(st.just("reduce"), SEVERAL_DOCUMENTS),
    st.tuples(st.just("reduce_own"), SLICES),
    st.tuples(st.just("equal"), POSITIONS, POSITIONS),
    st.tuples(st.just("copy"), POSITIONS),
    st.tuples(st.just("through"), st.sampled_from(["dict", "json", "list", "array_json", "bytes", "array_bytes", "pickle"])),
)


def numbered(documents, steps):
    """A program in which no two documents have the same id."""
    ids = itertools.count(1)

    def number(value):
        if isinstance(value, dict) and value.get("id", "") is None:
            value["id"] = f"d{next(ids)}"
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        for each in inner:
            number(each)

    number([documents, steps])
    return {"documents": documents, "steps": steps}


PROGRAMS = st.builds(numbered, st.lists(DOCUMENTS, max_size=4), st.lists(STEPS, min_size=1, max_size=8))
