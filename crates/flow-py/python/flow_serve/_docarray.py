"""Documents of the package docarray, of both of its generations: they are taken, and given back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flow_serve import _inputs

if TYPE_CHECKING:
    from flow_serve import _native
    from flow_serve._response import Response


class Reader:
    """Reads the documents of replies as the kind of documents that were sent, or as the type that was asked for."""

    def __init__(self, return_type: Any) -> None:
        self._type = return_type
        self._is_singleton = False
        self._kind: str | None = None
        if return_type is not None:
            self._kind = _inputs.foreign_kind(return_type) if isinstance(return_type, type) else None
            if self._kind == "v2":
                self._type, self._is_singleton = _list_type(return_type)

    def saw(self, batch: list[Any]) -> None:
        """Remembers the kind of the documents that are sent, unless `return_type` names one."""
        if self._type is None and batch:
            kind = _inputs.foreign_kind(type(batch[0]))
            if kind == "v2":
                self._type, _ = _list_type(type(batch[0]))
            self._kind = kind

    def read(self, reply: _native.Reply) -> Any:
        """The documents of a reply."""
        if self._kind is None:
            return reply.documents()
        return _decode_v1(reply) if self._kind == "v1" else _decode_v2(reply, self._type)

    def array_of(self, response: Response) -> Any:
        """The documents of a response; a single one if a single one was asked for."""
        docs = response.docs
        return docs[0] if self._is_singleton and len(docs) == 1 else docs

    def document(self, document: _native.Document) -> Any:
        """A document of a stream."""
        if self._kind is None:
            return document
        if self._kind == "v1":
            import docarray
            from docarray.proto.docarray_pb2 import DocumentProto

            of_docarray: Any = docarray.Document
            return of_docarray.from_protobuf(DocumentProto.FromString(document.to_bytes()))
        from docarray.proto import DocProto

        return self._type.doc_type.from_protobuf(DocProto.FromString(document.to_bytes()))

    def joined(self, responses: Iterable[Response]) -> Any:
        """The documents of all responses in one array; a single one if a single one was asked for."""
        joined: Any = None
        for response in responses:
            if joined is None:
                joined = response.docs
            else:
                joined.extend(response.docs)
        if joined is None:
            joined = self._empty()
        return joined[0] if self._is_singleton and len(joined) == 1 else joined

    def _empty(self) -> Any:
        if self._kind == "v1":
            from docarray import DocumentArray

            return DocumentArray()
        if self._kind == "v2":
            return self._type()
        from flow_serve import DocumentArray as Ours

        return Ours()


def _list_type(of: Any) -> tuple[Any, bool]:
    """The `DocList` for a `DocList` or for a class of documents, and whether it was such a class."""
    from docarray import DocList

    if issubclass(of, DocList):
        return of, False
    return DocList[of], True


def _decode_v1(reply: _native.Reply) -> Any:
    import docarray
    from docarray.proto.docarray_pb2 import DocumentArrayProto

    of_docarray: Any = docarray.DocumentArray
    return of_docarray.from_protobuf(DocumentArrayProto.FromString(reply.encoded_documents()))


def _decode_v2(reply: _native.Reply, list_type: Any) -> Any:
    from docarray.proto import DocListProto

    return list_type.from_protobuf(DocListProto.FromString(reply.encoded_documents()))
