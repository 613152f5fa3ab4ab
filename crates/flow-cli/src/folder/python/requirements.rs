//! The requirements of a Python executor.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_spec::PythonSource;

/// The file with the requirements of an executor, as in Jina.
const REQUIREMENTS: &str = "requirements.txt";

/// Maximum number of files of one executor. It ends a search through files that refer to each other in a circle.
const FILES_MAX: usize = 64;

/// The file beside an executor; `None` if it has none, or is a module, which has its own environment.
pub(crate) fn beside(executor: &Path) -> Option<PathBuf> {
    let file = match PythonSource::of(executor) {
        Some(PythonSource::File { file, .. }) => file,
        Some(PythonSource::Module) => return None,
        None => executor.to_owned(),
    };
    let requirements = file.parent().unwrap_or(Path::new("")).join(REQUIREMENTS);
    requirements.is_file().then_some(requirements)
}

/// The text of a file of requirements, and of those that it refers to with `-r` and `-c`.
///
/// # Errors
///
/// If one of them cannot be read.
pub(super) fn contents(file: &Path) -> anyhow::Result<String> {
    let mut texts = Vec::new();
    let mut files = vec![file.to_owned()];
    while let Some(file) = files.pop() {
        anyhow::ensure!(
            texts.len() < FILES_MAX,
            "`{}` belongs to more than {FILES_MAX} files of requirements",
            file.display()
        );
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read `{}`", file.display()))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        files.extend(text.lines().filter_map(referred).map(|it| folder.join(it)));
        texts.push(text);
    }
    Ok(texts.join("\0"))
}

/// The file that a line refers to.
fn referred(line: &str) -> Option<&str> {
    let line = line.trim();
    let options = ["-r", "--requirement", "-c", "--constraint"];
    let rest = options
        .iter()
        .find_map(|option| line.strip_prefix(option))?;
    let path = rest.trim_start_matches([' ', '=']).trim();
    let is_file = !path.is_empty() && !path.contains("://") && !path.starts_with('-');
    is_file.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_refer_to_a_file() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(referred(line), expected, "{line}");
        };
        check("-r base.txt", Some("base.txt"));
        check("-rbase.txt", Some("base.txt"));
        check("  --requirement base.txt ", Some("base.txt"));
        check("--constraint=../pins.txt", Some("../pins.txt"));
        check("-c https://example.com/pins.txt", None);
        check("numpy", None);
        check("# -r base.txt", None);
    }

    #[test]
    fn the_contents_are_those_of_all_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let first = write("requirements.txt", "numpy\n-c pins.txt\n");
        write("pins.txt", "numpy==2.0\n");
        assert_eq!(
            contents(&first).unwrap(),
            "numpy\n-c pins.txt\n\0numpy==2.0\n"
        );
        write("pins.txt", "-r requirements.txt");
        let error = contents(&first).unwrap_err().to_string();
        assert!(
            error.ends_with("belongs to more than 64 files of requirements"),
            "{error}"
        );
        std::fs::remove_file(folder.path().join("pins.txt")).unwrap();
        let error = contents(&first).unwrap_err().to_string();
        assert!(error.starts_with("cannot read "), "{error}");
    }

    #[test]
    fn the_requirements_lie_beside_the_executor() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(beside(&at("config.yml")), None);
        let file = at(REQUIREMENTS);
        std::fs::write(&file, "").unwrap();
        assert_eq!(beside(&at("config.yml")), Some(file.clone()));
        assert_eq!(beside(&at("executor.py:Encoder")), Some(file));
        assert_eq!(beside(Path::new("module:Encoder")), None);
    }
}
