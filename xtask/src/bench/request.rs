//! The request that h2load sends: documents as a stock v1 client would send them, in a gRPC frame.

use bytes::Bytes;
use flow_proto::docarray::{
    DenseNdArrayProto, DocumentArrayProto, DocumentProto, NdArrayProto, document_proto,
    nd_array_proto,
};
use flow_proto::jina::{DataRequestProto, HeaderProto};
use prost::Message;

use crate::bench::corpus::SENTENCE;

/// A size of request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) name: &'static str,
    docs: usize,
    /// Numbers in each document's vector.
    dimensions: usize,
    /// Requests in one run of a fast system: a second or more.
    pub(super) requests: usize,
}

pub(super) const SIZES: &[Size] = &[
    Size {
        name: "1 document (145 B)",
        docs: 1,
        dimensions: 0,
        requests: 60_000,
    },
    Size {
        name: "32 documents (3 KB)",
        docs: 32,
        dimensions: 0,
        requests: 40_000,
    },
    Size {
        name: "32 documents with vectors (53 KB)",
        docs: 32,
        dimensions: 384,
        requests: 12_000,
    },
];

impl Size {
    /// The framed request.
    pub(super) fn frame(&self) -> Vec<u8> {
        let docs = (0..self.docs).map(|number| DocumentProto {
            embedding: (self.dimensions != 0).then(|| vector(number, self.dimensions)),
            ..document(number, SENTENCE)
        });
        framed_request(docs.collect())
    }
}

/// The framed request that encodes these texts.
pub(super) fn frame_of(texts: &[String]) -> Vec<u8> {
    let docs = texts.iter().enumerate();
    framed_request(docs.map(|(number, text)| document(number, text)).collect())
}

fn framed_request(docs: Vec<DocumentProto>) -> Vec<u8> {
    let header = HeaderProto {
        request_id: "0".repeat(32),
        exec_endpoint: Some("/encode".to_owned()),
        ..Default::default()
    };
    let request = DataRequestProto {
        header: Some(header),
        data: Some(content(&DocumentArrayProto { docs })),
        ..Default::default()
    };
    framed(&request.encode_to_vec())
}

fn document(number: usize, text: &str) -> DocumentProto {
    let text = document_proto::Content::Text(text.to_owned());
    DocumentProto {
        id: format!("{number:032x}"),
        content: Some(text),
        ..Default::default()
    }
}

/// Numbers without a pattern that compression could use; the same in every run.
fn vector(seed: usize, dimensions: usize) -> NdArrayProto {
    let mut state = seed as u64 + 1;
    let numbers = (0..dimensions).map(|_| {
        // Knuth's MMIX generator.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u32 << 24) as f32
    });
    let dense = DenseNdArrayProto {
        buffer: numbers
            .flat_map(f32::to_le_bytes)
            .collect::<Vec<u8>>()
            .into(),
        shape: vec![u32::try_from(dimensions).expect("a few hundred")],
        dtype: "<f4".to_owned(),
    };
    NdArrayProto {
        content: Some(nd_array_proto::Content::Dense(dense)),
        cls_name: "numpy".to_owned(),
        ..Default::default()
    }
}

/// `DataContentProto`, whose documents the generated code keeps as bytes.
fn content(docs: &DocumentArrayProto) -> Bytes {
    let mut bytes = Vec::new();
    prost::encoding::message::encode(flow_proto::DATA_DOCS, docs, &mut bytes);
    bytes.into()
}

/// No compression, the length, the message.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("requests are far smaller than 4 GiB");
    [&[0], length.to_be_bytes().as_slice(), message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_size_that_a_stock_client_gives_them() {
        // Written by Jina 3.27 with DocArray 0.21: 145, 3,123 and 53,141 bytes.
        let lengths: Vec<usize> = SIZES.iter().map(|size| size.frame().len() - 5).collect();
        assert_eq!(lengths, [145, 3_123, 53_141]);
    }
}
