//! The Dockerfile of a Python executor without one.

use std::path::Path;

/// The files that list the packages of an executor.
const REQUIREMENTS: &str = "requirements.txt";
const CONSTRAINTS: &str = "constraints.txt";

/// The Dockerfile for the folder of this config.
///
/// Packages are installed before the executor's own files are copied, so that a change of these does not install them again.
/// Jina is installed too: executors assume that their image has it, and a base image that has it keeps its version.
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
    fn packages_are_installed_before_the_files_are_copied() {
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
