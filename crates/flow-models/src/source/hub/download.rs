//! Downloads one file into the cache.
//!
//! The cache has a blob for each file, named after its etag, and a link to it in the folder of the commit. A download writes to
//! a file beside the blob, which is renamed when it is complete. If the download breaks off, the next one continues it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use hf_hub::CacheRepo;
use ureq::http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG};
use ureq::http::{HeaderMap, HeaderName, StatusCode};

use super::super::file::sha256;
use super::super::progress::DownloadProgress;
use super::answers::{Commit, Etag, FileHead, FileHeaders};
use super::client::HubClient;
use super::error::HubError;
use super::limits::{ATTEMPTS_MAX, DownloadLimits};

/// The etag of a file that the hub keeps elsewhere.
const LINKED_ETAG: HeaderName = HeaderName::from_static("x-linked-etag");
/// The commit of a file.
const REPO_COMMIT: HeaderName = HeaderName::from_static("x-repo-commit");
/// Suffix of a file whose download is not complete. No other tool uses it.
const PARTIAL_SUFFIX: &str = ".flow-part";
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// A download of one file.
pub(super) struct FileDownload<'d> {
    pub(super) client: &'d HubClient,
    pub(super) limits: &'d DownloadLimits,
    pub(super) cached: &'d CacheRepo,
    /// The path of its URL.
    pub(super) path: String,
    pub(super) commit: &'d Commit,
    /// Its name in the repository, a plain path.
    pub(super) file: &'d str,
}

impl FileDownload<'_> {
    pub(super) fn run(&self, progress: &mut dyn DownloadProgress) -> Result<(), HubError> {
        let head = self.head()?;
        let blob = self.cached.blob_path(head.etag.as_str());
        for _ in 0..ATTEMPTS_MAX {
            if is_intact(&blob, &head) {
                return self.link(&head.etag);
            }
            self.download(&head, &blob, progress)?;
        }
        if is_intact(&blob, &head) {
            return self.link(&head.etag);
        }
        fs::remove_file(&blob).map_err(|source| HubError::Cache(blob, source))?;
        Err(HubError::Corrupt {
            file: self.file.to_owned(),
            expected: head.etag.as_str().to_owned(),
        })
    }

    /// Asks for the first byte, whose answer has the etag and the length of the whole.
    fn head(&self) -> Result<FileHead, HubError> {
        let limit = self.limits.answer_time;
        let answer = self.client.get(self.file, &self.path, Some("0-0"), limit)?;
        let (response, of_hub) = (&answer.response, &answer.hub_headers);
        let length = match response.status() {
            StatusCode::PARTIAL_CONTENT => CONTENT_RANGE,
            _ => CONTENT_LENGTH,
        };
        let headers = FileHeaders {
            commit: text(of_hub, &REPO_COMMIT),
            etag: text(of_hub, &ETAG),
            linked_etag: text(of_hub, &LINKED_ETAG),
            length: text(response.headers(), &length),
        };
        let head = FileHead::read(&headers, self.commit)
            .map_err(|part| self.client.invalid(&self.path, part))?;
        let max = self.limits.bytes_max(self.file);
        if head.bytes > max {
            return Err(HubError::TooLarge {
                file: self.file.to_owned(),
                announced: head.bytes,
                max,
            });
        }
        Ok(head)
    }

    /// Downloads what is missing of the file, and gives it the name of its blob. Its checksum is not checked here.
    fn download(
        &self,
        head: &FileHead,
        blob: &Path,
        progress: &mut dyn DownloadProgress,
    ) -> Result<(), HubError> {
        let mut partial = PartialFile::open(blob)?;
        if partial.bytes >= head.bytes {
            partial.truncate(0)?;
        }
        progress.begin(self.file, Some(head.bytes));
        let range = (partial.bytes > 0).then(|| format!("{}-", partial.bytes));
        let limit = self.limits.body_time(head.bytes);
        let answer = self
            .client
            .get(self.file, &self.path, range.as_deref(), limit)?;
        if answer.response.status() != StatusCode::PARTIAL_CONTENT {
            partial.truncate(0)?;
        }
        progress.advance(partial.bytes);
        let (_, body) = answer.response.into_parts();
        let failed = |source: io::Error| {
            self.client
                .failed(self.file, &self.path, limit, source.into())
        };
        // `append` has the limit.
        let mut body = body.into_with_config().limit(u64::MAX).reader();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let length = body.read(&mut buffer).map_err(failed)?;
            if length == 0 {
                break;
            }
            self.append(&mut partial, &buffer[..length], head)?;
            progress.advance(length as u64);
        }
        if partial.bytes < head.bytes {
            return Err(HubError::TooShort {
                file: self.file.to_owned(),
                received: partial.bytes,
                announced: head.bytes,
            });
        }
        progress.end();
        partial.complete(blob)
    }

    /// Appends what has arrived, unless the file gets longer than announced.
    fn append(
        &self,
        partial: &mut PartialFile,
        bytes: &[u8],
        head: &FileHead,
    ) -> Result<(), HubError> {
        if partial.bytes + bytes.len() as u64 <= head.bytes {
            return partial.append(bytes);
        }
        // Something is wrong with what is there, too.
        partial.truncate(0)?;
        Err(HubError::TooLong {
            file: self.file.to_owned(),
            announced: head.bytes,
        })
    }

    /// Links the file in the folder of its commit to its blob.
    fn link(&self, etag: &Etag) -> Result<(), HubError> {
        let link = self
            .cached
            .pointer_path(self.commit.as_str())
            .join(self.file);
        let failed = |source| HubError::Cache(link.clone(), source);
        // From the folder of the link up to that of the repository.
        let levels = 2 + self.file.matches('/').count();
        let target = PathBuf::from("../".repeat(levels) + "blobs").join(etag.as_str());
        if fs::read_link(&link).is_ok_and(|present| present == target) {
            return Ok(());
        }
        if let Some(folder) = link.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        symlink(target, &link).map_err(failed)
    }
}

/// Whether a blob has the length that the hub says, and its checksum, if the hub gives one.
fn is_intact(blob: &Path, head: &FileHead) -> bool {
    let length = fs::metadata(blob)
        .ok()
        .filter(|it| it.is_file())
        .map(|it| it.len());
    length == Some(head.bytes)
        && head
            .etag
            .sha256()
            .is_none_or(|expected| sha256(blob).is_ok_and(|found| found == expected))
}

/// A file whose download is not complete, locked against other processes.
struct PartialFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl PartialFile {
    /// Opens what is there of a blob.
    fn open(blob: &Path) -> Result<Self, HubError> {
        let mut path = blob.as_os_str().to_owned();
        path.push(PARTIAL_SUFFIX);
        let path = PathBuf::from(path);
        let failed = |source| HubError::Cache(path.clone(), source);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(HubError::Busy(path)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let opened = file.metadata().map_err(failed)?;
        // Between `open` and `try_lock`, another process may have completed it. Then it is the blob itself.
        if fs::metadata(&path).map_or(0, |present| present.ino()) != opened.ino() {
            return Err(HubError::Busy(path));
        }
        let bytes = opened.len();
        Ok(Self { path, file, bytes })
    }

    fn truncate(&mut self, bytes: u64) -> Result<(), HubError> {
        self.bytes = bytes;
        self.file.set_len(bytes).map_err(|error| self.failed(error))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), HubError> {
        self.bytes += bytes.len() as u64;
        self.file
            .write_all(bytes)
            .map_err(|error| self.failed(error))
    }

    fn complete(self, blob: &Path) -> Result<(), HubError> {
        // The rename must not reach the disk before the content.
        let synced = self.file.sync_all();
        let renamed = synced.and_then(|()| fs::rename(&self.path, blob));
        renamed.map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> HubError {
        HubError::Cache(self.path.clone(), source)
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
