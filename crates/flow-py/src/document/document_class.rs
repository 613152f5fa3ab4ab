//! The methods of the class `Document`.

use flow_core::{DocArrayVersion, Document};
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};
use serde_json::Value;

use super::errors::bad_document;
use super::fields::{ArrayField, FIELDS, Nested, Scores};
use super::json::{from_json, to_json};
use super::objects::{PyDocument, PyDocumentArray, to_rust};
use super::values::{Numbers, value_from_python, value_to_python};

#[pymethods]
impl PyDocument {
    /// A document with these attributes. Keywords that are no attribute become tags. A single positional argument is a
    /// document or a dictionary to copy.
    #[new]
    #[pyo3(signature = (*_arguments, **_fields))]
    fn new(_arguments: &Bound<'_, PyAny>, _fields: Option<&Bound<'_, PyDict>>) -> Self {
        Self::from_rust(Document::new())
    }

    #[pyo3(signature = (obj = None, *, copy = false, **fields))]
    fn __init__(
        slf: &Bound<'_, Self>,
        obj: Option<&Bound<'_, PyAny>>,
        copy: bool,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        // A document never shares what it is made of with another one, whether a copy was asked for or not.
        let _ = copy;
        if let Some(obj) = obj {
            if let Ok(other) = obj.cast::<Self>() {
                let inner = to_rust(other)?;
                slf.borrow_mut().inner = inner;
            } else if let Ok(fields) = obj.cast::<PyDict>() {
                Self::set_all(slf, fields)?;
            } else {
                return Err(PyTypeError::new_err(format!(
                    "a document is made of keywords, a dict or another document, not of `{}`",
                    obj.get_type().name()?
                )));
            }
        }
        fields.map_or(Ok(()), |fields| Self::set_all(slf, fields))
    }

    /// The id, a text: 32 hexadecimal digits unless it was set.
    #[getter]
    fn id(&self) -> String {
        self.inner.id()
    }

    #[setter]
    fn set_id(&mut self, id: Option<&str>) {
        self.inner.set_id(id.unwrap_or_default());
    }

    /// The text; empty if the content is not a text. Setting it removes `blob` and `tensor`.
    #[getter]
    fn text(&self) -> String {
        self.text_of()
    }

    #[setter]
    pub(super) fn set_text(&mut self, text: Option<&str>) {
        match text {
            Some(text) => {
                self.held.tensor = None;
                self.inner.set_text(text);
            }
            None if self.content_type() == Some("text") => self.inner.clear("text"),
            None => {}
        }
    }

    /// The bytes; empty if the content is not bytes. Setting them removes `text` and `tensor`.
    #[getter]
    fn blob<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let blob = match self.held.tensor {
            Some(_) => None,
            None => self.inner.blob(),
        };
        PyBytes::new(py, &blob.unwrap_or_default())
    }

    #[setter]
    pub(super) fn set_blob(&mut self, blob: Option<&[u8]>) {
        match blob {
            Some(blob) => {
                self.held.tensor = None;
                self.inner.set_blob(blob);
            }
            None if self.content_type() == Some("blob") => self.inner.clear("blob"),
            None => {}
        }
    }

    /// An array of NumPy of any shape; `None` if the content is not an array. Setting it, to whatever NumPy makes an array of, removes
    /// `text` and `blob`. An array that arrived is read-only, and where its numbers are aligned a view of the message.
    #[getter]
    fn tensor<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::array(slf, ArrayField::Tensor)
    }

    #[setter]
    fn set_tensor(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) {
        slf.borrow_mut().set_array(ArrayField::Tensor, value);
    }

    /// The vector that stands for the document: an array of NumPy, or `None`. An array that arrived is read-only, and where its
    /// numbers are aligned a view of the message; a copy of it (`.copy()`) can be changed.
    #[getter]
    fn embedding<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::array(slf, ArrayField::Embedding)
    }

    #[setter]
    fn set_embedding(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) {
        slf.borrow_mut().set_array(ArrayField::Embedding, value);
    }

    /// Which of `text`, `blob` and `tensor` the document has; `None` if it has none.
    #[getter]
    fn content_type(&self) -> Option<&'static str> {
        if self.held.tensor.is_some() || self.inner.tensor().is_some() {
            Some("tensor")
        } else if self.inner.has_text() {
            Some("text")
        } else {
            let blob = self.inner.blob().is_some_and(|blob| !blob.is_empty());
            blob.then_some("blob")
        }
    }

    /// The text, the bytes or the array, whichever the document has.
    #[getter]
    fn content<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let name = slf.borrow().content_type();
        match name {
            Some(name) => slf.getattr(name),
            None => Ok(slf.py().None().into_bound(slf.py())),
        }
    }

    #[setter]
    fn set_content(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(text) = value.extract::<String>() {
            slf.borrow_mut().set_text(Some(&text));
        } else if let Ok(bytes) = value.cast::<PyBytes>() {
            slf.borrow_mut().set_blob(Some(bytes.as_bytes()));
        } else {
            slf.borrow_mut().set_array(ArrayField::Tensor, value);
        }
        Ok(())
    }

    /// Where the content is: a URL or a path. Nothing reads it but the methods `load_uri_to_…`.
    #[getter]
    fn uri(&self) -> String {
        self.inner.string("uri").unwrap_or_default()
    }

    #[setter]
    fn set_uri(&mut self, text: Option<&str>) -> PyResult<()> {
        self.set_string("uri", text)
    }

    /// The type of the content, such as `image/png`.
    #[getter]
    fn mime_type(&self) -> String {
        self.inner.string("mime_type").unwrap_or_default()
    }

    #[setter]
    fn set_mime_type(&mut self, text: Option<&str>) -> PyResult<()> {
        self.set_string("mime_type", text)
    }

    /// The kind of the content, such as `text` or `image`, for executors that tell kinds apart.
    #[getter]
    fn modality(&self) -> String {
        self.inner.string("modality").unwrap_or_default()
    }

    #[setter]
    fn set_modality(&mut self, text: Option<&str>) -> PyResult<()> {
        self.set_string("modality", text)
    }

    /// The id of the document that this one is a chunk of; empty if it is none.
    #[getter]
    fn parent_id(&self) -> String {
        self.inner.parent_id()
    }

    #[setter]
    pub(super) fn set_parent_id(&mut self, text: Option<&str>) -> PyResult<()> {
        self.set_string("parent_id", text)
    }

    /// How deep it is nested in chunks: 0 for a document, 1 for its chunks.
    #[getter]
    fn granularity(&self) -> u32 {
        self.inner.granularity()
    }

    #[setter]
    pub(super) fn set_granularity(&mut self, depth: Option<u32>) {
        self.inner.set_granularity(depth.unwrap_or_default());
    }

    /// How deep it is nested in matches: 0 for a document, 1 for its matches.
    #[getter]
    fn adjacency(&self) -> u32 {
        self.inner.adjacency()
    }

    #[setter]
    pub(super) fn set_adjacency(&mut self, steps: Option<u32>) {
        self.inner.set_adjacency(steps.unwrap_or_default());
    }

    /// A weight of your own; 0 at first. 32 bits are sent.
    #[getter]
    fn weight(&self) -> f64 {
        self.number("weight")
    }

    #[setter]
    fn set_weight(&mut self, value: Option<f64>) -> PyResult<()> {
        self.set_json("weight", &value.unwrap_or_default().into())
    }

    /// The position in the parent document, in units of your own, such as characters; 0 at first. 32 bits are sent.
    #[getter]
    fn offset(&self) -> f64 {
        self.number("offset")
    }

    #[setter]
    fn set_offset(&mut self, value: Option<f64>) -> PyResult<()> {
        self.set_json("offset", &value.unwrap_or_default().into())
    }

    /// Where in the parent document it is, such as the first and the last character, or a box: a list of floats.
    #[getter]
    fn location(&self) -> Vec<f32> {
        self.inner.location()
    }

    #[setter]
    fn set_location(&mut self, value: Option<Vec<f64>>) -> PyResult<()> {
        self.set_json("location", &value.unwrap_or_default().into())
    }

    /// Values of your own by name, which can be changed in place: numbers, texts, truth values, `None`, and lists and
    /// dictionaries of them. Numbers of a document that arrived are floats.
    #[getter]
    fn tags<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.tags_of(py)
    }

    #[setter]
    fn set_tags(&mut self, py: Python<'_>, tags: Option<Bound<'_, PyDict>>) {
        let tags = tags.unwrap_or_else(|| PyDict::new(py));
        self.held.tags = Some(tags.unbind());
    }

    /// The scores by name. One that is looked up and is not there is made.
    #[getter]
    fn scores<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.scores_of(py, Scores::Scores)
    }

    #[setter]
    fn set_scores(&mut self, py: Python<'_>, value: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        self.set_scores_of(py, Scores::Scores, value)
    }

    /// The evaluations by name, like `scores`.
    #[getter]
    fn evaluations<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.scores_of(py, Scores::Evaluations)
    }

    #[setter]
    fn set_evaluations(
        &mut self,
        py: Python<'_>,
        value: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.set_scores_of(py, Scores::Evaluations, value)
    }

    /// The parts of the document, such as the sentences of a text.
    #[getter]
    fn chunks<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDocumentArray>> {
        Self::nested(slf, Nested::Chunks)
    }

    #[setter]
    fn set_chunks(slf: &Bound<'_, Self>, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        Self::set_nested(slf, Nested::Chunks, value)
    }

    /// The documents that were found for it, the best first.
    #[getter]
    fn matches<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDocumentArray>> {
        Self::nested(slf, Nested::Matches)
    }

    #[setter]
    fn set_matches(slf: &Bound<'_, Self>, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        Self::set_nested(slf, Nested::Matches, value)
    }

    /// The names of the attributes that are not empty.
    #[getter]
    fn non_empty_fields<'py>(slf: &Bound<'py, Self>) -> PyResult<Vec<&'static str>> {
        let mut names = Vec::new();
        for name in FIELDS {
            if !is_empty(&slf.getattr(*name)?)? {
                names.push(*name);
            }
        }
        Ok(names)
    }

    /// Removes attributes, or all of them but the id.
    #[pyo3(signature = (*names))]
    fn pop(slf: &Bound<'_, Self>, names: Vec<String>) -> PyResult<()> {
        for name in names {
            slf.setattr(name.as_str(), slf.py().None())?;
        }
        Ok(())
    }

    /// Removes everything but the id.
    fn clear(&mut self) {
        let mut inner = Document::of_version(self.inner.version());
        inner.set_id(&self.inner.id());
        *self = Self::from_rust(inner);
    }

    /// The document as a protobuf message.
    fn to_bytes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let encoded = to_rust(slf)?.encode();
        Ok(PyBytes::new(slf.py(), &encoded))
    }

    /// A document of a protobuf message, of either version of DocArray. Raises `ValueError` if the bytes are not such a message.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        let version = DocArrayVersion::of(data).unwrap_or_default();
        let inner = Document::decode(version, data.to_vec().into()).map_err(bad_document)?;
        Ok(Self::from_rust(inner))
    }

    /// The document as a dictionary with the attributes that it has; arrays are lists, bytes are base64.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let json = to_json(slf.py(), to_rust(slf)?)?;
        value_to_python(slf.py(), &json, Numbers::AsWritten)
    }

    /// A document of a dictionary as `to_dict` makes it. Raises `ValueError` if an attribute has a value of another kind.
    #[staticmethod]
    fn from_dict(fields: &Bound<'_, PyAny>) -> PyResult<Self> {
        let value = value_from_python(fields)?;
        from_json(value).map(Self::from_rust)
    }

    /// The document as JSON.
    fn to_json(slf: &Bound<'_, Self>) -> PyResult<String> {
        let json = to_json(slf.py(), to_rust(slf)?)?;
        Ok(json.to_string())
    }

    /// A document of JSON as `to_json` makes it. Raises `ValueError` if the text is not such JSON.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| PyValueError::new_err(format!("not JSON: {error}")))?;
        from_json(value).map(Self::from_rust)
    }

    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let inner = &slf.borrow().inner;
        let unknown = || PyAttributeError::new_err(format!("a document has no attribute `{name}`"));
        if inner.version() == DocArrayVersion::V1 || name.starts_with("__") {
            return Err(unknown());
        }
        // A document of the second version has the fields of its class.
        let json = inner.to_json().map_err(bad_document)?;
        let value = json.get(name).ok_or_else(unknown)?;
        value_to_python(slf.py(), value, Numbers::AsWritten)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let names = Self::non_empty_fields(slf)?;
        Ok(format!(
            "<Document ({}) at {}>",
            names
                .iter()
                .map(|name| format!("'{name}'"))
                .collect::<Vec<_>>()
                .join(", "),
            slf.borrow().id()
        ))
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.cast::<Self>() else {
            return Ok(false);
        };
        if slf.is(other) {
            return Ok(true);
        }
        let json = |document: &Bound<'_, Self>| {
            let document = to_rust(document)?;
            document.to_json().map_err(bad_document)
        };
        Ok(json(slf)? == json(other)?)
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.inner.id().hash(&mut hasher);
        hasher.finish()
    }

    fn __copy__(slf: &Bound<'_, Self>) -> PyResult<Self> {
        to_rust(slf).map(Self::from_rust)
    }

    fn __deepcopy__(slf: &Bound<'_, Self>, _memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        to_rust(slf).map(Self::from_rust)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let from_bytes = slf.py().get_type::<Self>().getattr("from_bytes")?;
        Ok((from_bytes, (Self::to_bytes(slf)?,)))
    }
}

/// Whether an attribute has the value of a document that was just made.
fn is_empty(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if value.is_none() {
        return Ok(true);
    }
    // An array is there whatever its numbers are, and one of a single number would count as a number.
    let plain = value.is_instance_of::<PyDict>()
        || value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyDocumentArray>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>();
    Ok(plain && !value.is_truthy()?)
}
