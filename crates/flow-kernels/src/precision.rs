//! The number formats that matrix products can read.

use std::fmt;

/// Format of the operands of matrix products. Sums of floats are 32-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuPrecision {
    /// 32-bit floats.
    F32,
    /// bf16: 8 bits of precision, and half the memory of 32-bit floats.
    Bf16,
    /// 8-bit integers with scales, and a quarter of the memory of 32-bit floats. Sums are 32-bit integers.
    Int8,
}

impl fmt::Display for CpuPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        })
    }
}
