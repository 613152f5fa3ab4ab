//! Flow files with the combinations of keys that people publish, written for this test, and what is said of each.
//!
//! `FLOW_GOLDEN=write cargo test --package flow-spec --test it wild` writes what is expected anew.

use std::fs;
use std::path::{Path, PathBuf};

use flow_spec::{AnyExecutor, Context, LoadError, Problems, TextFile, Variables, load_with};

/// What the shell of their authors has set.
const ENVIRONMENT: [(&str, &str); 11] = [
    ("DEVICE", "cuda"),
    ("FLOW_HUB", "registry.example.com/team"),
    ("HOME", "/home/me"),
    ("HOSTS", "a,b"),
    ("JINA_PORT", "45678"),
    ("JINA_WORKSPACE", "/data/workspace"),
    ("JINA_SHARDS", "2"),
    ("MODEL", "ViT-B-32::openai"),
    ("PORT", "51000"),
    ("PROTOCOL", "http"),
    ("REPLICAS", "2"),
];

/// One file, and what is said of it.
struct Verdict {
    accepted: bool,
    text: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/flows-in-the-wild")
}

fn files() -> Vec<PathBuf> {
    let files = fs::read_dir(folder()).unwrap().map(|it| it.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|it| it.extension().is_some_and(|it| it == "yml"))
        .collect();
    files.sort();
    files
}

fn check(path: &Path) -> Verdict {
    let text = fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap();
    let read =
        |name: &str| fs::read_to_string(folder().join(name)).map_err(|error| error.to_string());
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let variables = Variables {
        env: ENVIRONMENT.map(owned).into(),
        ..Variables::default()
    };
    let context = Context {
        variables: &variables,
        files: &read,
        executors: &AnyExecutor,
        lenient: false,
    };
    let file = TextFile {
        path: Path::new(name),
        text: &text,
    };
    let (verdict, problems) = match load_with(file, &context) {
        Ok(checked) if checked.warnings.is_empty() => ("accepted", checked.warnings),
        Ok(checked) => ("accepted, with warnings", checked.warnings),
        Err(LoadError::Invalid { problems, .. }) => ("refused", problems),
        Err(error) => panic!("{name:?}: {error}"),
    };
    Verdict {
        accepted: verdict != "refused",
        text: format!("{}: {verdict}\n{}", name.display(), lines(&problems)),
    }
}

fn lines(problems: &Problems) -> String {
    let lines = problems.iter();
    lines
        .map(|it| format!("  {}: {it}\n", it.span.path))
        .collect()
}

#[test]
fn each_flow_in_the_wild_is_accepted_or_refused_for_a_good_reason() {
    let verdicts: Vec<Verdict> = files().iter().map(|it| check(it)).collect();
    let found: String = verdicts.iter().map(|it| it.text.as_str()).collect();
    let path = folder().join("expected.txt");
    if std::env::var_os("FLOW_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap();
    let differs = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
    assert!(
        expected == found,
        "{differs:?}; run `FLOW_GOLDEN=write cargo test --package flow-spec --test it wild`"
    );
    let accepted = verdicts.iter().filter(|it| it.accepted).count();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/migrating-from-jina.md");
    let page = fs::read_to_string(page).unwrap();
    let counted = format!("`flow check` accepts {accepted} of {}", verdicts.len());
    assert!(page.contains(&counted), "the page does not say: {counted}");
}
