//! One attribute of all documents of an array.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::fields::ArrayField;
use super::numpy;
use super::objects::{PyDocumentArray, Slot};

/// An attribute of a document, or a value inside one, such as `tags__price__value` or `chunks__0__text`; `None` if there is
/// no such value.
pub(super) fn attribute<'py>(
    document: &Bound<'py, PyAny>,
    path: &str,
) -> PyResult<Bound<'py, PyAny>> {
    // Only what starts with the name of an attribute is a path.
    let Some((name, mut rest)) = path.split_once("__").filter(|(name, _)| !name.is_empty()) else {
        return document.getattr(path);
    };
    let mut value = document.getattr(name)?;
    while !rest.is_empty() && value.is_truthy()? {
        let (name, behind) = rest.split_once("__").unwrap_or((rest, ""));
        rest = behind;
        value = match (value.cast::<PyDict>(), name.parse::<isize>()) {
            (Ok(dict), Err(_)) => match dict.contains(name)? {
                true => dict.as_any().get_item(name)?,
                false => return Ok(document.py().None().into_bound(document.py())),
            },
            (_, Ok(position)) => value.get_item(position)?,
            (Err(_), Err(_)) => value.getattr(name)?,
        };
    }
    match rest.is_empty() {
        true => Ok(value),
        false => Ok(document.py().None().into_bound(document.py())),
    }
}

impl PyDocumentArray {
    /// An attribute of each document.
    pub(super) fn attributes<'py>(
        slf: &Bound<'py, Self>,
        name: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let values = PyList::empty(slf.py());
        for document in Self::list(slf)? {
            values.append(attribute(&document, name)?)?;
        }
        Ok(values)
    }

    pub(super) fn arrays<'py>(
        slf: &Bound<'py, Self>,
        field: ArrayField,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        if slf.borrow().slots.is_empty() {
            return Ok(py.None().into_bound(py));
        }
        let unseen = |slot: &Slot| match (slot, field) {
            (Slot::Unseen(document), ArrayField::Embedding) => document.embedding(),
            (Slot::Unseen(document), ArrayField::Tensor) => document.tensor(),
            (Slot::Seen(_), _) => None,
        };
        let received: Option<Vec<_>> = slf.borrow().slots.iter().map(unseen).collect();
        if let Some(rows) = received
            && let Some(array) = numpy::rows_to_python(py, &rows)?
        {
            return Ok(array);
        }
        let list = Self::attributes(slf, field.name())?;
        numpy::stack(&list)
    }

    pub(super) fn set_arrays(
        slf: &Bound<'_, Self>,
        field: ArrayField,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let len = slf.borrow().slots.len();
        if value.is_none() {
            for index in 0..len {
                Self::at(slf, index)?.borrow_mut().set_array(field, value);
            }
            return Ok(());
        }
        let rows = numpy::rows_from_python(value)?;
        Self::check_len(slf, rows.len(), field.name())?;
        for (index, row) in rows.iter().enumerate() {
            Self::at(slf, index)?.borrow_mut().set_received(field, row);
        }
        Ok(())
    }

    pub(super) fn check_len(slf: &Bound<'_, Self>, len: usize, what: &str) -> PyResult<()> {
        let documents = slf.borrow().slots.len();
        match len == documents {
            true => Ok(()),
            false => Err(PyValueError::new_err(format!(
                "the array has {documents} documents, but {len} values are given for `{what}`"
            ))),
        }
    }

    pub(super) fn content_type(slf: &Bound<'_, Self>) -> PyResult<Option<String>> {
        for index in [0, -1] {
            if !slf.borrow().slots.is_empty() {
                let document = Self::at(slf, Self::index(slf, index)?)?;
                if let Some(name) = document.getattr("content_type")?.extract()? {
                    return Ok(Some(name));
                }
            }
        }
        Ok(None)
    }
}
