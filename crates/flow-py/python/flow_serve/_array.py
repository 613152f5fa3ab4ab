"""Methods of `DocumentArray` that need no Rust: search, groups, and pictures of arrays.

`attach` puts them into the native class, so that the arrays of chunks and matches have them too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import _native
from ._native import Document, DocumentArray, NamedScore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.floating[Any]]

#: Keeps a distance finite where a vector is zero.
EPSILON = 1e-7

#: Distances that are computed at a time, 16 MB as `float32`. All of two large arrays would not fit into memory.
BLOCK_DISTANCES = 4 * 1024 * 1024

#: Fields that `reduce` does not copy: they say where a document is, or are arrays of their own.
NOT_REDUCED = ("matches", "chunks", "id", "parent_id")


def find(
    self: DocumentArray,
    query: Any = None,
    metric: Any = "cosine",
    limit: int | None = 20,
    metric_name: str | None = None,
    exclude_self: bool = False,
    filter: Any = None,
    only_id: bool = False,
    normalization: tuple[float, float] | None = None,
    **options: Any,
) -> Any:
    """The documents whose embeddings are nearest to those of a query, by a search through all of them.

    :param query: a vector, a matrix, a document or an array; or a filter, such as ``{'tags__price': {'$lt': 10}}``
    :param metric: ``cosine``, ``euclidean`` or ``sqeuclidean``, or a function of two matrices
    :param limit: most documents for each vector
    :param metric_name: the name of the score, if it is not that of the metric
    :param exclude_self: whether documents with the id of the query are left out
    :param filter: the filter, if there is no query
    :param only_id: whether the results have ids and scores only
    :param normalization: what the least and the largest distance become
    :return: an array for a vector or a filter, and a list with an array for each vector otherwise
    """
    _refuse(options, ("batch_size", "use_scipy", "device", "num_worker", "index", "return_root", "on"))
    if isinstance(query, dict) or query is None:
        return _filtered(self, filter if query is None else query, limit, both=isinstance(query, dict) and filter is not None)
    if filter is not None:
        raise ValueError("a search takes no `filter`; filter the array first: `docs.find(filter).find(query)`")
    import numpy as np

    if limit is not None and limit <= 0:
        raise ValueError(f"`limit` is {limit}; it must be at least 1, or None for all documents")
    asked = DocumentArray([query]) if isinstance(query, Document) else query
    vectors = np.asarray(asked.embeddings if isinstance(asked, DocumentArray) else asked)
    is_one = vectors.ndim == 1
    vectors = vectors.reshape(1, -1) if is_one else vectors.reshape(len(vectors), -1)
    most = len(self) if limit is None else min(limit + exclude_self, len(self))
    name = metric_name or (metric if isinstance(metric, str) else metric.__name__)
    distances, places = _nearest(vectors, self.embeddings, metric, most, normalization)
    results = [_results(self, row, at, name, only_id) for row, at in zip(distances, places)]
    if exclude_self and isinstance(asked, DocumentArray):
        results = [_without(found, asker.id, limit) for found, asker in zip(results, asked)]
    return results[0] if is_one else results


def match(
    self: DocumentArray,
    darray: DocumentArray,
    metric: Any = "cosine",
    limit: int | None = 20,
    normalization: tuple[float, float] | None = None,
    metric_name: str | None = None,
    exclude_self: bool = False,
    only_id: bool = False,
    **options: Any,
) -> None:
    """Sets the matches of each document to the nearest documents of another array, as :meth:`find` finds them."""
    if not (self and darray):
        return
    found = find(
        darray,
        self,
        metric=metric,
        limit=limit,
        normalization=normalization,
        metric_name=metric_name,
        exclude_self=exclude_self,
        only_id=only_id,
        **options,
    )
    for document, matches in zip(self, found):
        document.matches = matches


def get_attributes(self: DocumentArray, *names: str) -> list[Any]:
    """The values of an attribute; of several attributes, a list for each."""
    values: list[Any] = self[:, list(names)]
    return values


def traverse(self: DocumentArray, traversal_paths: str, filter_fn: Callable[[Document], bool] | None = None) -> Iterator[Any]:
    """The arrays that access paths lead to, such as the chunks of each document for ``@c``."""
    for path in "".join(traversal_paths.split()).split(","):
        for found in _walk(self, path.lstrip("@")):
            yield found if filter_fn is None else DocumentArray([each for each in found if filter_fn(each)])


def batch(self: DocumentArray, batch_size: int, shuffle: bool = False, show_progress: bool = False) -> Iterator[DocumentArray]:
    """Arrays of ``batch_size`` documents; the last one may be shorter."""
    del show_progress
    for places in _batches(list(range(len(self))), batch_size, shuffle):
        yield self[places]


def batch_ids(self: DocumentArray, batch_size: int, shuffle: bool = False) -> Iterator[list[str]]:
    """Lists of ``batch_size`` ids; the last one may be shorter."""
    yield from _batches([document.id for document in self], batch_size, shuffle)


def split_by_tag(self: DocumentArray, tag: str) -> dict[Any, DocumentArray]:
    """The documents that have a tag, by its value. ``a__b`` is the value ``b`` in the tag ``a``, and ``None`` if it has none.

    Documents without the tag are left out.
    """
    groups: dict[Any, DocumentArray] = {}
    for document in self:
        if "__" in tag or tag in document.tags:
            value = _inside(document.tags, tag.split("__"))
            groups.setdefault(value, DocumentArray()).append(document)
    return groups


def sample(self: DocumentArray, k: int, seed: int | None = None) -> DocumentArray:
    """``k`` documents, chosen at random without repetition; with the same ``seed`` the same ones."""
    from random import Random

    return self[Random(seed).sample(range(len(self)), k)]


def shuffle(self: DocumentArray, seed: int | None = None) -> DocumentArray:
    """The documents in a random order, as another array."""
    return sample(self, len(self), seed)


def reduce(self: DocumentArray, other: DocumentArray) -> DocumentArray:
    """Merges another array into this one: documents with the same id become one, in which this array's fields win."""
    places = {document.id: document for document in self}
    for document in other:
        own = places.get(document.id)
        if own is None:
            self.append(document)
            places[document.id] = document
        else:
            _reduce_document(own, document)
    return self


def reduce_all(self: DocumentArray, others: list[DocumentArray]) -> DocumentArray:
    """Merges other arrays into this one, one after another."""
    for other in others:
        reduce(self, other)
    return self


def to_dict(self: DocumentArray, **_options: Any) -> list[Any]:
    """The documents as mappings that JSON can hold."""
    return self.to_list()


def from_list(values: list[Any]) -> DocumentArray:
    """The array whose documents are these mappings."""
    return DocumentArray.from_json(json.dumps(values))


def to_protobuf(self: DocumentArray, **_options: Any) -> bytes:
    """The documents as an encoded ``DocumentArrayProto``."""
    return self.to_bytes()


def summary(self: DocumentArray) -> None:
    """Prints how many documents there are, and which attributes they have."""
    print(described(self))


def described(self: DocumentArray) -> str:
    """What :meth:`summary` prints."""
    fields = [document.non_empty_fields for document in self]
    counts = Counter(name for names in fields for name in names)
    same = "yes" if len({tuple(sorted(names)) for names in fields}) <= 1 else "no"
    rows = [("Documents", str(len(self))), ("All have the same fields", same)]
    rows += [(f"  {name}", f"{count} of {len(self)}{_kind(self, name)}") for name, count in sorted(counts.items())]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def attach() -> None:
    """Puts the methods into the native class."""
    methods = (batch, batch_ids, find, get_attributes, match, reduce, reduce_all, sample, shuffle, split_by_tag, summary)
    for method in (*methods, to_dict, to_protobuf, traverse):
        setattr(DocumentArray, method.__name__, method)
    for name in ("from_list", "from_dict"):
        setattr(DocumentArray, name, staticmethod(from_list))
    setattr(DocumentArray, "_repr_html_", _html)


def _html(self: DocumentArray) -> str:
    return f"<pre>{described(self)}</pre>"


def _filtered(docs: DocumentArray, query: Any, limit: int | None, both: bool) -> DocumentArray:
    if both:
        raise ValueError("`query` and `filter` are both filters; give one of them")
    if not isinstance(query, dict):
        raise ValueError("`find` needs a query: a vector, documents, or a filter")
    del limit
    return docs[_native.matching(docs, query)]


def _nearest(
    queries: Matrix, candidates: Matrix, metric: Any, most: int, normalization: tuple[float, float] | None
) -> tuple[Matrix, Any]:
    """The distances and the places of the nearest candidates of each query."""
    import numpy as np

    rows = max(1, BLOCK_DISTANCES // max(1, len(candidates)))
    if len(queries) <= rows:
        return _nearest_of_block(queries, candidates, metric, most, normalization)
    starts = range(0, len(queries), rows)
    blocks = [_nearest_of_block(queries[at : at + rows], candidates, metric, most, normalization) for at in starts]
    return np.concatenate([distances for distances, _ in blocks]), np.concatenate([places for _, places in blocks])


def _nearest_of_block(
    queries: Matrix, candidates: Matrix, metric: Any, most: int, normalization: tuple[float, float] | None
) -> tuple[Matrix, Any]:
    import numpy as np

    named = isinstance(metric, str)
    distances: Matrix = _distances(queries, candidates, metric) if named else metric(queries, candidates)
    if most >= distances.shape[1]:
        places = np.argsort(distances, axis=1)
    else:
        places = np.argpartition(distances, most - 1, axis=1)[:, :most]
        order = np.argsort(np.take_along_axis(distances, places, axis=1), axis=1)
        places = np.take_along_axis(places, order, axis=1)
    nearest = np.take_along_axis(distances, places, axis=1)
    if normalization is not None:
        least, largest = distances.min(axis=1, keepdims=True), distances.max(axis=1, keepdims=True)
        low, high = normalization
        scaled = (high - low) * (nearest - least) / (largest - least + EPSILON) + low
        nearest = np.clip(scaled, min(low, high), max(low, high))
    return nearest, places


def _distances(queries: Matrix, candidates: Matrix, metric: str) -> Matrix:
    import numpy as np

    if metric == "cosine":
        lengths = np.outer(np.linalg.norm(queries, axis=1), np.linalg.norm(candidates, axis=1))
        similarity: Matrix = (queries @ candidates.T + EPSILON) / (lengths + EPSILON)
        distances: Matrix = 1 - np.clip(similarity, -1, 1)
        return distances
    if metric not in ("euclidean", "sqeuclidean"):
        raise ValueError(f"there is no metric `{metric}`; there are `cosine`, `euclidean` and `sqeuclidean`, or give a function")
    squares = (candidates**2).sum(axis=1) + (queries**2).sum(axis=1)[:, None] - 2 * queries @ candidates.T
    squares = np.maximum(squares, 0)
    nearest: Matrix = squares if metric == "sqeuclidean" else np.sqrt(squares)
    return nearest


def _results(docs: DocumentArray, distances: Any, places: Any, name: str, only_id: bool) -> DocumentArray:
    results = DocumentArray()
    for place, distance in zip(places.tolist(), distances.tolist()):
        found = docs[place]
        result = Document(id=found.id) if only_id else Document(found, copy=True)
        # Otherwise a document that matches itself would contain itself.
        result.pop("matches")
        result.scores = {**result.scores, name: NamedScore(value=distance)}
        results.append(result)
    return results


def _without(found: DocumentArray, id: str, limit: int | None) -> DocumentArray:
    return DocumentArray([each for each in found if each.id != id][:limit])


def _reduce_document(own: Document, other: Document) -> None:
    have = set(own.non_empty_fields)
    for name in other.non_empty_fields:
        if name not in have and name not in NOT_REDUCED:
            setattr(own, name, getattr(other, name))
    if other.matches:
        reduce(own.matches, other.matches)
    if other.chunks:
        reduce(own.chunks, other.chunks)


def _walk(docs: DocumentArray, path: str) -> Iterator[DocumentArray]:
    if not path:
        yield docs
        return
    step = re.match(r"([rcm])(?:\[([-\d:]*)\]|([-\d:]*))", path)
    if step is None:
        raise ValueError(f"`{path}` is not an access path: `r` means the documents, `c` their chunks, `m` their matches")
    arrays = {"r": [docs], "c": (each.chunks for each in docs), "m": (each.matches for each in docs)}[step[1]]
    for array in arrays:
        yield from _walk(array[_slice(step[2] or step[3] or ":")], path[step.end() :])


def _slice(text: str) -> slice:
    """What the text of a slice, such as ``1:`` or ``2``, means in an access path."""
    bounds = [int(part) if part else None for part in text.split(":")]
    if len(bounds) == 1 and bounds[0] is not None:
        # The last document has no index behind it.
        bounds.append(bounds[0] + 1 if bounds[0] != -1 else None)
    return slice(*bounds)


def _batches(items: list[Any], size: int, shuffle: bool) -> Iterator[list[Any]]:
    if not isinstance(size, int) or size <= 0:
        raise ValueError(f"`batch_size` is {size}; it must be a whole number of at least 1")
    if shuffle:
        from random import shuffle as mix

        mix(items)
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _inside(value: Any, parts: list[str]) -> Any:
    for part in parts:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _kind(docs: DocumentArray, name: str) -> str:
    if name not in ("tensor", "embedding"):
        return ""
    shapes = {getattr(each, name).shape for each in docs if getattr(each, name) is not None}
    return f", shape {shapes.pop()}" if len(shapes) == 1 else ", several shapes"


def _refuse(options: dict[str, Any], without_effect: tuple[str, ...]) -> None:
    for name, value in options.items():
        if name == "on" and value not in (None, "@r"):
            raise ValueError("there are no indices of parts; search `docs['@c']` instead of `on='@c'`")
        if name not in without_effect:
            raise TypeError(f"`find` has no option `{name}`")
