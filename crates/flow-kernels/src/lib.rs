//! The arithmetic of transformer encoders on CPUs.
//!
//! A model's weights are packed once ([`Packed`]); token states lie in [`Activations`]; [`Kernels`] are
//! the operations on them, in the best version that the machine has. Each version is a row of one table
//! (`dispatch.rs`), chosen at run time ([`BackEnd`]).
//!
//! What the rows differ in is small: the *tile*, a few rows of states times one panel of
//! [`PANEL`] columns of weights (`x86/*`, `neon.rs`, `portable.rs`), and the instructions that the compiler
//! may use for what works on single values (`elementwise.rs`, written once). Everything around them is
//! shared: which tiles a product is cut into (`linear.rs`), and how attention is made of them
//! (`attention.rs`).
//!
//! Two kinds of numbers go into products, chosen by [`Format`]: 32-bit floats, or bf16 pairs. Sums,
//! soft-max, layer norm and GELU are 32-bit floats in either.
//!
//! A row of states gets the same value, bit for bit, whatever rows are beside it: each of its values is
//! one sum in one order, however tiles are cut.
//!
//! # Where the time goes
//!
//! Of the arithmetic of a layer of MiniLM, a third each is the products into and out of its inner states, a quarter
//! that of queries, keys and values, and a twelfth that behind attention; attention itself adds 0.6 % for a text
//! of 14 tokens and a tenth for one of 250. So what counts is the rate of products: on a core with AVX2 that
//! does 104 GFLOP/s in registers they reach 96 to 101 for up to 448 rows (`cargo xtask bench products`). What
//! brought them there is that weights lie in memory as a tile reads them, line after line, and that nothing is
//! cleared or copied around a tile. Larger products are bound by memory, which is why the engine goes through a
//! layer in blocks of some hundred rows.
//!
//! With AVX-512 on a core of Zen 5 the four products of a layer run at 180 to 230 GFLOP/s in blocks of 14 to 384 rows,
//! and at 400 to 470 in bf16 (`cargo bench -p flow-kernels`). A profile of many 14-token texts in `f32` (samples of one lane):
//! 88 % in tiles, 2.9 % layer norms, 2.4 % soft-max, 2.4 % GELU, 1.2 % copies of states, 0.8 % transposing keys. In `bf16`
//! tiles were 72 %, and rounding, soft-max and layer norms 4 to 5 % each. What works on single values is called for whole
//! tiles, and a layer norm takes 0.1 µs a token; attention 0.8 µs a token and layer for 14 tokens, and 2.5 for 224.
//!
//! One short text alone is another matter: it reads all weights once, 42 MB in `f32`, and a core waited for memory half of
//! the time, because a processor looks ahead to the end of a page only. So tiles ask for weights 16 KB ahead
//! (`x86::prefetch`): 14 rows through the products of six layers then take 1.3 instead of 2.5 ms in `f32`, 0.64 instead of 1.1 in
//! `bf16`, and with AVX2 2.9 instead of 4.1; 98 rows still gain an eighth, 384 a fiftieth. AMX's tiles do not do so yet: no
//! machine at hand could measure it. Next would be that, soft-max, whose rows of 14 values wait for their own sums, and bf16
//! tiles for attention over long texts.
//!
//! There is `unsafe` code here, but public functions are safe: they check lengths before they hand out
//! pointers, and a back end can only be had where its instructions are.

#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "machine instructions; each block says why it is sound"
)]

mod activations;
mod attention;
mod select;
mod bf16;
mod elementwise;
mod kernels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod packed;
mod portable;
mod linear;
mod self_check;
mod dispatch;
mod tile;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use activations::{Activations, Keeps, Rows, RowsMut};
pub use attention::{Attention, AttentionScratch, Distances};
pub use select::{BackEnd, BadBackEnd, Format, InstructionSet, NoBackEnd};
pub use kernels::Kernels;
pub use packed::Packed;
pub use linear::{Activation, Product};
pub use tile::PANEL;
#[cfg(target_arch = "x86_64")]
pub use x86::amx::assume_amx;
