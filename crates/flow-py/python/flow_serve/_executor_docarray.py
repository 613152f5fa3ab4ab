"""Hands methods the documents of the real `docarray`, of either generation, and takes them back.

Both sides read the same bytes, so a document crosses as its protobuf message.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

from ._annotations import annotation
from ._native import Document, DocumentArray
from ._parameters import model_of


def adapter(docarray: Any, function: Callable[..., Any]) -> Generation | None:
    """The adapter for a method, or `None` if its module has another generation than its annotations."""
    if hasattr(docarray, "DocList"):
        return _second_generation(docarray, function)
    return FirstGeneration(docarray)


def _second_generation(docarray: Any, function: Callable[..., Any]) -> Generation | None:
    request, response = getattr(function, "__flow_schema__", (None, None))
    taken = request or annotation(function, "docs") or annotation(function, "doc")
    made = _class_of(docarray, response or annotation(function, "return"))
    cls = _class_of(docarray, taken)
    if cls is not None:
        array = taken if _is_class(taken, (docarray.DocList, docarray.DocVec)) else docarray.DocList[cls]
        return SecondGeneration(docarray, array, cls, made)
    if taken is None and model_of(function) is None:
        # The method knows no class of documents: ours has every field.
        return None
    return SecondGeneration(docarray, docarray.DocList[docarray.BaseDoc], None, made)


def _class_of(docarray: Any, annotation: Any) -> Any:
    """The class of documents of an annotation: of an array, of a document, or of what makes documents; `None` if it has none."""
    if typing.get_origin(annotation) is not None:
        # Such as `Iterator[Text]`.
        annotation = next(iter(typing.get_args(annotation)), None)
    if _is_class(annotation, (docarray.DocList, docarray.DocVec)):
        return getattr(annotation, "doc_type", None)
    return annotation if _is_class(annotation, docarray.BaseDoc) else None


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

    def __init__(self, docarray: Any, array: Any, taken: Any, made: Any) -> None:
        from docarray.proto import DocListProto, DocProto

        self.docarray, self.Array = docarray, array
        #: The classes of the documents that the method takes and makes; `None` where it does not say.
        self.input, self.output = taken, made
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

    def pure(self, cls: Any) -> Any:
        """A class of documents, with lists where it has fields of docarray's arrays, which have no JSON schema."""
        try:
            from docarray.utils.create_dynamic_doc_class import create_pure_python_type_model
        except ImportError:
            # Before docarray 0.40, whose arrays have a schema.
            return cls
        return create_pure_python_type_model(cls)

    def _native(self, docs: Any) -> DocumentArray:
        if isinstance(docs, self.docarray.DocVec):
            docs = docs.to_doc_list()
        return DocumentArray.from_bytes(docs.to_protobuf().SerializeToString())


def _both(results: dict[str, Any], docs: DocumentArray) -> tuple[DocumentArray, dict[str, Any]]:
    return docs, results
