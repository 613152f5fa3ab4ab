//! Messages of Jina 3 and of the Open Inference Protocol, generated from `proto/` and committed. The services are in `flow-net`.
//!
//! `cargo xtask codegen` makes `generated/`. Two things differ from a plain translation: each `bytes` field
//! is a [`bytes::Bytes`], a slice of the message it arrived in; and where a request contains documents or
//! parameters, its struct contains their encoded bytes ([`Envelope::data`], [`Envelope::parameters`]). So a
//! gateway decodes and encodes everything else, and copies no documents.

#![warn(missing_docs)]

/// Messages of package `jina`.
pub mod jina {
    #![allow(
        clippy::all,
        clippy::pedantic,
        unreachable_pub,
        rustdoc::all,
        missing_docs,
        missing_debug_implementations,
        elided_lifetimes_in_paths,
        non_camel_case_types,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    include!("generated/jina.rs");
}

/// Documents as DocArray up to 0.21 encodes them; [`v2`] holds the later version.
pub mod docarray {
    #![allow(
        clippy::all,
        clippy::pedantic,
        unreachable_pub,
        rustdoc::all,
        missing_docs,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    include!("generated/docarray.rs");

    /// Documents as DocArray from 0.30 on encodes them.
    pub mod v2 {
        include!("generated/docarray.v2.rs");
    }
}

/// Messages of the Open Inference Protocol.
pub mod inference {
    #![allow(
        clippy::all,
        clippy::pedantic,
        unreachable_pub,
        rustdoc::all,
        missing_docs,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    include!("generated/inference.rs");
}

/// A request or a reply with its documents still encoded.
///
/// The bytes in `data` are an encoded `jina.DataRequestProto.DataContentProto`.
pub type Envelope = jina::DataRequestProto;

/// The descriptors of every message and service in `proto/`, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

/// Field of `DataContentProto` that holds the array of documents.
pub const DATA_DOCS: u32 = 1;
/// Field of `DataContentProto` that holds documents in a serialisation of the sender's choice.
pub const DATA_DOCS_BYTES: u32 = 2;
