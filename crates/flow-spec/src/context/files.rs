//! Files that a flow file names and that are part of it. The caller reads them.

/// Reads the text of a file that a flow file names: a Deployment, or a gateway's config.
pub trait Files {
    /// The text of the file. `name` is as written in the flow file.
    ///
    /// # Errors
    /// Why it cannot be read, as the end of a sentence that names the file.
    fn read(&self, name: &str) -> Result<String, String>;
}

/// Reads no file.
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
