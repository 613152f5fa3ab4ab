//! Tensors of texts: as JSON, or each with its length in four bytes before it, little endian.

use serde_json::Value;

use super::super::api_error::ApiError;

/// Nested lists have as many levels as a tensor has dimensions.
const LEVELS_MAX: usize = 8;

/// The texts of a tensor of bytes, at most `max`.
pub(crate) fn texts_of_bytes(mut rest: &[u8], max: usize) -> Result<Vec<String>, ApiError> {
    let short = || wrong("the bytes of the tensor end within an element");
    let mut texts = Vec::new();
    while !rest.is_empty() {
        if texts.len() == max {
            return Err(wrong(&format!(
                "the tensor has more than {max} texts, the limit (`documents_max`)"
            )));
        }
        let (len, after) = rest.split_first_chunk().ok_or_else(short)?;
        let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| short())?;
        let (text, after) = after.split_at_checked(len).ok_or_else(short)?;
        let text = std::str::from_utf8(text).map_err(|_| wrong("an element is not UTF-8"))?;
        texts.push(text.to_owned());
        rest = after;
    }
    Ok(texts)
}

/// The texts of a tensor as JSON: a list, or lists of lists.
pub(super) fn texts_of_json(data: Value) -> Result<Vec<String>, ApiError> {
    let mut texts = Vec::new();
    collect(data, LEVELS_MAX, &mut texts)?;
    Ok(texts)
}

fn collect(data: Value, levels: usize, texts: &mut Vec<String>) -> Result<(), ApiError> {
    match data {
        Value::String(text) => {
            texts.push(text);
            Ok(())
        }
        Value::Array(items) if levels > 0 => items
            .into_iter()
            .try_for_each(|item| collect(item, levels - 1, texts)),
        _ => Err(wrong("`data` must be a list of texts")),
    }
}

/// Checks that a tensor of this shape has this number of elements.
pub(crate) fn check_shape(shape: &[usize], count: usize) -> Result<(), ApiError> {
    if shape.len() > LEVELS_MAX {
        let dimensions = shape.len();
        let message = format!("the shape has {dimensions} dimensions; it may have {LEVELS_MAX}");
        return Err(wrong(&message));
    }
    let product = shape
        .iter()
        .try_fold(1_usize, |all, len| all.checked_mul(*len));
    match product {
        Some(product) if product == count => Ok(()),
        _ => Err(wrong(&format!(
            "the shape is {shape:?}, and there are {count} elements"
        ))),
    }
}

fn wrong(message: &str) -> ApiError {
    ApiError::invalid("inputs", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_element_has_its_length_before_it() {
        assert_eq!(texts_of_bytes(b"", 2).unwrap(), [""; 0]);
        assert_eq!(
            texts_of_bytes(b"\0\0\0\0\x02\0\0\0\xc3\xa4", 2).unwrap(),
            ["", "ä"]
        );
        for bad in [
            &b"\x01"[..],
            b"\x02\0\0\0a",
            b"\x01\0\0\0\xff",
            b"\xff\xff\xff\xffa",
        ] {
            assert!(texts_of_bytes(bad, 2).is_err(), "{bad:?}");
        }
        let many = texts_of_bytes(&[0; 12], 2).unwrap_err();
        assert_eq!(
            many.message,
            "the tensor has more than 2 texts, the limit (`documents_max`)"
        );
    }

    #[test]
    fn json_may_be_nested_as_the_shape_is() {
        assert_eq!(texts_of_json(json!([["a"], ["b"]])).unwrap(), ["a", "b"]);
        assert!(texts_of_json(json!(["a", 1])).is_err());
        let deep = (0..20).fold(json!("a"), |inner, _| json!([inner]));
        assert!(texts_of_json(deep).is_err());
    }

    #[test]
    fn a_shape_has_as_many_elements_as_there_are() {
        assert!(check_shape(&[2, 1], 2).is_ok());
        assert!(check_shape(&[3], 2).is_err());
        assert!(check_shape(&[usize::MAX, 2], 0).is_err());
    }
}
