//! README and the book are true: every command runs as it is written and prints what the page shows, every flow is valid,
//! every picture is what `flow plot` draws, and every quoted message is one that the programs print.
//!
//! The blocks of a page are followed in their order, in one folder (`documents/reader.rs`):
//!
//! - `console` blocks hold commands after `$ ` and what they print, where `…` stands for anything (`documents/block.rs`).
//! - `sh` blocks hold commands that have to succeed. Some cannot run in a test and are listed in `reader.rs`.
//! - A block whose first line is a comment that names a file is saved under that name.
//! - `yaml` blocks with `jtype: Flow` or `Deployment` are checked by `flow check`.
//! - `rust` blocks are compiled as documentation tests of the crate that includes the page.

mod block;
mod engine;
mod ports;
mod reader;

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flow_tests::{Program, flow_command, flow_file};

pub(crate) use self::block::{Block, blocks};
use self::reader::{Reader, root};

/// The folder of the book's pages.
const BOOK: &str = "docs/src";

/// Crates that compile the Rust examples of pages as documentation tests.
const COMPILES: &[&str] = &["crates/flow/src/lib.rs", "crates/flow-executor/src/lib.rs"];

/// All pages use the same ports.
fn port() -> MutexGuard<'static, ()> {
    static PORT: Mutex<()> = Mutex::new(());
    PORT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn follow(page: &str) {
    let _port = port();
    let blocks = blocks(&read(page));
    let mut reader = Reader::of(&blocks);
    blocks.iter().for_each(|block| reader.follow(block));
}

#[test]
fn the_readme_is_true() {
    follow("README.md");
}

#[test]
fn getting_started_is_true() {
    follow("docs/src/getting-started.md");
}

#[test]
fn the_page_on_the_architecture_is_true() {
    follow("docs/src/architecture.md");
}

#[test]
fn the_page_on_installing_is_true() {
    follow("docs/src/installing.md");
}

#[test]
fn the_page_on_clients_is_true() {
    follow("docs/src/clients.md");
}

#[test]
fn the_page_on_python_is_true() {
    follow("docs/src/python.md");
}

#[test]
fn the_page_on_http_apis_is_true() {
    follow("docs/src/http-apis.md");
}

#[test]
fn the_page_on_http_is_true() {
    follow("docs/src/http.md");
}

#[test]
fn the_page_on_flow_files_is_true() {
    follow("docs/src/flow-files.md");
}

#[test]
fn the_page_on_executors_in_rust_is_true() {
    follow("docs/src/executors-rust.md");
}

#[test]
fn the_page_on_executors_in_python_is_true() {
    follow("docs/src/executors-python.md");
}

#[test]
fn the_page_on_encoders_is_true() {
    follow("docs/src/encoders-and-models.md");
}

#[test]
fn the_page_on_operating_is_true() {
    follow("docs/src/operating.md");
}

#[test]
fn the_page_on_metrics_is_true() {
    follow("docs/src/metrics.md");
}

#[test]
fn the_page_on_observing_is_true() {
    follow("docs/src/observing.md");
}

#[test]
fn the_page_on_the_console_is_true() {
    follow("docs/src/console.md");
}

#[test]
fn the_page_on_tls_and_keys_is_true() {
    if !has_openssl() {
        return flow_tests::skipped("no `openssl` on PATH, which makes the certificates");
    }
    follow("docs/src/tls-and-keys.md");
}

fn has_openssl() -> bool {
    let asked = std::process::Command::new("openssl")
        .arg("version")
        .output();
    asked.is_ok_and(|output| output.status.success())
}

#[test]
fn the_page_on_security_is_true() {
    follow("docs/src/security.md");
}

#[test]
fn the_page_on_containers_is_true() {
    follow("docs/src/containers.md");
}

#[test]
fn the_page_on_deploying_is_true() {
    follow("docs/src/deploying.md");
}

#[test]
fn the_page_on_performance_is_true() {
    follow("docs/src/performance.md");
}

/// Where there is no GPU, its flow runs on the processor, and what asks for a GPU says why it cannot.
#[test]
fn the_page_on_gpus_is_true() {
    let _port = port();
    let blocks = blocks(&read("docs/src/gpus.md"));
    let mut reader = Reader::of(&blocks);
    let is_flow = |block: &&Block| block.language == "yaml";
    let served = blocks.iter().find(is_flow).unwrap();
    for block in &blocks {
        reader.follow(block);
        if std::ptr::eq(block, served) {
            reader.serve_anywhere(block);
        }
    }
}

/// README and the pages of the book, by their paths.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    let mut folders = vec![BOOK.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(path),
                false if path.ends_with(".md") => pages.push(path),
                false => {}
            }
        }
    }
    pages.sort();
    pages
}

#[test]
fn every_page_with_blocks_is_followed() {
    let this = include_str!("documents.rs");
    let pages = pages();
    assert!(pages.len() > 20, "{pages:?}");
    let is_followed =
        |block: &Block| !matches!(block.language.as_str(), "text" | "mermaid" | "rust");
    for page in pages {
        let has_blocks = blocks(&read(&page)).iter().any(is_followed);
        assert!(
            !has_blocks || this.contains(&format!("(\"{page}\")")),
            "no test follows {page}"
        );
    }
}

#[test]
fn every_page_with_rust_is_compiled() {
    let crates: String = COMPILES.iter().map(|path| read(path)).collect();
    for page in pages() {
        let has_rust = blocks(&read(&page)).iter().any(|it| it.language == "rust");
        let included = format!("include_str!(\"../../../{page}\")");
        assert!(
            !has_rust || crates.contains(&included),
            "no crate compiles the examples of {page}"
        );
    }
}

/// What `flow plot` prints of a file in `flows/`.
fn plotted(flow: &str, format: &str) -> String {
    let mut command = flow_command();
    command
        .arg("plot")
        .arg(flow_file(flow))
        .args(["--format", format]);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    program.stdout()
}

/// The names of the files in a folder that end so, without that end.
fn stems(folder: &str, end: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter_map(|name| Some(name.strip_suffix(end)?.to_owned()))
        .collect()
}

#[test]
fn every_mermaid_picture_is_one_that_flow_plot_draws() {
    let flows = stems("flows", ".yml");
    let plots: Vec<String> = flows
        .iter()
        .map(|flow| plotted(&format!("{flow}.yml"), "mermaid"))
        .collect();
    for page in pages() {
        for block in blocks(&read(&page))
            .iter()
            .filter(|it| it.language == "mermaid")
        {
            assert!(
                plots.contains(&block.text()),
                "{page}: no flow is drawn so:\n{}",
                block.text()
            );
        }
    }
}

/// `FLOW_GOLDEN=write` redraws them.
#[test]
fn the_pictures_of_the_book_are_what_flow_plot_draws() {
    let images = stems("docs/src/images", ".svg");
    assert!(!images.is_empty());
    for name in images {
        let path = format!("docs/src/images/{name}.svg");
        let drawn = plotted(&format!("{name}.yml"), "svg");
        if std::env::var_os("FLOW_GOLDEN").is_some_and(|it| it == "write") {
            fs::write(root().join(&path), drawn).unwrap();
            continue;
        }
        assert!(
            read(&path) == drawn,
            "{path} is not fresh; redraw it with FLOW_GOLDEN=write"
        );
    }
}

/// The messages in the first column of a page's tables of messages, between backticks.
fn messages(page: &str) -> Vec<String> {
    let text = read(page);
    let tables = text.split("| Message | What to do |\n|---|---|\n").skip(1);
    let rows = tables.flat_map(|table| table.lines().take_while(|line| line.starts_with('|')));
    let spans = rows.map(|row| {
        row.split('`')
            .nth(1)
            .unwrap_or_else(|| panic!("no message: {row}"))
    });
    spans.map(str::to_owned).collect()
}

#[test]
fn every_quoted_message_is_in_the_sources() {
    let mut sources = String::new();
    for folder in ["crates", "executors"] {
        read_all(&root().join(folder), &mut sources);
    }
    let sources = sources.replace("\\\"", "\"");
    let mut count = 0;
    for page in ["docs/src/troubleshooting.md", "docs/src/gpus.md"] {
        for message in messages(page) {
            // Names and numbers are filled in when the message is printed.
            let parts =
                message.split(|letter: char| letter.is_ascii_digit() || "….".contains(letter));
            let mut parts = parts.map(str::trim).filter(|part| !part.is_empty());
            assert!(
                parts.all(|part| sources.contains(part)),
                "{page}: no program says `{message}`"
            );
            count += 1;
        }
    }
    assert!(count > 60, "{count} messages");
}

/// The Rust sources below a folder without those of tests; texts that go over several lines are joined.
fn read_all(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" && name != "target" {
            read_all(&path, into);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            let mut lines = text.split("\\\n");
            into.push_str(lines.next().unwrap_or_default());
            lines.for_each(|line| into.push_str(line.trim_start()));
        }
    }
}
