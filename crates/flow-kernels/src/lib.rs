//! The arithmetic of transformer encoders on CPUs.
//!
//! [`Kernels`] are the operations of an encoder layer, in the best version that the machine supports. They work on packed
//! weights ([`PackedWeights`]) and on matrices of hidden states ([`Activations`]). Each version is a dispatch table
//! (`dispatch.rs`), selected at run time by [`InstructionSet`] and [`CpuPrecision`].
//!
//! The versions differ in two things: the *tile*, which multiplies a few rows of states by one panel of [`PANEL`] columns
//! of weights (`x86/*`, `neon/*`, `portable.rs`), and the instructions that the compiler may use for elementwise
//! functions (`elementwise.rs`). Everything else is shared: `linear.rs` cuts a product into tiles, and `attention.rs`
//! builds attention from tiles.
//!
//! Matrix products read one of three formats: 32-bit floats, bf16 or 8-bit integers (`int8/`). Sums of integers are 32-bit
//! integers. Other sums, softmax, layer norm and GELU are 32-bit floats. Attention multiplies 32-bit floats or bf16, as its
//! states are stored.
//!
//! A row of states has the same result, bit for bit, whatever the other rows are: each value is one sum in one order,
//! however the product is cut into tiles.
//!
//! # Performance
//!
//! In a layer of MiniLM, the products into and out of the intermediate states take a third of the arithmetic each, the
//! product of queries, keys and values a quarter, and the attention output a twelfth. Attention adds 0.6 % for a text of 14
//! tokens and 10 % for one of 250. Matrix products therefore decide the speed. A core with AVX2 that does 104 GFLOP/s in
//! registers reaches 96 to 101 for up to 448 rows (`cargo xtask bench products`). Two properties make that possible:
//! weights lie in memory in the order in which a tile reads them, and nothing is cleared or copied around a tile. Larger
//! products are bound by memory, so an engine should process a layer in blocks of a few hundred rows.
//!
//! With AVX-512 on a core of Zen 5, the four products of a layer run at 180 to 230 GFLOP/s in blocks of 14 to 384 rows, and
//! at 400 to 470 in bf16 (`cargo bench -p flow-kernels`). A profile of many texts of 14 tokens in `f32` (samples of one
//! worker): 88 % tiles, 2.9 % layer norms, 2.4 % softmax, 2.4 % GELU, 1.2 % copies of states, 0.8 % transposing keys. In
//! `bf16`, tiles are 72 %, and rounding, softmax and layer norms 4 to 5 % each. Elementwise functions are called for whole
//! tiles. A layer norm takes 0.1 µs per token; attention takes 0.8 µs per token and layer for 14 tokens, and 2.5 µs for 224.
//!
//! In 8-bit integers with AVX-512 VNNI, the products run at 620 to 760 GFLOP/s, with the rotation and rounding of states, which
//! take 0.06 µs for 384 values. With loops that the compiler vectorized, those took 0.3 µs, and products ran at 400 to 630.
//! With AVX2, products run at 125 to 145 GFLOP/s, two thirds of AVX-512 in 32-bit floats.
//!
//! A single short text behaves differently: it reads all weights once, 42 MB in `f32`, and a core waits for memory half of
//! the time, because the hardware prefetcher stops at the end of a page. Tiles therefore prefetch weights 16 KiB ahead
//! (`x86::prefetch`). 14 rows through the products of six layers then take 1.7 instead of 2.5 ms in `f32` on a Xeon, and 98
//! rows still gain an eighth.
//!
//! On a 5th-generation Xeon without AMX, a core does 175 GFLOP/s in registers in `f32`, and its products reach 149 to 169. Its
//! instructions for bf16 do 85, so they are not used (`InstructionSet::is_default`). With values widened to floats, products in bf16 reach 128 to
//! 145 GFLOP/s.
//!
//! With AMX on a Xeon, products run at 1,100 to 1,400 GFLOP/s in bf16 and at 1,100 to 1,900 in 8-bit integers, in blocks of 98 to
//! 384 rows. A core does 3,700 in bf16 in registers, and 2,700 when tiles come from the L2 cache. Two properties made that
//! possible: rows begin at a cache line, so that no row of a tile lies in two, and tiles prefetch the next panel of weights a
//! part at a time, because the L3 cache delivers 30 GB/s. In a layer of 8-bit integers, tiles take 45 % of the time of 14-token
//! texts, and states that become integers 15 %. Since GELU needs no division (`x86/avx512_gelu.rs`) and the softmax writes bf16
//! (`x86/avx512_softmax.rs`), the product with GELU runs at 830 to 890 instead of 575 to 590 GFLOP/s in bf16 on another, slower
//! Xeon, and attention takes 1.4 instead of 2.9 µs per token and layer for 224 tokens, and 0.5 instead of 1.4 µs for 14. On that
//! machine a core did, measured by hand, 2,700 GFLOP/s in bf16 in registers, and 1,600 with states from the L2 cache and weights from the L3 cache;
//! products reach 950 to 1,350. Finishing a tile only after the next one was multiplied made products 4 to 10 % slower.
//!
//! # Safety
//!
//! The crate contains `unsafe` code, but its public functions are safe, except [`assume_amx`]: they check lengths before
//! they pass pointers to kernels, and [`Kernels`] exist only for instruction sets that the machine has.

#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "machine instructions; each block says why it is sound"
)]

mod activation;
mod activations;
mod aligned;
mod attention;
mod attention_bf16;
mod attention_head;
mod bf16;
mod dispatch;
mod elementwise;
mod instruction_set;
mod int8;
mod kernels;
mod keys;
mod linear;
#[cfg(target_arch = "aarch64")]
mod neon;
mod packed;
mod portable;
mod precision;
mod quantized_states;
mod row_layout;
mod select;
mod self_check;
mod split;
mod tile;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use activation::Activation;
pub use activations::{Activations, Rows, RowsMut, Storage};
pub use attention::AttentionScratch;
pub use attention_head::{AttentionConfig, PositionBias};
pub use instruction_set::{InstructionSet, UnknownInstructionSet};
pub use int8::{Int8Matrix, Rotation};
pub use kernels::Kernels;
pub use linear::Linear;
pub use packed::PackedWeights;
pub use precision::CpuPrecision;
pub use select::InstructionSetUnavailable;
pub use tile::PANEL;
#[cfg(target_arch = "x86_64")]
pub use x86::amx::assume_amx;
