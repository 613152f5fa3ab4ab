"""Hands methods the documents of the real `docarray`, of either generation, and takes them back.

Both sides read the same bytes, so a document crosses as its protobuf message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._native import Document, DocumentArray
from ._parameters import model_of


def adapter(docarray: Any, function: Callable[..., Any]) -> Generation | None:
    """The adapter for a method, or `None` if its module has another generation than its annotations."""
    if hasattr(docarray, "DocList"):
        return _second_generation(docarray, function)
    return FirstGeneration(docarray)


def _second_generation(docarray: Any, function: Callable[..., Any]) -> Generation | None:
    annotations = getattr(function, "__annotations__", {})
    of_array, of_document = annotations.get("docs"), annotations.get("doc")
    if _is_class(of_document, docarray.BaseDoc):
        return SecondGeneration(docarray, docarray.DocList[of_document])
    if _is_class(of_array, (docarray.DocList, docarray.DocVec)) and getattr(of_array, "doc_type", None):
        return SecondGeneration(docarray, of_array)
    if of_array is None and of_document is None and model_of(function) is None:
        # The method knows no class of documents: ours has every field.
        return None
    return SecondGeneration(docarray, docarray.DocList[docarray.BaseDoc])


def _is_class(annotation: Any, base: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, base)


class Generation:
    """What both generations have in common."""

    def array(self, docs: DocumentArray) -> Any:
        """An array of ours as one of docarray."""
        raise NotImplementedError

    def document(self, doc: Document) -> Any:
        """A document of ours as one of docarray."""
        raise NotImplementedError

    def returned(self, returned: Any, docs: Any) -> Any:
        """What a method returned, with documents of ours."""
        raise NotImplementedError

    def parts(self, matrix: Any, by_name: Any) -> tuple[Any, Any]:
        if matrix is None:
            return None, None
        arrays = {name: self.array(part) for name, part in by_name.items()}
        return list(arrays.values()) if len(arrays) == len(matrix) else [self.array(part) for part in matrix], arrays

    def made(self, item: Any) -> Document:
        if isinstance(item, Document):
            return item
        return Document.from_bytes(item.to_protobuf().SerializeToString())


class FirstGeneration(Generation):
    """DocArray up to 0.21."""

    def __init__(self, docarray: Any) -> None:
        from docarray.proto.docarray_pb2 import DocumentArrayProto, DocumentProto

        self.Array, self.Document = docarray.DocumentArray, docarray.Document
        self.ArrayProto, self.Proto = DocumentArrayProto, DocumentProto

    def array(self, docs: DocumentArray) -> Any:
        return self.Array.from_protobuf(self.ArrayProto.FromString(docs.to_version(1).to_bytes()))

    def document(self, doc: Document) -> Any:
        return self.Document.from_protobuf(self.Proto.FromString(DocumentArray([doc]).to_version(1)[0].to_bytes()))

    def returned(self, returned: Any, docs: Any) -> Any:
        if isinstance(returned, dict):
            # The documents may have been changed in place; results and documents both go back.
            return _both(returned, self._native(docs))
        if returned is None:
            return self._native(docs)
        if isinstance(returned, list) and all(isinstance(doc, self.Document) for doc in returned):
            return self._native(self.Array(returned))
        if isinstance(returned, self.Array):
            return self._native(returned)
        if isinstance(returned, DocumentArray):
            return returned
        raise TypeError(f"The return type must be DocList / Dict / `None`, but getting {returned!r}")

    def _native(self, docs: Any) -> DocumentArray:
        return DocumentArray.from_bytes(docs.to_protobuf().SerializeToString())


class SecondGeneration(Generation):
    """DocArray from 0.30, whose documents have classes."""

    def __init__(self, docarray: Any, array: Any) -> None:
        from docarray.proto import DocListProto, DocProto

        self.docarray, self.Array = docarray, array
        self.ArrayProto, self.Proto = DocListProto, DocProto

    def array(self, docs: DocumentArray) -> Any:
        many = self.docarray.DocList[self.Array.doc_type].from_protobuf(self.ArrayProto.FromString(docs.to_version(2).to_bytes()))
        return many.to_doc_vec() if issubclass(self.Array, self.docarray.DocVec) else many

    def document(self, doc: Document) -> Any:
        return self.Array.doc_type.from_protobuf(self.Proto.FromString(DocumentArray([doc]).to_version(2)[0].to_bytes()))

    def returned(self, returned: Any, docs: Any) -> Any:
        if isinstance(returned, dict):
            return _both(returned, self._native(docs))
        if returned is None:
            return self._native(docs)
        if isinstance(returned, list) and not isinstance(returned, self.docarray.DocList):
            returned = self.docarray.DocList(returned)
        if isinstance(returned, (self.docarray.DocList, self.docarray.DocVec)):
            return self._native(returned)
        if isinstance(returned, DocumentArray):
            return returned
        raise TypeError(f"The return type must be DocList / Dict / `None`, but getting {returned!r}")

    def _native(self, docs: Any) -> DocumentArray:
        if isinstance(docs, self.docarray.DocVec):
            docs = docs.to_doc_list()
        return DocumentArray.from_bytes(docs.to_protobuf().SerializeToString())


def _both(results: dict[str, Any], docs: DocumentArray) -> tuple[DocumentArray, dict[str, Any]]:
    return docs, results
