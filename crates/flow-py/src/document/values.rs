//! JSON values as Python objects and back.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

/// What numbers become in Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Floats, as all numbers of a protobuf `Struct` are with stock Jina.
    Floats,
    /// Integers, where they are integers.
    AsWritten,
}

/// A dictionary of these values.
pub(crate) fn map_to_python<'py>(
    py: Python<'py>,
    map: &Map<String, Value>,
    numbers: Numbers,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in map {
        dict.set_item(key, value_to_python(py, value, numbers)?)?;
    }
    Ok(dict)
}

pub(crate) fn value_to_python<'py>(
    py: Python<'py>,
    value: &Value,
    numbers: Numbers,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => number_to_python(py, number, numbers)?,
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(value_to_python(py, item, numbers)?)?;
            }
            list.into_any()
        }
        Value::Object(map) => map_to_python(py, map, numbers)?.into_any(),
    })
}

fn number_to_python<'py>(
    py: Python<'py>,
    number: &Number,
    numbers: Numbers,
) -> PyResult<Bound<'py, PyAny>> {
    match number.as_i64() {
        Some(integer) if numbers == Numbers::AsWritten => Ok(integer.into_pyobject(py)?.into_any()),
        _ => Ok(PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any()),
    }
}

/// The values of a dictionary.
///
/// # Errors
///
/// If a key is not a text, or a value has no form in JSON.
pub(crate) fn map_from_python(dict: &Bound<'_, PyDict>) -> PyResult<Map<String, Value>> {
    dict.iter()
        .map(|(key, value)| {
            let key: String = match key.cast::<PyString>() {
                Ok(text) => text.extract()?,
                // As protobuf's maps of texts take them from Python.
                Err(_) => key.str()?.extract()?,
            };
            let value = value_from_python(&value)?;
            Ok((key, value))
        })
        .collect()
}

pub(crate) fn value_from_python(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        Ok(Value::Null)
    } else if let Ok(flag) = value.cast::<PyBool>() {
        Ok(Value::Bool(flag.is_true()))
    } else if let Ok(text) = value.cast::<PyString>() {
        Ok(Value::String(text.extract()?))
    } else if value.is_instance_of::<PyInt>() {
        let integer = value.extract::<i64>().map(Value::from);
        integer.or_else(|_| float(value.extract()?))
    } else if value.is_instance_of::<PyFloat>() {
        float(value.extract()?)
    } else if let Ok(dict) = value.cast::<PyDict>() {
        map_from_python(dict).map(Value::Object)
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?;
        let items = items.map(|item| value_from_python(&item?));
        items.collect::<PyResult<_>>().map(Value::Array)
    } else {
        from_numpy(value)
    }
}

/// A number or an array of NumPy, or of a library with its methods.
fn from_numpy(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let plain = value
        .getattr_opt("tolist")?
        .ok_or_else(|| unsupported(value))?
        .call0()?;
    // A class whose `tolist` returns the same class would recurse without end.
    match plain.get_type().is(value.get_type()) {
        true => Err(unsupported(value)),
        false => value_from_python(&plain),
    }
}

fn unsupported(value: &Bound<'_, PyAny>) -> PyErr {
    let class = value.get_type().name().map(|name| name.to_string());
    PyTypeError::new_err(format!(
        "a value of type `{}` cannot be sent; expected None, a bool, a number, a text, or a list or dict of them",
        class.unwrap_or_default()
    ))
}

fn float(number: f64) -> PyResult<Value> {
    let number = Number::from_f64(number);
    number.map(Value::Number).ok_or_else(|| {
        PyValueError::new_err("a number that is not finite (nan or inf) cannot be sent as a tag, a parameter or a result")
    })
}
