//! The Dockerfile of an executor in Python whose folder has none.

use std::path::Path;

/// The packages that an executor needs, by the names that Python's own tools give the files.
const REQUIREMENTS: &str = "requirements.txt";
const CONSTRAINTS: &str = "constraints.txt";

/// How an image is made of the folder around this config.
///
/// Packages come before the executor's own files, so that a change of these does not fetch them again. Jina is
/// named beside them: executors are written for images that have it, and a base that does keeps the one it has.
pub(super) fn dockerfile(config: &Path) -> String {
    let has = |name: &str| config.with_file_name(name).is_file();
    let files = [REQUIREMENTS, CONSTRAINTS].map(|name| has(name).then_some(name));
    let files: Vec<&str> = files.into_iter().flatten().collect();
    let copy = match files.as_slice() {
        [] => String::new(),
        files => format!("COPY {} ./\n", files.join(" ")),
    };
    let requirements = match has(REQUIREMENTS) {
        true => format!(" -r {REQUIREMENTS}"),
        false => String::new(),
    };
    let config = config.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "ARG BASE=python:3.11-slim\n\
         FROM ${{BASE}}\n\
         WORKDIR /workdir\n\
         {copy}\
         RUN pip install --no-cache-dir jina{requirements}\n\
         COPY . .\n\
         USER 65532:65532\n\
         ENV HOME=/tmp JINA_OPTOUT_TELEMETRY=1\n\
         EXPOSE 54321\n\
         ENTRYPOINT [\"jina\", \"executor\", \"--native\", \"--uses\", \"{config}\"]\n\
         CMD [\"--host\", \"0.0.0.0\", \"--port\", \"54321\"]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_come_before_the_executors_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.yml");
        let check = |copy: &str, install: &str| {
            let text = dockerfile(&config);
            let expected = format!("WORKDIR /workdir\n{copy}RUN pip install {install}\nCOPY . .\n");
            assert!(text.contains(&expected), "{text}");
        };
        check("", "--no-cache-dir jina");
        std::fs::write(folder.path().join("requirements.txt"), "numpy").unwrap();
        let install = "--no-cache-dir jina -r requirements.txt";
        check("COPY requirements.txt ./\n", install);
        std::fs::write(folder.path().join("constraints.txt"), "").unwrap();
        check("COPY requirements.txt constraints.txt ./\n", install);
    }
}
