//! Scores of a document.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use serde_json::{Map, Value, json};

use super::values::{Numbers, map_from_python, value_to_python};

/// A score with its name and what it refers to.
#[pyclass(module = "flow_serve", get_all, set_all, eq)]
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NamedScore {
    /// The score itself.
    value: f64,
    /// The name of the metric, or of what computed the score.
    op_name: String,
    /// A text for readers.
    description: String,
    /// The id of the document that the score refers to.
    ref_id: String,
}

#[pymethods]
impl NamedScore {
    #[new]
    #[pyo3(signature = (value = None, op_name = String::new(), description = String::new(), ref_id = String::new()))]
    fn new(
        value: Option<&Bound<'_, PyAny>>,
        op_name: String,
        description: String,
        ref_id: String,
    ) -> PyResult<Self> {
        let Some(value) = value else {
            return Ok(Self {
                op_name,
                description,
                ref_id,
                ..Self::default()
            });
        };
        // `NamedScore({'value': 0.5})` is DocArray's other form.
        if let Ok(fields) = value.cast::<PyDict>() {
            return Ok(Self::from_json(&Value::Object(map_from_python(fields)?)));
        }
        Ok(Self {
            value: value.extract()?,
            op_name,
            description,
            ref_id,
        })
    }

    fn __repr__(&self) -> String {
        let mut out = format!("NamedScore(value={:?}", self.value);
        for (name, text) in self.texts() {
            if !text.is_empty() {
                out += &format!(", {name}={text:?}");
            }
        }
        out + ")"
    }

    /// The score's fields that are not empty.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        value_to_python(py, &self.to_json(), Numbers::Floats)
    }
}

impl NamedScore {
    fn texts(&self) -> [(&'static str, &str); 3] {
        [
            ("op_name", &self.op_name),
            ("description", &self.description),
            ("ref_id", &self.ref_id),
        ]
    }

    fn to_json(&self) -> Value {
        let mut out = Map::from_iter([("value".to_owned(), json!(self.value))]);
        for (name, text) in self.texts() {
            if !text.is_empty() {
                out.insert(name.to_owned(), json!(text));
            }
        }
        Value::Object(out)
    }

    /// The form of either version of DocArray: an object, or a number.
    fn from_json(value: &Value) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = value.get("value").unwrap_or(value);
        Self {
            value: number.as_f64().unwrap_or_default(),
            op_name: text("op_name").to_owned(),
            description: text("description").to_owned(),
            ref_id: text("ref_id").to_owned(),
        }
    }
}

/// The scores as a dictionary that makes a score of each name that is looked up, as DocArray's.
pub(super) fn to_python<'py>(
    py: Python<'py>,
    scores: Option<&Value>,
) -> PyResult<Bound<'py, PyDict>> {
    static DICT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = DICT.get_or_try_init(py, || {
        let module = py.import("collections")?;
        PyResult::Ok(module.getattr("defaultdict")?.unbind())
    })?;
    let dict = class.bind(py).call1((py.get_type::<NamedScore>(),))?;
    let dict = dict.cast_into::<PyDict>()?;
    if let Some(Value::Object(scores)) = scores {
        for (name, score) in scores {
            dict.set_item(name, Bound::new(py, NamedScore::from_json(score))?)?;
        }
    }
    Ok(dict)
}

/// The scores of a dictionary, whose values are scores, numbers or dictionaries.
///
/// # Errors
///
/// If a value is none of these.
pub(super) fn from_python(dict: &Bound<'_, PyDict>) -> PyResult<Value> {
    let mut out = Map::new();
    for (name, score) in dict.iter() {
        let score = match score.cast::<NamedScore>() {
            Ok(score) => score.borrow().to_json(),
            Err(_) => NamedScore::new(Some(&score), String::new(), String::new(), String::new())?
                .to_json(),
        };
        out.insert(name.extract()?, score);
    }
    Ok(Value::Object(out))
}
