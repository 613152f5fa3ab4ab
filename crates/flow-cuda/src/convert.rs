//! Half-precision numbers of both kinds, for what goes to a device and comes back.

/// The nearest half; what is larger than any becomes the largest.
pub(crate) fn to_f16(value: f32) -> u16 {
    const MAX: f32 = 65504.0;
    // Moves the exponent, so that numbers too small to be normal need no branch.
    const DOWN: f32 = f32::from_bits((127 - 112) << 23);
    let bits = (value.clamp(-MAX, MAX) * DOWN).to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let half = 0x0fff + (magnitude >> 13 & 1);
    ((bits >> 16) & 0x8000) as u16 | ((magnitude + half) >> 13) as u16
}

/// The nearest bf16, ties to even.
pub(crate) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let half = 0x7fff + (bits >> 16 & 1);
    (bits.wrapping_add(half) >> 16) as u16
}

/// The same number, exactly.
pub(crate) fn from_f16(half: u16) -> f32 {
    const UP: f32 = f32::from_bits((127 + 112) << 23);
    let bits = u32::from(half);
    let magnitude = bits & 0x7fff;
    let wide = if magnitude >= 0x7c00 {
        f32::from_bits(0x7f80_0000 | (magnitude & 0x3ff) << 13)
    } else {
        f32::from_bits(magnitude << 13) * UP
    };
    f32::from_bits(wide.to_bits() | (bits & 0x8000) << 16)
}

/// The same number, exactly.
pub(crate) fn from_bf16(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_itself_again() {
        for half in 0..0x7c00_u16 {
            for half in [half, half | 0x8000] {
                assert_eq!(to_f16(from_f16(half)), half);
            }
        }
        assert_eq!(from_f16(0x3c00), 1.0);
        assert!(from_f16(0xffff).is_nan());
        assert_eq!(to_f16(1e9), 0x7bff);
    }

    #[test]
    fn ties_go_to_even() {
        assert_eq!(to_f16(1.0 + 2f32.powi(-11)), 0x3c00);
        assert_eq!(to_f16(1.0 + 3.0 * 2f32.powi(-11)), 0x3c02);
        assert_eq!(to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(from_bf16(0x3f81), f32::from_bits(0x3f81_0000));
    }
}
