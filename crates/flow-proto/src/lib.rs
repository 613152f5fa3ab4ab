//! The wire contract: Jina 3's messages and services, generated from `proto/` and committed.
//!
//! `cargo xtask codegen` remakes `generated/`. Two things differ from a plain translation: every
//! `bytes` field is a [`bytes::Bytes`], a slice of the message it came in; and where a request carries
//! documents or parameters, its struct carries their encoded bytes ([`Envelope::data`],
//! [`Envelope::parameters`]). So a gateway reads and writes the rest, and copies no documents.

pub mod codec;

/// Services and messages of package `jina`.
pub mod jina {
    #![allow(
        clippy::all,
        clippy::pedantic,
        unreachable_pub,
        rustdoc::all,
        missing_debug_implementations,
        elided_lifetimes_in_paths,
        non_camel_case_types,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    include!("generated/jina.rs");
}

/// Documents as DocArray writes them; [`docarray::v2`](v2) holds the second flavour.
pub mod docarray {
    #![allow(
        clippy::all,
        clippy::pedantic,
        unreachable_pub,
        rustdoc::all,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    include!("generated/docarray.rs");

    /// Documents as DocArray writes them from 0.30 on.
    pub mod v2 {
        include!("generated/docarray.v2.rs");
    }
}

/// A request or a reply whose documents are still bytes.
///
/// The bytes in `data` are those of a `jina.DataRequestProto.DataContentProto`.
pub type Envelope = jina::DataRequestProto;

/// The descriptors of every message and service in `proto/`, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

/// Field of `DataContentProto` that holds the array of documents.
pub const DATA_DOCS: u32 = 1;
/// Field of `DataContentProto` that holds documents in the sender's own serialisation.
pub const DATA_DOCS_BYTES: u32 = 2;
