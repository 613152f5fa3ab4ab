//! The formats in which APIs send vectors.
//!
//! | format | values |
//! |---|---|
//! | float | 32-bit floats |
//! | base64 | the same as bytes, little endian, in base64 |
//! | int8, uint8, binary, ubinary | the numbers of [`EmbeddingType`] |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flow_core::EmbeddingType;
use serde::{Deserialize, Serialize, Serializer};

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
                FormattedVector::Base64(STANDARD.encode(EmbeddingType::F32.bytes(vector)))
            }
            Self::Int8 => FormattedVector::Signed(EmbeddingType::Int8.bytes(vector)),
            Self::Uint8 => FormattedVector::Unsigned(EmbeddingType::Uint8.bytes(vector)),
            Self::Binary => FormattedVector::Signed(EmbeddingType::Binary.bytes(vector)),
            Self::Ubinary => FormattedVector::Unsigned(EmbeddingType::Ubinary.bytes(vector)),
        }
    }
}

/// A vector as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FormattedVector<'v> {
    Floats(&'v [f32]),
    Base64(String),
    /// Bytes that stand for signed numbers.
    Signed(Vec<u8>),
    Unsigned(Vec<u8>),
}

impl Serialize for FormattedVector<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Floats(values) => values.serialize(serializer),
            Self::Base64(text) => text.serialize(serializer),
            Self::Signed(bytes) => {
                serializer.collect_seq(bytes.iter().map(|byte| byte.cast_signed()))
            }
            Self::Unsigned(bytes) => serializer.collect_seq(bytes),
        }
    }
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
        check(VectorFormat::Int8, &[0.6, -0.8, 0.0], "[76,-102,0]");
        check(VectorFormat::Uint8, &[0.6, -0.8, 0.0], "[204,26,128]");
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
