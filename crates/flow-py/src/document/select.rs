//! What the index of an array selects.

use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyString, PyTuple};

use super::columns::attribute;
use super::objects::{PyDocument, PyDocumentArray};

type Array<'a, 'py> = &'a Bound<'py, PyDocumentArray>;

pub(super) fn get<'py>(
    array: Array<'_, 'py>,
    index: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(pair) = index.cast::<PyTuple>()
        && let Some((documents, attributes)) = attributes(pair)?
    {
        if let Some(second) = id_of_one(array, &attributes)? {
            let both = PyList::new(array.py(), [get(array, &documents)?, second.into_any()])?;
            return Ok(PyDocumentArray::of_list(&both)?.into_any());
        }
        return get_attributes(&get(array, &documents)?, &attributes);
    }
    if let Some(position) = position(array, index)? {
        return Ok(PyDocumentArray::at(array, position)?.into_any());
    }
    Ok(several(array, index)?.into_any())
}

pub(super) fn set(
    array: Array<'_, '_>,
    index: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if let Ok(pair) = index.cast::<PyTuple>()
        && let Some((documents, attributes)) = attributes(pair)?
    {
        return set_attributes(&get(array, &documents)?, &attributes, value);
    }
    if let Some(position) = position(array, index)? {
        return PyDocumentArray::set_at(array, position, value.cast::<PyDocument>()?);
    }
    if let Ok(slice) = index.cast::<PySlice>() {
        let list = PyDocumentArray::list(array)?;
        let new: Vec<Bound<'_, PyAny>> = value.try_iter()?.collect::<PyResult<_>>()?;
        list.as_any().set_item(slice, new)?;
        return PyDocumentArray::replace_all(array, &list);
    }
    let selected = several(array, index)?;
    let mut values = value.try_iter()?;
    for document in PyDocumentArray::list(&selected)? {
        let id: String = document.getattr("id")?.extract()?;
        let value = values
            .next()
            .ok_or_else(|| PyValueError::new_err("fewer documents than places to set"))??;
        if let Some(at) = PyDocumentArray::position(array, &id) {
            PyDocumentArray::set_at(array, at, value.cast::<PyDocument>()?)?;
        }
    }
    Ok(())
}

pub(super) fn delete(array: Array<'_, '_>, index: &Bound<'_, PyAny>) -> PyResult<()> {
    let list = PyDocumentArray::list(array)?;
    if let Some(position) = position(array, index)? {
        list.del_item(position)?;
    } else {
        let gone = PyDocumentArray::list(&several(array, index)?)?;
        let kept = PyList::empty(array.py());
        for document in list.iter() {
            if !gone.iter().any(|it| it.is(&document)) {
                kept.append(document)?;
            }
        }
        return PyDocumentArray::replace_all(array, &kept);
    }
    PyDocumentArray::replace_all(array, &list)
}

/// The documents that an access path selects, such as `r`, `c`, `m[:5]` or `r,cc`.
pub(super) fn traverse<'py>(
    array: Array<'_, 'py>,
    paths: &str,
) -> PyResult<Bound<'py, PyDocumentArray>> {
    // As with DocArray, these are the documents of this array, and no other array of them.
    if paths == "r" {
        return Ok(array.clone());
    }
    let selected = PyList::empty(array.py());
    for path in paths.split(',') {
        let path: String = path.chars().filter(|it| !it.is_whitespace()).collect();
        walk(
            &PyDocumentArray::list(array)?,
            path.trim_start_matches('@'),
            &selected,
        )?;
    }
    PyDocumentArray::of_list(&selected)
}

fn walk<'py>(
    documents: &Bound<'py, PyList>,
    path: &str,
    selected: &Bound<'py, PyList>,
) -> PyResult<()> {
    let Some(letter) = path.chars().next() else {
        return documents
            .iter()
            .try_for_each(|document| selected.append(document));
    };
    let (slice, rest) = slice(documents.py(), &path[1..])?;
    let nested = match letter {
        'r' => return walk(&slice_of(documents, slice.as_ref())?, rest, selected),
        'c' => "chunks",
        'm' => "matches",
        _ => {
            return Err(PyValueError::new_err(format!(
                "`{path}` is not an access path: `r` means the documents, `c` their chunks, `m` their matches, `cc` chunks of chunks, `r,c` both, `c[:2]` the first two chunks of each"
            )));
        }
    };
    for document in documents {
        let nested = document.getattr(nested)?.cast_into::<PyDocumentArray>()?;
        walk(
            &slice_of(&PyDocumentArray::list(&nested)?, slice.as_ref())?,
            rest,
            selected,
        )?;
    }
    Ok(())
}

/// The slice at the start of a path's rest, such as `[:5]` or `:5`, and what follows it.
fn slice<'py, 'p>(
    py: Python<'py>,
    rest: &'p str,
) -> PyResult<(Option<Bound<'py, PyAny>>, &'p str)> {
    let is_slice = |it: char| matches!(it, '-' | ':' | '0'..='9');
    let bare = rest.len() - rest.trim_start_matches(is_slice).len();
    let bracketed = rest.strip_prefix('[').and_then(|it| it.split_once(']'));
    let (inside, after) = bracketed.unwrap_or(rest.split_at(bare));
    if inside.is_empty() {
        return Ok((None, after));
    }
    let number = |part: &str| match part.is_empty() {
        true => Ok(None),
        false => part
            .parse::<i64>()
            .map(Some)
            .map_err(|_| PyValueError::new_err(format!("`[{inside}]` is not a slice"))),
    };
    let mut parts = inside
        .split(':')
        .map(number)
        .collect::<PyResult<Vec<_>>>()?;
    if let [Some(single)] = parts[..] {
        // The last document has no index behind it.
        let end = (single != -1).then_some(single + 1);
        parts = vec![Some(single), end];
    }
    let class = py.import("builtins")?.getattr("slice")?;
    let slice = class.call1(PyTuple::new(py, parts)?)?;
    Ok((Some(slice), after))
}

fn slice_of<'py>(
    documents: &Bound<'py, PyList>,
    slice: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    match slice {
        Some(slice) => Ok(documents.as_any().get_item(slice)?.cast_into()?),
        None => Ok(documents.clone()),
    }
}

/// The position that an index means, if it means one document.
fn position(array: Array<'_, '_>, index: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if let Ok(text) = index.cast::<PyString>() {
        let id: String = text.extract()?;
        if id.starts_with('@') {
            return Ok(None);
        }
        let at = PyDocumentArray::position(array, &id);
        return at
            .map(Some)
            .ok_or_else(|| PyKeyError::new_err(format!("no document has the id `{id}`")));
    }
    if index.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    let is_integer = index.is_instance_of::<PyInt>() || index.getattr_opt("__index__")?.is_some();
    let is_array = index.getattr_opt("__len__")?.is_some();
    match is_integer && !is_array {
        true => PyDocumentArray::index(array, index.extract()?).map(Some),
        // Arrays of NumPy have `__index__` and no single index.
        false => Ok(None),
    }
}

/// The documents that an index means.
fn several<'py>(
    array: Array<'_, 'py>,
    index: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDocumentArray>> {
    if let Ok(path) = index.cast::<PyString>() {
        let path: String = path.extract()?;
        return traverse(array, &path[1..]);
    }
    let list = PyDocumentArray::list(array)?;
    if index.is_instance_of::<PySlice>() {
        return PyDocumentArray::of_list(&list.as_any().get_item(index)?.cast_into()?);
    }
    if index.is_instance_of::<PyEllipsis>() {
        return flatten(array);
    }
    let index = match index.getattr_opt("tolist")? {
        Some(to_list) => to_list.call0()?,
        None => index.clone(),
    };
    if !(index.is_instance_of::<PyList>() || index.is_instance_of::<PyTuple>()) {
        return Err(bad_index(&index));
    }
    let selected = PyList::empty(array.py());
    for (place, item) in index.try_iter()?.enumerate() {
        let item = item?;
        if let Ok(flag) = item.cast::<PyBool>() {
            // A mask may be longer than the array.
            if flag.is_true() && place < list.len() {
                selected.append(list.get_item(place)?)?;
            }
        } else {
            let at = position(array, &item)?.ok_or_else(|| bad_index(&item))?;
            selected.append(list.get_item(at)?)?;
        }
    }
    PyDocumentArray::of_list(&selected)
}

/// Each document after what is nested in it.
fn flatten<'py>(array: Array<'_, 'py>) -> PyResult<Bound<'py, PyDocumentArray>> {
    fn collect<'py>(documents: &Bound<'py, PyAny>, all: &Bound<'py, PyList>) -> PyResult<()> {
        for document in documents.try_iter()? {
            let document = document?;
            collect(&document.getattr("chunks")?, all)?;
            collect(&document.getattr("matches")?, all)?;
            all.append(document)?;
        }
        Ok(())
    }
    let all = PyList::empty(array.py());
    collect(array.as_any(), &all)?;
    PyDocumentArray::of_list(&all)
}

/// The document whose id is the second part of a pair, such as `['id of one', 'id of another']`.
fn id_of_one<'py>(
    array: Array<'_, 'py>,
    second: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyDocument>>> {
    let Ok(id) = second.extract::<String>() else {
        return Ok(None);
    };
    let at = PyDocumentArray::position(array, &id);
    at.map(|at| PyDocumentArray::at(array, at)).transpose()
}

/// Documents and the names of attributes.
type Attributes<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The parts of an index such as `[:, 'text']` or `['@c', ['id', 'text']]`.
fn attributes<'py>(pair: &Bound<'py, PyTuple>) -> PyResult<Option<Attributes<'py>>> {
    if pair.len() != 2 {
        return Ok(None);
    }
    let (documents, names) = (pair.get_item(0)?, pair.get_item(1)?);
    let is_name = |name: &Bound<'py, PyAny>| name.is_instance_of::<PyString>();
    let are_names = is_name(&names)
        || ((names.is_instance_of::<PyList>() || names.is_instance_of::<PyTuple>())
            && names
                .try_iter()?
                .all(|name| name.is_ok_and(|name| is_name(&name))));
    Ok(are_names.then_some((documents, names)))
}

fn get_attributes<'py>(
    documents: &Bound<'py, PyAny>,
    names: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let one = |name: &Bound<'py, PyAny>| match documents.cast::<PyDocumentArray>() {
        Ok(array) => {
            let name: String = name.extract()?;
            match name.as_str() {
                "embedding" => array.getattr("embeddings"),
                "tensor" => array.getattr("tensors"),
                name => PyDocumentArray::attributes(array, name).map(Bound::into_any),
            }
        }
        Err(_) => attribute(documents, &name.extract::<String>()?),
    };
    if names.is_instance_of::<PyString>() {
        return one(names);
    }
    // A list with one name is that name, as with DocArray.
    if names.len()? == 1 {
        return one(&names.get_item(0)?);
    }
    let values = PyList::empty(documents.py());
    for name in names.try_iter()? {
        values.append(one(&name?)?)?;
    }
    Ok(values.into_any())
}

fn set_attributes(
    documents: &Bound<'_, PyAny>,
    names: &Bound<'_, PyAny>,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if !names.is_instance_of::<PyString>() {
        for (name, value) in names.try_iter()?.zip(value.try_iter()?) {
            set_attributes(documents, &name?, &value?)?;
        }
        return Ok(());
    }
    let name = names.cast::<PyString>()?;
    let Ok(array) = documents.cast::<PyDocumentArray>() else {
        return documents.setattr(name, value);
    };
    if name == "embedding" || name == "tensor" {
        return array.setattr(format!("{name}s").as_str(), value);
    }
    // One text is a value, and not a list of characters.
    let single = value.is_instance_of::<PyString>();
    let list = PyDocumentArray::list(array)?;
    if !single {
        PyDocumentArray::check_len(array, value.len()?, &name.to_string())?;
    }
    for (index, document) in list.iter().enumerate() {
        let value = if single {
            value.clone()
        } else {
            value.get_item(index)?
        };
        document.setattr(name, value)?;
    }
    Ok(())
}

/// A tuple of positions as an error about what a caller may index with.
fn bad_index(index: &Bound<'_, PyAny>) -> PyErr {
    match index.cast::<PyTuple>() {
        Ok(_) => {
            PyIndexError::new_err("expected documents and attributes, such as `docs[:, 'text']`")
        }
        Err(_) => PyIndexError::new_err(format!(
            "an array is indexed by positions, ids, slices, masks or access paths such as '@c', not by {}",
            index
                .repr()
                .map_or_else(|_| String::new(), |text| text.to_string())
        )),
    }
}
