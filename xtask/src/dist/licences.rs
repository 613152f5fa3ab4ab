//! The licences of all crates in the program, with their texts.
//!
//! The texts are the files that the crates carry. Equal texts are listed once, with the crates that they belong to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::dependencies::Crate;
use super::sbom::expression;

/// Beginnings of the names of files with terms, in capitals.
const NAMES: &[&str] = &[
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];

/// Ends of file names that begin like terms, and are programs.
const PROGRAMS: &[&str] = &["rs", "py", "sh", "toml"];

const HEADER: &str = "\
The program flow contains the crates below. Each is named with its version, its licence as an SPDX expression, and where its
sources are. The texts that the crates carry follow, each once, after the crates that they belong to. The program also contains
the standard library of Rust (MIT OR Apache-2.0, https://github.com/rust-lang/rust), and Swagger UI (Apache-2.0,
Copyright 2020-2021 SmartBear Software Inc., https://github.com/swagger-api/swagger-ui).
";

/// The document for the crates that are in the program and not ours.
pub(super) fn document(crates: &[Crate]) -> anyhow::Result<String> {
    let foreign = crates
        .iter()
        .filter(|it| it.is_in_program && it.checksum.is_some());
    let foreign: Vec<&Crate> = foreign.collect();
    let mut texts = Vec::new();
    for it in &foreign {
        let found =
            find(&it.folder).with_context(|| format!("cannot read `{}`", it.folder.display()))?;
        texts.push(found);
    }
    let named: Vec<(&Crate, &[String])> = foreign
        .iter()
        .copied()
        .zip(texts.iter().map(Vec::as_slice))
        .collect();
    Ok(write(&named))
}

fn write(crates: &[(&Crate, &[String])]) -> String {
    let mut document = HEADER.to_owned();
    document.push('\n');
    let mut owners: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (it, texts) in crates {
        let (name, version) = &it.key;
        let license = it
            .license
            .as_deref()
            .map_or_else(|| "see the text".to_owned(), expression);
        let at = it
            .repository
            .clone()
            .unwrap_or_else(|| format!("https://crates.io/crates/{name}"));
        let none = if texts.is_empty() {
            "; the crate carries no text"
        } else {
            ""
        };
        document.push_str(&format!("{name} {version}: {license}; {at}{none}\n"));
        for text in *texts {
            owners
                .entry(text)
                .or_default()
                .push(format!("{name} {version}"));
        }
    }
    let mut blocks: Vec<(Vec<String>, &str)> = owners
        .into_iter()
        .map(|(text, owners)| (owners, text))
        .collect();
    blocks.sort();
    for (mut owners, text) in blocks {
        owners.dedup();
        let line = "=".repeat(80);
        document.push_str(&format!(
            "\n{line}\n{}\n{line}\n\n{text}\n",
            owners.join(", ")
        ));
    }
    document
}

/// The texts of a crate, also of the sources in other languages that it carries, in the order of their paths.
fn find(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut paths = Vec::new();
    walk(folder, &mut paths)?;
    paths.sort();
    let mut texts = Vec::new();
    for path in paths {
        let text = String::from_utf8_lossy(&fs::read(path)?).replace("\r\n", "\n");
        texts.push(text.trim_matches('\n').to_owned());
    }
    texts.retain(|text| !text.is_empty());
    Ok(texts)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), found)?;
        } else if kind.is_file() && is_terms(&entry.path()) {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// Whether a file has this name because it states terms.
fn is_terms(path: &Path) -> bool {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_uppercase();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    NAMES.iter().any(|it| name.starts_with(it)) && !PROGRAMS.contains(&&*extension)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::dependencies::tests::key_of;
    use super::*;

    fn of(name: &str) -> Crate {
        Crate {
            key: key_of(name, "1.0.0"),
            description: None,
            license: Some("MIT/Apache-2.0".to_owned()),
            repository: Some(format!("https://example.org/{name}")),
            checksum: Some(String::new()),
            folder: PathBuf::new(),
            is_in_program: true,
            depends_on: BTreeSet::new(),
        }
    }

    #[test]
    fn a_text_that_crates_share_is_listed_once() {
        let (a, b, c) = (of("a"), of("b"), of("c"));
        let texts = ["shared text", "own text"].map(str::to_owned);
        let document = write(&[(&a, &texts[..1]), (&b, &texts), (&c, &[])]);
        assert!(
            document.contains("a 1.0.0: MIT OR Apache-2.0; https://example.org/a\n"),
            "{document}"
        );
        assert!(document.contains("\na 1.0.0, b 1.0.0\n"), "{document}");
        assert!(document.contains("\nb 1.0.0\n===="), "{document}");
        assert!(
            document.contains("https://example.org/c; the crate carries no text\n"),
            "{document}"
        );
        assert_eq!(document.matches("shared text").count(), 1);
    }

    #[test]
    fn files_with_terms_are_found_in_folders_and_programs_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("LICENSE-MIT", "MIT\r\n");
        write("c_src/COPYING.txt", "\nZlib\n");
        write("src/license.rs", "fn main() {}");
        write("README.md", "hello");
        assert_eq!(find(folder.path()).unwrap(), ["MIT", "Zlib"]);
    }
}
