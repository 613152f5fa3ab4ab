//! Activation functions.

/// The function applied to each output of a [`Linear`](crate::Linear) layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activation {
    /// The identity.
    #[default]
    None,
    /// GELU, computed with the error function: `x · Φ(x)`.
    Gelu,
    /// GELU, approximated with the hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
}
