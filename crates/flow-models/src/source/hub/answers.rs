//! What the hub answers. Pure.
//!
//! Commits, etags and names of files become paths of the cache. Their types can only be made from text that stays within its
//! folder.

/// Maximum length of a checksum in hexadecimal digits: that of SHA-512.
const DIGITS_MAX: usize = 128;
/// Length of a SHA-256 in hexadecimal digits.
const SHA256_DIGITS: usize = 64;
/// Maximum characters of an invalid text in an error.
const SHOWN_MAX: usize = 80;

/// A commit of a repository, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit(String);

/// The etag of a file, in hexadecimal digits: its SHA-256 if the hub stores it as a large file, or its hash in git. The cache
/// names the file after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Etag(String);

/// The headers of an answer that describe a file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FileHeaders<'h> {
    pub(super) commit: Option<&'h str>,
    pub(super) etag: Option<&'h str>,
    /// The etag of a file that the hub keeps elsewhere.
    pub(super) linked_etag: Option<&'h str>,
    /// The length of the file, or a range that ends with it, such as `bytes 0-0/90868376`.
    pub(super) length: Option<&'h str>,
}

/// What the hub says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileHead {
    pub(super) etag: Etag,
    pub(super) bytes: u64,
}

/// A part of an answer that is not valid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidPart {
    pub(super) part: &'static str,
    /// What was found, shortened.
    pub(super) found: String,
    pub(super) expected: &'static str,
}

impl FileHead {
    /// Reads the headers of a file that was requested at a commit.
    pub(super) fn read(headers: &FileHeaders<'_>, commit: &Commit) -> Result<Self, InvalidPart> {
        if let Some(found) = headers.commit.map(Commit::parse).transpose()?
            && found != *commit
        {
            return Err(InvalidPart {
                part: "commit",
                found: found.0,
                expected: "the one that was requested",
            });
        }
        let etag = headers.linked_etag.or(headers.etag);
        let etag = Etag::parse(etag.unwrap_or_default())?;
        let length = headers.length.unwrap_or_default();
        let bytes = length.rsplit('/').next().unwrap_or_default();
        let bytes = bytes.parse().map_err(|_| InvalidPart {
            part: "length",
            found: shortened(length),
            expected: "a number of bytes",
        })?;
        Ok(Self { etag, bytes })
    }
}

impl Commit {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidPart> {
        hex_digits("commit", text).map(Self)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Etag {
    /// Parses the value of an `ETag` header, which is quoted and may be marked as weak.
    pub(super) fn parse(header: &str) -> Result<Self, InvalidPart> {
        let text = header.strip_prefix("W/").unwrap_or(header);
        hex_digits("etag", text.trim_matches('"')).map(Self)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The SHA-256 of the file, if this is one.
    pub(super) fn sha256(&self) -> Option<&str> {
        (self.0.len() == SHA256_DIGITS).then_some(&self.0)
    }
}

fn hex_digits(part: &'static str, text: &str) -> Result<String, InvalidPart> {
    let length_is_valid = (1..=DIGITS_MAX).contains(&text.len());
    match length_is_valid && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(InvalidPart {
            part,
            found: shortened(text),
            expected: "hexadecimal digits",
        }),
    }
}

/// The beginning of a text, for an error.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

/// Whether a file's name in a repository is a relative path of letters, digits, `.`, `_` and `-`. Such a name means the same in a
/// URL and in the cache.
pub(super) fn is_plain_path(name: &str) -> bool {
    let is_plain = |part: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_allowed)
    };
    name.split('/').all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_are_read_with_and_without_quotes() {
        for header in ["\"0aF1\"", "0af1", "W/\"0af1\""] {
            assert_eq!(Etag::parse(header).unwrap().as_str(), "0af1", "{header}");
        }
    }

    #[test]
    fn only_hexadecimal_digits_become_paths() {
        let long = "a".repeat(DIGITS_MAX + 1);
        for text in [
            "",
            ".",
            "..",
            "../a",
            "/etc/passwd",
            "a/b",
            "a\0",
            "0x1",
            "é",
            "a b",
            &long,
        ] {
            assert!(Commit::parse(text).is_err(), "{text:?}");
            assert!(Etag::parse(&format!("\"{text}\"")).is_err(), "{text:?}");
        }
        assert!(Commit::parse(&"a".repeat(40)).is_ok());
    }

    #[test]
    fn only_an_etag_of_its_length_is_a_sha256() {
        let etag = |digits| Etag::parse(&"a".repeat(digits)).unwrap();
        assert!(etag(64).sha256().is_some());
        assert_eq!(etag(40).sha256(), None);
    }

    #[test]
    fn the_head_of_a_file_is_read() {
        let commit = Commit::parse("abc").unwrap();
        let valid = FileHeaders {
            commit: Some("abc"),
            etag: Some("\"1\""),
            linked_etag: Some("\"2\""),
            length: Some("bytes 0-0/42"),
        };
        let head = FileHead::read(&valid, &commit).unwrap();
        assert_eq!((head.etag.as_str(), head.bytes), ("2", 42));
        let part = |headers| FileHead::read(&headers, &commit).unwrap_err().part;
        assert_eq!(
            part(FileHeaders {
                commit: Some("abd"),
                ..valid
            }),
            "commit"
        );
        assert_eq!(
            part(FileHeaders {
                linked_etag: Some("../x"),
                ..valid
            }),
            "etag"
        );
        assert_eq!(
            part(FileHeaders {
                etag: None,
                linked_etag: None,
                ..valid
            }),
            "etag"
        );
        for length in [
            None,
            Some(""),
            Some("bytes 0-0/*"),
            Some("-1"),
            Some("99999999999999999999"),
        ] {
            assert_eq!(part(FileHeaders { length, ..valid }), "length");
        }
    }

    #[test]
    fn plain_paths_stay_within_their_folder() {
        for name in ["config.json", "1_Pooling/config.json"] {
            assert!(is_plain_path(name), "{name}");
        }
        for name in [
            "", "/a", "a/", "../a", "a/../b", "a//b", "a?b", "a%2Fb", "a\\b", ".hidden",
        ] {
            assert!(!is_plain_path(name), "{name}");
        }
    }
}
