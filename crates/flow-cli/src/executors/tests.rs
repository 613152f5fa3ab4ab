//! Names and paths of executors in flow files.

use std::fs::{self, Permissions};

use super::*;
use crate::builtin::BUILTIN;

/// Folders with flows and programs, and a shell with the programs on `PATH`.
struct Machine {
    root: tempfile::TempDir,
    shell: Shell,
}

impl Machine {
    fn new(files: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "jtype: Own\n").unwrap();
            if name.starts_with("bin/") {
                fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            }
        }
        let path = root.path().join("bin").to_str().unwrap().to_owned();
        let shell = Shell::of([("PATH".to_owned(), path)].into());
        Self { root, shell }
    }

    fn known<'k>(&'k self, beside: &'k Path) -> LocalExecutors<'k> {
        LocalExecutors {
            shell: &self.shell,
            beside,
            note: &|_| {},
            may_be_elsewhere: false,
        }
    }

    /// The meaning of `uses`, with paths relative to the root.
    fn found(&self, uses: &str) -> String {
        let beside = self.root.path().join("flows");
        let uses = match uses.contains('/') {
            true => Uses::Path(uses.into()),
            false => Uses::Named(uses.to_owned()),
        };
        let text = match self.known(&beside).find(&uses, &Env::new()) {
            Ok(FoundExecutor::BuiltIn(name)) => format!("built in: {name}"),
            Ok(FoundExecutor::Program) => "a program".to_owned(),
            Ok(FoundExecutor::Config {
                path, is_package, ..
            }) => format!("{path}{}", if is_package { " of a package" } else { "" }),
            Err(NotFound { message, remedy }) => {
                format!("{message}; {}", remedy.unwrap_or_default())
            }
        };
        text.replace(&format!("{}/", self.root.path().display()), "")
    }
}

#[test]
fn a_name_is_a_built_in_executor_or_a_program_or_a_folder() {
    let machine = Machine::new(&[
        "bin/tool",
        "bin/both",
        "flows/both/config.yml",
        "flows/echo/config.yml",
        "flows/shouter/config.yml",
        "flows/shouter/Cargo.toml",
        "flows/bare/Cargo.toml",
        "flows/empty/README.md",
        "flows/file",
    ]);
    let check = |uses: &str, expected: &str| assert_eq!(machine.found(uses), expected, "{uses}");
    check("echo", "built in: echo");
    check("tool", "a program");
    check("both", "a program");
    check("shouter", "flows/shouter/config.yml of a package");
    check("bare", "a program");
    check("./shouter", "flows/shouter/config.yml of a package");

    check(
        "sentence-encodr",
        "there is no executor `sentence-encodr`; did you mean `sentence-encoder`?",
    );
    check(
        "shoutr",
        "there is no executor `shoutr`; did you mean `shouter`?",
    );
    let names: Vec<String> = BUILTIN.iter().map(|it| format!("`{}`", it.name)).collect();
    let built_in = format!("the built-in executors are {}", names.join(", "));
    for none in ["empty", "file"] {
        check(
            none,
            &format!(
                "there is no executor `{none}`; {built_in}; for one of your own, write its path, such as \
                 `./{none}`"
            ),
        );
    }
    check("./nothing", "there is no `./nothing`; ");
    check(
        "./file",
        "`flows/file` is not a program; make it executable with `chmod +x flows/file`",
    );
    check(
        "./empty",
        "folder `flows/empty` has neither `config.yml` nor `Cargo.toml`; ",
    );
}

#[test]
fn a_folder_with_the_name_of_a_built_in_executor_is_suggested() {
    let machine = Machine::new(&["flows/echo/config.yml", "flows/empty/README.md"]);
    let beside = machine.root.path().join("flows");
    let known = machine.known(&beside);
    assert_eq!(known.namesake("echo").as_deref(), Some("./echo"));
    assert_eq!(known.namesake("empty"), None);
    assert_eq!(known.namesake("segmenter"), None);
}

#[test]
fn a_node_can_set_its_own_path() {
    let machine = Machine::new(&["bin/tool"]);
    let bin = machine.root.path().join("bin").display().to_string();
    let nothing = Shell::of([].into());
    let known = LocalExecutors {
        shell: &nothing,
        ..machine.known(machine.root.path())
    };
    let uses = Uses::Named("tool".to_owned());
    assert!(known.find(&uses, &Env::new()).is_err());
    let env: Env = [("PATH".to_owned(), bin)].into_iter().collect();
    assert_eq!(known.find(&uses, &env), Ok(FoundExecutor::Program));
}

#[test]
fn an_executor_that_may_be_elsewhere_need_not_exist() {
    let machine = Machine::new(&[]);
    let known = LocalExecutors {
        may_be_elsewhere: true,
        ..machine.known(machine.root.path())
    };
    for uses in [Uses::Named("mine".to_owned()), Uses::Path("./mine".into())] {
        assert_eq!(known.find(&uses, &Env::new()), Ok(FoundExecutor::Program));
    }
    // So it is not taken for a program that hides a folder of the same name.
    assert!(known.find_named("mine", &Env::new()).is_err());
    let echo = known.find(&Uses::Named("echo".to_owned()), &Env::new());
    assert_eq!(echo, Ok(FoundExecutor::BuiltIn("echo".to_owned())));
}

#[test]
fn the_options_of_every_built_in_executor_can_be_checked() {
    let machine = Machine::new(&[]);
    let known = machine.known(machine.root.path());
    for builtin in builtin::BUILTIN {
        let mut options = Map::new();
        if ["sparse-encoder", "text-classifier"].contains(&builtin.name) {
            options.insert("model".to_owned(), "a/b".into());
        }
        assert_eq!(known.check_options(builtin.name, &options), []);
        options.insert("no".to_owned(), Value::from(1));
        let bad = known.check_options(builtin.name, &options);
        assert!(bad[0].is_unknown && bad.len() == 1, "{bad:?}");
    }
}
