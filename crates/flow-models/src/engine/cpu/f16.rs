//! Conversion between 32-bit floats and half precision, in which embeddings are stored beside bf16 weights.
//!
//! Both directions multiply by a power of two to move the exponent, so that subnormal numbers need no branch.

/// Moves the exponent from the bias of half precision to that of 32-bit floats.
const EXPONENT_UP: f32 = f32::from_bits((127 + 112) << 23);
/// Moves the exponent from the bias of 32-bit floats to that of half precision.
const EXPONENT_DOWN: f32 = f32::from_bits((127 - 112) << 23);
/// The largest number in half precision.
const MAX: f32 = 65504.0;

/// Rounds to the nearest half-precision number, ties to even. Larger numbers become the largest one.
pub(super) fn from_f32(value: f32) -> u16 {
    let bits = (value.clamp(-MAX, MAX) * EXPONENT_DOWN).to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let half = 0x0fff + (magnitude >> 13 & 1);
    ((bits >> 16) & 0x8000) as u16 | ((magnitude + half) >> 13) as u16
}

/// Converts to a 32-bit float, exactly.
pub(super) fn to_f32(value: u16) -> f32 {
    let bits = u32::from(value);
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * EXPONENT_UP;
    f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_a_round_trip() {
        for value in 0..0x7c00_u16 {
            assert_eq!(from_f32(to_f32(value)), value);
            assert_eq!(from_f32(to_f32(value | 0x8000)), value | 0x8000);
        }
        assert_eq!(to_f32(0x3c00), 1.0);
        assert_eq!(to_f32(0x0001), 2f32.powi(-24));
    }

    #[test]
    fn rounding_goes_to_the_nearest() {
        assert_eq!(from_f32(1.0 + 2f32.powi(-11)), 0x3c00, "ties go to even");
        assert_eq!(from_f32(1.0 + 3.0 * 2f32.powi(-11)), 0x3c02);
        assert_eq!(from_f32(1.0 + 2f32.powi(-11) * 1.01), 0x3c01);
        assert_eq!(from_f32(1e9), 0x7bff);
    }
}
