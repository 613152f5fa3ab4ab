//! `flow hub push` of an executor in Python whose folder holds no Dockerfile.
//!
//! Its base would be fetched elsewhere. Here it is made of this machine's own Python, with stock Jina beside it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_core::DocArrayVersion::V2;
use flow_tests::{DocArrayVersion, Program, flow_command, interpreter, post, texts_of};

use crate::containers::ContainerFlow;
use crate::docker::{DockerTest, must};
use crate::registry::Registry;

const EXECUTOR: &str = r#"
from docarray import DocList
from docarray.documents import TextDoc
from jina import Executor, requests


class Loud(Executor):
    def __init__(self, end: str = "", **kwargs):
        super().__init__(**kwargs)
        self.end = end

    @requests(on="/shout")
    def shout(self, docs: DocList[TextDoc], **kwargs) -> DocList[TextDoc]:
        for doc in docs:
            doc.text = doc.text.upper() + self.end
        return docs
"#;

/// What a program, or a library of Python's, needs of this machine.
fn libraries(of: &[PathBuf]) -> BTreeSet<PathBuf> {
    let output = Command::new("ldd").args(of).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = said
        .split_whitespace()
        .filter(|word| word.starts_with("/lib") || word.starts_with("/usr/lib"));
    let words = words.map(|word| PathBuf::from(word.trim_end_matches(':')));
    words.filter(|path| path.is_file()).collect()
}

/// All libraries below a folder.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let find = Command::new("find")
        .arg(folder)
        .args(["-name", "*.so*", "-type", "f"])
        .output()
        .unwrap();
    let said = String::from_utf8(find.stdout).unwrap();
    said.lines().map(PathBuf::from).collect()
}

/// Where an interpreter has its pip.
fn of_pip(python: &Path) -> PathBuf {
    let line = "import os, pip; print(os.path.dirname(os.path.dirname(pip.__file__)))";
    let asked = Command::new(python).args(["-c", line]).output().unwrap();
    PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim())
}

/// Puts pip into a base's folder, for the environment, which was made without one; returns where this machine has
/// its packages.
fn put_pip(folder: &Path, program: &Path, venv: &Path) -> PathBuf {
    let (python, venv_python) = (program.display(), venv.join("bin/python"));
    let pip = format!(
        "#!/bin/sh\nPYTHONPATH=/pip/packages exec {python} -m pip --python {} \"$@\"\n",
        venv_python.display()
    );
    let mode = |path: &str, mode| {
        fs::set_permissions(folder.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::create_dir_all(folder.join("pip/packages")).unwrap();
    fs::write(folder.join("pip/pip"), pip).unwrap();
    mode("pip/pip", 0o755);
    fs::create_dir(folder.join("tmp")).unwrap();
    mode("tmp", 0o1777);
    mode("", 0o755);
    // Of this machine's own packages only pip: the others may be anything.
    let packages = of_pip(program);
    let mut copy = Command::new("cp");
    copy.arg("-r")
        .arg(packages.join("pip"))
        .arg(folder.join("pip/packages"));
    assert!(copy.status().unwrap().success());
    packages
}

/// An image with Python, pip, a shell and Jina; gives its name.
fn make_base(docker: &DockerTest, python: &Path) -> String {
    let venv = fs::canonicalize(python.ancestors().nth(2).unwrap()).unwrap();
    let program = fs::canonicalize(python).unwrap();
    let prefix = program.ancestors().nth(2).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &Path| folder.path().join(path.strip_prefix("/").unwrap());
    let copy = |from: &Path, to: &Path| {
        fs::create_dir_all(at(to).parent().unwrap()).unwrap();
        fs::copy(from, at(to)).unwrap();
    };
    let shell = fs::canonicalize("/bin/sh").unwrap();
    copy(&shell, Path::new("/bin/sh"));
    let mut all = vec![program.clone(), shell];
    let own = modules(&prefix.join("lib")).into_iter();
    all.extend(own.filter(|it| !it.iter().any(|part| part == "site-packages")));
    all.extend(modules(&venv));
    for library in libraries(&all) {
        copy(&fs::canonicalize(&library).unwrap(), &library);
    }
    let packages = put_pip(folder.path(), &program, &venv);
    let packages = packages.strip_prefix("/").unwrap().display();
    let mut tar = Command::new("tar");
    tar.args([
        "-c",
        "--anchored",
        &format!("--exclude={packages}"),
        "--no-anchored",
    ])
    .args([
        "--exclude=__pycache__",
        "--exclude=*.a",
        "--exclude=lib/python*/test",
    ])
    .args(["-C", "/"])
    .args([&venv, prefix].map(|path| path.strip_prefix("/").unwrap()))
    .arg("-C")
    .arg(folder.path())
    .arg(".");
    let path = format!("ENV PATH=/pip:{}/bin:/bin", venv.display());
    // Nothing is fetched: what is asked for is there.
    docker.import_tar(tar, "python", &[&path, "ENV PIP_NO_INDEX=1"])
}

const OUR_EXECUTOR: &str = r#"
import flow_serve
from flow_serve import Executor, requests


class Loud(Executor):
    @requests(on="/shout")
    def shout(self, docs, **kwargs):
        for doc in docs:
            doc.text = f"{doc.text.upper()} {flow_serve.__file__}"
"#;

#[tokio::test]
async fn a_folder_for_our_runtime_becomes_an_image_with_our_package() {
    let Some(python) = flow_tests::flow_serve() else {
        return;
    };
    let Some((registry, docker)) = Registry::open().zip(DockerTest::start()) else {
        return;
    };
    let base = make_base(&docker, &python);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("config.yml", "jtype: Loud\npy_modules: [executor.py]\n");
    write("executor.py", OUR_EXECUTOR);
    write("requirements.txt", "numpy\n");
    let mut push = flow_command();
    let base = format!("BASE={base}");
    push.env("FLOW_HUB", registry.hub())
        .env("FLOW_PYTHON", &python)
        .env("DOCKER_CONFIG", "/nowhere")
        .args(["hub", "push", "-t", "ours", "--build-arg", &base])
        .arg(folder.path());
    let (code, pushed) = Program::run(push);
    assert_eq!(code, Some(0), "{}", pushed.said());

    let flow = ContainerFlow::up(&format!(
        "with: {{hub: {}}}\nexecutors: [{{name: loud, uses: 'hub://Loud:ours'}}]",
        registry.hub()
    ));
    let said = post(&flow, vec![flow_tests::texts("/shout", &["a"])]).await;
    assert_eq!(
        said[0].texts,
        ["A /workdir/flow_serve/__init__.py"],
        "{said:?}"
    );
}

#[tokio::test]
async fn a_folder_of_python_becomes_an_image_without_a_dockerfile_and_runs_by_its_name() {
    let Some(python) = interpreter(DocArrayVersion::V2) else {
        return;
    };
    let Some((registry, docker)) = Registry::open().zip(DockerTest::start()) else {
        return;
    };
    let image = format!("{}/loud:v1", registry.hub());
    let in_registry = format!("{}/python", registry.hub());
    let base = make_base(&docker, &python);
    // As bases are elsewhere: in a registry already.
    must(&["tag", &base, &in_registry]);
    must(&["push", &in_registry]);
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("loud");
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write(
        "config.yml",
        "jtype: Loud\npy_modules: [executor.py]\nmetas: {description: Shouts., version: 0.2.0}\n",
    );
    write("executor.py", EXECUTOR);
    write("requirements.txt", "docarray\n");

    let mut push = flow_command();
    push.env("FLOW_HUB", registry.hub())
        .env("DOCKER_CONFIG", "/nowhere")
        .args([
            "hub",
            "push",
            "-t",
            "v1",
            "--build-arg",
            &format!("BASE={base}"),
        ])
        .arg(&folder);
    let (code, pushed) = Program::run(push);
    assert_eq!(code, Some(0), "{}", pushed.said());
    assert!(
        !folder.join("Dockerfile").exists(),
        "the folder stays as it is"
    );
    let label = |name: &str| {
        let format = format!("{{{{index .Config.Labels \"{name}\"}}}}");
        must(&["inspect", "-f", &format, &image])
    };
    assert_eq!(label("org.opencontainers.image.title"), "Loud");
    assert_eq!(label("org.opencontainers.image.version"), "0.2.0");
    assert_eq!(
        label("dev.flow.wire"),
        "",
        "Jina's executors say no such thing"
    );
    assert_eq!(
        must(&["inspect", "-f", "{{.Config.User}}", &image]),
        "65532:65532"
    );

    let flow = ContainerFlow::up(&format!(
        "with: {{hub: {}}}\nexecutors: [{{name: loud, uses: 'hub://Loud:v1', uses_with: {{end: '!'}}}}]",
        registry.hub()
    ));
    let said = post(&flow, vec![texts_of(V2, "/shout", &["one"])]).await;
    assert_eq!(said[0].texts, ["ONE!"], "{said:?}");
}
