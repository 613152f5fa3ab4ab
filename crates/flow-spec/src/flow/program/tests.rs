//! Executors that are not there, and options that they do not have, are problems of the flow file.

use super::*;
use crate::{Context, ExecutorDescription, Executors, NoFiles, TextFile, Variables, load_with};

/// There is `echo`, which takes `times`, and `index`, which keeps state and is a folder too; on `PATH` there is `tool`.
struct Made;

const CONFIG: &str = "jtype: Echo\nwith:\n  times: 2\n  no: 1\n";
const INDEX: &str = "jtype: Index\nrequests: {/find: serach}\n";

impl Executors for Made {
    fn find(&self, uses: &Uses, env: &Env) -> Result<FoundExecutor, NotFound> {
        let config = |text: &str, is_package| {
            Ok(FoundExecutor::Config {
                path: "folder/config.yml".to_owned(),
                text: text.to_owned(),
                is_package,
            })
        };
        match uses {
            Uses::Named(name) => self.find_named(name, env),
            Uses::Image(_) => Ok(FoundExecutor::Program),
            Uses::Path(path) => match path.to_str().unwrap() {
                "./config" => config(CONFIG, false),
                "./index-config" => config(INDEX, false),
                "./named" => config("jtype: Nobody", false),
                "./package" => config("jtype: Nobody", true),
                "./python" => config("jtype: Nobody\npy_modules: a.py", false),
                "./broken" => config("jtype: [", false),
                "./wrong" => config("jtype: Echo\nwiht: {}", false),
                "./program" => Ok(FoundExecutor::Program),
                other => Err(not_found(other)),
            },
        }
    }

    fn find_named(&self, name: &str, env: &Env) -> Result<FoundExecutor, NotFound> {
        match name {
            "echo" | "index" => Ok(FoundExecutor::BuiltIn(name.to_owned())),
            "tool" => Ok(FoundExecutor::Program),
            "own" if env.contains_key("PATH") => Ok(FoundExecutor::Program),
            other => Err(not_found(other)),
        }
    }

    fn namesake(&self, name: &str) -> Option<String> {
        ["index", "tool"]
            .contains(&name)
            .then(|| format!("./{name}"))
    }

    fn check_options(&self, _name: &str, options: &Map<String, Value>) -> Vec<BadOption> {
        let keys = options.iter().filter_map(|(key, value)| {
            let is_unknown = key != "times";
            let bad = BadOption {
                key: Some(key.clone()),
                is_unknown,
                message: format!("{key} is {value}"),
                remedy: is_unknown.then(|| "leave it out".to_owned()),
            };
            (is_unknown || !value.is_number()).then_some(bad)
        });
        let all = options.contains_key("all").then(|| BadOption {
            key: None,
            is_unknown: false,
            message: "too many".to_owned(),
            remedy: None,
        });
        keys.chain(all).collect()
    }

    fn describe(&self, name: &str) -> Option<ExecutorDescription> {
        let endpoints: &[&str] = match name {
            "index" => &["/index", "/search"],
            _ => &["/default"],
        };
        Some(ExecutorDescription {
            endpoints: endpoints.iter().map(|it| (*it).to_owned()).collect(),
            keeps_state: name == "index",
        })
    }
}

fn not_found(name: &str) -> NotFound {
    NotFound {
        message: format!("no `{name}`"),
        remedy: Some("name another".to_owned()),
    }
}

/// Problems and warnings of a flow with this entry, a line each.
fn found(entry: &str) -> Vec<String> {
    let text = format!("jtype: Flow\nexecutors:\n- {{name: a, {entry}}}\n");
    let path = "flow.yml".as_ref();
    let context = Context {
        variables: &Variables::default(),
        files: &NoFiles,
        executors: &Made,
        lenient: false,
    };
    let loaded = load_with(TextFile { path, text: &text }, &context);
    let problems = match loaded {
        Ok(checked) => checked.warnings,
        Err(crate::LoadError::Invalid { problems, .. }) => problems,
        Err(other) => panic!("{other}"),
    };
    let lines = problems.iter().map(|problem| {
        let SourceSpan {
            file,
            position,
            path,
        } = &problem.span;
        let file = file.as_ref().map(|file| format!("{file}:"));
        let path = path
            .trim_start_matches("executors.a")
            .trim_start_matches('.');
        format!("{}{position} {path}: {problem}", file.unwrap_or_default())
    });
    lines.collect()
}

#[track_caller]
fn check(entry: &str, expected: &[&str]) {
    assert_eq!(found(entry), expected, "{entry}");
}

#[test]
fn an_executor_that_is_there_is_fine() {
    check("uses: echo", &[]);
    check("uses: echo, uses_with: {times: 1}", &[]);
    check("uses: {jtype: Echo, with: {times: 1}}", &[]);
    check("uses: ./program, uses_with: {any: 1}", &[]);
    check("uses: ./python, uses_with: {any: 1}", &[]);
    check("uses: ./package, uses_with: {any: 1}", &[]);
    check("uses: 'docker://x', uses_with: {any: 1}", &[]);
    check("uses: own, env: {PATH: /own}", &[]);
}

#[test]
fn a_missing_executor_is_reported_where_it_is_named() {
    check("uses: ecco", &["3:19 uses: no `ecco`; name another"]);
    check("uses: ./ecco", &["3:19 uses: no `./ecco`; name another"]);
    check(
        "uses: {jtype: Ecco}",
        &["3:27 uses.jtype: no `ecco`; name another"],
    );
    check(
        "uses: ./named",
        &["folder/config.yml:1:8 jtype: no `nobody`; name another"],
    );
    check("uses: own", &["3:19 uses: no `own`; name another"]);
    check(
        "uses: echo, shards: 2, uses_before: nobody, uses_after: {jtype: Ecco}",
        &[
            "3:49 uses_before: no `nobody`; name another",
            "3:77 uses_after.jtype: no `ecco`; name another",
        ],
    );
}

#[test]
fn an_option_is_reported_at_its_position() {
    check(
        "uses: echo, uses_with: {times: x, no: 1}",
        &[
            "3:44 uses_with.times: times is \"x\"",
            "3:47 uses_with.no: no is 1; leave it out",
        ],
    );
    check(
        "uses: {jtype: Echo, with: {no: 1}}",
        &["3:40 uses.with.no: no is 1; leave it out"],
    );
    check(
        "uses: ./config",
        &["folder/config.yml:4:3 with.no: no is 1; leave it out"],
    );
    check(
        "uses: echo, uses_with: {all: 1}",
        &[
            "3:36 uses_with: too many",
            "3:37 uses_with.all: all is 1; leave it out",
        ],
    );
    // Nothing is used: documents pass unchanged, and options have no meaning.
    let entry = "method: needs, uses_with: {no: 1}";
    assert!(found(entry).contains(&"3:40 uses_with.no: no is 1; leave it out".to_owned()));
}

#[test]
fn options_in_the_flow_file_override_those_in_the_config() {
    check(
        "uses: ./config, uses_with: {no: 2, times: x}",
        &[
            "3:41 uses_with.no: no is 2; leave it out",
            "3:55 uses_with.times: times is \"x\"",
        ],
    );
}

#[test]
fn the_config_that_is_named_is_checked_too() {
    check(
        "uses: ./wrong, replicas: 0",
        &[
            "3:38 replicas: must be at least 1, is 0",
            "folder/config.yml:2:1 wiht: `wiht` is not a key of an executor's config; did you mean `with`?",
        ],
    );
    let [said] = &found("uses: ./broken")[..] else {
        panic!("one problem");
    };
    let start = "3:19 uses: `folder/config.yml` is not valid YAML: line 2, column 1: ";
    assert!(said.starts_with(start), "{said}");
}

#[test]
fn a_config_that_names_nothing_is_reported_once() {
    check(
        "uses: {with: {no: 1}}",
        &[
            "3:19 uses: the config does not say which executor it is for; write `jtype:` and its \
             name at the top",
        ],
    );
}

#[test]
fn a_name_that_a_folder_has_too_is_a_warning() {
    check(
        "uses: index",
        &[
            "3:19 uses: `index` is the executor that is built into flow, and not the folder beside \
             the flow file; write `./index` to use the folder",
        ],
    );
    check(
        "uses: tool",
        &[
            "3:19 uses: `tool` is a program on PATH, and not the folder beside the flow file; write \
             `./tool` to use the folder",
        ],
    );
    check("uses: {jtype: Index}", &[]);
}

#[test]
fn an_external_executor_is_not_looked_up() {
    let found = found("uses: nobody, external: true, port: 5");
    assert!(
        found.iter().all(|line| !line.contains("no `nobody`")),
        "{found:?}"
    );
}

/// The warning that `index` is a folder too.
const NAMESAKE: &str = "3:19 uses: `index` is the executor that is built into flow, and not the folder beside the \
                        flow file; write `./index` to use the folder";

#[test]
fn methods_and_endpoints_of_a_built_in_executor_are_known() {
    let check = |options: &str, expected: &[&str]| {
        let mut all = expected.to_vec();
        if expected.is_empty() {
            all.push(NAMESAKE);
        }
        check(&format!("uses: index, {options}"), &all);
    };
    check("uses_requests: {/find: search, /put: /index}", &[]);
    check(
        "uses_requests: {/find: serach, /put: other}",
        &[
            "3:41 uses_requests: `/find` is bound to the method `serach`, which `index` does not have; \
             did you mean `search`?",
            "3:41 uses_requests: `/put` is bound to the method `other`, which `index` does not have; \
             its methods are `index`, `search`",
        ],
    );
    check("uses_dynamic_batching: {/search: {}, index: {}}", &[]);
    check(
        "uses_dynamic_batching: {/serach: {}, indx: {}}",
        &[
            "3:49 uses_dynamic_batching: `index` has no endpoint `/serach`; did you mean `/search`?",
            "3:49 uses_dynamic_batching: `index` has no method `indx`; did you mean `index`?",
        ],
    );
    check(
        "shards: 2, uses_requests: {/find: search}, polling: {/find: ALL}",
        &[],
    );
    check(
        "shards: 2, polling: {/serach: ALL, /index: ANY}",
        &["3:46 polling: `index` has no endpoint `/serach`; did you mean `/search`?"],
    );
}

#[test]
fn an_executor_with_a_default_method_has_every_endpoint() {
    check("uses: echo, shards: 2, polling: {/any: ALL}", &[]);
    check("uses: echo, uses_requests: {/any: default}", &[]);
}

#[test]
fn the_methods_that_a_config_binds_are_checked_too() {
    check(
        "uses: ./index-config",
        &[
            "3:19 uses: `/find` is bound to the method `serach`, which `index` does not have; did you mean `search`?",
        ],
    );
}

#[test]
fn replicas_with_state_are_a_warning() {
    check(
        "uses: index, replicas: 2",
        &[
            NAMESAKE,
            "3:36 replicas: each replica keeps only what was sent to it, so that one alone does not find everything; \
             write `shards` instead of `replicas`",
        ],
    );
}

#[test]
fn only_a_built_in_executor_without_needs_of_its_own_is_colocated() {
    let at = |entry: &str, rest: &str| {
        let column = 13 + entry.find("colocate").unwrap() + "colocate: ".len();
        format!("3:{column} colocate: {rest}")
    };
    let refused = |entry: &str, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|rest| at(entry, rest)).collect();
        assert_eq!(found(entry), expected, "{entry}");
    };
    check("uses: echo, colocate: true", &[]);
    check("uses: {jtype: Echo, with: {times: 1}}, colocate: true", &[]);
    check("uses: ./program, colocate: false, replicas: 2", &[]);
    let of_gateway = "`colocate` is for built-in executors, whose code is part of the gateway's program; leave out `colocate`";
    for other in ["./program", "./python", "'docker://x'"] {
        refused(&format!("uses: {other}, colocate: true"), &[of_gateway]);
    }
    for (option, written) in [
        ("replicas", "replicas: 2"),
        ("shards", "shards: 2"),
        ("env", "env: {A: b}"),
        ("inherit_env", "inherit_env: [A]"),
        ("sandbox", "sandbox: {cpus: 1}"),
        ("host", "host: 0.0.0.0"),
        ("port", "port: 5000"),
    ] {
        let expected = format!(
            "a colocated executor has no process of its own for `{option}`; leave out `colocate` or `{option}`"
        );
        refused(
            &format!("uses: echo, colocate: true, {written}"),
            &[&expected],
        );
    }
    let external = "`colocate` is for executors that the flow starts, and this one is external; leave out `colocate`";
    refused("external: true, port: 5, colocate: true", &[external]);
}
