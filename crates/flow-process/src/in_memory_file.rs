//! Texts for another process that no other user may see.

use std::fs::File;
use std::io::{self, Seek, Write};

use rustix::fs::{MemfdFlags, memfd_create};

/// A file with this text that has no name in any folder and ends with its last reader, to be the standard input of another
/// process. Arguments of a process can be seen by every user of the machine; its open files cannot.
///
/// # Errors
///
/// If the kernel has no memory for it.
pub fn in_memory_file(text: &str) -> io::Result<File> {
    let mut file: File = memfd_create("options", MemfdFlags::CLOEXEC)?.into();
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn another_process_reads_the_text_at_its_standard_input() {
        // More than a pipe holds.
        let text = "x".repeat(1 << 20);
        let mut command = Command::new("cat");
        let read = command.stdin(in_memory_file(&text).unwrap()).output();
        assert!(read.unwrap().stdout == text.as_bytes());
    }
}
