//! The cosine of two vectors.

/// The cosine of the angle between two vectors of the same length, from -1 to 1. `None` if one of them is zero or not finite.
#[must_use]
pub fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        products.sum()
    };
    let length = (dot(a, a) * dot(b, b)).sqrt();
    let is_directed = length.is_finite() && 0.0 < length;
    is_directed.then(|| (dot(a, b) / length).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cosine_ignores_the_lengths_of_vectors() {
        assert_eq!(cosine(&[1.0, 0.0], &[0.5, 0.0]), Some(1.0));
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 9.0]), Some(0.0));
        assert_eq!(cosine(&[1.0, 1.0], &[-1.0, -1.0]), Some(-1.0));
        assert_eq!(cosine(&[0.0], &[1.0]), None);
        assert_eq!(cosine(&[f32::NAN], &[1.0]), None);
    }
}
