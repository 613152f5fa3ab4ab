//! The bodies that the load generator sends, and the files that it reads and writes.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::bench::request;

/// How texts are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Grpc,
    /// OpenAI's API, with vectors as base64 in the reply.
    Http,
}

impl Protocol {
    /// Its name in the arguments of the load generator.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
        }
    }

    /// Where requests of this protocol go.
    pub(super) fn url(self, port: u16) -> String {
        let path = match self {
            Self::Grpc => "jina.JinaSingleDataRequestRPC/process_single_data",
            Self::Http => "v1/embeddings",
        };
        format!("http://127.0.0.1:{port}/{path}")
    }

    /// The body of a request for the vectors of these texts.
    pub(super) fn body(self, texts: &[String]) -> Vec<u8> {
        match (self, texts) {
            (Self::Grpc, _) => request::frame_of(texts),
            (Self::Http, [text]) => json_body(&json!(text)),
            (Self::Http, _) => json_body(&json!(texts)),
        }
    }
}

fn json_body(input: &Value) -> Vec<u8> {
    let body = json!({ "input": input, "encoding_format": "base64" });
    body.to_string().into_bytes()
}

/// Writes bodies, and before each its length, as four bytes in network order.
pub(super) fn write(path: &Path, bodies: impl Iterator<Item = Vec<u8>>) -> anyhow::Result<()> {
    let mut file = Vec::new();
    for body in bodies {
        file.extend(u32::try_from(body.len())?.to_be_bytes());
        file.extend(body);
    }
    Ok(fs::write(path, file)?)
}

/// Reads the bodies that such a file has.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    split(&fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?)
}

fn split(mut file: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut bodies = Vec::new();
    while let Some((length, rest)) = file.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        let body = rest.get(..length).context("the last body is cut short")?;
        bodies.push(body.to_vec());
        file = &rest[length..];
    }
    ensure!(file.is_empty(), "the last length is cut short");
    Ok(bodies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_is_a_string_and_several_are_a_list() {
        let texts = ["a", "b"].map(str::to_owned);
        let body = |texts: &[String]| -> Value {
            serde_json::from_slice(&Protocol::Http.body(texts)).expect("JSON")
        };
        assert_eq!(body(&texts[..1])["input"], json!("a"));
        assert_eq!(body(&texts)["input"], json!(["a", "b"]));
        assert_eq!(body(&texts)["encoding_format"], json!("base64"));
    }

    #[test]
    fn a_file_has_the_bodies_that_were_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bodies");
        let bodies = [b"one".to_vec(), Vec::new(), b"three".to_vec()];
        write(&path, bodies.iter().cloned()).expect("written");
        assert_eq!(read(&path).expect("bodies"), bodies);
        assert!(split(b"\0\0\0\x02a").is_err());
        assert!(split(b"\0\0").is_err());
    }
}
