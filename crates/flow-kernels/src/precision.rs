//! The number formats that matrix products can read.

use std::fmt;

/// Format of the operands of matrix products. Sums are 32-bit floats in either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuPrecision {
    /// 32-bit floats.
    F32,
    /// bf16: 8 bits of precision, and half the memory of 32-bit floats.
    Bf16,
}

impl fmt::Display for CpuPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}
