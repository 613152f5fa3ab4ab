//! Documents and arrays of documents as Python objects: what they hold, and how they leave Python.
//!
//! The two contain each other, so they share a file. Their methods, as Python sees them, are in `document_class.rs` and
//! `array_class.rs`.

use flow_core::{DocArrayVersion, Document};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value};

use super::errors::{bad_document, not_a_document, out_of_range};
use super::fields::{ArrayField, FIELDS, Nested, Relation, Scores};
use super::numpy;
use super::scores;
use super::values::{Numbers, map_from_python, map_to_python};

/// The unit of data: a text, bytes or an array, with tags, an embedding and nested documents.
#[pyclass(module = "flow_serve", name = "Document", subclass, weakref)]
#[derive(Debug, Default)]
pub(crate) struct PyDocument {
    /// Everything but what `held` replaces.
    pub(super) inner: Document,
    pub(super) held: PythonParts,
}

/// The parts that Python has, and may change without telling.
#[derive(Debug, Default)]
pub(super) struct PythonParts {
    pub(super) tags: Option<Py<PyDict>>,
    scores: Option<Py<PyDict>>,
    evaluations: Option<Py<PyDict>>,
    embedding: Option<Array>,
    pub(super) tensor: Option<Array>,
    chunks: Option<Py<PyDocumentArray>>,
    matches: Option<Py<PyDocumentArray>>,
}

/// An array, and whether the document's bytes have it too.
#[derive(Debug)]
pub(super) struct Array {
    object: Py<PyAny>,
    is_received: bool,
}

impl PyDocument {
    pub(crate) fn from_rust(inner: Document) -> Self {
        Self {
            inner,
            held: PythonParts::default(),
        }
    }

    /// The document with everything that Python changed.
    pub(super) fn assemble(slf: &Bound<'_, Self>, depth: usize) -> PyResult<Document> {
        let (mut inner, held) = {
            let this = slf.borrow();
            (this.inner.clone(), this.held.clone_ref(slf.py()))
        };
        held.write(slf.py(), &mut inner, depth)?;
        Ok(inner)
    }

    pub(super) fn text_of(&self) -> String {
        match self.held.tensor {
            Some(_) => String::new(),
            None => self.inner.text(),
        }
    }

    pub(super) fn tags_of<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(tags) = &self.held.tags {
            return Ok(tags.bind(py).clone());
        }
        let tags = map_to_python(py, &self.inner.tags(), self.numbers())?;
        self.held.tags = Some(tags.clone().unbind());
        Ok(tags)
    }

    pub(super) fn id_of(&self) -> String {
        self.inner.id()
    }

    /// What numbers of its tags become: those of the first version are all floats.
    fn numbers(&self) -> Numbers {
        match self.inner.version() {
            DocArrayVersion::V1 => Numbers::Floats,
            DocArrayVersion::V2 => Numbers::AsWritten,
        }
    }

    pub(super) fn set_all(slf: &Bound<'_, Self>, fields: &Bound<'_, PyDict>) -> PyResult<()> {
        for (name, value) in fields {
            let name: String = name.extract()?;
            if value.is_none() {
                continue;
            }
            if name == "content" || FIELDS.contains(&name.as_str()) {
                slf.setattr(name.as_str(), value)?;
            } else {
                // Keywords that are no attribute.
                let tags = slf.borrow_mut().tags_of(slf.py())?;
                tags.set_item(name, value)?;
            }
        }
        Ok(())
    }

    pub(super) fn array<'py>(
        slf: &Bound<'py, Self>,
        field: ArrayField,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let received = {
            let this = slf.borrow();
            if let Some(array) = this.held.array(field) {
                return Ok(array.object.bind(py).clone());
            }
            match field {
                ArrayField::Embedding => this.inner.embedding(),
                ArrayField::Tensor => this.inner.tensor(),
            }
        };
        let Some(tensor) = received else {
            return Ok(py.None().into_bound(py));
        };
        let object = numpy::to_python(py, &tensor)?;
        *slf.borrow_mut().held.array_mut(field) = Some(Array {
            object: object.clone().unbind(),
            is_received: true,
        });
        Ok(object)
    }

    pub(super) fn set_array(&mut self, field: ArrayField, value: &Bound<'_, PyAny>) {
        if value.is_none() {
            *self.held.array_mut(field) = None;
            // A text or bytes in the place of the tensor stay.
            if field == ArrayField::Embedding || self.inner.tensor().is_some() {
                self.inner.clear(field.name());
            }
            return;
        }
        *self.held.array_mut(field) = Some(Array {
            object: value.clone().unbind(),
            is_received: false,
        });
    }

    /// The array as the document's bytes have it.
    pub(super) fn set_received(&mut self, field: ArrayField, tensor: &flow_core::Tensor) {
        *self.held.array_mut(field) = None;
        match field {
            ArrayField::Embedding => self.inner.set_embedding(tensor),
            ArrayField::Tensor => self.inner.set_tensor(tensor),
        }
    }

    pub(super) fn set_string(&mut self, name: &'static str, text: Option<&str>) -> PyResult<()> {
        self.set_json(name, &text.unwrap_or_default().into())
    }

    pub(super) fn number(&self, name: &'static str) -> f64 {
        let number = self.inner.json_field(name);
        number.and_then(|it| it.as_f64()).unwrap_or_default()
    }

    pub(super) fn set_json(&mut self, name: &'static str, value: &Value) -> PyResult<()> {
        self.inner.set_json_field(name, value).map_err(bad_document)
    }

    pub(super) fn scores_of<'py>(
        &mut self,
        py: Python<'py>,
        which: Scores,
    ) -> PyResult<Bound<'py, PyDict>> {
        let held = self.held.scores(which);
        if let Some(scores) = held {
            return Ok(scores.bind(py).clone());
        }
        let scores = self.inner.json_field(which.name());
        let scores = scores::to_python(py, scores.as_ref())?;
        *self.held.scores(which) = Some(scores.clone().unbind());
        Ok(scores)
    }

    pub(super) fn set_scores_of(
        &mut self,
        py: Python<'_>,
        which: Scores,
        value: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let scores = value.map(scores::from_python).transpose()?;
        let scores = scores::to_python(py, scores.as_ref())?;
        *self.held.scores(which) = Some(scores.unbind());
        Ok(())
    }

    pub(super) fn nested<'py>(
        slf: &Bound<'py, Self>,
        which: Nested,
    ) -> PyResult<Bound<'py, PyDocumentArray>> {
        let mut this = slf.borrow_mut();
        if let Some(array) = this.held.nested(which) {
            return Ok(array.bind(slf.py()).clone());
        }
        let documents = match which {
            Nested::Chunks => this.inner.chunks_mut(),
            Nested::Matches => this.inner.matches_mut(),
        };
        let documents = std::mem::take(documents.map_err(bad_document)?);
        let array = PyDocumentArray::nested(documents, this.nested_in(which));
        let array = Bound::new(slf.py(), array)?;
        *this.held.nested(which) = Some(array.clone().unbind());
        Ok(array)
    }

    pub(super) fn set_nested(
        slf: &Bound<'_, Self>,
        which: Nested,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let nested_in = slf.borrow().nested_in(which);
        let array = Bound::new(slf.py(), PyDocumentArray::nested(Vec::new(), nested_in))?;
        if let Some(value) = value {
            PyDocumentArray::push_all(&array, value)?;
        }
        *slf.borrow_mut().held.nested(which) = Some(array.unbind());
        Ok(())
    }

    fn nested_in(&self, which: Nested) -> Relation {
        match which {
            Nested::Chunks => Relation::ChunksOf {
                id: self.inner.id(),
                granularity: self.inner.granularity(),
            },
            Nested::Matches => Relation::MatchesOf {
                adjacency: self.inner.adjacency(),
            },
        }
    }
}

impl PythonParts {
    fn array(&self, field: ArrayField) -> Option<&Array> {
        match field {
            ArrayField::Embedding => self.embedding.as_ref(),
            ArrayField::Tensor => self.tensor.as_ref(),
        }
    }

    fn array_mut(&mut self, field: ArrayField) -> &mut Option<Array> {
        match field {
            ArrayField::Embedding => &mut self.embedding,
            ArrayField::Tensor => &mut self.tensor,
        }
    }

    fn scores(&mut self, which: Scores) -> &mut Option<Py<PyDict>> {
        match which {
            Scores::Scores => &mut self.scores,
            Scores::Evaluations => &mut self.evaluations,
        }
    }

    pub(super) fn nested(&mut self, which: Nested) -> &mut Option<Py<PyDocumentArray>> {
        match which {
            Nested::Chunks => &mut self.chunks,
            Nested::Matches => &mut self.matches,
        }
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        let dict = |dict: &Option<Py<PyDict>>| dict.as_ref().map(|it| it.clone_ref(py));
        let documents =
            |array: &Option<Py<PyDocumentArray>>| array.as_ref().map(|it| it.clone_ref(py));
        let array = |array: &Option<Array>| {
            array.as_ref().map(|it| Array {
                object: it.object.clone_ref(py),
                is_received: it.is_received,
            })
        };
        Self {
            tags: dict(&self.tags),
            scores: dict(&self.scores),
            evaluations: dict(&self.evaluations),
            embedding: array(&self.embedding),
            tensor: array(&self.tensor),
            chunks: documents(&self.chunks),
            matches: documents(&self.matches),
        }
    }

    /// Sets the fields of a document to what Python made of them.
    fn write(&self, py: Python<'_>, document: &mut Document, depth: usize) -> PyResult<()> {
        if let Some(tags) = &self.tags {
            match tags.bind(py).is_empty() {
                true => document.clear("tags"),
                false => document.set_tags(&map_from_python(tags.bind(py))?),
            }
        }
        for (name, held) in [("scores", &self.scores), ("evaluations", &self.evaluations)] {
            if let Some(scores) = held {
                write_scores(document, name, scores.bind(py))?;
            }
        }
        if let Some(array) = self.embedding.as_ref().filter(|it| !it.is_received) {
            document.set_embedding(&numpy::from_python(array.object.bind(py))?);
        }
        if let Some(array) = self.tensor.as_ref().filter(|it| !it.is_received) {
            document.set_tensor(&numpy::from_python(array.object.bind(py))?);
        }
        if let Some(chunks) = &self.chunks {
            document.set_chunks(nested_to_rust(chunks.bind(py), depth + 1)?);
        }
        if let Some(matches) = &self.matches {
            document.set_matches(nested_to_rust(matches.bind(py), depth + 1)?);
        }
        Ok(())
    }
}

fn write_scores(
    document: &mut Document,
    name: &'static str,
    held: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let scores = scores::from_python(held)?;
    if scores == Value::Object(Map::new()) {
        document.clear(name);
        return Ok(());
    }
    document.set_json_field(name, &scores).map_err(bad_document)
}

/// Documents in order. Indexing and iterating give the documents themselves: changing one changes the array.
#[pyclass(
    module = "flow_serve",
    name = "DocumentArray",
    subclass,
    weakref,
    generic
)]
#[derive(Debug, Default)]
pub(crate) struct PyDocumentArray {
    pub(super) slots: Vec<Slot>,
    nested_in: Relation,
}

/// A document that Python has seen, or has not.
#[derive(Debug)]
pub(super) enum Slot {
    Unseen(Document),
    Seen(Py<PyDocument>),
}

impl PyDocumentArray {
    pub(crate) fn from_rust(documents: impl IntoIterator<Item = Document>) -> Self {
        Self::nested(documents, Relation::Nothing)
    }

    pub(super) fn nested(
        documents: impl IntoIterator<Item = Document>,
        nested_in: Relation,
    ) -> Self {
        Self {
            slots: documents.into_iter().map(Slot::Unseen).collect(),
            nested_in,
        }
    }

    /// The documents with everything that Python changed.
    pub(super) fn assemble(slf: &Bound<'_, Self>, depth: usize) -> PyResult<Vec<Document>> {
        let py = slf.py();
        let len = slf.borrow().slots.len();
        let mut documents = Vec::with_capacity(len);
        for index in 0..len {
            let seen = match slf.borrow().slots.get(index) {
                Some(Slot::Seen(document)) => document.clone_ref(py),
                Some(Slot::Unseen(document)) => {
                    documents.push(document.clone());
                    continue;
                }
                None => break,
            };
            documents.push(PyDocument::assemble(seen.bind(py), depth)?);
        }
        Ok(documents)
    }

    /// The document at an index; `None` behind the last.
    pub(super) fn document<'py>(
        slf: &Bound<'py, Self>,
        index: usize,
    ) -> PyResult<Option<Bound<'py, PyDocument>>> {
        let py = slf.py();
        let mut this = slf.borrow_mut();
        let Some(slot) = this.slots.get_mut(index) else {
            return Ok(None);
        };
        match slot {
            Slot::Seen(document) => Ok(Some(document.bind(py).clone())),
            Slot::Unseen(document) => {
                let object = Bound::new(py, PyDocument::from_rust(std::mem::take(document)))?;
                *slot = Slot::Seen(object.clone().unbind());
                Ok(Some(object))
            }
        }
    }

    pub(super) fn at<'py>(
        slf: &Bound<'py, Self>,
        index: usize,
    ) -> PyResult<Bound<'py, PyDocument>> {
        let len = slf.borrow().slots.len();
        Self::document(slf, index)?.ok_or_else(|| out_of_range(&index, len))
    }

    /// An index that may count from the end.
    pub(super) fn index(slf: &Bound<'_, Self>, index: isize) -> PyResult<usize> {
        let len = slf.borrow().slots.len();
        let from_start = match usize::try_from(index) {
            Ok(index) => Some(index),
            Err(_) => len.checked_sub(index.unsigned_abs()),
        };
        from_start
            .filter(|&it| it < len)
            .ok_or_else(|| out_of_range(&index, len))
    }

    /// The index of the document with this id.
    pub(super) fn position(slf: &Bound<'_, Self>, id: &str) -> Option<usize> {
        let py = slf.py();
        let has_id = |slot: &Slot| match slot {
            Slot::Unseen(document) => document.id() == id,
            Slot::Seen(document) => document.borrow(py).id_of() == id,
        };
        slf.borrow().slots.iter().position(has_id)
    }

    /// All documents as a list.
    pub(super) fn list<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(slf.py());
        let mut index = 0;
        while let Some(document) = Self::document(slf, index)? {
            list.append(document)?;
            index += 1;
        }
        Ok(list)
    }

    /// An array of the documents of a list.
    pub(super) fn of_list<'py>(list: &Bound<'py, PyList>) -> PyResult<Bound<'py, Self>> {
        let array = Bound::new(list.py(), Self::default())?;
        Self::push_all(&array, list.as_any())?;
        Ok(array)
    }

    /// Replaces all documents by those of a list.
    pub(super) fn replace_all(slf: &Bound<'_, Self>, list: &Bound<'_, PyList>) -> PyResult<()> {
        let slots = list.iter().map(|document| {
            let document = document.cast_into::<PyDocument>();
            document
                .map(|it| Slot::Seen(it.unbind()))
                .map_err(PyErr::from)
        });
        let slots = slots.collect::<PyResult<Vec<_>>>()?;
        slf.borrow_mut().slots = slots;
        Ok(())
    }

    pub(super) fn set_at(
        slf: &Bound<'_, Self>,
        index: usize,
        document: &Bound<'_, PyDocument>,
    ) -> PyResult<()> {
        let len = slf.borrow().slots.len();
        let mut this = slf.borrow_mut();
        let slot = this
            .slots
            .get_mut(index)
            .ok_or_else(|| out_of_range(&index, len))?;
        *slot = Slot::Seen(document.clone().unbind());
        Ok(())
    }

    /// Adds documents at the end.
    pub(super) fn push_all(slf: &Bound<'_, Self>, documents: &Bound<'_, PyAny>) -> PyResult<()> {
        if documents.cast::<PyDocument>().is_ok() {
            return Err(PyTypeError::new_err(
                "expected documents, got one document; use `append`",
            ));
        }
        for document in documents.try_iter()? {
            let document = document?;
            let document = document
                .cast::<PyDocument>()
                .map_err(|_| not_a_document(&document))?;
            let len = slf.borrow().slots.len();
            Self::insert_at(slf, len, document)?;
        }
        Ok(())
    }

    pub(super) fn insert_at(
        slf: &Bound<'_, Self>,
        at: usize,
        document: &Bound<'_, PyDocument>,
    ) -> PyResult<()> {
        let nested_in = slf.borrow().nested_in.clone();
        match nested_in {
            Relation::Nothing => {}
            Relation::ChunksOf { id, granularity } => {
                let mut document = document.borrow_mut();
                document.set_parent_id(Some(&id))?;
                document.set_granularity(Some(granularity + 1));
            }
            Relation::MatchesOf { adjacency } => {
                document.borrow_mut().set_adjacency(Some(adjacency + 1));
            }
        }
        slf.borrow_mut()
            .slots
            .insert(at, Slot::Seen(document.clone().unbind()));
        Ok(())
    }
}

/// Maximum number of levels of nested documents. More than any gateway accepts.
const DEPTH_MAX: usize = 64;

/// The document with everything that Python changed.
pub(crate) fn to_rust(document: &Bound<'_, PyDocument>) -> PyResult<Document> {
    PyDocument::assemble(document, 0)
}

/// The documents of an array, all of the version of the first.
pub(crate) fn all_to_rust(array: &Bound<'_, PyDocumentArray>) -> PyResult<Vec<Document>> {
    nested_to_rust(array, 0)
}

/// The same for documents that are nested this deep.
pub(super) fn nested_to_rust(
    array: &Bound<'_, PyDocumentArray>,
    depth: usize,
) -> PyResult<Vec<Document>> {
    if depth > DEPTH_MAX {
        return Err(PyValueError::new_err(format!(
            "documents are nested more than {DEPTH_MAX} levels deep; does one contain itself?"
        )));
    }
    let documents = PyDocumentArray::assemble(array, depth)?;
    let version = documents.first().map(Document::version).unwrap_or_default();
    let documents = documents.into_iter();
    documents.map(|it| as_version(it, version)).collect()
}

/// The document in the format of a version.
pub(super) fn as_version(document: Document, version: DocArrayVersion) -> PyResult<Document> {
    if document.version() == version {
        return Ok(document);
    }
    let json = document.to_json().map_err(bad_document)?;
    Document::from_json(version, &json).map_err(bad_document)
}
