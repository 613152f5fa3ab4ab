//! Conversion between 32-bit floats and the 2-byte formats of devices.

/// Rounds to the nearest half-precision number, ties to even. Larger numbers become the largest one.
pub(crate) fn to_f16(value: f32) -> u16 {
    const MAX: f32 = 65504.0;
    // Multiplying moves the exponent, so that subnormal numbers need no branch.
    const EXPONENT_DOWN: f32 = f32::from_bits((127 - 112) << 23);
    let bits = (value.clamp(-MAX, MAX) * EXPONENT_DOWN).to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let half = 0x0fff + (magnitude >> 13 & 1);
    ((bits >> 16) & 0x8000) as u16 | ((magnitude + half) >> 13) as u16
}

/// Rounds to the nearest bf16, ties to even.
pub(crate) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let half = 0x7fff + (bits >> 16 & 1);
    (bits.wrapping_add(half) >> 16) as u16
}

/// Converts half precision to a 32-bit float, exactly.
pub(crate) fn from_f16(value: u16) -> f32 {
    const EXPONENT_UP: f32 = f32::from_bits((127 + 112) << 23);
    let bits = u32::from(value);
    let magnitude = bits & 0x7fff;
    let wide = if magnitude >= 0x7c00 {
        f32::from_bits(0x7f80_0000 | (magnitude & 0x3ff) << 13)
    } else {
        f32::from_bits(magnitude << 13) * EXPONENT_UP
    };
    f32::from_bits(wide.to_bits() | (bits & 0x8000) << 16)
}

/// Converts bf16 to a 32-bit float, exactly.
pub(crate) fn from_bf16(value: u16) -> f32 {
    f32::from_bits(u32::from(value) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_a_round_trip() {
        for magnitude in 0..0x7c00_u16 {
            for value in [magnitude, magnitude | 0x8000] {
                assert_eq!(to_f16(from_f16(value)), value);
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
