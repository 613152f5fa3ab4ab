//! Dense arrays in documents: little-endian values in row-major order, with a numpy type string.

use bytes::Bytes;

/// The type of a tensor's values, named by its numpy type string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataType(String);

impl DataType {
    /// Half-precision floats, little-endian.
    pub const F16: &'static str = "<f2";
    /// 32-bit floats, little-endian.
    pub const F32: &'static str = "<f4";
    /// 64-bit floats, little-endian.
    pub const F64: &'static str = "<f8";
    /// Signed bytes.
    pub const I8: &'static str = "|i1";
    /// Unsigned bytes.
    pub const U8: &'static str = "|u1";

    /// The numpy type string, such as `<f4`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for DataType {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Maximum number of dimensions, as in numpy. It limits the depth of recursive functions.
const DIMENSIONS_MAX: usize = 64;

/// A dense array of any shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    shape: Vec<u32>,
    data_type: DataType,
    buffer: Bytes,
}

impl Tensor {
    /// An array from its parts; `buffer` holds the values in row-major order.
    #[must_use]
    pub fn from_parts(shape: Vec<u32>, data_type: DataType, buffer: Bytes) -> Self {
        Self {
            shape,
            data_type,
            buffer,
        }
    }

    /// A vector of 32-bit floats.
    #[must_use]
    pub fn vector(values: &[f32]) -> Self {
        let shape = vec![u32::try_from(values.len()).unwrap_or(u32::MAX)];
        let buffer = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Self {
            shape,
            data_type: DataType::F32.into(),
            buffer,
        }
    }

    /// A matrix of 32-bit floats, whose rows have `width` values each.
    #[must_use]
    pub fn matrix(values: &[f32], width: usize) -> Self {
        let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let rows = values.len().checked_div(width).unwrap_or(0);
        Self {
            shape: vec![length(rows), length(width)],
            ..Self::vector(values)
        }
    }

    /// Length of each dimension.
    #[must_use]
    pub fn shape(&self) -> &[u32] {
        &self.shape
    }

    /// The type of the values.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The encoded values.
    #[must_use]
    pub fn buffer(&self) -> &Bytes {
        &self.buffer
    }

    /// The values as 32-bit floats in row-major order; `None` if they are not floats of 2, 4 or 8 bytes, or if their
    /// number does not fit the shape.
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        let len = self.len();
        if self.shape.len() > DIMENSIONS_MAX {
            return None;
        }
        if self.buffer.is_empty() {
            // DocArray reads zeros. A message of a few bytes must not become gigabytes.
            return (len == 0).then(Vec::new);
        }
        let values = match self.data_type.as_str() {
            DataType::F16 => self.values(|bytes| half::f16::from_le_bytes(bytes).to_f32()),
            DataType::F32 => self.values(f32::from_le_bytes),
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the result is 32-bit floats"
            )]
            DataType::F64 => self.values(|bytes| f64::from_le_bytes(bytes) as f32),
            _ => return None,
        };
        (values.len() == len).then_some(values)
    }

    /// The number of values according to the shape; `usize::MAX` if it is larger than that.
    #[must_use]
    pub fn len(&self) -> usize {
        len_of(&self.shape)
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values as whole numbers in row-major order; `None` if they are not bytes, or if their number does not fit the shape.
    #[must_use]
    pub fn to_i16(&self) -> Option<Vec<i16>> {
        let bytes = self.buffer.iter();
        let values: Vec<i16> = match self.data_type.as_str() {
            DataType::I8 => bytes.map(|&byte| byte.cast_signed().into()).collect(),
            DataType::U8 => bytes.map(|&byte| byte.into()).collect(),
            _ => return None,
        };
        (self.shape.len() <= DIMENSIONS_MAX && values.len() == self.len()).then_some(values)
    }

    fn values<const N: usize, T>(&self, read: impl Fn([u8; N]) -> T) -> Vec<T> {
        self.buffer
            .as_chunks::<N>()
            .0
            .iter()
            .map(|bytes| read(*bytes))
            .collect()
    }
}

/// The number of values of an array with this shape.
pub(crate) fn len_of(shape: &[u32]) -> usize {
    let lengths = shape.iter().map(|&length| length as usize);
    if lengths.clone().any(|length| length == 0) {
        return 0;
    }
    lengths.fold(1, usize::saturating_mul)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_little_endian() {
        let tensor = Tensor::vector(&[1.0, -2.5]);
        assert_eq!(tensor.buffer().as_ref(), [0, 0, 128, 63, 0, 0, 32, 192]);
        assert_eq!(tensor.to_f32().unwrap(), [1.0, -2.5]);
    }

    #[test]
    fn a_shape_without_bytes_has_no_values() {
        let tensor = Tensor::from_parts(vec![2, 2], DataType::F32.into(), Bytes::new());
        assert_eq!(tensor.to_f32(), None);
    }

    #[test]
    fn values_that_do_not_fit_the_shape_are_not_read() {
        let ones = Bytes::from_static(&[0, 0, 128, 63]);
        let read = |shape: &[u32], buffer: &Bytes| {
            Tensor::from_parts(shape.to_vec(), DataType::F32.into(), buffer.clone()).to_f32()
        };
        assert_eq!(read(&[], &ones), Some(vec![1.0]));
        assert_eq!(read(&[1, 1], &ones), Some(vec![1.0]));
        assert_eq!(read(&[2], &ones), None);
        assert_eq!(read(&[u32::MAX; 3], &ones), None);
        assert_eq!(read(&[u32::MAX; 3], &Bytes::new()), None);
        assert_eq!(read(&[1; 65], &ones), None);
        assert_eq!(
            read(&[u32::MAX, u32::MAX, u32::MAX, 0], &Bytes::new()),
            Some(vec![])
        );
    }

    #[test]
    fn half_precision_floats_and_bytes_are_read() {
        let read = |data_type: &str, bytes: &'static [u8]| {
            Tensor::from_parts(vec![2], data_type.into(), Bytes::from_static(bytes))
        };
        let halves = read("<f2", &[0, 60, 0, 192]);
        assert_eq!(halves.to_f32().unwrap(), [1.0, -2.0]);
        assert_eq!(read("|i1", &[1, 255]).to_i16().unwrap(), [1, -1]);
        assert_eq!(read("|u1", &[1, 255]).to_i16().unwrap(), [1, 255]);
        assert_eq!(read("|u1", &[1]).to_i16(), None);
        assert_eq!(halves.to_i16(), None);
    }

    #[test]
    fn integers_are_not_read_as_floats() {
        let tensor = Tensor::from_parts(vec![1], "<i4".into(), Bytes::from_static(&[1, 0, 0, 0]));
        assert_eq!(tensor.to_f32(), None);
    }
}
