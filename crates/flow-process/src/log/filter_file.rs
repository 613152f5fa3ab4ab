//! A file with the log filter of a process, which its launcher writes while the process runs.
//!
//! A file and not a signal or a pipe: programs that know nothing of it are not disturbed, and a process that is restarted
//! finds what the one before it had.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::{LogFilter, own_filter, set_filter};
use crate::event::ProcessEvent;

/// The variable with the path of the file. Launchers set it.
pub const FILTER_FILE_VARIABLE: &str = "FLOW_LOG_FILTER_FILE";

/// How often the file is read: people wait for it, and reading it takes microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Follows a file with a log filter for as long as this process lives, and reports on standard output which filter is in
/// use: at the beginning, and after each change. Without the file, that is the one that the log
/// started with.
///
/// # Errors
///
/// If no thread can be started.
pub fn follow_filter_file(file: PathBuf) -> io::Result<()> {
    let own = own_filter();
    let follow = move || {
        let mut current = None;
        loop {
            let wanted = read(&file, &own);
            if current.as_ref() != Some(&wanted) {
                if set_filter(&wanted).is_err() || report(&wanted).is_err() {
                    return;
                }
                current = Some(wanted);
            }
            thread::sleep(LOOK_EVERY);
        }
    };
    thread::Builder::new()
        .name("log-filter".to_owned())
        .spawn(follow)
        .map(drop)
}

/// The filter in the file. It is `own` if there is none that can be read.
fn read(file: &Path, own: &LogFilter) -> LogFilter {
    let text = std::fs::read_to_string(file).ok();
    let text = text.filter(|it| !it.trim().is_empty());
    let filter = text.and_then(|it| it.trim().parse().ok());
    filter.unwrap_or_else(|| own.clone())
}

/// Fails if nothing reads standard output any more.
fn report(filter: &LogFilter) -> io::Result<()> {
    let filter = filter.to_string();
    ProcessEvent::LogFilter { filter }.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_filter_selects_the_built_in_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("filter");
        let own: LogFilter = "warn".parse().unwrap();
        let check = |expected: &str| assert_eq!(read(&file, &own).as_str(), expected);
        check("warn");
        for (text, expected) in [("", "warn"), ("debug\n", "debug"), ("loud", "warn")] {
            std::fs::write(&file, text).unwrap();
            check(expected);
        }
    }
}
