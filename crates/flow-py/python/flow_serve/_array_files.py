"""Methods of `DocumentArray` and `Document` that read and write files, and run functions over documents.

`attach` puts them into the native classes.
"""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Callable, Iterator
from typing import IO, Any, Union

from ._native import Document, DocumentArray

File = Union[str, "os.PathLike[str]", IO[Any]]

#: The name of DocArray for the format of `to_bytes`.
PROTOCOL = "protobuf-array"

#: Modules of Python that compress.
COMPRESSIONS = ("gzip", "bz2", "lzma")


def save_binary(self: DocumentArray, file: File, protocol: str = PROTOCOL, compress: str | None = None) -> None:
    """Writes the documents to a file. DocArray reads it with ``protocol='protobuf-array'``.

    :param file: a path, or a file that is open for bytes
    :param compress: ``gzip``, ``bz2`` or ``lzma``
    """
    data, module = self.to_bytes(), _compression(protocol, compress)
    with _opened(file, "wb") as stream:
        stream.write(data if module is None else module.compress(data))


def load_binary(file: File | bytes, protocol: str = PROTOCOL, compress: str | None = None) -> DocumentArray:
    """The documents of a file that :meth:`save_binary` wrote, or DocArray with ``protocol='protobuf-array'``.

    :param file: a path, a file that is open for bytes, or the bytes themselves
    :param compress: how it was compressed: ``gzip``, ``bz2`` or ``lzma``
    """
    module = _compression(protocol, compress)
    if isinstance(file, bytes):
        data = file
    else:
        with _opened(file, "rb") as stream:
            data = stream.read()
    return DocumentArray.from_bytes(data if module is None else module.decompress(data))


def save_json(self: DocumentArray, file: File, encoding: str = "utf-8") -> None:
    """Writes the documents to a file of JSON."""
    with _opened(file, "w", encoding=encoding) as stream:
        stream.write(self.to_json())


def load_json(file: File, encoding: str = "utf-8") -> DocumentArray:
    """The documents of a file of JSON."""
    with _opened(file, "r", encoding=encoding) as stream:
        return DocumentArray.from_json(stream.read())


def save_csv(self: DocumentArray, file: File, flatten_tags: bool = True, encoding: str = "utf-8") -> None:
    """Writes the documents to a file of CSV, a row for each. Tags are columns such as ``tag__price``, unless they stay one mapping."""
    rows = [_row(document, flatten_tags) for document in self]
    names = list(dict.fromkeys(name for row in rows for name in row))
    with _opened(file, "w", encoding=encoding, newline="") as stream:
        writer = csv.DictWriter(stream, names)
        writer.writeheader()
        writer.writerows(rows)


def from_csv(file: File, field_resolver: dict[str, str] | None = None, encoding: str = "utf-8") -> DocumentArray:
    """A document for each row of a file of CSV. Columns that are no text attributes of documents become tags."""
    renamed = field_resolver or {}
    with _opened(file, "r", encoding=encoding, newline="") as stream:
        rows = list(csv.DictReader(stream))
    return DocumentArray([_document({renamed.get(name, name): value for name, value in row.items()}) for row in rows])


def map_(
    self: DocumentArray, func: Callable[[Document], Any], backend: str = "thread", num_worker: int | None = None, pool: Any = None
) -> Iterator[Any]:
    """What a function returns for each document, in order.

    :param func: the function; in processes, one that can be pickled
    :param backend: ``thread`` for several threads, ``process`` for several processes
    :param num_worker: their number; without it, one for each core
    :param pool: a pool of ``multiprocessing`` to use instead
    """
    with _pool(backend, num_worker, pool) as workers:
        yield from workers.imap(func, list(self))


def apply(
    self: DocumentArray, func: Callable[[Document], Document], backend: str = "thread", num_worker: int | None = None, pool: Any = None
) -> DocumentArray:
    """Replaces each document by what a function returns for it, and returns the array."""
    for place, document in enumerate(list(map_(self, func, backend, num_worker, pool))):
        self[place] = document
    return self


def map_batch(
    self: DocumentArray,
    func: Callable[[DocumentArray], Any],
    batch_size: int,
    backend: str = "thread",
    num_worker: int | None = None,
    shuffle: bool = False,
    pool: Any = None,
) -> Iterator[Any]:
    """What a function returns for each :meth:`batch`, in order."""
    with _pool(backend, num_worker, pool) as workers:
        yield from workers.imap(func, list(self.batch(batch_size, shuffle)))


def apply_batch(
    self: DocumentArray,
    func: Callable[[DocumentArray], DocumentArray],
    batch_size: int,
    backend: str = "thread",
    num_worker: int | None = None,
    shuffle: bool = False,
    pool: Any = None,
) -> DocumentArray:
    """Replaces the documents by those of the same ids that a function returns for each :meth:`batch`, and returns the array."""
    for batch in list(map_batch(self, func, batch_size, backend, num_worker, shuffle, pool)):
        for document in batch:
            self[document.id] = document
    return self


def array_from_protobuf(message: Any) -> DocumentArray:
    """The array of a message of DocArray, or of its bytes."""
    return DocumentArray.from_bytes(_bytes(message))


def document_from_protobuf(message: Any) -> Document:
    """The document of a message of DocArray, or of its bytes."""
    return Document.from_bytes(_bytes(message))


def document_to_protobuf(self: Document) -> bytes:
    """The document as an encoded ``DocumentProto``."""
    return self.to_bytes()


def load_uri_to_blob(self: Document, timeout: float | None = None) -> Document:
    """Reads the file or the URL that `uri` names into `blob`."""
    self.blob = _content(self.uri, timeout)
    return self


def load_uri_to_text(self: Document, charset: str = "utf-8", timeout: float | None = None) -> Document:
    """Reads the file or the URL that `uri` names into `text`."""
    self.text = _content(self.uri, timeout).decode(charset)
    return self


def save_blob_to_file(self: Document, file: File) -> Document:
    """Writes `blob` to a file."""
    with _opened(file, "wb") as stream:
        stream.write(self.blob)
    return self


def convert_blob_to_tensor(self: Document, dtype: str | None = None, count: int = -1, offset: int = 0) -> Document:
    """Sets `tensor` to the numbers whose bytes are in `blob`."""
    import numpy as np

    self.tensor = np.frombuffer(self.blob, dtype=dtype or float, count=count, offset=offset)
    return self


def convert_tensor_to_blob(self: Document) -> Document:
    """Sets `blob` to the bytes of the numbers of `tensor`."""
    self.blob = self.tensor.tobytes()
    return self


def document_match(self: Document, darray: DocumentArray, **options: Any) -> Document:
    """Sets the matches to the nearest documents of an array, as :meth:`DocumentArray.match` does."""
    DocumentArray([self]).match(darray, **options)
    return self


def document_summary(self: Document) -> None:
    """Prints the attributes that the document has, and how many chunks and matches."""
    fields = self.to_dict()
    for name in self.non_empty_fields:
        value = getattr(self, name)
        is_array = hasattr(value, "shape")
        text = f"{len(value)} documents" if name in ("chunks", "matches") else f"{value.dtype} {value.shape}" if is_array else repr(fields.get(name, value))
        print(f"{name:<14}{text if len(text) <= 100 else text[:97] + '...'}")


def attach() -> None:
    """Puts the methods into the native classes."""
    of_array: tuple[Callable[..., Any], ...] = (save_binary, save_json, save_csv, apply, map_batch, apply_batch)
    for method in of_array:
        setattr(DocumentArray, method.__name__, method)
    setattr(DocumentArray, "map", map_)
    setattr(DocumentArray, "load_binary", staticmethod(load_binary))
    setattr(DocumentArray, "load_json", staticmethod(load_json))
    for name in ("from_csv", "load_csv"):
        setattr(DocumentArray, name, staticmethod(from_csv))
    setattr(DocumentArray, "from_protobuf", staticmethod(array_from_protobuf))
    of_document: tuple[Callable[..., Any], ...] = (load_uri_to_blob, load_uri_to_text, save_blob_to_file, convert_blob_to_tensor)
    for method in (*of_document, convert_tensor_to_blob):
        setattr(Document, method.__name__, method)
    setattr(Document, "from_protobuf", staticmethod(document_from_protobuf))
    setattr(Document, "to_protobuf", document_to_protobuf)
    setattr(Document, "match", document_match)
    setattr(Document, "summary", document_summary)


def _compression(protocol: str, name: str | None) -> Any:
    """The module that compresses, if one is asked for."""
    from importlib import import_module

    if protocol != PROTOCOL:
        raise ValueError(f"`protocol` is `{protocol}`; documents are written as `{PROTOCOL}` only, which DocArray reads and writes too")
    if name is None:
        return None
    if name not in COMPRESSIONS:
        raise ValueError(f"`compress` is `{name}`; there are {', '.join(f'`{it}`' for it in COMPRESSIONS)}")
    return import_module(name)


def _opened(file: Any, mode: str, **options: Any) -> contextlib.AbstractContextManager[Any]:
    """A file by its path; a file that is open already stays so."""
    if hasattr(file, "read") or hasattr(file, "write"):
        return contextlib.nullcontext(file)
    opened: contextlib.AbstractContextManager[Any] = open(file, mode, **options)
    return opened


def _row(document: Document, flatten_tags: bool) -> dict[str, Any]:
    row = document.to_dict()
    if flatten_tags:
        row.update({f"tag__{name}": value for name, value in row.pop("tags", {}).items()})
    return row


def _document(row: dict[str, str]) -> Document:
    fields: dict[str, Any] = {name: value for name, value in row.items() if name in ("id", "text", "uri", "mime_type", "modality") and value}
    tags = {name[len("tag__") :] if name.startswith("tag__") else name: value for name, value in row.items() if name not in fields and value}
    return Document(**fields, tags=tags)


@contextlib.contextmanager
def _pool(backend: str, workers: int | None, given: Any) -> Iterator[Any]:
    """A pool of threads or processes; one that is given stays open."""
    if given is not None:
        yield given
        return
    import multiprocessing.pool

    if backend not in ("thread", "process"):
        raise ValueError(f"`backend` is `{backend}`; there are `thread` and `process`")
    with multiprocessing.pool.ThreadPool(workers) if backend == "thread" else multiprocessing.Pool(workers) as pool:
        yield pool


def _bytes(message: Any) -> bytes:
    data: bytes = message if isinstance(message, bytes) else message.SerializeToString()
    return data


def _content(uri: str, timeout: float | None) -> bytes:
    if uri.partition(":")[0] not in ("http", "https", "data"):
        if not os.path.exists(uri):
            raise FileNotFoundError(f"`{uri}` is no file and no URL")
        with open(uri, "rb") as file:
            return file.read()
    from urllib.request import Request, urlopen

    options: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
    with urlopen(Request(uri, headers={"User-Agent": "flow"}), **options) as response:
        content: bytes = response.read()
        return content
