//! Tiles for x86-64.

pub(crate) mod amx;
pub(crate) mod avx2;
pub(crate) mod avx2_bf16;
pub(crate) mod avx512;
pub(crate) mod avx512_bf16;
