//! The methods of the class `DocumentArray`.

use bytes::Bytes;
use flow_core::{DocArrayVersion, Document, DocumentArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use super::errors::bad_document;
use super::fields::ArrayField;
use super::iterator::DocumentIterator;
use super::json::{from_json, to_json};
use super::objects::{PyDocument, PyDocumentArray, Slot, all_to_rust, as_version};
use super::select;
use super::values::{Numbers, value_to_python};

#[pymethods]
impl PyDocumentArray {
    /// An array of a document, or of the documents of an iterable.
    #[new]
    #[pyo3(signature = (docs = None, **options))]
    fn new(docs: Option<&Bound<'_, PyAny>>, options: Option<&Bound<'_, PyAny>>) -> Self {
        // Python's type checkers read this signature; `__init__` takes the documents, so that classes can extend it.
        let _ = (docs, options);
        Self::default()
    }

    #[pyo3(signature = (docs = None))]
    fn __init__(slf: &Bound<'_, Self>, docs: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(docs) = docs else { return Ok(()) };
        match docs.cast::<PyDocument>() {
            Ok(document) => Self::append(slf, document),
            Err(_) => Self::extend(slf, docs),
        }
    }

    /// An array of `size` empty documents.
    #[staticmethod]
    #[pyo3(signature = (size = 0))]
    fn empty(size: usize) -> Self {
        Self::from_rust((0..size).map(|_| Document::new()))
    }

    /// The number of documents.
    fn __len__(&self) -> usize {
        self.slots.len()
    }

    fn __bool__(&self) -> bool {
        !self.slots.is_empty()
    }

    /// The documents, one after another. They are the documents themselves and no copies.
    fn __iter__(slf: &Bound<'_, Self>) -> DocumentIterator {
        DocumentIterator::new(slf)
    }

    /// A document by its position or id; an array by a slice, a list of positions or ids, a mask or an access path such
    /// as `@c`; with a second index, an attribute of each. Raises `IndexError` or `KeyError` if there is no such document.
    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        select::get(slf, index)
    }

    fn __setitem__(
        slf: &Bound<'_, Self>,
        index: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        select::set(slf, index, value)
    }

    fn __delitem__(slf: &Bound<'_, Self>, index: &Bound<'_, PyAny>) -> PyResult<()> {
        select::delete(slf, index)
    }

    /// Whether the array has this document, or a document with this id.
    fn __contains__(slf: &Bound<'_, Self>, wanted: &Bound<'_, PyAny>) -> PyResult<bool> {
        let id: String = match wanted.cast::<PyDocument>() {
            Ok(document) => document.borrow().id_of(),
            Err(_) => match wanted.cast::<PyString>() {
                Ok(id) => id.extract()?,
                Err(_) => return Ok(false),
            },
        };
        Ok(Self::position(slf, &id).is_some())
    }

    /// Adds a document at the end.
    fn append(slf: &Bound<'_, Self>, document: &Bound<'_, PyDocument>) -> PyResult<()> {
        let len = slf.borrow().slots.len();
        Self::insert_at(slf, len, document)
    }

    /// Adds documents at the end.
    fn extend(slf: &Bound<'_, Self>, documents: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::push_all(slf, documents)
    }

    /// Adds a document before a position.
    fn insert(
        slf: &Bound<'_, Self>,
        index: isize,
        document: &Bound<'_, PyDocument>,
    ) -> PyResult<()> {
        let len = slf.borrow().slots.len();
        let at = match usize::try_from(index) {
            Ok(index) => index.min(len),
            Err(_) => len.saturating_sub(index.unsigned_abs()),
        };
        Self::insert_at(slf, at, document)
    }

    /// Removes a document by its position and returns it. Raises `IndexError` if there is none.
    #[pyo3(signature = (index = -1), text_signature = "($self, index=-1)")]
    fn pop<'py>(slf: &Bound<'py, Self>, index: isize) -> PyResult<Bound<'py, PyDocument>> {
        let at = Self::index(slf, index)?;
        let document = Self::at(slf, at)?;
        slf.borrow_mut().slots.remove(at);
        Ok(document)
    }

    /// Removes the document with the id of this one. Raises `ValueError` if there is none.
    fn remove(slf: &Bound<'_, Self>, document: &Bound<'_, PyDocument>) -> PyResult<()> {
        let id = document.borrow().id_of();
        let at = Self::position(slf, &id)
            .ok_or_else(|| PyValueError::new_err(format!("no document has the id `{id}`")))?;
        slf.borrow_mut().slots.remove(at);
        Ok(())
    }

    /// Removes all documents.
    fn clear(&mut self) {
        self.slots.clear();
    }

    /// Turns the order of the documents around.
    fn reverse(&mut self) {
        self.slots.reverse();
    }

    /// Sorts the documents in place by a function of each.
    #[pyo3(signature = (*, key, reverse = false))]
    fn sort(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, reverse: bool) -> PyResult<()> {
        let list = Self::list(slf)?;
        let options = pyo3::types::PyDict::new(slf.py());
        options.set_item("key", key)?;
        options.set_item("reverse", reverse)?;
        list.call_method("sort", (), Some(&options))?;
        Self::replace_all(slf, &list)
    }

    fn __add__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        let both = Self::of_list(&Self::list(slf)?)?;
        Self::extend(&both, other)?;
        Ok(both)
    }

    fn __iadd__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::extend(slf, other)
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else {
            return Ok(false);
        };
        Self::list(slf)?.eq(Self::list(other)?)
    }

    fn __repr__(&self) -> String {
        format!("<DocumentArray (length={})>", self.slots.len())
    }

    /// The texts of all documents.
    #[getter]
    fn texts(&self, py: Python<'_>) -> Vec<String> {
        let text = |slot: &Slot| match slot {
            Slot::Unseen(document) => document.text(),
            Slot::Seen(document) => document.borrow(py).text_of(),
        };
        self.slots.iter().map(text).collect()
    }

    #[setter]
    fn set_texts(slf: &Bound<'_, Self>, texts: Option<Vec<String>>) -> PyResult<()> {
        let texts = match texts {
            Some(texts) => texts.into_iter().map(Some).collect(),
            None => vec![None; slf.borrow().slots.len()],
        };
        Self::check_len(slf, texts.len(), "texts")?;
        for (index, text) in texts.into_iter().enumerate() {
            Self::at(slf, index)?.borrow_mut().set_text(text.as_deref());
        }
        Ok(())
    }

    /// The bytes of all documents.
    #[getter]
    fn blobs<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        Self::attributes(slf, "blob")
    }

    #[setter]
    fn set_blobs(slf: &Bound<'_, Self>, blobs: Option<Vec<Bound<'_, PyBytes>>>) -> PyResult<()> {
        let blobs = match blobs {
            Some(blobs) => blobs.into_iter().map(Some).collect(),
            None => vec![None; slf.borrow().slots.len()],
        };
        Self::check_len(slf, blobs.len(), "blobs")?;
        for (index, blob) in blobs.into_iter().enumerate() {
            let document = Self::at(slf, index)?;
            document
                .borrow_mut()
                .set_blob(blob.as_ref().map(|blob| blob.as_bytes()));
        }
        Ok(())
    }

    /// The embeddings as the rows of an array, of the shape `(documents, values)` for vectors; a list if their shapes differ,
    /// `None` if there are no documents. Setting them takes a row for each document.
    #[getter]
    fn embeddings<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::arrays(slf, ArrayField::Embedding)
    }

    #[setter]
    fn set_embeddings(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::set_arrays(slf, ArrayField::Embedding, value)
    }

    /// The tensors as one array, of the shape `(documents, …)`, like `embeddings`.
    #[getter]
    fn tensors<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::arrays(slf, ArrayField::Tensor)
    }

    #[setter]
    fn set_tensors(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        Self::set_arrays(slf, ArrayField::Tensor, value)
    }

    /// The texts, the bytes or the tensors, whichever the documents have.
    #[getter]
    fn contents<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        match Self::content_type(slf)? {
            Some(name) => slf.getattr(format!("{name}s").as_str()),
            None => Ok(slf.py().None().into_bound(slf.py())),
        }
    }

    #[setter]
    fn set_contents(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match Self::content_type(slf)? {
            Some(name) => slf.setattr(format!("{name}s").as_str(), value),
            None => Ok(()),
        }
    }

    /// The documents that an access path selects, such as `c` (chunks), `m` (matches) or `r,c` (documents and chunks).
    fn traverse_flat<'py>(
        slf: &Bound<'py, Self>,
        traversal_paths: &str,
    ) -> PyResult<Bound<'py, Self>> {
        select::traverse(slf, traversal_paths)
    }

    /// An array with copies of the documents; `deep` or not, they share nothing.
    #[pyo3(signature = (deep = true))]
    fn copy(slf: &Bound<'_, Self>, deep: bool) -> PyResult<Self> {
        let _ = deep;
        all_to_rust(slf).map(Self::from_rust)
    }

    fn __copy__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        Self::of_list(&Self::list(slf)?)
    }

    fn __deepcopy__(slf: &Bound<'_, Self>, _memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::copy(slf, true)
    }

    /// The generation of DocArray whose format the documents have: 1 or 2.
    #[getter]
    fn version(slf: &Bound<'_, Self>) -> PyResult<u8> {
        let version = all_to_rust(slf)?.first().map(Document::version);
        Ok(match version.unwrap_or_default() {
            DocArrayVersion::V1 => 1,
            DocArrayVersion::V2 => 2,
        })
    }

    /// Copies of the documents in the format of generation 1 or 2.
    fn to_version(slf: &Bound<'_, Self>, version: u8) -> PyResult<Self> {
        let version = match version {
            1 => DocArrayVersion::V1,
            2 => DocArrayVersion::V2,
            other => {
                let message = format!("DocArray has the generations 1 and 2, not {other}");
                return Err(PyValueError::new_err(message));
            }
        };
        let documents = all_to_rust(slf)?;
        let converted = documents.into_iter().map(|it| as_version(it, version));
        Ok(Self::from_rust(converted.collect::<PyResult<Vec<_>>>()?))
    }

    /// The documents as a protobuf message.
    fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let documents: DocumentArray = all_to_rust(slf)?.into_iter().collect();
        Ok(PyBytes::new(slf.py(), &documents.encode_alone()))
    }

    /// The documents of a protobuf message, of either version of DocArray. Raises `ValueError` if the bytes are not such a message.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        let documents = DocumentArray::decode_alone(&Bytes::copy_from_slice(data));
        documents.map(Self::from_rust).map_err(bad_document)
    }

    /// The documents as dictionaries.
    fn to_list<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(slf.py());
        for document in all_to_rust(slf)? {
            let json = to_json(slf.py(), document)?;
            list.append(value_to_python(slf.py(), &json, Numbers::AsWritten)?)?;
        }
        Ok(list)
    }

    /// The documents as a JSON list.
    fn to_json(slf: &Bound<'_, Self>) -> PyResult<String> {
        let documents = all_to_rust(slf)?.into_iter();
        let json = documents.map(|document| to_json(slf.py(), document));
        let json: serde_json::Value = json.collect::<PyResult<_>>()?;
        Ok(json.to_string())
    }

    /// The documents of a JSON list as `to_json` makes it. Raises `ValueError` if the text is not such JSON.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let values: Vec<serde_json::Value> = serde_json::from_str(text)
            .map_err(|error| PyValueError::new_err(format!("not a JSON list: {error}")))?;
        let documents = values.into_iter().map(from_json);
        Ok(Self::from_rust(documents.collect::<PyResult<Vec<_>>>()?))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let from_bytes = slf.py().get_type::<Self>().getattr("from_bytes")?;
        Ok((from_bytes, (Self::to_bytes(slf)?,)))
    }
}
