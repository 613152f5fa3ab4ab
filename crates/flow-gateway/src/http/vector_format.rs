//! The formats in which APIs send vectors.
//!
//! | format | values |
//! |---|---|
//! | float | 32-bit floats |
//! | base64 | the same as bytes, little endian, in base64 |
//! | int8 | the values divided by the largest of the vector, times 127 |
//! | uint8 | as int8, plus 128 |
//! | ubinary | one bit for each value, set if it is positive; the first value is the highest bit of the first byte |
//! | binary | as ubinary, minus 128 |
//!
//! The cosine of two int8 vectors is about that of the floats, because each vector has a scale of its own. `binary` and
//! `ubinary` are those of sentence-transformers and Cohere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize, Serializer};

/// The largest value of an int8 vector.
const INT8_MAX: f32 = 127.0;

/// What turns unsigned values into signed ones.
const OFFSET: i16 = 128;

/// The format of a vector.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VectorFormat {
    #[default]
    Float,
    Base64,
    Int8,
    Uint8,
    Binary,
    Ubinary,
}

impl VectorFormat {
    /// The vector in this format.
    pub(crate) fn of(self, vector: &[f32]) -> FormattedVector<'_> {
        match self {
            Self::Float => FormattedVector::Floats(vector),
            Self::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|it| it.to_le_bytes()).collect();
                FormattedVector::Base64(STANDARD.encode(bytes))
            }
            Self::Int8 => FormattedVector::Whole(int8(vector).collect()),
            Self::Uint8 => FormattedVector::Whole(int8(vector).map(|it| it + OFFSET).collect()),
            Self::Binary => FormattedVector::Whole(bits(vector).map(|it| it - OFFSET).collect()),
            Self::Ubinary => FormattedVector::Whole(bits(vector).collect()),
        }
    }
}

/// A vector as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FormattedVector<'v> {
    Floats(&'v [f32]),
    Base64(String),
    Whole(Vec<i16>),
}

impl Serialize for FormattedVector<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Floats(values) => values.serialize(serializer),
            Self::Base64(text) => text.serialize(serializer),
            Self::Whole(values) => values.serialize(serializer),
        }
    }
}

/// Each value as a whole number from -127 to 127.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a rounded number from -127 to 127"
)]
fn int8(vector: &[f32]) -> impl Iterator<Item = i16> {
    let largest = vector
        .iter()
        .fold(0.0_f32, |max, value| max.max(value.abs()));
    let scale = if largest > 0.0 {
        INT8_MAX / largest
    } else {
        0.0
    };
    vector
        .iter()
        .map(move |value| (value * scale).round() as i16)
}

/// The signs of eight values in each byte.
fn bits(vector: &[f32]) -> impl Iterator<Item = i16> {
    vector.chunks(8).map(|values| {
        let bits = values.iter().zip((0..8).rev());
        bits.map(|(value, bit)| i16::from(*value > 0.0) << bit)
            .sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: VectorFormat, vector: &[f32], expected: &str) {
        let written = serde_json::to_string(&format.of(vector)).unwrap();
        assert_eq!(written, expected, "{format:?}");
    }

    #[test]
    fn each_format_writes_its_own_numbers() {
        let vector = [0.5, -0.25, 0.0, 0.125];
        check(VectorFormat::Float, &vector, "[0.5,-0.25,0.0,0.125]");
        check(VectorFormat::Base64, &[1.0], "\"AACAPw==\"");
        check(VectorFormat::Int8, &vector, "[127,-64,0,32]");
        check(VectorFormat::Uint8, &vector, "[255,64,128,160]");
        check(VectorFormat::Ubinary, &vector, "[144]");
        check(VectorFormat::Binary, &vector, "[16]");
        let nine = [1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0];
        check(VectorFormat::Ubinary, &nine, "[129,128]");
        check(VectorFormat::Int8, &[0.0, 0.0], "[0,0]");
    }

    #[test]
    fn floats_are_written_with_the_digits_that_give_the_same_float() {
        for value in [0.1_f32, -3.402_823_5e38, 1e-10, 0.034_455_3] {
            let written = serde_json::to_string(&VectorFormat::Float.of(&[value])).unwrap();
            let read: Vec<f32> = serde_json::from_str(&written).unwrap();
            assert_eq!(read, [value], "{written}");
        }
    }
}
