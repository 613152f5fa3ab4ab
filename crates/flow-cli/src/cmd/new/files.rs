//! The files of an executor and of a flow, from the templates in `templates/`.
//!
//! The templates are valid files of an executor called MyExecutor. Text between two `@` is replaced.

use serde_json::json;

use super::draft::{Dockerfile, Draft, Language};

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    /// Its path below the folder.
    pub(super) path: String,
    pub(super) text: String,
    /// Its purpose in a few words.
    pub(super) about: &'static str,
}

/// Path, text and purpose of a file.
type Template = (&'static str, &'static str, &'static str);

const RUST: &[Template] = &[
    (
        "Cargo.toml",
        include_str!("templates/rust/Cargo.toml.in"),
        "the package and its dependencies",
    ),
    (
        "src/lib.rs",
        include_str!("templates/rust/lib.rs.in"),
        "the executor and its tests",
    ),
    (
        "src/main.rs",
        include_str!("templates/rust/main.rs.in"),
        "the program",
    ),
    (
        "config.yml",
        include_str!("templates/rust/config.yml.in"),
        "default settings and description",
    ),
    (
        "README.md",
        include_str!("templates/rust/README.md.in"),
        "how to run, test and change it",
    ),
    (
        ".gitignore",
        include_str!("templates/rust/gitignore.in"),
        "files that git ignores",
    ),
];

const PYTHON: &[Template] = &[
    (
        "executor.py",
        include_str!("templates/python/executor.py.in"),
        "the executor",
    ),
    (
        "config.yml",
        include_str!("templates/python/config.yml.in"),
        "default settings and description",
    ),
    (
        "requirements.txt",
        include_str!("templates/python/requirements.txt.in"),
        "the packages that it needs",
    ),
    (
        "README.md",
        include_str!("templates/python/README.md.in"),
        "how to run, test and change it",
    ),
    (
        ".gitignore",
        include_str!("templates/python/gitignore.in"),
        "files that git ignores",
    ),
];

const FLOW: Template = (
    "flow.yml",
    include_str!("templates/executor-flow.yml.in"),
    "a flow that runs it",
);
const FLOW_README: Template = (
    "README.md",
    include_str!("templates/flow/README.md.in"),
    "an overview of the files",
);
const CLIENT: Template = (
    "client.py",
    include_str!("templates/flow/client.py.in"),
    "a client in Python",
);

/// The files of an executor, with a flow that runs it.
pub(super) fn executor(draft: &Draft) -> Vec<File> {
    let mut files = package(draft);
    files.push(fill(FLOW, draft, &[("uses", "config.yml")]));
    files
}

/// Sends the executor its first document.
const POST: &str = "flow post grpc://127.0.0.1:54321 --on /greet --text world";

/// The files of a flow, with the folder of an executor.
pub(super) fn flow(draft: &Draft, title: &str) -> Vec<File> {
    let folder = &draft.name.kebab;
    let below = [("uses", format!("./{folder}"))];
    let texts = [
        ("executor", folder.clone()),
        ("up", up(draft).to_owned()),
        ("post", POST.to_owned()),
        ("title", title.to_owned()),
    ];
    let mut files = vec![
        fill(FLOW, draft, &borrowed(&below)),
        fill(CLIENT, draft, &[]),
        fill(FLOW_README, draft, &borrowed(&texts)),
    ];
    files[0].about = "the flow: its port, its executors";
    files.extend(package(draft).into_iter().map(|file| File {
        path: format!("{folder}/{}", file.path),
        ..file
    }));
    files
}

/// The command that starts the flow.
fn up(draft: &Draft) -> &'static str {
    match draft.language {
        Language::Rust => "flow up flow.yml",
        Language::Python => "flow up --install flow.yml",
    }
}

fn borrowed<'v>(values: &'v [(&'v str, String)]) -> Vec<(&'v str, &'v str)> {
    values
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect()
}

/// What to type next, and what for; `folder` is the executor's, where that is not this one.
pub(super) fn next(draft: &Draft, folder: &str) -> Vec<(String, &'static str)> {
    let test = match (draft.language, folder) {
        (Language::Rust, "") => Some("cargo test".to_owned()),
        (Language::Rust, folder) => Some(format!("cargo test --manifest-path {folder}/Cargo.toml")),
        (Language::Python, _) => None,
    };
    let mut steps: Vec<_> = test.map(|test| (test, "its tests")).into_iter().collect();
    steps.push((up(draft).to_owned(), "serves it until Ctrl-C"));
    steps.push((POST.to_owned(), ""));
    steps
}

fn package(draft: &Draft) -> Vec<File> {
    let (templates, readme) = match draft.language {
        Language::Rust => (RUST, include_str!("templates/rust/README.docker.md.in")),
        Language::Python => (PYTHON, include_str!("templates/python/README.docker.md.in")),
    };
    let metas = metas(draft);
    let gpus = match draft.dockerfile {
        Dockerfile::Cuda => " --gpus all",
        Dockerfile::Cpu | Dockerfile::None => "",
    };
    let docker = match draft.dockerfile {
        Dockerfile::None => String::new(),
        Dockerfile::Cpu | Dockerfile::Cuda => named(readme, draft),
    };
    let values = [
        ("metas", metas.as_str()),
        ("docker", docker.as_str()),
        ("gpus", gpus),
    ];
    let image = image(draft);
    let all = templates.iter().chain(&image);
    all.map(|template| fill(*template, draft, &values))
        .collect()
}

fn image(draft: &Draft) -> Vec<Template> {
    let (file, ignore) = match (draft.language, draft.dockerfile) {
        (_, Dockerfile::None) => return Vec::new(),
        (Language::Rust, Dockerfile::Cpu) => (
            include_str!("templates/rust/Dockerfile.cpu.in"),
            include_str!("templates/rust/dockerignore.in"),
        ),
        (Language::Rust, Dockerfile::Cuda) => (
            include_str!("templates/rust/Dockerfile.cuda.in"),
            include_str!("templates/rust/dockerignore.in"),
        ),
        // The packages of Python bring CUDA's libraries themselves.
        (Language::Python, Dockerfile::Cpu | Dockerfile::Cuda) => (
            include_str!("templates/python/Dockerfile.in"),
            include_str!("templates/python/dockerignore.in"),
        ),
    };
    vec![
        ("Dockerfile", file, "its image"),
        (".dockerignore", ignore, "what the image leaves out"),
    ]
}

/// `metas` of a config; texts of JSON are texts of YAML.
fn metas(draft: &Draft) -> String {
    let mut lines = vec![
        format!("  name: {}", draft.name.camel),
        format!("  description: {}", json!(draft.description)),
    ];
    if !draft.url.is_empty() {
        lines.push(format!("  url: {}", json!(draft.url)));
    }
    if !draft.keywords.is_empty() {
        lines.push(format!("  keywords: {}", json!(draft.keywords)));
    }
    lines.join("\n")
}

/// The template with the executor's own names.
fn named(template: &str, draft: &Draft) -> String {
    let name = &draft.name;
    template
        .replace("MyExecutor", &name.camel)
        .replace("my-executor", &name.kebab)
        .replace("my_executor", &name.snake())
}

/// Names first: what is filled in afterwards may hold any text.
fn fill((path, template, about): Template, draft: &Draft, values: &[(&str, &str)]) -> File {
    let mut text = named(template, draft);
    let of_draft = [
        ("flow-source", draft.source.as_str()),
        ("description", draft.description.as_str()),
    ];
    for (key, value) in values.iter().chain(&of_draft) {
        text = text.replace(&format!("@{key}@"), value);
    }
    File {
        path: path.to_owned(),
        text: format!("{}\n", text.trim_end()),
        about,
    }
}

#[cfg(test)]
mod tests;
