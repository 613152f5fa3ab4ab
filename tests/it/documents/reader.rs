//! A reader who types the commands of a page in their order, in a folder of their own.
//!
//! `flow up` and other commands that serve run until the page ends, as in a reader's first terminal.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_tests::{DocArrayVersion, Program, flow_command};

use super::block::{self, Block, shows};
use super::engine::{self, Engine};
use super::ports::Ports;

/// Processes that serve until they are ended.
const SERVING: &[&str] = &["flow up ", "flow gateway ", "flow executor --uses echo "];

/// Commands of `sh` blocks that do not run here: they build the whole workspace, need a GPU, or
/// install a release.
const ELSEWHERE: &[&str] = &[
    "cargo run --release -- up flows/encode.yml",
    "docker build -f docker/Dockerfile --target executor-cuda ",
    "docker run --gpus ",
    "sha256sum --check --ignore-missing SHA256SUMS",
    "sudo ",
    "tar xzf flow-0.1.0",
    "tar xf gpu-bundle.tar",
    "cd gpu-bundle",
    "python3 run.py",
];

/// Commands of `sh` blocks that take minutes, with options that make them shorter.
const SHORTER: &[(&str, &str)] = &[
    ("flow bench encoder ", " --texts 16 --rounds 1 --compare 1"),
    ("flow bench devices", " --side 64 --small 10 --rounds 1"),
];

/// Documents that are posted of those that `flow bench corpus` prints.
const POSTED: usize = 64;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A folder with `flow` on the path, and with the files that a page expects.
pub(crate) struct Reader {
    folder: tempfile::TempDir,
    serving: Vec<Program>,
    /// `None` if there is no engine, or if the page needs none.
    engine: Option<Engine>,
    ports: Ports,
    /// Whether there is a `python` for the program that was saved last.
    has_python: bool,
    /// Whether the page is about the package `flow_serve`, which also runs programs for Jina.
    follows_flow_serve: bool,
}

impl Reader {
    /// A reader of a page with these blocks.
    pub(crate) fn of(blocks: &[Block]) -> Self {
        let console = blocks.iter().filter(|block| block.language == "console");
        let mut commands = console.flat_map(Block::commands);
        let needs_engine = commands.any(|it| engine::is_needed(&it.line));
        let reader = Self {
            folder: tempfile::tempdir().unwrap(),
            serving: Vec::new(),
            engine: needs_engine.then(Engine::start).flatten(),
            ports: match needs_engine {
                true => Ports::as_written(),
                false => Ports::free(),
            },
            has_python: false,
            follows_flow_serve: false,
        };
        fs::create_dir(reader.path("bin")).unwrap();
        symlink(flow_command().get_program(), reader.path("bin/flow")).unwrap();
        // Copies: a flow keeps its files beside its own.
        reader.copy_files(&root().join("flows"), "flows");
        if reader.engine.is_some() {
            Engine::furnish(reader.folder.path());
        }
        reader
    }

    fn copy_files(&self, from: &Path, to: &str) {
        fs::create_dir(self.path(to)).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let to = self.path(to).join(path.file_name().unwrap());
            match fs::read_to_string(&path) {
                Ok(text) => fs::write(to, self.ports.of_text(&text)).unwrap(),
                Err(_) => drop(fs::copy(&path, to).unwrap()),
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Does what a block says.
    pub(crate) fn follow(&mut self, block: &Block) {
        let block = &self.ports.of_block(block);
        if let Some(name) = block.file() {
            fs::write(self.path(name), block.text()).unwrap();
        }
        match block.language.as_str() {
            "console" => self.type_commands(&block.commands()),
            "sh" => block.lines.iter().for_each(|line| self.try_out(line)),
            "yaml" if block.is_flow() => self.check_flow(block),
            "yaml" => assert!(
                block.file().is_some(),
                "neither a flow nor a file: {block:?}"
            ),
            "python" => self.take_python(block),
            // Compiled as documentation tests, compared with `flow plot`, or only read.
            "rust" | "mermaid" | "text" => {}
            other => panic!("no test knows blocks in `{other}`"),
        }
    }

    fn type_commands(&mut self, commands: &[block::Command]) {
        if self.can_run(commands) {
            for command in commands {
                self.run(&command.line, &command.printed);
            }
        }
    }

    /// Whether this machine has what the commands need.
    fn can_run(&self, commands: &[block::Command]) -> bool {
        let types = |start: &str| commands.iter().any(|it| it.line.starts_with(start));
        if types("curl ") && !has_curl() {
            flow_tests::skipped("no `curl` on PATH");
            return false;
        }
        let needs_engine = commands.iter().any(|it| engine::is_needed(&it.line));
        (self.engine.is_some() || !needs_engine)
            && (self.has_python || !(types("python ") || types("flow python ")))
    }

    fn shell(&self, line: &str) -> Command {
        let engine = self.engine.as_ref();
        let adapted = engine.filter(|_| engine::is_needed(line));
        let line = adapted.map_or_else(|| line.to_owned(), |engine| engine.adapted(line));
        // A reader sees both streams together.
        let bin = self.path("bin");
        let line = format!("export PATH={}:$PATH; exec 2>&1; {line}", bin.display());
        let mut command = Command::new("bash");
        command
            .args(["-c", &line])
            .current_dir(self.folder.path())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("JINA_HIDE_SURVEY", "1")
            .env("JINA_OPTOUT_TELEMETRY", "1")
            .env("DOCKER_BUILDKIT", "0");
        if let Some(engine) = engine {
            command.env("FLOW_HUB", engine.hub());
        }
        if self.follows_flow_serve {
            command.env("FLOW_PYTHON", self.path("bin/python"));
        }
        command
    }

    fn run(&mut self, line: &str, printed: &[String]) {
        if SERVING.iter().any(|serving| line.starts_with(serving)) {
            return self.serve(line, printed);
        }
        let (_, program) = Program::run(self.shell(line));
        let lines = lines(&program);
        let engine = self.engine.as_ref().filter(|_| engine::is_needed(line));
        let printed: Vec<String> = match engine {
            Some(engine) => printed.iter().map(|it| engine.with_own_names(it)).collect(),
            None => printed.to_vec(),
        };
        assert!(
            shows(&printed, &lines),
            "`{line}` printed\n{}\nand not\n{printed:#?}",
            lines.join("\n")
        );
    }

    fn serve(&mut self, line: &str, printed: &[String]) {
        let program = Program::start(self.shell(&format!("exec {line}")));
        let last = printed.last().unwrap();
        let ready = last.split('…').max_by_key(|part| part.len()).unwrap();
        program.line(ready);
        let lines = lines(&program);
        let shown = |end: usize| shows(printed, &lines[..end]) || shows(printed, &lines[1..end]);
        assert!(
            (1..=lines.len()).any(shown),
            "`{line}` printed\n{}\nand not\n{printed:#?}",
            lines.join("\n")
        );
        self.serving.push(program);
    }

    fn check_flow(&self, yaml: &Block) {
        let name = yaml.file().unwrap_or("example.yml");
        fs::write(self.path(name), yaml.text()).unwrap();
        let (code, program) = Program::run(self.shell(&format!("flow check {name}")));
        assert_eq!(code, Some(0), "{}", program.stdout());
    }

    /// Starts the flow of a page about GPUs on whatever this machine has.
    pub(crate) fn serve_anywhere(&mut self, yaml: &Block) {
        let text = self.ports.of_text(&yaml.text());
        assert!(text.contains("device: cuda"), "{text}");
        let text = text.replace("device: cuda", "device: auto");
        fs::write(self.path("anywhere.yml"), text).unwrap();
        let printed = ["…".to_owned(), "  ready after …".to_owned()];
        self.serve("flow up anywhere.yml", &printed);
    }

    /// Makes `python` the interpreter with the packages that a program needs.
    fn take_python(&mut self, program: &Block) {
        assert!(program.file().is_some(), "no command runs it: {program:?}");
        let text = program.text();
        let interpreter = match text.as_str() {
            text if text.contains("flow_serve") || self.follows_flow_serve => {
                flow_tests::flow_serve()
            }
            text if text.contains("DocList") => flow_tests::interpreter(DocArrayVersion::V2),
            _ => flow_tests::interpreter(DocArrayVersion::V1),
        };
        self.follows_flow_serve |= text.contains("flow_serve");
        self.has_python = interpreter.is_some();
        if let Some(interpreter) = interpreter {
            // A link would be a Python without the packages of its environment.
            let script = format!("#!/bin/sh\nexec '{}' \"$@\"\n", interpreter.display());
            fs::write(self.path("bin/python"), script).unwrap();
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(self.path("bin/python"), mode).unwrap();
        }
    }

    /// Runs a line of an `sh` block, which has to succeed. A line that asks for a GPU may fail where there is none, if it
    /// says why.
    fn try_out(&self, line: &str) {
        let line = line.split('#').next().unwrap().trim();
        if let Some(rest) = line.strip_prefix("cargo xtask ") {
            return assert_is_xtask(rest);
        }
        if let Some(packages) = line.strip_prefix("pip install ") {
            return assert_are_tested(packages);
        }
        if ELSEWHERE.iter().any(|start| line.starts_with(start)) {
            return;
        }
        let shorter = SHORTER.iter().find(|(start, _)| line.starts_with(start));
        let more = shorter.map_or("", |(_, more)| more);
        let (code, program) = Program::run(self.shell(&format!("{line}{more}")));
        let said = program.stdout();
        if line.contains("--device cuda") && code != Some(0) {
            assert!(said.contains("`cuda`"), "`{line}`: {said}");
            return flow_tests::skipped(&format!("no GPU for `{line}`, which says why and ends"));
        }
        assert_eq!(code, Some(0), "`{line}`: {said}");
        self.cut_short("docs.jsonl");
    }

    fn cut_short(&self, name: &str) {
        let file = self.path(name);
        if let Ok(text) = fs::read_to_string(&file) {
            let lines: Vec<&str> = text.lines().take(POSTED).collect();
            fs::write(&file, lines.join("\n") + "\n").unwrap();
        }
    }
}

fn lines(program: &Program) -> Vec<String> {
    program.lines().into_iter().map(|line| line.text).collect()
}

fn has_curl() -> bool {
    let asked = Command::new("curl").arg("--version").output();
    asked.is_ok_and(|output| output.status.success())
}

/// `cargo xtask` commands are not run; they have to exist.
fn assert_is_xtask(arguments: &str) {
    let name = arguments.split(' ').next().unwrap();
    let words = name.split('-');
    let variant: String = words
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect();
    let source = fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
    let is_variant = |line: &str| {
        let rest = line.trim().strip_prefix(&variant);
        rest.is_some_and(|rest| rest.starts_with(['(', ',', ' ']))
    };
    assert!(
        source.lines().any(is_variant),
        "there is no `cargo xtask {name}`"
    );
}

/// Packages of Python are not installed; their versions have to be those that the tests run with.
fn assert_are_tested(packages: &str) {
    let is_v1 = packages.contains("docarray==0.21.");
    let name = match is_v1 {
        true => "constraints-v1.txt",
        false => "constraints-v2.txt",
    };
    let tested = fs::read_to_string(root().join("tests/peers").join(name)).unwrap();
    for pin in packages.split_whitespace() {
        assert!(
            tested.lines().any(|it| it == pin),
            "`{pin}` is not in {name}"
        );
    }
}
