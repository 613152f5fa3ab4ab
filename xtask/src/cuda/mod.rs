//! The GPU's part of the build: a compiler, the kernels it makes, and what they are packed into.
//!
//! `toolkit.rs` unpacks NVIDIA's compiler from wheels, so that no CUDA need be installed; `kernels.rs` compiles
//! `crates/flow-cuda/kernels` with it and lays the result where that crate's build script finds it; `fatbin.rs`
//! reads what came out, to prove it. `bundle.rs` packs it with all that a machine with a GPU needs to check us,
//! and `half.rs` makes the model small for that.

mod bundle;
mod fatbin;
mod half;
mod kernels;
mod toolkit;

pub(crate) use self::bundle::Args as BundleArgs;
pub(crate) use self::kernels::Args as BuildArgs;

/// `cargo xtask cuda-toolkit`.
pub(crate) fn set_up() -> anyhow::Result<()> {
    let toolkit = toolkit::Toolkit::ready()?;
    eprintln!(
        "{} is ready in `{}`",
        toolkit.version()?,
        toolkit.folder().display()
    );
    Ok(())
}

/// `cargo xtask build-cuda`.
pub(crate) fn build(args: &BuildArgs) -> anyhow::Result<()> {
    kernels::run(args)
}

/// `cargo xtask gpu-bundle`.
pub(crate) fn pack(args: &BundleArgs) -> anyhow::Result<()> {
    bundle::run(args)
}
