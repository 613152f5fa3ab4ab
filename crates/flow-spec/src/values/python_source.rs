//! Executors in Python that `uses` names without a config.

use std::path::{Path, PathBuf};

/// Where the class of an executor is: `executor.py`, `executor.py:Class` or `module:Class`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PythonSource {
    /// A file, and the name of a class in it; without one the file has a single executor.
    File {
        /// The file.
        file: PathBuf,
        /// The class, if it is named.
        class: Option<String>,
    },
    /// A module that the interpreter can import, and the name of a class in it.
    Module,
}

impl PythonSource {
    /// The source that a path or a name stands for; `None` if it means something else.
    #[must_use]
    pub fn of(uses: &Path) -> Option<Self> {
        let text = uses.to_str()?;
        let (path, class) = match text.rsplit_once(':') {
            Some((path, class)) if is_identifier(class) => (path, Some(class)),
            Some(_) => return None,
            None => (text, None),
        };
        if path.ends_with(".py") {
            return Some(Self::File {
                file: path.into(),
                class: class.map(str::to_owned),
            });
        }
        let is_module = class.is_some() && path.split('.').all(is_identifier);
        is_module.then_some(Self::Module)
    }

    /// What `uses` says for a class of a file.
    #[must_use]
    pub fn in_file(file: &Path, class: Option<&str>) -> PathBuf {
        match class {
            Some(class) => format!("{}:{class}", file.display()).into(),
            None => file.to_owned(),
        }
    }
}

fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    let is_start = |c: char| c.is_alphabetic() || c == '_';
    chars.next().is_some_and(is_start) && chars.all(|c| is_start(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_modules_of_python_are_told_from_programs() {
        let check = |text: &str, expected: Option<PythonSource>| {
            assert_eq!(PythonSource::of(Path::new(text)), expected, "{text}");
        };
        let file = |file: &str, class: Option<&str>| {
            Some(PythonSource::File {
                file: file.into(),
                class: class.map(str::to_owned),
            })
        };
        check("executor.py", file("executor.py", None));
        check(
            "./a/executor.py:Mine",
            file("./a/executor.py", Some("Mine")),
        );
        check("package.module:Mine", Some(PythonSource::Module));
        check("module:Mine", Some(PythonSource::Module));
        for other in [
            "echo",
            "./program",
            "Mine",
            "docker://image:tag",
            "a/b:tag",
            "module:1",
            "config.yml",
            ":Mine",
        ] {
            check(other, None);
        }
    }

    #[test]
    fn a_class_of_a_file_is_written_behind_it() {
        let path = PythonSource::in_file(Path::new("a.py"), Some("Mine"));
        assert_eq!(path, Path::new("a.py:Mine"));
        assert_eq!(
            PythonSource::in_file(Path::new("a.py"), None),
            Path::new("a.py")
        );
    }
}
