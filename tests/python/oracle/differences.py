"""Where documents of `flow_serve` differ from DocArray 0.21 on purpose. The book lists them in `docs/src/python.md`."""

import contextlib
import io

import numpy

#: A title, what both are asked, DocArray's answer, and ours. Programs avoid what these ask.
ANSWERS = [
    (
        "chunks and matches that are added by `extend` know their parent and their level too",
        lambda api: levels(extended(api)),
        ("", 0),
        ("parent", 1),
    ),
    (
        "the levels of nested documents are as they were sent; DocArray counts them again when it reads them",
        lambda api: [each.granularity for each in read(api, nested(api))["@c,cc"]],
        [1, 2],
        [1, 1],
    ),
    (
        "`-1` in an access path is the last document; in DocArray it is none",
        lambda api: api.DocumentArray([api.Document(id="a"), api.Document(id="b")])["@r[-1]"][:, "id"],
        [],
        ["b"],
    ),
    ("a cleared document keeps its id", lambda api: cleared(api).id, None, "a"),
    (
        "documents of a reversed array are found by their ids",
        lambda api: of_reversed(api),
        "KeyError",
        "b",
    ),
    (
        "a document that was set at a negative position keeps its id when the array grows",
        lambda api: set_at_end(api),
        "new",
        "set",
    ),
    (
        "of a list of positions, those that count from the end mean the array as it was",
        lambda api: without(api, [-2, 3]),
        ["a", "c"],
        ["a", "b"],
    ),
    (
        "the values of attributes come in the order of their names",
        lambda api: named(api, "a")[:, ["embedding", "tensor", "id"]],
        [None, ["a"], None],
        [None, None, ["a"]],
    ),
    ("an empty array has no texts, which is a list too", lambda api: api.DocumentArray().texts, None, []),
    (
        "several attributes of an empty array are as many empty lists",
        lambda api: api.DocumentArray()[:, ["id", "text"]],
        [],
        [[], []],
    ),
    (
        "documents with different tensors are not equal",
        lambda api: api.Document(id="a", tensor=numpy.zeros(2)) == api.Document(id="a", tensor=numpy.ones(2)),
        True,
        False,
    ),
    (
        "arrays of JSON and of dictionaries have 32 bits",
        lambda api: str(api.Document.from_dict({"embedding": [0.5, 1.0]}).embedding.dtype),
        "float64",
        "float32",
    ),
    (
        "dictionaries have what a document has, and no `None`",
        lambda api: len(api.Document(id="a").to_dict()),
        19,
        1,
    ),
    (
        "`weight` and `offset` that were read are the shortest numbers with these 32 bits",
        lambda api: read(api, api.DocumentArray([api.Document(weight=0.1)]))[0].weight,
        0.10000000149011612,
        0.1,
    ),
    (
        "`location` has 32 bits before it is sent, too",
        lambda api: api.Document(location=[0.1]).location,
        [0.1],
        [0.10000000149011612],
    ),
]

#: The steps that make one array of those of all documents.
COLUMNS = ["column", "attributes_of", "get_attributes"]

#: Steps that DocArray refuses and we do not, what DocArray says, and why.
REFUSED = [
    (["get_attributes"], "Unsupported index type", "one document has attributes by a list of names, too"),
    (["filter"], "TypeError(", "a condition that does not fit a value, such as `$size` of a number, is not met"),
    (["filter"], "AttributeError(", "nor is one of a value inside a number or a truth value"),
    (["split_by_tag"], "object has no attribute", "a tag that holds no others has no value in it"),
    (["split_by_tag"], "string indices must be integers", "nor has a text"),
    (["score"], "KeyError(", "a dictionary of scores that was assigned makes a score of each name, too"),
    (COLUMNS, "all input arrays must have the same shape", "arrays of several shapes are a list"),
    (COLUMNS, "Can not stack", "so are arrays of which some documents have none"),
]


def extended(api):
    parent = api.Document(id="parent")
    parent.chunks.extend([api.Document()])
    return parent.chunks[0]


def cleared(api):
    document = api.Document(id="a", text="x")
    document.clear()
    return document


def named(api, names):
    return api.DocumentArray([api.Document(id=name) for name in names])


def of_reversed(api):
    docs = named(api, "ab")
    try:
        docs.reverse()
        return docs["b"].id
    except KeyError:
        return "KeyError"


def set_at_end(api):
    docs = named(api, "ab")
    docs[-1] = api.Document(id="set")
    docs.append(api.Document(id="new"))
    return docs["set"].id


def without(api, positions):
    docs = named(api, "abcd")
    del docs[positions]
    return docs[:, "id"]


def levels(document):
    return document.parent_id, document.granularity


def nested(api):
    # The document is built from the inside out, so the innermost one gets its level before the one around it does.
    return api.DocumentArray([api.Document(chunks=[api.Document(chunks=[api.Document()])])])


def read(api, docs):
    return api.array_from_bytes(api.to_bytes(docs))


def check(theirs, ours):
    """Fails for a difference that is none any more."""
    for title, ask, of_docarray, of_ours in ANSWERS:
        # DocArray prints what it compares.
        with contextlib.redirect_stdout(io.StringIO()):
            answers = ask(theirs), ask(ours)
        assert answers == (of_docarray, of_ours), f"{title}: {answers}"


def is_refused(step, error):
    """Whether DocArray's refusal of a step is one that we do not share."""
    return any(step in steps and text in repr(error) for steps, text, _ in REFUSED)
