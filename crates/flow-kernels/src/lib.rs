//! The arithmetic of transformer encoders on CPUs.
//!
//! A model's weights are packed once ([`Packed`]); token states lie in [`Activations`]; [`Kernels`] are
//! the operations on them, in the best version that the machine has. Each version is a row of one table
//! (`table.rs`), chosen at run time ([`BackEnd`]).
//!
//! What the rows differ in is small: the *tile*, a few rows of states times one panel of
//! [`PANEL`] columns of weights (`x86/*`, `neon.rs`, `portable.rs`), and the instructions that the compiler
//! may use for what works on single values (`elementwise.rs`, written once). Everything around them is
//! shared: which tiles a product is cut into (`product.rs`), and how attention is made of them
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
//! layer in blocks of some hundred rows. Next would be AVX-512's and AMX's tiles, measured in the same way, and the
//! values of attention, which are read from rows that lie far apart.
//!
//! This crate is the only one with `unsafe` code. Its public functions are safe: they check lengths before
//! they hand out pointers, and a back end can only be had where its instructions are.

#![warn(missing_docs)]
#![allow(
    unsafe_code,
    reason = "machine instructions; each block says why it is sound"
)]

mod activations;
mod attention;
mod back_end;
mod bf16;
mod elementwise;
mod kernels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod packed;
mod portable;
mod product;
mod self_check;
mod table;
mod tile;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use activations::{Activations, Keeps, Rows, RowsMut};
pub use attention::{Attention, AttentionScratch, Distances};
pub use back_end::{BackEnd, BadBackEnd, Format, InstructionSet, NoBackEnd};
pub use kernels::Kernels;
pub use packed::Packed;
pub use product::{Activation, Product};
pub use tile::PANEL;
