//! The files in which the processes of a flow find their log filters. A process watches its file.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{fs, process};

/// The folder of the files, in the state directory of a flow.
const FOLDER: &str = "log-filters";

/// The files of one running flow.
#[derive(Debug, Clone)]
pub(crate) struct LogFilters {
    folder: PathBuf,
}

impl LogFilters {
    /// Opens the folder of a flow that starts. What an earlier flow left there has no meaning any more.
    pub(crate) fn open(state_directory: &Path) -> io::Result<Self> {
        let folder = state_directory.join(FOLDER);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Processes run in other folders than this one.
        let folder = std::path::absolute(folder)?;
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// The file of a process. The name of one of several replicas has a slash: its file is in a folder with the name of the
    /// node, which is no file even if the node had one replica before.
    pub(crate) fn file(&self, process: &str) -> PathBuf {
        self.folder.join(format!("{process}.filter"))
    }

    /// Writes the filter of a process, or removes it. A process sees all of a filter or nothing of it.
    pub(crate) fn write(&self, process: &str, filter: Option<&str>) -> io::Result<()> {
        let file = self.file(process);
        let Some(filter) = filter else {
            return match fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        };
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = file.with_extension(format!("{}.new", process::id()));
        fs::write(&new, filter)?;
        fs::rename(&new, &file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_gets_further_replicas_keeps_its_file() {
        let state = tempfile::tempdir().unwrap();
        let filters = LogFilters::open(state.path()).unwrap();
        filters.write("a", Some("debug")).unwrap();
        filters.write("a/rep-1", Some("warn")).unwrap();
        assert_eq!(fs::read_to_string(filters.file("a")).unwrap(), "debug");
        assert_eq!(fs::read_to_string(filters.file("a/rep-1")).unwrap(), "warn");
    }

    #[test]
    fn each_process_has_a_file_until_the_next_start_of_the_flow() {
        let state = tempfile::tempdir().unwrap();
        let filters = LogFilters::open(state.path()).unwrap();
        filters.write("a/rep-0", Some("debug")).unwrap();
        filters.write("gateway", None).unwrap();
        let file = filters.file("a/rep-0");
        assert_eq!(fs::read_to_string(&file).unwrap(), "debug");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        filters.write("a/rep-0", None).unwrap();
        assert!(!file.exists());
        filters.write("b", Some("warn")).unwrap();
        LogFilters::open(state.path()).unwrap();
        assert!(!filters.file("b").exists());
    }
}
