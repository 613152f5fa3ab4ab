//! The image of a Python executor without a Dockerfile.
//!
//! Where the interpreter of the executor has the package `flow_serve`, the image gets that package, and runs the executor with
//! it. Otherwise the image gets Jina.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::archive::{Content, ExtraFile};
use crate::folder::python::{self, PythonRuntime};
use crate::shell::Shell;

/// The files that list the packages of an executor.
const REQUIREMENTS: &str = "requirements.txt";
const CONSTRAINTS: &str = "constraints.txt";

/// Where the two kinds of images differ: the package that pip installs, the variables, and what starts the executor.
const OURS: [&str; 3] = [
    "numpy",
    "FLOW_LISTEN_HOST=0.0.0.0 FLOW_LISTEN_PORT=54321 FLOW_LOG_TO=stdout",
    "ENTRYPOINT [\"python\", \"-m\", \"flow_serve._run\", \"--uses\", \"{config}\"]\n",
];
const JINA: [&str; 3] = [
    "jina",
    "JINA_OPTOUT_TELEMETRY=1",
    "ENTRYPOINT [\"jina\", \"executor\", \"--native\", \"--uses\", \"{config}\"]\n\
     CMD [\"--host\", \"0.0.0.0\", \"--port\", \"54321\"]\n",
];

/// The folder of our package in the interpreter that runs this executor; `None` if Jina runs it.
pub(super) fn package(config: &Path, shell: &Shell) -> anyhow::Result<Option<PathBuf>> {
    match PythonRuntime::find(config, |name| shell.variable(name)) {
        Ok(PythonRuntime::Flow(interpreter)) => python::package_of(&interpreter).map(Some),
        // Jina need not be on this machine: it is installed in the image.
        Ok(PythonRuntime::Jina(_)) | Err(_) => Ok(None),
    }
}

/// The files that the folder of this config lacks: a Dockerfile and, with our runtime, the package.
pub(super) fn files(config: &Path, package: Option<&Path>) -> anyhow::Result<Vec<ExtraFile>> {
    let mut files = vec![ExtraFile::dockerfile(dockerfile(config, package.is_some()))];
    if let Some(package) = package {
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        add_folder(package, &name, &mut files)
            .with_context(|| format!("cannot read `{}`", package.display()))?;
    }
    Ok(files)
}

fn add_folder(folder: &Path, to: &str, files: &mut Vec<ExtraFile>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let to = format!("{to}/{name}");
        if !path.is_dir() {
            let content = Content::Of(path);
            files.push(ExtraFile { content, to });
        } else if name != "__pycache__" {
            add_folder(&path, &to, files)?;
        }
    }
    Ok(())
}

/// The Dockerfile for the folder of this config.
///
/// Packages are installed before the executor's own files are copied, so that a change of these does not install them again.
/// Jina is installed too: executors assume that their image has it, and a base image that has it keeps its version.
fn dockerfile(config: &Path, is_ours: bool) -> String {
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
    let [needs, variables, start] = if is_ours { OURS } else { JINA };
    let config = config.file_name().unwrap_or_default().to_string_lossy();
    let start = start.replace("{config}", &config);
    format!(
        "ARG BASE=python:3.11-slim\n\
         FROM ${{BASE}}\n\
         WORKDIR /workdir\n\
         {copy}\
         RUN pip install --no-cache-dir {needs}{requirements}\n\
         COPY . .\n\
         USER 65532:65532\n\
         ENV HOME=/tmp {variables}\n\
         EXPOSE 54321\n\
         {start}"
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
            let text = dockerfile(&config, false);
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

    #[test]
    fn our_runtime_comes_from_the_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("flow_serve");
        fs::create_dir_all(package.join("__pycache__")).unwrap();
        fs::create_dir_all(package.join("inner")).unwrap();
        for name in ["a.py", "inner/b.py", "__pycache__/a.pyc"] {
            fs::write(package.join(name), "").unwrap();
        }
        let config = folder.path().join("config.yml");
        let files = files(&config, Some(&package)).unwrap();
        let mut names: Vec<&str> = files.iter().map(|file| file.to.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["Dockerfile", "flow_serve/a.py", "flow_serve/inner/b.py"]
        );
        let Content::Text(text) = &files[0].content else {
            panic!("the Dockerfile is not a text");
        };
        assert!(
            text.contains("RUN pip install --no-cache-dir numpy\n"),
            "{text}"
        );
        let start =
            "ENTRYPOINT [\"python\", \"-m\", \"flow_serve._run\", \"--uses\", \"config.yml\"]\n";
        assert!(text.ends_with(start), "{text}");
    }
}
