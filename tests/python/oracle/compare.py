"""Runs programs with both packages, and compares what can be seen of them."""

import contextlib
import io
import math

import differences
import docarray
import docarray.score
import flow_serve
import numpy
from steps import Run

FIELDS = """id parent_id granularity adjacency blob tensor mime_type text content content_type weight uri tags offset location
embedding modality evaluations scores chunks matches""".split()


class DocArray:
    """The oracle."""

    Document, DocumentArray, NamedScore = docarray.Document, docarray.DocumentArray, docarray.score.NamedScore

    @staticmethod
    def to_bytes(docs):
        return docs.to_bytes("protobuf-array" if isinstance(docs, docarray.DocumentArray) else "protobuf")

    @staticmethod
    def document_from_bytes(data):
        return docarray.Document.from_bytes(data, "protobuf")

    @staticmethod
    def array_from_bytes(data):
        return docarray.DocumentArray.from_bytes(data, "protobuf-array")


class Ours:
    """Our package."""

    Document, DocumentArray, NamedScore = flow_serve.Document, flow_serve.DocumentArray, flow_serve.NamedScore
    document_from_bytes, array_from_bytes = flow_serve.Document.from_bytes, flow_serve.DocumentArray.from_bytes

    @staticmethod
    def to_bytes(docs):
        return docs.to_bytes()


# Each must read what the other one writes.
DocArray.other, Ours.other = Ours, DocArray


def seen(value):
    """A value of either package, as plain values that can be compared."""
    if isinstance(value, (docarray.Document, flow_serve.Document)):
        fields = {name: seen(getattr(value, name)) for name in FIELDS}
        # `content` is another name of what is there already; the oracle lists it before it is cleared.
        fields["non_empty_fields"] = sorted(set(value.non_empty_fields) - {"content"})
        return {"document": fields}
    if isinstance(value, (docarray.score.NamedScore, flow_serve.NamedScore)):
        return {name: seen(getattr(value, name)) for name in ("value", "op_name", "description", "ref_id")}
    if isinstance(value, numpy.ndarray):
        return {"array": value.tolist(), "type": str(value.dtype)}
    if isinstance(value, (docarray.DocumentArray, flow_serve.DocumentArray, list, tuple)):
        return [seen(each) for each in value]
    if isinstance(value, dict):
        return {str(key): seen(each) for key, each in value.items()}
    if isinstance(value, numpy.generic):
        return seen(value.item())
    if isinstance(value, float):
        return "nan" if math.isnan(value) else round(value, 4)
    return value


def run(api, program):
    """What can be seen of each step: its result and the documents after it. A step that fails ends the program."""
    state = Run(api, program["documents"])
    log = [(None, seen(state.docs))]
    for name, *arguments in program["steps"]:
        try:
            result = seen(getattr(state, name)(*arguments))
        except Exception as error:
            return log, (name, error)
        log.append((result, seen(state.docs)))
    return log, None


def difference(program):
    """The first step that differs, with what was seen of it in DocArray and here; `None` if none does."""
    # Comparing embeddings, DocArray prints them.
    with contextlib.redirect_stdout(io.StringIO()):
        (theirs, refused), (ours, failed) = run(DocArray, program), run(Ours, program)
    for place, (one, other) in enumerate(zip(theirs, ours)):
        if one != other:
            return place, one, other
    if (refused is None) == (failed is None) or (failed is None and differences.is_refused(*refused)):
        return None
    return min(len(theirs), len(ours)), refused, failed
