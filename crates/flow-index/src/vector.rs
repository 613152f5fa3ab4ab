//! Reads vectors from embeddings, and computes their dot products and lengths.

use flow_core::{EmbeddingType, Tensor};
use flow_executor::{CallError, Document};

/// Maximum number of values in a vector. Models return a few thousand.
const DIMENSIONS_MAX: usize = 65_536;

/// Number of partial sums in a dot product, so that the compiler can use SIMD instructions.
const LANES: usize = 16;

/// Returns the vector of a document, or an error if it does not fit the index.
pub(crate) fn values(
    doc: &Document,
    vector: &Tensor,
    dimensions: Option<usize>,
) -> Result<Vec<f32>, CallError> {
    let wrong = |what: String| {
        let id = doc.id();
        CallError::bad_request(format!("the embedding of document `{id}` {what}"))
    };
    // Checked before the values are decoded: the shape may name many more values than the bytes that were sent.
    let len = vector.len();
    if len > DIMENSIONS_MAX || (vector.buffer().is_empty() && len > 0) {
        return Err(wrong(format!(
            "has the shape of {len} values, and {} bytes of them",
            vector.buffer().len()
        )));
    }
    let values = floats(vector, dimensions).ok_or_else(|| {
        let found = vector.data_type().as_str();
        wrong(format!(
            "has values of the type `{found}`; floats, and vectors of the encoder's `embedding_type`, can be indexed"
        ))
    })?;
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return Err(wrong("is empty, or not all of it is finite".to_owned()));
    }
    match dimensions {
        Some(wanted) if wanted != values.len() => Err(wrong(format!(
            "has {} values, but the index has vectors of {wanted}",
            values.len()
        ))),
        _ => Ok(values),
    }
}

/// Decodes a vector into floats. Bytes are read as packed bits if that gives the required length.
fn floats(vector: &Tensor, dimensions: Option<usize>) -> Option<Vec<f32>> {
    let as_bits = EmbeddingType::of(vector)?.as_bits();
    // For a required length of 1, a byte is a number and not packed bits.
    let wanted = dimensions.filter(|wanted| *wanted > 1 && wanted.div_ceil(8) == vector.len());
    let (Some(bits), Some(wanted)) = (as_bits, wanted) else {
        return EmbeddingType::floats_of(vector);
    };
    let mut floats = bits.decode(vector)?;
    floats.truncate(wanted);
    Some(floats)
}

/// Returns the dot product of two vectors with the same number of values. For unit vectors, this is their cosine.
#[must_use]
#[inline]
pub fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (ones, others) = (one.chunks_exact(LANES), other.chunks_exact(LANES));
    let rest: f32 = ones
        .remainder()
        .iter()
        .zip(others.remainder())
        .map(|(a, b)| a * b)
        .sum();
    for (a, b) in ones.zip(others) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    rest + sums.iter().sum::<f32>()
}

/// Scales a vector to length 1. A zero vector stays as it is.
#[must_use]
pub fn normalised(mut vector: Vec<f32>) -> Vec<f32> {
    let length = dot(&vector, &vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_every_length_are_right() {
        for len in [0, 1, 15, 16, 17, 33] {
            #[allow(clippy::cast_precision_loss, reason = "small whole numbers")]
            let one: Vec<f32> = (0..len).map(|it| it as f32).collect();
            let expected: f32 = one.iter().map(|value| value * 2.0).sum();
            let twos = vec![2.0; len];
            assert!((dot(&one, &twos) - expected).abs() < 1e-3, "{len}");
        }
    }

    #[test]
    fn a_vector_gets_the_length_one_unless_it_is_nothing() {
        assert_eq!(normalised(vec![3.0, 4.0]), [0.6, 0.8]);
        assert_eq!(normalised(vec![0.0, 0.0]), [0.0, 0.0]);
    }
}
