//! Which kernels there are, and what they are called.

use std::fmt;

/// What a kernel computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// From ids to normalised states.
    Embed,
    /// A layer norm of each row.
    Norm,
    /// A matrix product in tiles of 128 × 128, with what follows it.
    Product,
    /// The same in tiles of 64 × 64, for few rows.
    ProductSmall,
    /// Attention with heads of 32 values.
    Attention32,
    /// Attention with heads of 64 values.
    Attention64,
    /// Attention with heads of any width.
    AttentionAny,
    /// From states to vectors.
    Pool,
}

/// The numbers that a kernel works on. Sums are 32-bit floats in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// 32-bit floats.
    F32,
    /// 32-bit floats, of which products see the upper 19 bits.
    Tf32,
    /// Half precision.
    F16,
    /// The upper half of 32-bit floats.
    Bf16,
}

/// A kernel, by its place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kernel(usize);

/// Each kernel's name in the compiled module.
#[rustfmt::skip]
const TABLE: &[(Operation, Format, &str)] = &[
    (Operation::Embed, Format::F32, "embed_f32"),
    (Operation::Embed, Format::F16, "embed_f16"),
    (Operation::Embed, Format::Bf16, "embed_bf16"),
    (Operation::Norm, Format::F32, "norm_f32"),
    (Operation::Norm, Format::F16, "norm_f16"),
    (Operation::Norm, Format::Bf16, "norm_bf16"),
    (Operation::Product, Format::F32, "product_f32"),
    (Operation::Product, Format::Tf32, "product_tf32"),
    (Operation::Product, Format::F16, "product_f16"),
    (Operation::Product, Format::Bf16, "product_bf16"),
    (Operation::ProductSmall, Format::F32, "product_small_f32"),
    (Operation::ProductSmall, Format::Tf32, "product_small_tf32"),
    (Operation::ProductSmall, Format::F16, "product_small_f16"),
    (Operation::ProductSmall, Format::Bf16, "product_small_bf16"),
    (Operation::Attention32, Format::F16, "attention_32_f16"),
    (Operation::Attention32, Format::Bf16, "attention_32_bf16"),
    (Operation::Attention64, Format::F16, "attention_64_f16"),
    (Operation::Attention64, Format::Bf16, "attention_64_bf16"),
    (Operation::AttentionAny, Format::F32, "attention_any_f32"),
    (Operation::AttentionAny, Format::F16, "attention_any_f16"),
    (Operation::AttentionAny, Format::Bf16, "attention_any_bf16"),
    (Operation::Pool, Format::F32, "pool_f32"),
    (Operation::Pool, Format::F16, "pool_f16"),
    (Operation::Pool, Format::Bf16, "pool_bf16"),
];

impl Kernel {
    /// The kernel for an operation on such numbers. Between products, numbers for TF32 are 32-bit floats.
    #[must_use]
    pub fn of(operation: Operation, format: Format) -> Option<Self> {
        let find = |wanted: Format| {
            let mut rows = TABLE.iter();
            rows.position(|(of, format, _)| (*of, *format) == (operation, wanted))
        };
        let place = match format {
            Format::Tf32 => find(Format::Tf32).or_else(|| find(Format::F32)),
            _ => find(format),
        };
        place.map(Self)
    }

    /// All there are, in the order of their places.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..TABLE.len()).map(Self)
    }

    /// Its place among all.
    #[must_use]
    pub fn place(self) -> usize {
        self.0
    }

    /// Its name in the compiled module.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE[self.0].2
    }
}

impl Format {
    /// Bytes of a number in memory.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::Tf32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        })
    }
}
