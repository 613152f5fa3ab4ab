//! What names and paths in a flow file mean on this machine.

use std::fs::{self, Permissions};

use super::*;

/// A folder with flows, another of programs, and a shell that knows the programs.
struct Place {
    root: tempfile::TempDir,
    shell: Shell,
}

impl Place {
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

    fn known<'k>(&'k self, beside: &'k Path) -> Known<'k> {
        Known {
            shell: &self.shell,
            beside,
            note: &|_| {},
            may_be_elsewhere: false,
        }
    }

    /// What `uses` means, with paths as they are in the root.
    fn found(&self, uses: &str) -> String {
        let beside = self.root.path().join("flows");
        let uses = match uses.contains('/') {
            true => Uses::Path(uses.into()),
            false => Uses::Named(uses.to_owned()),
        };
        let text = match self.known(&beside).find(&uses, &Env::new()) {
            Ok(Found::BuiltIn(name)) => format!("built in: {name}"),
            Ok(Found::Program) => "a program".to_owned(),
            Ok(Found::Config {
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
fn a_name_is_built_in_or_on_path_or_a_folder_beside_the_flow_file() {
    let place = Place::new(&[
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
    let check = |uses: &str, expected: &str| assert_eq!(place.found(uses), expected, "{uses}");
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
    let built_in = "built in are `echo`, `segmenter`, `sentence-encoder`, `vector-index`";
    for none in ["empty", "file"] {
        check(
            none,
            &format!(
                "there is no executor `{none}`; {built_in}; write the path of your own, such as \
                 `./{none}`"
            ),
        );
    }
    check("./nothing", "there is no `./nothing`; ");
    check(
        "./file",
        "`flows/file` is not a program; `chmod +x flows/file` makes it one",
    );
    check(
        "./empty",
        "folder `flows/empty` holds no `config.yml` and no `Cargo.toml`; ",
    );
}

#[test]
fn a_folder_that_a_name_does_not_mean_is_its_namesake() {
    let place = Place::new(&["flows/echo/config.yml", "flows/empty/README.md"]);
    let beside = place.root.path().join("flows");
    let known = place.known(&beside);
    assert_eq!(known.namesake("echo").as_deref(), Some("./echo"));
    assert_eq!(known.namesake("empty"), None);
    assert_eq!(known.namesake("segmenter"), None);
}

#[test]
fn the_path_that_a_node_sets_counts() {
    let place = Place::new(&["bin/tool"]);
    let bin = place.root.path().join("bin").display().to_string();
    let nothing = Shell::of([].into());
    let known = Known {
        shell: &nothing,
        ..place.known(place.root.path())
    };
    let uses = Uses::Named("tool".to_owned());
    assert!(known.find(&uses, &Env::new()).is_err());
    let env: Env = [("PATH".to_owned(), bin)].into_iter().collect();
    assert_eq!(known.find(&uses, &env), Ok(Found::Program));
}

#[test]
fn what_may_be_elsewhere_need_not_be_here() {
    let place = Place::new(&[]);
    let known = Known {
        may_be_elsewhere: true,
        ..place.known(place.root.path())
    };
    for uses in [Uses::Named("mine".to_owned()), Uses::Path("./mine".into())] {
        assert_eq!(known.find(&uses, &Env::new()), Ok(Found::Program));
    }
    let echo = known.find(&Uses::Named("echo".to_owned()), &Env::new());
    assert_eq!(echo, Ok(Found::BuiltIn("echo".to_owned())));
}

#[test]
fn the_options_of_every_built_in_executor_can_be_checked() {
    let place = Place::new(&[]);
    let known = place.known(place.root.path());
    let options = [("no".to_owned(), Value::from(1))].into_iter().collect();
    for builtin in builtin::BUILTIN {
        assert_eq!(known.check_options(builtin.name, &Map::new()), []);
        let bad = known.check_options(builtin.name, &options);
        assert!(bad[0].is_unknown && bad.len() == 1, "{bad:?}");
    }
}
