//! Limits of a download from the hub, in bytes and time.

use std::time::Duration;

use super::super::folder::WEIGHTS_FILE;

/// Maximum downloads of a file whose checksum is wrong.
pub(super) const ATTEMPTS_MAX: usize = 2;

/// Limits of a download.
#[derive(Debug, Clone)]
pub(super) struct DownloadLimits {
    /// Maximum time until a connection is open.
    pub(super) connect_time: Duration,
    /// Maximum time without a byte.
    pub(super) silence: Duration,
    /// Maximum time for a description or the head of a file, and for a file in addition to that of its bytes.
    pub(super) answer_time: Duration,
    /// The slowest connection. With its size, it gives the maximum time of a file. What has arrived until then is kept, and
    /// the next download continues there.
    pub(super) bytes_per_second_min: u64,
    /// Maximum length of the description of a repository.
    pub(super) description_bytes_max: u64,
    /// Maximum length of a file other than the weights. The largest tokenizers have 35 MB.
    pub(super) file_bytes_max: u64,
    /// Maximum length of the weights.
    pub(super) weights_bytes_max: u64,
}

impl Default for DownloadLimits {
    fn default() -> Self {
        Self {
            // A slow connection needs two seconds; ten is what a user will wait.
            connect_time: Duration::from_secs(10),
            silence: Duration::from_secs(60),
            answer_time: Duration::from_secs(60),
            bytes_per_second_min: 64 << 10,
            description_bytes_max: 8 << 20,
            file_bytes_max: 256 << 20,
            weights_bytes_max: 64 << 30,
        }
    }
}

impl DownloadLimits {
    pub(super) fn bytes_max(&self, file: &str) -> u64 {
        match file {
            WEIGHTS_FILE => self.weights_bytes_max,
            _ => self.file_bytes_max,
        }
    }

    /// Maximum time for a body of this length.
    pub(super) fn body_time(&self, bytes: u64) -> Duration {
        self.answer_time + Duration::from_secs(bytes / self.bytes_per_second_min)
    }
}
