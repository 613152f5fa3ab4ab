//! Every command of README.md is run as it stands there, and shows what it says; those of docs/gpu.md as far as they need no GPU.
//!
//! Blocks are taken in their order, in one folder, as a reader would type them. In a `console` block a
//! line that begins with `$ ` is a command and the lines below are what it prints; `…` stands for
//! anything. `flow up` and its like go on running until the end, as in a reader's first terminal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flow_tests::{Flavour, Program, flow_command};

use crate::container_tutorial::model_hub;
use crate::docker::{self, DockerTest};
use crate::model_hub::ModelHub;
use crate::registry::Registry;

/// The two commands at the top: the first is `flow up` with a build before it, the second runs this test.
const TOP: &[&str] = &[
    "cargo run --release -- up flows/encode.yml",
    "cargo xtask test",
];

/// Commands that need a Docker engine.
const NEEDS_ENGINE: &[&str] = &["docker ", "flow hub "];

/// What installs Jina; its versions are compared with those that the tests have.
const INSTALLS_JINA: &str = "pip install jina==";

/// Processes that serve until they are ended.
const SERVING: &[&str] = &["flow up ", "flow gateway ", "flow executor --uses echo "];

/// What of docs/gpu.md needs a GPU, or what is made for one: a program with kernels, its image, the bundle.
const ELSEWHERE: &[&str] = &[
    "cargo xtask build-cuda --release",
    "docker build ",
    "docker run --gpus ",
    "tar ",
    "cd ",
    "python3 run.py",
];

/// Documents that are posted of those that the page makes.
const POSTED: usize = 64;

/// Less of what takes minutes, and says the same.
const SHORTER: &[(&str, &str)] = &[
    ("flow bench encoder ", " --texts 16 --rounds 1 --compare 1"),
    ("flow bench devices", " --side 64 --small 10 --rounds 1"),
];

#[derive(Debug)]
struct Block {
    language: String,
    lines: Vec<String>,
}

/// Both pages have their flows at the port that flow files have.
fn port() -> MutexGuard<'static, ()> {
    static PORT: Mutex<()> = Mutex::new(());
    PORT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block {
                    language: language.to_owned(),
                    lines: Vec::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    blocks
}

/// Commands of a `console` block, each with what it prints.
fn commands(block: &Block) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in &block.lines {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((_, printed))) => printed.push(line.clone()),
            (None, None) => panic!("a console block begins with a command: {block:?}"),
        }
    }
    commands
}

/// Whether `lines` are what `pattern` says; a line of `…` alone stands for any lines.
fn shows(pattern: &[String], lines: &[String]) -> bool {
    match pattern {
        [] => lines.is_empty(),
        [any, rest @ ..] if any == "…" => {
            (0..=lines.len()).any(|skip| shows(rest, &lines[skip..]))
        }
        [line, rest @ ..] => lines
            .split_first()
            .is_some_and(|(first, others)| line_shows(line, first) && shows(rest, others)),
    }
}

/// `…` within a line stands for any text.
fn line_shows(pattern: &str, line: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('…') else {
        return pattern == line;
    };
    let Some(line) = line.strip_prefix(start) else {
        return false;
    };
    line.char_indices()
        .map(|(at, _)| at)
        .chain([line.len()])
        .any(|at| line_shows(rest, &line[at..]))
}

fn has_curl() -> bool {
    let asked = Command::new("curl").arg("--version").output();
    asked.is_ok_and(|output| output.status.success())
}

/// A reader's folder, with `flow` on the path and the flow files where the README says.
struct Reader {
    folder: tempfile::TempDir,
    serving: Vec<Program>,
    /// None: nothing is tried that needs an engine.
    engine: Option<Engine>,
}

/// The reader's volume for models.
const CACHE: &str = "cache";

/// What a reader has for images.
struct Engine {
    docker: DockerTest,
    registry: Registry,
    /// In place of Hugging Face's.
    models: ModelHub,
}

impl Engine {
    /// None: there is no engine, or no registry.
    fn start() -> Option<Self> {
        let (registry, docker) = Registry::open().zip(DockerTest::start())?;
        docker.volume(CACHE);
        Some(Self {
            models: model_hub(docker.folder()),
            registry,
            docker,
        })
    }

    /// What is typed, or printed, with names that a user of this machine does not have: an image, a container or a volume
    /// of the same name stays as it is.
    fn with_own_names(&self, line: &str) -> String {
        let own = |what: &str| self.docker.name(what);
        let line = format!(" {line} ")
            .replace(" sentence-encoder ", &format!(" {} ", own("image")))
            .replace(" encoder ", &format!(" {} ", own("encoder")))
            .replace(" flow-cache:", &format!(" {}:", own(CACHE)));
        line[1..line.len() - 1].to_owned()
    }

    /// A line for the engine, as it does its work here: bases are made and not pulled, and models come from a hub that
    /// can be reached.
    fn adapted(&self, line: &str) -> String {
        let base = self.docker.base();
        let hub = self.models.url();
        let build = format!("docker build --build-arg BASE={base} ");
        let run = format!(
            "docker run --add-host host.docker.internal:host-gateway -e HF_ENDPOINT={hub} "
        );
        self.with_own_names(line)
            .replace("docker build ", &build)
            .replace("docker run ", &run)
    }
}

fn needs_engine(line: &str) -> bool {
    NEEDS_ENGINE.iter().any(|it| line.starts_with(it))
}

impl Reader {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = flow_command().get_program().to_owned();
        fs::create_dir(folder.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(program, folder.path().join("bin/flow")).unwrap();
        std::os::unix::fs::symlink(root().join("flows"), folder.path().join("flows")).unwrap();
        let engine = Engine::start();
        if engine.is_some() {
            checkout(folder.path());
        }
        Self {
            folder,
            serving: Vec::new(),
            engine,
        }
    }

    /// Whether the commands of a block can be tried.
    fn can_run(&self, commands: &[(String, Vec<String>)]) -> bool {
        let asks = |line: &str| line.starts_with("curl ");
        if commands.iter().any(|(line, _)| asks(line)) && !has_curl() {
            flow_tests::skipped("no `curl` on PATH");
            return false;
        }
        self.engine.is_some() || !commands.iter().any(|(line, _)| needs_engine(line))
    }

    fn shell(&self, line: &str) -> Command {
        let bin = self.folder.path().join("bin");
        let mut command = Command::new("bash");
        let adapted = self.engine.as_ref().filter(|_| needs_engine(line));
        let line = adapted.map_or_else(|| line.to_owned(), |engine| engine.adapted(line));
        // What a reader sees is both streams in one.
        let line = format!("export PATH={}:$PATH; exec 2>&1; {line}", bin.display());
        command
            .args(["-c", &line])
            .current_dir(self.folder.path())
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("DOCKER_BUILDKIT", "0");
        if let Some(engine) = &self.engine {
            command.env("FLOW_HUB", engine.registry.hub());
        }
        command
    }

    fn run(&mut self, line: &str, printed: &[String]) {
        if SERVING.iter().any(|serving| line.starts_with(serving)) {
            return self.serve(line, printed);
        }
        let (_, program) = Program::run(self.shell(line));
        let lines: Vec<String> = program.lines().into_iter().map(|line| line.text).collect();
        let printed = &match self.engine.as_ref().filter(|_| needs_engine(line)) {
            Some(engine) => printed.iter().map(|it| engine.with_own_names(it)).collect(),
            None => printed.to_vec(),
        };
        assert!(
            shows(printed, &lines),
            "`{line}` printed\n{}\nand not\n{printed:#?}",
            lines.join("\n")
        );
    }

    fn serve(&mut self, line: &str, printed: &[String]) {
        let program = Program::start(self.shell(&format!("exec {line}")));
        let last = printed.last().unwrap();
        let ready = last.split('…').max_by_key(|part| part.len()).unwrap();
        program.line(ready);
        let lines: Vec<String> = program.lines().into_iter().map(|line| line.text).collect();
        let shown = |end: usize| shows(printed, &lines[..end]) || shows(printed, &lines[1..end]);
        let any = (1..=lines.len()).any(shown);
        assert!(
            any,
            "`{line}` printed\n{}\nand not\n{printed:#?}",
            lines.join("\n")
        );
        self.serving.push(program);
    }

    fn check_flow(&self, yaml: &Block) {
        let file = self.folder.path().join("example.yml");
        fs::write(&file, yaml.lines.join("\n")).unwrap();
        let (code, program) = Program::run(self.shell("flow check example.yml"));
        assert_eq!(code, Some(0), "{}", program.stdout());
    }

    /// The flow of a page on GPUs, on whatever this machine has.
    fn serve_anywhere(&mut self, yaml: &Block) {
        let file = self.folder.path().join("anywhere.yml");
        let text = yaml.lines.join("\n");
        assert!(text.contains("device: cuda"), "{text}");
        fs::write(&file, text.replace("device: cuda", "device: auto")).unwrap();
        self.serve(
            "flow up anywhere.yml",
            &["…".to_owned(), "  ready after …".to_owned()],
        );
    }

    /// Runs a line of a page on GPUs, or less of the same. What asks for one may fail where there is none, and says why.
    fn try_out(&self, line: &str) {
        let line = line.split('#').next().unwrap().trim();
        if ELSEWHERE.iter().any(|start| line.starts_with(start)) {
            return;
        }
        let shorter = SHORTER.iter().find(|(start, _)| line.starts_with(start));
        let more = shorter.map_or("", |(_, more)| more);
        let (code, program) = Program::run(self.shell(&format!("{line}{more}")));
        let said = program.stdout();
        if line.contains("--device cuda") && code != Some(0) {
            assert!(said.contains("`cuda`"), "`{line}`: {said}");
            return flow_tests::skipped("no GPU: its line of docs/gpu.md says why and ends");
        }
        assert_eq!(code, Some(0), "`{line}`: {said}");
        self.cut_short("docs.jsonl");
    }

    fn cut_short(&self, name: &str) {
        let file = self.folder.path().join(name);
        if let Ok(text) = fs::read_to_string(&file) {
            let lines: Vec<&str> = text.lines().take(POSTED).collect();
            fs::write(&file, lines.join("\n") + "\n").unwrap();
        }
    }

    fn run_python(&self, script: &Block) {
        let is_v2 = script.lines.iter().any(|line| line.contains("DocList"));
        let flavour = if is_v2 { Flavour::V2 } else { Flavour::V1 };
        let Some(python) = flow_tests::interpreter(flavour) else {
            return;
        };
        let file = self.folder.path().join("client.py");
        fs::write(&file, script.lines.join("\n")).unwrap();
        let mut command = Command::new(python);
        command.arg(&file).current_dir(self.folder.path());
        let (code, program) = Program::run(command);
        assert_eq!(code, Some(0), "{}", program.stderr());
        assert!(
            program.stdout().contains("(1000, 384)"),
            "{}",
            program.stdout()
        );
    }
}

/// The versions that a `pip install` names are those that the tests run with.
fn check_pins(line: &str) {
    let pins: Vec<&str> = line.split(' ').filter(|word| word.contains("==")).collect();
    let is_v1 = pins.iter().any(|pin| pin.starts_with("docarray==0.21."));
    let name = if is_v1 {
        "constraints-v1.txt"
    } else {
        "constraints-v2.txt"
    };
    let tested = fs::read_to_string(root().join("tests/peers").join(name)).unwrap();
    for pin in pins {
        assert!(
            tested.lines().any(|it| it == pin),
            "`{pin}` is not in {name}"
        );
    }
}

/// What a reader's checkout has for images, after a build.
fn checkout(folder: &Path) {
    fs::create_dir_all(folder.join("target/release")).unwrap();
    let program = flow_command().get_program().to_owned();
    docker::strip(Path::new(&program), &folder.join("target/release/flow"));
    fs::create_dir(folder.join("docker")).unwrap();
    for file in ["docker/Dockerfile", ".dockerignore"] {
        fs::copy(root().join(file), folder.join(file)).unwrap();
    }
}

#[test]
fn every_command_of_the_readme_does_what_it_says() {
    let _port = port();
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let mut reader = Reader::new();
    for block in blocks(&text) {
        match block.language.as_str() {
            "sh" => block.lines.iter().for_each(|line| {
                let command = line.split('#').next().unwrap().trim();
                if command.starts_with(INSTALLS_JINA) {
                    return check_pins(command);
                }
                assert!(TOP.contains(&command), "`{command}` is not run by any test");
            }),
            "console" => {
                let commands = commands(&block);
                if reader.can_run(&commands) {
                    let each = commands.iter();
                    each.for_each(|(line, printed)| reader.run(line, printed));
                }
            }
            "yaml" => reader.check_flow(&block),
            "python" => reader.run_python(&block),
            "rust" => is_the_documented_executor(&block),
            other => panic!("nobody runs blocks in `{other}`"),
        }
    }
}

#[test]
fn the_page_on_gpus_is_true_where_there_is_none() {
    let _port = port();
    let text = fs::read_to_string(root().join("docs/gpu.md")).unwrap();
    let mut reader = Reader::new();
    let mut has_flow = false;
    for block in blocks(&text) {
        match block.language.as_str() {
            "console" => {
                let commands = commands(&block);
                let each = commands.iter();
                each.for_each(|(line, printed)| reader.run(line, printed));
            }
            "yaml" => {
                reader.check_flow(&block);
                if !has_flow {
                    reader.serve_anywhere(&block);
                    has_flow = true;
                }
            }
            "sh" => block.lines.iter().for_each(|line| reader.try_out(line)),
            other => panic!("nobody runs blocks in `{other}`"),
        }
    }
}

#[test]
fn what_the_page_on_gpus_says_of_errors_is_what_programs_say() {
    let text = fs::read_to_string(root().join("docs/gpu.md")).unwrap();
    let (_, table) = text.split_once("| error | solution |").unwrap();
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut sources = String::new();
    for folder in ["crates/flow-cuda/src", "crates/flow-models/src"] {
        read_all(&root().join(folder), &mut sources);
    }
    let mut count = 0;
    for row in rows {
        let said = row.split('`').nth(1).unwrap();
        // Numbers are filled in.
        let mut parts = said.split(|letter: char| letter.is_ascii_digit() || letter == '.');
        let is_said = parts.all(|part| sources.contains(part.trim()));
        assert!(is_said, "no source contains `{said}`");
        count += 1;
    }
    assert!(count >= 8, "{count} rows");
}

fn read_all(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, into);
        } else {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// The example is compiled as the SDK's own documentation.
fn is_the_documented_executor(block: &Block) {
    let sdk = fs::read_to_string(root().join("crates/flow-executor/src/lib.rs")).unwrap();
    let documented: Vec<&str> = sdk
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    assert!(
        documented.join("\n").contains(&block.lines.join("\n")),
        "the SDK's example differs"
    );
}

#[test]
fn dots_stand_for_anything() {
    let check = |pattern: &[&str], lines: &[&str], expected: bool| {
        let owned = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            shows(&owned(pattern), &owned(lines)),
            expected,
            "{pattern:?} {lines:?}"
        );
    };
    check(&["a"], &["a"], true);
    check(&["a"], &["b"], false);
    check(&["a…c"], &["abc"], true);
    check(&["a…c"], &["abd"], false);
    check(&["…", "z"], &["x", "y", "z"], true);
    check(&["…"], &[], true);
    check(&["a"], &["a", "b"], false);
}
