//! The table of kernels.

use std::fmt;

/// The operation of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Embeddings and their layer norm: token ids to hidden states.
    Embed,
    /// A layer norm of each row.
    LayerNorm,
    /// A matrix product with a fused epilogue, in tiles of 128 × 128.
    Matmul,
    /// The same in tiles of 64 × 64, for few rows.
    MatmulSmall,
    /// Attention with heads of 32 values.
    Attention32,
    /// Attention with heads of 64 values.
    Attention64,
    /// Attention with heads of any size.
    AttentionGeneric,
    /// Pooling: hidden states to vectors.
    Pool,
}

/// The number format of a kernel. Sums are 32-bit floats in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GpuPrecision {
    /// 32-bit floats.
    F32,
    /// 32-bit floats, of which matrix products read the upper 19 bits.
    Tf32,
    /// Half precision.
    F16,
    /// bf16, the upper half of a 32-bit float.
    Bf16,
}

/// A kernel, as its index in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kernel(usize);

/// The name of each kernel in the compiled module.
#[rustfmt::skip]
const TABLE: &[(Operation, GpuPrecision, &str)] = &[
    (Operation::Embed, GpuPrecision::F32, "embed_f32"),
    (Operation::Embed, GpuPrecision::F16, "embed_f16"),
    (Operation::Embed, GpuPrecision::Bf16, "embed_bf16"),
    (Operation::LayerNorm, GpuPrecision::F32, "layer_norm_f32"),
    (Operation::LayerNorm, GpuPrecision::F16, "layer_norm_f16"),
    (Operation::LayerNorm, GpuPrecision::Bf16, "layer_norm_bf16"),
    (Operation::Matmul, GpuPrecision::F32, "matmul_f32"),
    (Operation::Matmul, GpuPrecision::Tf32, "matmul_tf32"),
    (Operation::Matmul, GpuPrecision::F16, "matmul_f16"),
    (Operation::Matmul, GpuPrecision::Bf16, "matmul_bf16"),
    (Operation::MatmulSmall, GpuPrecision::F32, "matmul_small_f32"),
    (Operation::MatmulSmall, GpuPrecision::Tf32, "matmul_small_tf32"),
    (Operation::MatmulSmall, GpuPrecision::F16, "matmul_small_f16"),
    (Operation::MatmulSmall, GpuPrecision::Bf16, "matmul_small_bf16"),
    (Operation::Attention32, GpuPrecision::F16, "attention_32_f16"),
    (Operation::Attention32, GpuPrecision::Bf16, "attention_32_bf16"),
    (Operation::Attention64, GpuPrecision::F16, "attention_64_f16"),
    (Operation::Attention64, GpuPrecision::Bf16, "attention_64_bf16"),
    (Operation::AttentionGeneric, GpuPrecision::F32, "attention_generic_f32"),
    (Operation::AttentionGeneric, GpuPrecision::F16, "attention_generic_f16"),
    (Operation::AttentionGeneric, GpuPrecision::Bf16, "attention_generic_bf16"),
    (Operation::Pool, GpuPrecision::F32, "pool_f32"),
    (Operation::Pool, GpuPrecision::F16, "pool_f16"),
    (Operation::Pool, GpuPrecision::Bf16, "pool_bf16"),
];

impl Kernel {
    /// Finds the kernel for an operation in a precision. TF32 uses the kernels for 32-bit floats except in matrix products.
    #[must_use]
    pub fn find(operation: Operation, precision: GpuPrecision) -> Option<Self> {
        let find = |precision: GpuPrecision| {
            let mut rows = TABLE.iter();
            rows.position(|(row, format, _)| (*row, *format) == (operation, precision))
        };
        let index = match precision {
            GpuPrecision::Tf32 => find(GpuPrecision::Tf32).or_else(|| find(GpuPrecision::F32)),
            _ => find(precision),
        };
        index.map(Self)
    }

    /// All kernels, in the order of their indices.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..TABLE.len()).map(Self)
    }

    /// Its index in the table.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }

    /// Its name in the compiled module.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE[self.0].2
    }
}

impl GpuPrecision {
    /// Bytes of a number in memory.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::Tf32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

impl fmt::Display for GpuPrecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        })
    }
}
