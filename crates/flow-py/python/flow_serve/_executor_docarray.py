"""Hands methods the documents of the real `docarray`, of either generation, and takes them back.

Both sides read the same bytes, so a document crosses as its protobuf message.
"""

from ._native import Document, DocumentArray


def adapter(docarray, function):
    """The adapter for a method, or `None` if its module has another generation than its annotations."""
    if hasattr(docarray, "DocList"):
        return _second_generation(docarray, function)
    return FirstGeneration(docarray)


def _second_generation(docarray, function):
    annotations = getattr(function, "__annotations__", {})
    of_array, of_document = annotations.get("docs"), annotations.get("doc")
    is_class = lambda it, base: isinstance(it, type) and issubclass(it, base)  # noqa: E731
    parameters = annotations.get("parameters")
    if not (isinstance(parameters, type) and hasattr(parameters, "model_fields" if hasattr(parameters, "model_fields") else "__fields__")):
        parameters = None
    if is_class(of_document, docarray.BaseDoc):
        return SecondGeneration(docarray, docarray.DocList[of_document], parameters)
    if is_class(of_array, (docarray.DocList, docarray.DocVec)) and getattr(of_array, "doc_type", None):
        return SecondGeneration(docarray, of_array, parameters)
    if of_array is None and of_document is None and parameters is None:
        # The method knows no class of documents: ours has every field.
        return None
    return SecondGeneration(docarray, docarray.DocList[docarray.BaseDoc], parameters)


class FirstGeneration:
    """DocArray up to 0.21."""

    def __init__(self, docarray):
        from docarray.proto.docarray_pb2 import DocumentArrayProto, DocumentProto

        self.Array, self.Document = docarray.DocumentArray, docarray.Document
        self.ArrayProto, self.Proto = DocumentArrayProto, DocumentProto

    def array(self, docs):
        return self.Array.from_protobuf(self.ArrayProto.FromString(docs.to_version(1).to_bytes()))

    def parts(self, matrix, by_name):
        if matrix is None:
            return None, None
        arrays = {name: self.array(part) for name, part in by_name.items()}
        return list(arrays.values()) if len(arrays) == len(matrix) else [self.array(part) for part in matrix], arrays

    def document(self, doc):
        return self.Document.from_protobuf(self.Proto.FromString(DocumentArray([doc]).to_version(1)[0].to_bytes()))

    def parameters(self, parameters):
        return parameters

    def returned(self, returned, docs):
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

    def made(self, item):
        if isinstance(item, Document):
            return item
        return Document.from_bytes(item.to_protobuf().SerializeToString())

    def _native(self, docs):
        return DocumentArray.from_bytes(docs.to_protobuf().SerializeToString())


class SecondGeneration:
    """DocArray from 0.30, whose documents have classes."""

    def __init__(self, docarray, array, parameters):
        from docarray.proto import DocListProto, DocProto

        self.docarray, self.Array, self.Parameters = docarray, array, parameters
        self.ArrayProto, self.Proto = DocListProto, DocProto

    def array(self, docs):
        many = self.docarray.DocList[self.Array.doc_type].from_protobuf(self.ArrayProto.FromString(docs.to_version(2).to_bytes()))
        return many.to_doc_vec() if issubclass(self.Array, self.docarray.DocVec) else many

    def parts(self, matrix, by_name):
        if matrix is None:
            return None, None
        arrays = {name: self.array(part) for name, part in by_name.items()}
        return list(arrays.values()) if len(arrays) == len(matrix) else [self.array(part) for part in matrix], arrays

    def document(self, doc):
        return self.Array.doc_type.from_protobuf(self.Proto.FromString(DocumentArray([doc]).to_version(2)[0].to_bytes()))

    def parameters(self, parameters):
        return parameters if self.Parameters is None else self.Parameters(**parameters)

    def returned(self, returned, docs):
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

    def made(self, item):
        if isinstance(item, Document):
            return item
        return Document.from_bytes(item.to_protobuf().SerializeToString())

    def _native(self, docs):
        if isinstance(docs, self.docarray.DocVec):
            docs = docs.to_doc_list()
        return DocumentArray.from_bytes(docs.to_protobuf().SerializeToString())


def _both(results, docs):
    return docs, results
