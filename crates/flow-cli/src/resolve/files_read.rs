//! The files that a flow was read from.

use std::cell::RefCell;
use std::path::Path;

use flow_launch::FileStamp;

/// The files that were read, with their state from before they were read. A later change of one of them can be noticed even
/// if it happens while the others are read.
#[derive(Debug, Default)]
pub(crate) struct FilesRead(RefCell<Vec<FileStamp>>);

impl FilesRead {
    /// Records a file. To be called before the file is read.
    pub(crate) fn record(&self, path: &Path) {
        self.0.borrow_mut().push(FileStamp::of(path.to_owned()));
    }

    /// The files, in the order in which they were read.
    pub(crate) fn into_stamps(self) -> Vec<FileStamp> {
        self.0.into_inner()
    }
}

impl From<Vec<FileStamp>> for FilesRead {
    fn from(stamps: Vec<FileStamp>) -> Self {
        Self(RefCell::new(stamps))
    }
}
