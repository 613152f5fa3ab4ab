//! `flow up --install`, and the key `install_requirements`: environments with the requirements of Python executors.

use std::fs;
use std::path::Path;

use flow_tests::{Program, flow_command, flow_serve, skipped};
use tempfile::TempDir;

/// An executor that needs a package which the interpreter of the tests does not have.
const EXECUTOR: &str = r#"
import inflection
from flow_serve import Executor, requests


class Plural(Executor):
    @requests(on="/plural")
    def plural(self, docs, **kwargs):
        for doc in docs:
            doc.text = f"{inflection.pluralize(doc.text)} {inflection.__version__}"
"#;

/// The folder of a flow with this executor, whose requirements are pinned in a second file.
fn project(keys: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let flow = format!("jtype: Flow\nexecutors: [{{name: plural, uses: ./executor.py{keys}}}]");
    write("flow.yml", &flow);
    write("executor.py", EXECUTOR);
    write("requirements.txt", "-c pins.txt\ninflection\n");
    write("pins.txt", "inflection==0.5.0\n");
    folder
}

/// `flow up` of the project, with a cache of its own; `None` if the package is not set up.
fn up(project: &TempDir, arguments: &[&str]) -> Option<std::process::Command> {
    let python = flow_serve()?;
    let mut command = flow_command();
    command
        .current_dir(project)
        .env("FLOW_PYTHON", python)
        .env("FLOW_CACHE", project.path().join("cache"))
        .args(["up", "flow.yml", "--port", "0", "--ready-format", "json"])
        .args(arguments);
    Some(command)
}

/// Whether pip can make environments on this machine, and reaches an index of packages.
fn has_index(folder: &Path) -> bool {
    let mut pip = std::process::Command::new("python3");
    let wheels = folder.join("wheels");
    pip.args(["-m", "pip", "download", "--no-deps", "--quiet", "-d"]);
    pip.arg(wheels).arg("inflection==0.5.0");
    let found = pip.output().is_ok_and(|output| output.status.success());
    if !found {
        skipped("pip fetches no packages here");
    }
    found
}

fn plural(program: &Program) -> String {
    let mut post = flow_command();
    let url = format!("grpc://{}", program.ready().address);
    post.args(["post", &url, "--on", "/plural", "--text", "octopus"]);
    let (code, posted) = Program::run(post);
    assert_eq!(code, Some(0), "{}", posted.said());
    posted.stdout()
}

#[test]
fn requirements_are_installed_once_and_again_when_they_change() {
    let project = project("");
    let Some(command) = up(&project, &[]).filter(|_| has_index(project.path())) else {
        return;
    };
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(1), "{}", program.said());
    let remedy = "No module named 'inflection'; `flow up --install` installs what `./requirements.txt` lists";
    assert!(program.stderr().contains(remedy), "{}", program.said());

    let installs = |version: &str| {
        let program = Program::start(up(&project, &["--install"]).unwrap());
        let text = plural(&program);
        assert!(text.contains(&format!("octopi {version}")), "{text}");
        program
            .said()
            .contains("installs the requirements of an executor")
    };
    assert!(installs("0.5.0"));
    assert!(!installs("0.5.0"), "they are installed already");
    fs::write(project.path().join("pins.txt"), "inflection==0.5.1\n").unwrap();
    assert!(installs("0.5.1"), "the pins have changed");
}

#[test]
fn a_flow_file_may_ask_for_its_requirements() {
    let project = project(", install_requirements: true");
    let Some(command) = up(&project, &[]).filter(|_| has_index(project.path())) else {
        return;
    };
    let text = plural(&Program::start(command));
    assert!(text.contains("octopi 0.5.0"), "{text}");
}

#[test]
fn requirements_that_cannot_be_installed_are_an_error_each_time() {
    let project = project("");
    fs::write(
        project.path().join("pins.txt"),
        "inflection==0.5.0\n-r none.txt\n",
    )
    .unwrap();
    let fails = |part: &str| {
        let Some(command) = up(&project, &["--install"]) else {
            return;
        };
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(2), "{}", program.said());
        assert!(program.stderr().contains(part), "{}", program.said());
    };
    fails("none.txt`: No such file");
    // Nothing is at this path, whatever the index.
    fs::write(project.path().join("pins.txt"), "").unwrap();
    fs::write(project.path().join("requirements.txt"), "./nowhere\n").unwrap();
    for _ in 0..2 {
        fails("requirements.txt`; the output of the installer is above");
    }
}
