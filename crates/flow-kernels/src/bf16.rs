//! Conversion between 32-bit floats and bf16, which is the upper half of a 32-bit float.

/// Rounds to the nearest bf16, ties to even.
///
/// A NaN stays one only if its upper half is one, which is true of every NaN that arithmetic produces.
#[inline(always)]
pub(crate) fn from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let half = 0x7fff + (bits >> 16 & 1);
    (bits.wrapping_add(half) >> 16) as u16
}

/// Converts to a 32-bit float, exactly.
#[inline(always)]
pub(crate) fn to_f32(value: u16) -> f32 {
    f32::from_bits(u32::from(value) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_goes_to_the_nearest_and_ties_to_even() {
        for (bits, expected) in [
            (0x3f80_0000, 0x3f80),
            (0x3f80_7fff, 0x3f80),
            (0x3f80_8000, 0x3f80),
            (0x3f80_8001, 0x3f81),
            (0x3f81_8000, 0x3f82),
            (0xff80_0000_u32, 0xff80),
            (0x7fc0_0000, 0x7fc0),
        ] {
            assert_eq!(from_f32(f32::from_bits(bits)), expected, "{bits:#x}");
        }
    }

    #[test]
    fn widening_is_exact() {
        for value in [0.0, 1.5, -3.0, f32::INFINITY] {
            assert_eq!(to_f32(from_f32(value)), value);
        }
    }
}
