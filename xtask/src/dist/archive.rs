//! Archives whose bytes depend on their contents and one time only: tar compressed with gzip, and Debian's `ar`.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) is_program: bool,
}

impl File {
    pub(super) fn data(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: bytes.into(),
            is_program: false,
        }
    }

    pub(super) fn program(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            is_program: true,
        }
    }
}

/// Files by their paths, which start with no slash. In the order of paths.
pub(super) type Files = BTreeMap<String, File>;

/// A tar archive, compressed. Folders come before what they hold; everything belongs to root.
///
/// `prefix` comes before each path: `./` in Debian packages.
pub(super) fn tar_gz(files: &Files, prefix: &str, time: u64) -> std::io::Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    for folder in folders(files) {
        let mut header = header(time, 0o755, 0);
        header.set_entry_type(EntryType::Directory);
        append(&mut tar, header, &format!("{prefix}{folder}"), &[])?;
    }
    for (path, file) in files {
        let mode = if file.is_program { 0o755 } else { 0o644 };
        let header = header(time, mode, file.bytes.len());
        append(&mut tar, header, &format!("{prefix}{path}"), &file.bytes)?;
    }
    // The best level takes twice as long for a program, to save one percent.
    compress(&tar.into_inner()?, Compression::default())
}

/// A document compressed as well as possible, which Debian asks for.
pub(super) fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    compress(bytes, Compression::best())
}

/// Bytes compressed without a name and a time.
fn compress(bytes: &[u8], level: Compression) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), level);
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// An `ar` archive of files in this order.
pub(super) fn ar(members: &[(&str, &[u8])], time: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let (user, group, mode, size) = (0, 0, "100644", bytes.len());
        let header = format!("{name:<16}{time:<12}{user:<6}{group:<6}{mode:<8}{size:<10}`\n");
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(bytes);
        // Members start at even positions.
        archive.extend_from_slice(&b"\n"[..size % 2]);
    }
    archive
}

/// All folders of the files, each with a slash at its end and after the folder that it is in.
fn folders(files: &Files) -> Vec<String> {
    let ends = |path: &str| -> Vec<String> {
        let slashes = path.match_indices('/').map(|(at, _)| at + 1);
        slashes.map(|end| path[..end].to_owned()).collect()
    };
    let mut folders: Vec<String> = files.keys().flat_map(|path| ends(path)).collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

fn header(time: u64, mode: u32, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(mode);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size as u64);
    header
}

fn append(
    tar: &mut Builder<Vec<u8>>,
    mut header: Header,
    path: &str,
    bytes: &[u8],
) -> std::io::Result<()> {
    for set in [Header::set_username, Header::set_groupname] {
        set(&mut header, "root")?;
    }
    // Not `append_data`, which drops the `./` of Debian's paths.
    let name = header
        .as_gnu_mut()
        .map(|it| &mut it.name[..])
        .unwrap_or_default();
    if path.len() >= name.len() {
        return tar.append_data(&mut header, path, bytes);
    }
    name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_cksum();
    tar.append(&header, bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn files() -> Files {
        let program = File::program(b"\x7fELF".to_vec());
        let page = File::data("NAME\n");
        [("usr/bin/flow", program), ("usr/share/man/flow.1", page)]
            .map(|(path, file)| (path.to_owned(), file))
            .into()
    }

    #[test]
    fn a_tar_archive_has_folders_and_files_of_root_with_one_time() {
        let bytes = tar_gz(&files(), "./", 1_700_000_000).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let mut listed = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(header.mtime().unwrap(), 1_700_000_000);
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            listed.push((path, header.mode().unwrap()));
        }
        let listed: Vec<(&str, u32)> = listed
            .iter()
            .map(|(path, mode)| (&path[..], *mode))
            .collect();
        let expected = [
            ("./usr/", 0o755),
            ("./usr/bin/", 0o755),
            ("./usr/share/", 0o755),
            ("./usr/share/man/", 0o755),
            ("./usr/bin/flow", 0o755),
            ("./usr/share/man/flow.1", 0o644),
        ];
        assert_eq!(listed, expected);
    }

    #[test]
    fn equal_files_make_equal_archives() {
        assert_eq!(
            tar_gz(&files(), "", 7).unwrap(),
            tar_gz(&files(), "", 7).unwrap()
        );
    }

    #[test]
    fn a_long_path_is_kept_whole() {
        let path = format!("{}/file", "folder".repeat(30));
        let files = Files::from([(path.clone(), File::data("x"))]);
        let bytes = tar_gz(&files, "", 0).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let paths = archive
            .entries()
            .unwrap()
            .map(|it| it.unwrap().path().unwrap().into_owned());
        assert!(paths.into_iter().any(|it| it.to_str() == Some(&path)));
    }

    #[test]
    fn gzip_keeps_the_bytes() {
        let mut text = String::new();
        let packed = gzip(b"hello").unwrap();
        flate2::read::GzDecoder::new(&packed[..])
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn members_of_ar_start_at_even_positions() {
        let archive = ar(
            &[("debian-binary", b"2.0\n"), ("odd", b"x"), ("last", b"yz")],
            5,
        );
        let at = |part: &[u8]| {
            archive
                .windows(part.len())
                .position(|it| it == part)
                .unwrap()
        };
        assert!(archive.starts_with(
            b"!<arch>\ndebian-binary   5           0     0     100644  4         `\n2.0\n"
        ));
        assert_eq!((at(b"odd"), at(b"last")), (72, 134));
    }
}
