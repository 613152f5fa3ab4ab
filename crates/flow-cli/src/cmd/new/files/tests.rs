use std::path::Path;

use flow_spec::{ExecutorConfig, TextFile, Variables};

use super::*;
use crate::cmd::new::name::Name;

const LANGUAGES: [Language; 2] = [Language::Rust, Language::Python];

fn draft(language: Language, dockerfile: Dockerfile) -> Draft {
    Draft {
        name: Name::parse("LoudSpeaker").unwrap(),
        language,
        description: "Says it louder: 'twice'.".to_owned(),
        keywords: vec!["text".to_owned(), "a: b".to_owned()],
        url: "https://example.com/#speaker".to_owned(),
        dockerfile,
        source: "path = \"/flow\"".to_owned(),
    }
}

fn paths(files: &[File]) -> Vec<&str> {
    files.iter().map(|file| file.path.as_str()).collect()
}

fn text<'f>(files: &'f [File], path: &str) -> TextFile<'f> {
    let file = files.iter().find(|file| file.path == path).unwrap();
    TextFile {
        path: Path::new(&file.path),
        text: &file.text,
    }
}

#[test]
fn an_executor_is_a_package_and_a_flow() {
    assert_eq!(
        paths(&executor(&draft(Language::Rust, Dockerfile::Cpu))),
        [
            "Cargo.toml",
            "src/lib.rs",
            "src/main.rs",
            "config.yml",
            "README.md",
            ".gitignore",
            "Dockerfile",
            ".dockerignore",
            "flow.yml"
        ]
    );
    assert_eq!(
        paths(&executor(&draft(Language::Python, Dockerfile::None))),
        [
            "executor.py",
            "config.yml",
            "requirements.txt",
            "README.md",
            ".gitignore",
            "flow.yml"
        ]
    );
}

#[test]
fn a_flow_holds_its_executor() {
    let files = flow(&draft(Language::Rust, Dockerfile::None), "greetings");
    let all = paths(&files);
    assert_eq!(all[..3], ["flow.yml", "client.py", "README.md"]);
    assert!(
        all[3..]
            .iter()
            .all(|path| path.starts_with("loud-speaker/"))
    );
}

#[test]
fn nothing_is_left_to_be_filled_in() {
    for language in LANGUAGES {
        for dockerfile in [Dockerfile::None, Dockerfile::Cpu, Dockerfile::Cuda] {
            let draft = draft(language, dockerfile);
            for file in [executor(&draft), flow(&draft, "title")].concat() {
                let odd = ["@", "MyExecutor", "my-executor", "my_executor"];
                let text = file.text.replace("@requests", "");
                let left = odd.iter().find(|it| text.contains(**it));
                assert!(left.is_none(), "{left:?} in {}", file.path);
            }
        }
    }
}

#[test]
fn configs_and_flows_of_a_template_parse_as_intended() {
    for language in LANGUAGES {
        let draft = draft(language, Dockerfile::None);
        let files = executor(&draft);
        let variables = Variables::default();
        let (config, warnings) =
            ExecutorConfig::load(text(&files, "config.yml"), &variables).unwrap();
        assert!(warnings.is_empty(), "{warnings}");
        assert_eq!(config.is_python, language == Language::Python);
        if !config.is_python {
            let meant = json!({"name": "LoudSpeaker", "description": draft.description,
                "url": draft.url, "keywords": draft.keywords});
            assert_eq!(
                (config.jtype.as_str(), json!(config.metas)),
                ("LoudSpeaker", meant)
            );
        }
        for files in [files, flow(&draft, "title")] {
            let checked = flow_spec::load(text(&files, "flow.yml"), &variables).unwrap();
            assert!(checked.warnings.is_empty(), "{}", checked.warnings);
        }
    }
}

#[test]
fn the_next_steps_are_those_of_the_language() {
    let check = |language, folder: &str, expected: &[&str]| {
        let steps = next(&draft(language, Dockerfile::None), folder);
        let steps: Vec<&str> = steps.iter().map(|(step, _)| step.as_str()).collect();
        assert_eq!(steps, expected);
    };
    check(
        Language::Rust,
        "",
        &["cargo test", "flow up flow.yml", POST],
    );
    check(
        Language::Python,
        "loud-speaker",
        &["flow up --install flow.yml", POST],
    );
}
