//! The numbers of a tensor in place, for NumPy.
//!
//! The oldest version of Python that the package supports has no buffer protocol in its stable interface, so an array is made
//! of the address of the numbers. NumPy keeps the object that names the address alive as long as the array.

use flow_core::Tensor;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The most dimensions that arrays have in every version of NumPy.
const DIMENSIONS_MAX: usize = 32;

/// The version of NumPy's protocol `__array_interface__`.
const PROTOCOL: u8 = 3;

/// What NumPy makes a read-only array of, without copying the numbers. It holds a part of the message in which the
/// document arrived, and so the whole message.
#[pyclass(module = "flow_serve._native", frozen)]
#[derive(Debug)]
pub(super) struct TensorView(Tensor);

impl TensorView {
    /// The view of a tensor; `None` if its numbers cannot be used where they are: [`is_regular`] says which can, and they
    /// have to be at an address that fits their size. Messages do not align them.
    pub(super) fn of(tensor: &Tensor) -> Option<Self> {
        let size = item_size(tensor.data_type().as_str())?;
        let usable = is_regular(tensor) && address(tensor).is_multiple_of(size);
        usable.then(|| Self(tensor.clone()))
    }
}

#[pymethods]
impl TensorView {
    /// Where the numbers are, and what they are.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tensor = &self.0;
        let is_read_only = true;
        let interface = PyDict::new(py);
        interface.set_item(intern!(py, "version"), PROTOCOL)?;
        interface.set_item(intern!(py, "typestr"), tensor.data_type().as_str())?;
        interface.set_item(intern!(py, "shape"), PyTuple::new(py, tensor.shape())?)?;
        interface.set_item(intern!(py, "data"), (address(tensor), is_read_only))?;
        Ok(interface)
    }
}

/// Whether a tensor has exactly the bytes that its shape asks for, and its numbers are of a type that processors compute with.
pub(super) fn is_regular(tensor: &Tensor) -> bool {
    let Some(size) = item_size(tensor.data_type().as_str()) else {
        return false;
    };
    let bytes = tensor.buffer().len();
    tensor.shape().len() <= DIMENSIONS_MAX
        && bytes != 0
        && tensor.len().checked_mul(size) == Some(bytes)
}

fn address(tensor: &Tensor) -> usize {
    tensor.buffer().as_ptr().addr()
}

/// The bytes of a number, which are also its alignment; `None` for types that are not this machine's own, such as `>f4`.
fn item_size(data_type: &str) -> Option<usize> {
    if cfg!(target_endian = "big") && data_type.starts_with('<') {
        return None;
    }
    match data_type {
        "|b1" | "|i1" | "|u1" => Some(1),
        "<f2" | "<i2" | "<u2" => Some(2),
        "<f4" | "<i4" | "<u4" => Some(4),
        "<f8" | "<i8" | "<u8" => Some(8),
        _ => None,
    }
}
