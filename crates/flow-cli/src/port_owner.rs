//! Finds the owner of a port in `/proc`: among the user's own processes, or all processes for root.

use std::fs;
use std::path::{Path, PathBuf};

/// The process that listens on a TCP port, as ``process 26554 (`flow up encode.yml`)``.
pub(crate) fn find(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let mut texts = tables
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    let socket = texts.find_map(|text| socket_of(&text, port))?;
    let owner = processes()?.find(|process| has(process, &socket))?;
    let owner = launcher_of(&owner).unwrap_or(owner);
    let pid = owner.file_name()?.to_string_lossy().into_owned();
    Some(format!("process {pid} (`{}`)", command_line(&owner)))
}

fn processes() -> Option<impl Iterator<Item = PathBuf>> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let is_number = |it: &fs::DirEntry| {
        it.file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
    };
    Some(entries.filter(is_number).map(|entry| entry.path()))
}

/// The launcher of a gateway: the same program, which would start the gateway again.
fn launcher_of(process: &Path) -> Option<PathBuf> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))?
        .trim();
    let parent = Path::new("/proc").join(parent);
    let program = |of: &Path| fs::read_link(of.join("exe")).ok();
    let is_same = program(process).is_some() && program(process) == program(&parent);
    is_same.then_some(parent)
}

/// The target of the links to a listening socket among the files of a process.
fn socket_of(table: &str, port: u16) -> Option<String> {
    const LISTENS: &str = "0A";
    const INODE: usize = 9;
    let port = format!(":{port:04X}");
    let rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut ours = rows.filter(|row| row.get(1).is_some_and(|at| at.ends_with(&port)));
    let row = ours.find(|row| row.get(3) == Some(&LISTENS))?;
    row.get(INODE).map(|inode| format!("socket:[{inode}]"))
}

fn has(process: &Path, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    let links = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok());
    links.into_iter().any(|link| link.as_os_str() == socket)
}

fn command_line(process: &Path) -> String {
    let bytes = fs::read(process.join("cmdline")).unwrap_or_default();
    let words = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 77 1 0
   1: 0100007F:D431 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 88 1 0
";

    #[test]
    fn a_listening_socket_is_found_by_its_port() {
        assert_eq!(socket_of(TABLE, 54_321).as_deref(), Some("socket:[88]"));
        assert_eq!(socket_of(TABLE, 54_322), None);
        assert_eq!(socket_of("", 1), None);
    }

    #[test]
    fn our_own_port_is_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let owner = find(port).unwrap();
        let expected = format!("process {} (`", std::process::id());
        assert!(owner.starts_with(&expected), "{owner}");
    }
}
