//! Tensors as NumPy arrays and back.
//!
//! NumPy is imported at the first array. An array that came with a request is read-only, as with DocArray: it is a view
//! of the bytes ([`TensorView`]), or of a copy where they are not aligned. Torch tensors, lists and everything else that
//! NumPy understands can be set.

use bytes::Bytes;
use flow_core::{DataType, Tensor};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyTuple};

use super::tensor_view::{TensorView, is_regular};

/// The functions of NumPy that arrays are made with.
struct Numpy {
    asarray: Py<PyAny>,
    frombuffer: Py<PyAny>,
    ndarray: Py<PyAny>,
    zeros: Py<PyAny>,
}

fn numpy(py: Python<'_>) -> PyResult<&'static Numpy> {
    static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();
    NUMPY.get_or_try_init(py, || {
        let module = py.import("numpy")?;
        Ok(Numpy {
            asarray: module.getattr("asarray")?.unbind(),
            frombuffer: module.getattr("frombuffer")?.unbind(),
            ndarray: module.getattr("ndarray")?.unbind(),
            zeros: module.getattr("zeros")?.unbind(),
        })
    })
}

/// The tensor as an array that is read-only.
pub(crate) fn to_python<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    if let Some(view) = TensorView::of(tensor) {
        return numpy(py)?.asarray.bind(py).call1((view,));
    }
    let copy = PyBytes::new(py, tensor.buffer());
    of_bytes(py, tensor, copy.as_any(), tensor.shape())
}

/// Tensors of one shape and type as the rows of an array, which can be written to. `None` if they differ.
pub(crate) fn rows_to_python<'py>(
    py: Python<'py>,
    tensors: &[Tensor],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(first) = tensors.first() else {
        return Ok(None);
    };
    let like = |other: &Tensor| {
        other.shape() == first.shape()
            && other.data_type() == first.data_type()
            && other.buffer().len() == first.buffer().len()
    };
    if !tensors.iter().all(like) {
        return Ok(None);
    }
    let row = first.buffer().len();
    let bytes = PyByteArray::new_with(py, row * tensors.len(), |all| {
        for (place, tensor) in all.chunks_exact_mut(row.max(1)).zip(tensors) {
            place.copy_from_slice(tensor.buffer());
        }
        Ok(())
    })?;
    let rows = u32::try_from(tensors.len()).unwrap_or(u32::MAX);
    let shape: Vec<u32> = std::iter::once(rows)
        .chain(first.shape().iter().copied())
        .collect();
    of_bytes(py, first, bytes.as_any(), &shape).map(Some)
}

/// The bytes as an array of this shape, with the type of `tensor`, which they are those of, or of several like it.
fn of_bytes<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    bytes: &Bound<'py, PyAny>,
    shape: &[u32],
) -> PyResult<Bound<'py, PyAny>> {
    let numpy = numpy(py)?;
    let shape = PyTuple::new(py, shape)?;
    let data_type = tensor.data_type().as_str();
    if is_regular(tensor) {
        // One call, without a check of the length, which `is_regular` has made.
        return numpy.ndarray.bind(py).call1((shape, data_type, bytes));
    }
    if tensor.buffer().is_empty() {
        // The shape comes from a client: it must not make NumPy allocate more than arrived.
        return match tensor.is_empty() {
            true => numpy.zeros.bind(py).call1((shape, data_type)),
            false => Err(PyValueError::new_err(format!(
                "an array of shape {shape} has no bytes; expected its values"
            ))),
        };
    }
    let flat = numpy.frombuffer.bind(py).call1((bytes, data_type))?;
    flat.call_method1("reshape", (shape,))
}

/// A tensor of an array, or of what NumPy makes one of.
///
/// # Errors
///
/// If NumPy cannot make numbers of it.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let (shape, data_type, buffer) = parts(value)?;
    Ok(Tensor::from_parts(shape, data_type, buffer))
}

/// The rows of an array, each a tensor. They share its copy.
///
/// # Errors
///
/// If it is not an array of numbers with rows.
pub(crate) fn rows_from_python(value: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    let (shape, data_type, buffer) = parts(value)?;
    let Some((&rows, inner)) = shape.split_first() else {
        return Err(PyTypeError::new_err(
            "expected one row for each document, got a single number",
        ));
    };
    let row = buffer.len() / (rows as usize).max(1);
    let tensor = |index: usize| {
        let buffer = buffer.slice(index * row..(index + 1) * row);
        Tensor::from_parts(inner.to_vec(), data_type.clone(), buffer)
    };
    Ok((0..rows as usize).map(tensor).collect())
}

fn parts(value: &Bound<'_, PyAny>) -> PyResult<(Vec<u32>, DataType, Bytes)> {
    let array = as_array(value)?;
    let data_type: String = array.getattr("dtype")?.getattr("str")?.extract()?;
    if data_type.ends_with('O') || data_type.contains("|O") {
        return Err(PyTypeError::new_err(format!(
            "an array of Python objects cannot be sent; expected numbers of one type, got {}",
            value.get_type().name()?
        )));
    }
    let shape: Vec<u32> = array.getattr("shape")?.extract()?;
    // Copied: the author of the array may change it while the document is being encoded or sent, on another thread, and
    // the bytes in Rust must not change.
    let bytes: PyBackedBytes = array.call_method0("tobytes")?.extract()?;
    Ok((shape, data_type.as_str().into(), Bytes::from_owner(bytes)))
}

fn as_array<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    // A torch tensor with a gradient, or on a GPU, is no array until it is detached.
    let value = match value.getattr_opt("detach")? {
        Some(detach) => detach.call0()?.call_method0("cpu")?.call_method0("numpy")?,
        None => value.clone(),
    };
    numpy(py)?.asarray.bind(py).call1((value,))
}

/// Arrays as the rows of one array if they have one shape, or else the list itself.
pub(crate) fn stack<'py>(list: &Bound<'py, pyo3::types::PyList>) -> PyResult<Bound<'py, PyAny>> {
    if list.iter().any(|item| item.is_none()) {
        let all = list.iter().all(|item| item.is_none());
        return Ok(match all {
            true => list.py().None().into_bound(list.py()),
            false => list.clone().into_any(),
        });
    }
    let arrays = list.iter().map(|item| as_array(&item));
    let arrays = pyo3::types::PyList::new(list.py(), arrays.collect::<PyResult<Vec<_>>>()?)?;
    let shape = |array: Bound<'py, PyAny>| array.getattr("shape")?.extract::<Vec<usize>>();
    let first = shape(arrays.get_item(0)?)?;
    for array in arrays.iter() {
        if shape(array)? != first {
            return Ok(list.clone().into_any());
        }
    }
    list.py().import("numpy")?.call_method1("stack", (arrays,))
}
