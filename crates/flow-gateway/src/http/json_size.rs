//! Bounds the memory of a parsed JSON body. `[{},{},…` has two bytes for a value that takes eighty.

use flow_core::{Code, Failure};

/// Bytes of a body's limit for each value that it may have. A number of a vector has about nine.
const BYTES_EACH: usize = 10;

/// Whether a body of `len` bytes may have too many values: no value is shorter than a byte.
pub(crate) fn may_exceed(len: usize, len_max: usize) -> bool {
    len > len_max / BYTES_EACH
}

/// Checks that a body does not have too many values for a limit of `len_max` bytes.
pub(crate) fn check(body: &[u8], len_max: usize) -> Result<(), Failure> {
    let max = len_max / BYTES_EACH;
    if !may_exceed(body.len(), len_max) {
        return Ok(());
    }
    let values = values(body);
    if values <= max {
        return Ok(());
    }
    let text = format!(
        "the body has about {values} values, and {max} are allowed; send it in several requests"
    );
    Err(Failure::new(Code::TooLarge, text))
}

/// About how many lists, objects, and elements of them a text has, if it is JSON.
fn values(body: &[u8]) -> usize {
    let (mut count, mut is_in_text, mut is_escaped) = (0, false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_text => is_escaped = true,
            b'"' => is_in_text = !is_in_text,
            b',' | b'[' | b'{' if !is_in_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts() {
        let check =
            |text: &str, expected: usize| assert_eq!(values(text.as_bytes()), expected, "{text}");
        check("5", 0);
        check("[1, 2, 3]", 3);
        check(r#"{"a": {"b": []}, "c": 1}"#, 4);
        check(r#"["[,{", "\"[", "\\", "]"]"#, 4);
        check(r#"["an end is missing, [["#, 1);
    }

    #[test]
    fn a_body_of_tiny_values_is_refused_and_one_of_vectors_is_not() {
        let empty = "{},".repeat(1000);
        let vector = "0.123456,".repeat(1000);
        let text = format!("\"{}\"", ",".repeat(5000));
        assert!(check(vector.as_bytes(), 10_000).is_ok());
        assert!(check(text.as_bytes(), 10_000).is_ok());
        let failure = check(empty.as_bytes(), 10_000).unwrap_err();
        assert_eq!(failure.code(), Code::TooLarge);
        assert!(
            failure.to_string().contains("2000 values, and 1000"),
            "{failure}"
        );
    }
}
