//! Limits on the parts of a request, checked once, where it is admitted.
//!
//! Endpoint, id and target travel on as HTTP/2 headers, in log lines and in error messages, so they are short. Parameters
//! become structs, which take far more memory than their bytes. All checks look at lengths; only the documents' bytes are
//! read, once.

use bytes::Bytes;
use flow_proto::jina::{HeaderProto, SingleDocumentRequestProto};

use crate::document::{BadDocument, DocumentLimits};
use crate::{Code, Failure};

/// Longest endpoint, in bytes. It is sent as an HTTP/2 header, and servers close connections for long ones.
const ENDPOINT_LEN_MAX: usize = 1 << 10;

/// Longest `target_executor`, in bytes: some names of nodes. The parser of regular expressions takes some thousand
/// bytes of memory for each.
const TARGET_LEN_MAX: usize = 1 << 10;

/// Longest id of a request, in bytes. Jina's have 32.
const REQUEST_ID_LEN_MAX: usize = 256;

/// Longest priority, in bytes. It is sent as an HTTP/2 header.
const PRIORITY_LEN_MAX: usize = 64;

/// Limits on the parts of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Limits on its documents.
    pub documents: DocumentLimits,
    /// Longest parameters, encoded, in bytes.
    pub parameters_len_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            documents: DocumentLimits::default(),
            parameters_len_max: 1 << 20,
        }
    }
}

/// A part of a request is larger than its limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestTooLarge {
    /// One of the texts or the parameters.
    #[error("`{part}` has {len} bytes; at most {max} are allowed")]
    Part {
        /// Which one.
        part: &'static str,
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The documents.
    #[error(transparent)]
    Documents(#[from] BadDocument),
}

impl From<RequestTooLarge> for Failure {
    fn from(error: RequestTooLarge) -> Self {
        Self::from_error(Code::BadRequest, &error)
    }
}

impl RequestLimits {
    /// Checks a request. Returns the number of its documents, nested ones included.
    ///
    /// # Errors
    ///
    /// If a part of it is larger than its limit.
    pub fn check(
        &self,
        header: Option<&HeaderProto>,
        parameters: Option<&Bytes>,
        data: Option<&Bytes>,
    ) -> Result<usize, RequestTooLarge> {
        self.check_head(header, parameters)?;
        Ok(self.documents.check(data.map_or(&[], |data| data))?)
    }

    /// Checks a request with a single document.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn check_document(
        &self,
        request: &SingleDocumentRequestProto,
    ) -> Result<(), RequestTooLarge> {
        self.check_head(request.header.as_ref(), request.parameters.as_ref())?;
        let document = request.document.as_deref().unwrap_or_default();
        self.documents.check_document(document)?;
        Ok(())
    }

    fn check_head(
        &self,
        header: Option<&HeaderProto>,
        parameters: Option<&Bytes>,
    ) -> Result<(), RequestTooLarge> {
        let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let parameters = parameters.map_or(0, Bytes::len);
        at_most("parameters", parameters, self.parameters_len_max)?;
        let Some(header) = header else { return Ok(()) };
        at_most("request_id", header.request_id.len(), REQUEST_ID_LEN_MAX)?;
        at_most(
            "exec_endpoint",
            len(&header.exec_endpoint),
            ENDPOINT_LEN_MAX,
        )?;
        at_most(
            "target_executor",
            len(&header.target_executor),
            TARGET_LEN_MAX,
        )
    }
}

/// Checks the length of a call's priority.
///
/// # Errors
///
/// If it is longer than its limit.
pub fn check_priority(len: usize) -> Result<(), RequestTooLarge> {
    at_most("priority", len, PRIORITY_LEN_MAX)
}

fn at_most(part: &'static str, len: usize, max: usize) -> Result<(), RequestTooLarge> {
    match len <= max {
        true => Ok(()),
        false => Err(RequestTooLarge::Part { part, len, max }),
    }
}

#[cfg(test)]
mod tests {
    use flow_proto::Envelope;

    use super::*;

    fn with(change: impl Fn(&mut HeaderProto)) -> Envelope {
        let mut header = HeaderProto::default();
        change(&mut header);
        Envelope {
            header: Some(header),
            ..Envelope::default()
        }
    }

    #[test]
    fn each_text_has_a_limit_and_is_named() {
        let check = |request: &Envelope, expected: &str| {
            let (header, parameters) = (request.header.as_ref(), request.parameters.as_ref());
            let checked = RequestLimits::default().check(header, parameters, None);
            let error = checked.unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert_eq!(Failure::from(error).code(), Code::BadRequest);
        };
        let long = || "x".repeat(70_000);
        check(
            &with(|it| it.exec_endpoint = Some(long())),
            "`exec_endpoint` has 70000 bytes; at most 1024 are allowed",
        );
        check(
            &with(|it| it.target_executor = Some(long())),
            "`target_executor` has 70000 bytes; at most 1024 are allowed",
        );
        check(
            &with(|it| it.request_id = long()),
            "`request_id` has 70000 bytes; at most 256 are allowed",
        );
        let parameters = Envelope {
            parameters: Some(vec![0; (1 << 20) + 1].into()),
            ..Envelope::default()
        };
        check(
            &parameters,
            "`parameters` has 1048577 bytes; at most 1048576 are allowed",
        );
        assert!(check_priority(64).is_ok());
        assert!(check_priority(65).is_err());
    }
}
