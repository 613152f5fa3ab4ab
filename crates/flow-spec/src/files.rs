//! Files that a flow file names and that are part of it. Somebody else reads them.

/// Reads the text of a file that a flow file names: a Deployment, or a gateway's config.
pub trait Files {
    /// The text of the file of this name, which is as it was written.
    ///
    /// # Errors
    /// Why it cannot be read, as the end of a sentence that names the file.
    fn read(&self, name: &str) -> Result<String, String>;
}

/// There are no files, only the text at hand.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _name: &str) -> Result<String, String> {
        Err("no files can be read here".to_owned())
    }
}

impl<F: Fn(&str) -> Result<String, String>> Files for F {
    fn read(&self, name: &str) -> Result<String, String> {
        self(name)
    }
}
