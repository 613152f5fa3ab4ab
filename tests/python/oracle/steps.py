"""What programs do, with either package. Each function is a step; it returns what can be seen of it."""

import copy
import json
import pickle

import numpy


class Run:
    """A program that runs with one of the packages."""

    def __init__(self, api, documents):
        self.api = api
        self.docs = api.DocumentArray([self.document(described) for described in documents])

    def document(self, described):
        # What a step changes later is not to be a part of the program.
        plain = copy.deepcopy({name: value for name, value in described.items() if name not in ("chunks", "matches")})
        fields = {name: self.value(name, value) for name, value in plain.items()}
        document = self.api.Document(**fields)
        for name in ("chunks", "matches"):
            if name in described:
                setattr(document, name, [self.document(each) for each in described[name]])
        return document

    def several(self, described):
        return [self.document(each) for each in described]

    def value(self, name, value):
        if name in ("scores", "evaluations") and value is not None:
            return {key: self.api.NamedScore(**score) for key, score in value.items()}
        if isinstance(value, dict) and "array" in value:
            return numpy.array(value["array"], dtype=value["type"])
        return value

    def index(self, index):
        if isinstance(index, dict):
            return slice(*index["slice"]) if "slice" in index else ...
        return index

    # Looking.

    def get(self, index):
        return self.docs[self.index(index)]

    def get_attributes(self, index, names):
        return self.docs[self.index(index), names] if self.docs[self.index(index)] else None

    def attributes_of(self, names):
        return self.docs[:, names] if self.docs else None

    def contains(self, id):
        return id in self.docs, len(self.docs), bool(self.docs)

    def traverse_flat(self, paths):
        return self.docs.traverse_flat(paths)

    def traverse(self, paths):
        return list(self.docs.traverse(paths))

    def filter(self, query):
        return self.docs.find(query)

    def find(self, vector, metric, limit, only_id):
        return self.docs.find(self.value("embedding", vector), metric=metric, limit=limit, only_id=only_id)

    def column(self, name):
        return getattr(self.docs, name) if self.docs else None

    def batch(self, size):
        return list(self.docs.batch(size)), list(self.docs.batch_ids(size))

    def split_by_tag(self, tag):
        # DocArray makes `False` of the number 0 of a dictionary. They are equal, but not as texts.
        text = lambda key: repr(float(key) if isinstance(key, (bool, int, float)) else key)
        return sorted(((text(key), group) for key, group in self.docs.split_by_tag(tag).items()), key=lambda pair: pair[0])

    def equal(self, first, second):
        one, other = self.docs[first], self.docs[second]
        return one == other, one == self.api.Document(one, copy=True)

    # Changing the array.

    def set(self, index, described):
        self.docs[index] = self.document(described)

    def set_slice(self, index, described):
        self.docs[self.index(index)] = self.several(described)

    def set_column(self, index, name):
        selected = self.docs[self.index(index)]
        values = [float(place) if name == "weight" else f"{name} {place}" for place in range(len(selected))]
        self.docs[self.index(index), name] = values

    def delete(self, index):
        del self.docs[self.index(index)]

    def append(self, described):
        self.docs.append(self.document(described))

    def extend(self, described):
        self.docs.extend(self.several(described))

    def insert(self, index, described):
        self.docs.insert(index, self.document(described))

    def pop(self, index):
        return self.docs.pop(index)

    def remove(self, index):
        self.docs.remove(self.docs[index])

    def clear(self):
        self.docs.clear()

    def plus(self, described):
        return self.docs + self.several(described)

    def plus_in_place(self, described):
        self.docs += self.several(described)

    def match(self, metric, limit, only_id):
        self.docs.match(self.docs, metric=metric, limit=limit, only_id=only_id)

    def set_texts(self, texts):
        self.docs.texts = texts

    def set_embeddings(self, count):
        self.docs.embeddings = numpy.arange(count * 2, dtype="float32").reshape(count, 2)

    def clear_column(self, name):
        setattr(self.docs, name, None)

    def reduce(self, described):
        return self.docs.reduce(self.api.DocumentArray(self.several(described)))

    def reduce_own(self, index):
        others = self.api.DocumentArray([self.api.Document(each, copy=True) for each in self.docs[self.index(index)]])
        for each in others:
            each.pop("text")
            each.modality = "other"
        return self.docs.reduce_all([others])

    # Changing a document.

    def assign(self, index, setting):
        name, value = setting
        setattr(self.docs[index], name, self.value(name, copy.deepcopy(value)))

    def content(self, index, value):
        document = self.docs[index]
        document.content = self.value("content", value)
        return document.content_type

    def append_nested(self, index, name, described):
        getattr(self.docs[index], name).append(self.document(described))

    def assign_nested(self, index, name, described):
        setattr(self.docs[index], name, self.several(described))

    def tag(self, index, name, value):
        self.docs[index].tags[name] = value

    def score(self, index, name, value):
        self.docs[index].scores[name].value = value

    def pop_attributes(self, index, names):
        self.docs[index].pop(*names)

    def copy(self, index):
        twin = self.api.Document(self.docs[index], copy=True)
        twin.text = "twin"
        return twin

    # Through another form and back.

    def through(self, form):
        api, docs = self.api, self.docs
        ways = {
            "dict": lambda: api.DocumentArray([api.Document.from_dict(each.to_dict()) for each in docs]),
            "json": lambda: api.DocumentArray([api.Document.from_json(each.to_json()) for each in docs]),
            "list": lambda: api.DocumentArray.from_list(docs.to_list()),
            "array_json": lambda: api.DocumentArray.from_json(docs.to_json()),
            "bytes": lambda: api.DocumentArray([api.document_from_bytes(api.to_bytes(each)) for each in docs]),
            "array_bytes": lambda: api.array_from_bytes(api.to_bytes(docs)),
            "pickle": lambda: pickle.loads(pickle.dumps(docs)),
        }
        seen = {
            "dict": lambda: docs.to_dict(),
            "json": lambda: json.loads(docs.to_json()),
            "bytes": lambda: [api.other.document_from_bytes(api.to_bytes(each)) for each in docs],
            "array_bytes": lambda: api.other.array_from_bytes(api.to_bytes(docs)),
        }.get(form, lambda: None)()
        seen, self.docs = without_none(seen), ways[form]()
        # Each package has levels of its own here.
        for docs in (self.docs, seen) if "bytes" in form else (self.docs,):
            count_levels(docs)
        if form in ("dict", "json", "list", "array_json"):
            as_floats(self.docs)
        return seen


def without_none(value):
    """A dictionary with what it has, in all levels."""
    if isinstance(value, dict):
        # DocArray's scores get empty texts when they are looked at.
        absent = (None, "") if "value" in value else (None,)
        return {name: without_none(each) for name, each in value.items() if each not in absent}
    return [without_none(each) for each in value] if type(value) is list else value


def count_levels(docs):
    """Sets the levels of nested documents."""
    for document in docs:
        for chunk in document.chunks:
            chunk.granularity = document.granularity + 1
        for match in document.matches:
            match.adjacency = document.adjacency + 1
        count_levels(document.chunks)
        count_levels(document.matches)


def as_floats(docs):
    """Gives all arrays one type."""
    for document in docs:
        for name in ("tensor", "embedding"):
            array = getattr(document, name)
            if array is not None:
                setattr(document, name, numpy.asarray(array, dtype="float32"))
        as_floats(document.chunks)
        as_floats(document.matches)
