//! Half-precision floats, in which embeddings are kept beside bf16 weights.
//!
//! Both directions go through a multiplication that moves the exponent, so that numbers too small to be
//! normal need no branch.

const UP: f32 = f32::from_bits((127 + 112) << 23);
const DOWN: f32 = f32::from_bits((127 - 112) << 23);
/// The largest number there is.
const MAX: f32 = 65504.0;

/// The nearest half; what is larger than any becomes the largest.
pub(super) fn round(value: f32) -> u16 {
    let bits = (value.clamp(-MAX, MAX) * DOWN).to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let half = 0x0fff + (magnitude >> 13 & 1);
    ((bits >> 16) & 0x8000) as u16 | ((magnitude + half) >> 13) as u16
}

/// The same number, exactly.
pub(super) fn widen(half: u16) -> f32 {
    let bits = u32::from(half);
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * UP;
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_itself_again() {
        for half in 0..0x7c00_u16 {
            assert_eq!(round(widen(half)), half);
            assert_eq!(round(widen(half | 0x8000)), half | 0x8000);
        }
        assert_eq!(widen(0x3c00), 1.0);
        assert_eq!(widen(0x0001), 2f32.powi(-24));
    }

    #[test]
    fn rounding_goes_to_the_nearest() {
        assert_eq!(round(1.0 + 2f32.powi(-11)), 0x3c00, "ties go to even");
        assert_eq!(round(1.0 + 3.0 * 2f32.powi(-11)), 0x3c02);
        assert_eq!(round(1.0 + 2f32.powi(-11) * 1.01), 0x3c01);
        assert_eq!(round(1e9), 0x7bff);
    }
}
