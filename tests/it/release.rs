//! `cargo xtask dist`: what it packs, and that what is packed works. The program is that of the other tests, so nothing is
//! built for release here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_tests::{Program, cyclonedx, flow_command, skipped};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::images::{encodes, model};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The files of a release of the program that is tested.
struct Release {
    folder: tempfile::TempDir,
}

impl Release {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flow = PathBuf::from(flow_command().get_program());
        let mut xtask = Command::new(flow.with_file_name("xtask"));
        xtask.arg("dist").arg("--program").arg(&flow);
        ran(xtask.arg("--out").arg(folder.path()));
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The only file whose name ends like this.
    fn file(&self, end: &str) -> PathBuf {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut paths = paths.filter(|path| path.to_str().unwrap().ends_with(end));
        let found = paths.next().unwrap_or_else(|| panic!("no file `{end}`"));
        assert_eq!(paths.next(), None);
        found
    }
}

/// Runs a command to its end, and gives what it wrote.
#[track_caller]
fn ran(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that systemd finds little that a service could do to the machine: at most 2 on its scale up to 10.
fn check_sandbox(unit: &Path) {
    if has("systemd-analyze") {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--offline=true", "--threshold=20"]);
        ran(analyze.arg(unit));
    }
}

/// Whether a tool is installed. Without it a part of the test is left out, and says so.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        skipped(&format!("`{tool}` is not installed"));
    }
    found
}

#[test]
fn a_release_has_checksums_that_hold_and_an_archive_and_a_package_that_work() {
    let release = Release::make();
    let mut sums = Command::new("sha256sum");
    sums.current_dir(release.folder.path());
    let checked = ran(sums.args(["--check", "SHA256SUMS"]));
    assert_eq!(checked.matches(": OK\n").count(), 3, "{checked}");
    the_archive_has_program_pages_completions_and_terms(&release);
    the_bill_of_materials_is_valid(&release.file(".cdx.json"));
    if has("dpkg-deb") {
        the_package_is_described(&release.file(".deb"));
        the_package_serves(&release);
    }
}

fn the_archive_has_program_pages_completions_and_terms(release: &Release) {
    let archive = release.file(".tar.gz");
    let listed = ran(Command::new("tar").arg("-tzf").arg(&archive));
    let name = archive.file_name().unwrap().to_str().unwrap();
    let folder = name.strip_suffix(".tar.gz").unwrap();
    assert!(folder.starts_with(&format!("flow-{VERSION}-")), "{folder}");
    for file in [
        "flow",
        "LICENSE",
        "README.md",
        "THIRD-PARTY-LICENSES.txt",
        "flow.cdx.json",
        "completions/flow.bash",
        "flows/encode.yml",
        "man/man1/flow-up.1",
    ] {
        let path = format!("{folder}/{file}");
        assert!(listed.lines().any(|line| line == path), "{path}: {listed}");
    }
    let terms = format!("{folder}/THIRD-PARTY-LICENSES.txt");
    let terms = ran(Command::new("tar").arg("-xzOf").arg(&archive).arg(terms));
    for part in ["\ntokio ", "Permission is hereby granted", "\nring "] {
        assert!(terms.contains(part), "{part}");
    }
}

/// Against the published schema, and by its contents.
fn the_bill_of_materials_is_valid(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["metadata"]["component"]["version"], VERSION);
    let components = document["components"].as_array().unwrap();
    let find = |name: &str| components.iter().find(|it| it["name"] == name);
    let tokio = find("tokio").unwrap();
    assert_eq!(tokio["licenses"], json!([{"expression": "MIT"}]));
    assert_eq!(tokio["hashes"][0]["content"].as_str().unwrap().len(), 64);
    // Only tests use it.
    assert_eq!(find("proptest"), None);
    if let Some(mut check) = cyclonedx(path) {
        assert_eq!(ran(&mut check), "valid\n");
    }
}

fn the_package_is_described(package: &Path) {
    let field = |name: &str| ran(Command::new("dpkg-deb").arg("-f").arg(package).arg(name));
    assert_eq!(field("Package"), "flow-serve\n");
    assert_eq!(field("Version").trim(), VERSION);
    assert!(field("Depends").starts_with("libc6 (>= 2."));
    let configured = ran(Command::new("dpkg-deb")
        .arg("-I")
        .arg(package)
        .arg("conffiles"));
    assert_eq!(configured, "/etc/flow/encode.yml\n");
}

/// The files are unpacked, not installed: `cargo xtask dist --check-install` does that, in a Debian of its own.
fn the_package_serves(release: &Release) {
    let root = release.path("root");
    let package = release.file(".deb");
    ran(Command::new("dpkg-deb").arg("-x").arg(package).arg(&root));
    check_sandbox(&root.join("usr/lib/systemd/system/flow@.service"));
    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/flow@.service")).unwrap();
    assert!(
        unit.contains("ExecStart=/usr/bin/flow up /etc/flow/%i.yml\n"),
        "{unit}"
    );
    assert!(root.join("usr/share/man/man1/flow-post.1.gz").exists());
    model();
    let mut up = Command::new(root.join("usr/bin/flow"));
    up.arg("up").arg(root.join("etc/flow/encode.yml")).args([
        "--port",
        "0",
        "--ready-format",
        "json",
    ]);
    // Not where the developer's own flows are.
    up.env("XDG_STATE_HOME", root.join("state"));
    let mut flow = Program::start(up);
    encodes(&format!("grpc://{}", flow.ready().address));
    flow.signal(Signal::TERM);
    assert!(flow.end().success());
}
