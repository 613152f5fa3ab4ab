//! How messages are compressed.

use tonic::codec::CompressionEncoding;

/// A compression algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// gzip.
    Gzip,
    /// deflate, in zlib's format.
    Deflate,
}

impl From<Compression> for CompressionEncoding {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::Gzip => Self::Gzip,
            Compression::Deflate => Self::Deflate,
        }
    }
}
