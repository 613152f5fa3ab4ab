//! The types in which vectors are sent and stored: floats, and smaller numbers that stand for them.
//!
//! | type | values | bytes for each value |
//! |---|---|---|
//! | `f32` | 32-bit floats | 4 |
//! | `f16` | half-precision floats | 2 |
//! | `int8` | `round(127 · x / r)` from -127 to 127, where `x` is a value of the vector scaled to length 1, and `r = min(1, 8 / √n)` for `n` values | 1 |
//! | `uint8` | `int8` plus 128 | 1 |
//! | `ubinary` | one bit, set if the value is positive; the first value is the highest bit of the first byte | 1/8 |
//! | `binary` | `ubinary` minus 128, as signed bytes | 1/8 |
//!
//! All vectors of a length share the range `r`, so inner products of int8 vectors can be compared as well as cosines.
//! The root mean square of a vector's values is `1 / √n`; the largest is seldom more than six times that, and values
//! beyond eight times are cut off. `binary` and `ubinary` are those of sentence-transformers, Cohere and Jina AI.

use serde::{Deserialize, Serialize};

use crate::tensor::{DataType, Tensor};

/// The largest value of an int8 vector.
const INT8_MAX: f32 = 127.0;

/// What turns signed bytes into unsigned ones, and back.
const SIGN: u8 = 128;

/// Multiples of the root mean square of a vector's values that int8 covers. Over 1,861 sentences, MiniLM's largest value
/// is 5.5 times that. The lowest cosine with the floats is 0.9998; with a range of -1 to 1 it is 0.9988.
const RANGE: f32 = 8.0;

/// Values in a byte of a binary vector.
const BITS: usize = 8;

/// The type of a vector's values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmbeddingType {
    /// 32-bit floats.
    #[default]
    #[serde(alias = "float", alias = "float32")]
    F32,
    /// Half-precision floats.
    #[serde(alias = "float16")]
    F16,
    /// Signed bytes.
    Int8,
    /// Unsigned bytes.
    Uint8,
    /// Signs of values, eight in a signed byte.
    Binary,
    /// Signs of values, eight in an unsigned byte.
    Ubinary,
}

impl EmbeddingType {
    /// The parameter of a request that asks an executor for vectors of a type.
    pub const PARAMETER: &'static str = "embedding_type";

    /// The vector in this type.
    #[must_use]
    pub fn encode(self, vector: &[f32]) -> Tensor {
        let len = match self {
            Self::Binary | Self::Ubinary => vector.len().div_ceil(BITS),
            _ => vector.len(),
        };
        let shape = vec![u32::try_from(len).unwrap_or(u32::MAX)];
        Tensor::from_parts(shape, self.data_type().into(), self.bytes(vector).into())
    }

    /// The vector in this type, as bytes.
    #[must_use]
    pub fn bytes(self, vector: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => vector.iter().flat_map(|it| it.to_le_bytes()).collect(),
            Self::F16 => {
                let halves = vector.iter().map(|&it| half::f16::from_f32(it));
                halves.flat_map(half::f16::to_le_bytes).collect()
            }
            Self::Int8 => int8(vector).collect(),
            Self::Uint8 => int8(vector).map(|byte| byte ^ SIGN).collect(),
            Self::Binary => bits(vector).map(|byte| byte ^ SIGN).collect(),
            Self::Ubinary => bits(vector).collect(),
        }
    }

    /// The floats that a vector of this type stands for: of `int8` and `uint8` about those of the vector with length 1, of
    /// `binary` and `ubinary` a vector of length 1 with the same signs. `None` if the tensor has other values.
    #[must_use]
    pub fn decode(self, tensor: &Tensor) -> Option<Vec<f32>> {
        if matches!(self, Self::F32 | Self::F16) {
            return tensor.to_f32();
        }
        let is_whole = tensor.data_type().as_str() == self.data_type();
        if !is_whole || tensor.buffer().len() != tensor.len() {
            return None;
        }
        let signed = matches!(self, Self::Int8 | Self::Binary);
        let mask = if signed { SIGN } else { 0 };
        let unsigned = tensor.buffer().iter().map(|byte| byte ^ mask);
        Some(match self {
            Self::Int8 | Self::Uint8 => {
                let step = range(tensor.len()) / INT8_MAX;
                unsigned
                    .map(|byte| (f32::from(byte) - f32::from(SIGN)) * step)
                    .collect()
            }
            _ => signs(unsigned, tensor.len() * BITS),
        })
    }

    /// The type of a tensor's values, as far as they say it: those of a binary vector look like bytes.
    #[must_use]
    pub fn of(tensor: &Tensor) -> Option<Self> {
        match tensor.data_type().as_str() {
            DataType::F32 | DataType::F64 => Some(Self::F32),
            DataType::F16 => Some(Self::F16),
            DataType::I8 => Some(Self::Int8),
            DataType::U8 => Some(Self::Uint8),
            _ => None,
        }
    }

    /// The floats that a vector stands for. Bytes are taken for int8 or uint8; where they are known to be bits, use
    /// [`decode`](Self::decode). `None` if the tensor has values of a type that is not here.
    #[must_use]
    pub fn floats_of(tensor: &Tensor) -> Option<Vec<f32>> {
        Self::of(tensor)?.decode(tensor)
    }

    /// The same type with a bit for each value, if this one has a byte for it.
    #[must_use]
    pub fn as_bits(self) -> Option<Self> {
        match self {
            Self::Int8 | Self::Binary => Some(Self::Binary),
            Self::Uint8 | Self::Ubinary => Some(Self::Ubinary),
            Self::F32 | Self::F16 => None,
        }
    }

    /// The NumPy type string of the values.
    #[must_use]
    pub fn data_type(self) -> &'static str {
        match self {
            Self::F32 => DataType::F32,
            Self::F16 => DataType::F16,
            Self::Int8 | Self::Binary => DataType::I8,
            Self::Uint8 | Self::Ubinary => DataType::U8,
        }
    }
}

/// The largest absolute value that int8 covers in vectors of length 1.
#[allow(
    clippy::cast_precision_loss,
    reason = "vectors have fewer than 2^24 values"
)]
fn range(len: usize) -> f32 {
    (RANGE / (len as f32).sqrt()).min(1.0)
}

/// Each value as a signed byte from -127 to 127.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a rounded number from -127 to 127"
)]
fn int8(vector: &[f32]) -> impl Iterator<Item = u8> {
    // The squares of floats that are very large or small are no `f32`.
    let squares = vector.iter().map(|&it| f64::from(it).powi(2));
    let length = squares.sum::<f64>().sqrt();
    let max = f64::from(INT8_MAX);
    let scale = match length > 0.0 {
        true => max / (length * f64::from(range(vector.len()))),
        false => 0.0,
    };
    let whole = move |&value: &f32| (f64::from(value) * scale).round().clamp(-max, max) as i8;
    vector.iter().map(move |value| whole(value).cast_unsigned())
}

/// The signs of eight values in each byte.
fn bits(vector: &[f32]) -> impl Iterator<Item = u8> {
    vector.chunks(BITS).map(|values| {
        let bits = values.iter().zip((0..BITS).rev());
        bits.fold(0, |byte, (value, bit)| byte | u8::from(*value > 0.0) << bit)
    })
}

/// A vector of length 1 with these signs.
#[allow(
    clippy::cast_precision_loss,
    reason = "vectors have fewer than 2^24 values"
)]
fn signs(bytes: impl Iterator<Item = u8>, len: usize) -> Vec<f32> {
    let one = 1.0 / (len as f32).sqrt();
    let signs = |byte: u8| (0..BITS).rev().map(move |bit| byte >> bit & 1 == 1);
    bytes
        .flat_map(signs)
        .map(|is_positive| if is_positive { one } else { -one })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(to: EmbeddingType, vector: &[f32], data_type: &str, bytes: &[u8]) {
        let tensor = to.encode(vector);
        assert_eq!(tensor.data_type().as_str(), data_type, "{to:?}");
        assert_eq!(tensor.buffer().as_ref(), bytes, "{to:?}");
        let width = if data_type == "<f2" { 2 } else { 1 };
        let len = u32::try_from(bytes.len() / width).unwrap();
        assert_eq!(tensor.shape(), [len], "{to:?}");
    }

    /// A vector of length 1 with this many values, none of them equal.
    fn unit(len: u16) -> Vec<f32> {
        let values: Vec<f32> = (0..len)
            .map(|it| (f32::from(it) * 0.7).sin() + 0.1)
            .collect();
        let length = values.iter().map(|it| it * it).sum::<f32>().sqrt();
        values.iter().map(|it| it / length).collect()
    }

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    }

    #[test]
    fn each_type_has_its_own_bytes() {
        let vector = [0.6, -0.8, 0.0];
        check(
            EmbeddingType::F16,
            &vector,
            "<f2",
            &[0xcd, 0x38, 0x66, 0xba, 0, 0],
        );
        check(EmbeddingType::Int8, &vector, "|i1", &[76, 154, 0]);
        check(EmbeddingType::Uint8, &vector, "|u1", &[204, 26, 128]);
        check(EmbeddingType::Ubinary, &vector, "|u1", &[0b1000_0000]);
        check(EmbeddingType::Binary, &vector, "|i1", &[0]);
        let nine = [1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 1.0, 1.0];
        check(EmbeddingType::Ubinary, &nine, "|u1", &[129, 128]);
        check(EmbeddingType::Binary, &nine, "|i1", &[1, 0]);
        check(EmbeddingType::Int8, &[0.0, 0.0], "|i1", &[0, 0]);
        assert_eq!(EmbeddingType::F32.encode(&vector), Tensor::vector(&vector));
    }

    #[test]
    fn int8_has_one_range_for_all_vectors_and_cuts_off_what_is_beyond_it() {
        let mut spike = vec![0.0; 256];
        spike[0] = 0.6;
        spike[1] = 0.8;
        // 8 / √256 is 0.5.
        assert_eq!(EmbeddingType::Int8.bytes(&spike)[..3], [127, 127, 0]);
        let mut flat = vec![1.0 / 16.0; 256];
        assert_eq!(EmbeddingType::Int8.bytes(&flat)[0], 16);
        let cut_off = EmbeddingType::Int8.bytes(&spike);
        for size in [1e30, 1e-30] {
            let scaled: Vec<f32> = spike.iter().map(|value| value * size).collect();
            assert_eq!(EmbeddingType::Int8.bytes(&scaled), cut_off, "{size}");
        }
        // A vector of another length is scaled to length 1.
        flat.iter_mut().for_each(|value| *value *= 5.0);
        assert_eq!(EmbeddingType::Int8.bytes(&flat)[0], 16);
    }

    #[test]
    fn decoded_values_are_close_to_the_encoded_ones() {
        for len in [8, 64, 384, 1024] {
            let vector = unit(len);
            for (to, near) in [
                (EmbeddingType::F32, 1.0),
                (EmbeddingType::F16, 0.999_999),
                (EmbeddingType::Int8, 0.999),
                (EmbeddingType::Uint8, 0.999),
                (EmbeddingType::Binary, 0.7),
                (EmbeddingType::Ubinary, 0.7),
            ] {
                let decoded = to.decode(&to.encode(&vector)).unwrap();
                assert_eq!(decoded.len(), vector.len());
                let found = cosine(&decoded, &vector);
                assert!(found >= near - 1e-6, "{to:?} of {len} values: {found}");
                let length = decoded.iter().map(|it| it * it).sum::<f32>();
                assert!((length - 1.0).abs() < 0.05, "{to:?}: {length}");
            }
        }
    }

    #[test]
    fn a_tensor_of_another_type_is_not_decoded() {
        let floats = EmbeddingType::F32.encode(&[1.0]);
        assert_eq!(EmbeddingType::Int8.decode(&floats), None);
        let short = Tensor::from_parts(vec![2], DataType::I8.into(), vec![1].into());
        assert_eq!(EmbeddingType::Int8.decode(&short), None);
        assert_eq!(
            EmbeddingType::Uint8.decode(&EmbeddingType::Int8.encode(&[1.0])),
            None
        );
    }

    #[test]
    fn the_names_of_sentence_transformers_are_read_too() {
        let read = |name: &str| serde_json::from_value::<EmbeddingType>(name.into());
        assert_eq!(read("float32").unwrap(), EmbeddingType::F32);
        assert_eq!(read("float").unwrap(), EmbeddingType::F32);
        assert_eq!(read("ubinary").unwrap(), EmbeddingType::Ubinary);
        let error = read("int4").unwrap_err().to_string();
        assert!(
            error.contains("`int4`") && error.contains("`uint8`"),
            "{error}"
        );
    }
}
