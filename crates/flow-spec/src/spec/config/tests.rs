use serde_json::json;

use super::*;

fn load(text: &str) -> Result<(ExecutorConfig, Problems), LoadError> {
    ExecutorConfig::load(
        TextFile {
            path: "config.yml".as_ref(),
            text,
        },
        &Variables::default(),
    )
}

#[track_caller]
fn check_problem(text: &str, expected: &str) {
    assert_eq!(load(text).unwrap_err().to_string(), expected);
}

#[test]
fn a_config_says_what_the_executor_is_built_with() {
    let text = "jtype: Encoder\nwith: {device: cpu}\nmetas: {name: enc}\nrequests: {/encode: encode}\nworkspace: w";
    let (config, warnings) = load(text).unwrap();
    assert_eq!(config.jtype, "Encoder");
    assert_eq!(
        json!([config.with.reveal(), config.metas]),
        json!([{"device": "cpu"}, {"name": "enc"}])
    );
    assert_eq!(config.requests["/encode"], "encode");
    assert_eq!(config.workspace, Some("w".into()));
    assert!(warnings.is_empty());
}

#[test]
fn a_tag_replaces_jtype() {
    assert_eq!(load("!Encoder\nwith: {}").unwrap().0.jtype, "Encoder");
}

#[test]
fn a_config_names_its_executor() {
    check_problem(
        "with: {}",
        "`config.yml` has 1 problem\n  1:1    the config does not say which executor it is for; \
         write `jtype:` and its name at the top",
    );
}

#[test]
fn a_config_is_read_as_strictly_as_a_flow() {
    check_problem(
        "jtype: A\nwiht: {}\ndynamic_batching: {/x: {time: 1}}",
        "`config.yml` has 2 problems\n\
         \x20 2:1   wiht                      `wiht` is not a key of an executor's config; did you mean `with`?\n\
         \x20 3:25  dynamic_batching./x.time  `time` is not an option of dynamic batching",
    );
}

#[test]
fn an_executor_in_python_is_for_jina_to_read() {
    let check = |text: &str| assert!(load(text).unwrap().0.is_python, "{text}");
    check("jtype: A\npy_modules: [a.py]\nwith:\n  a: ${{ ENV.NOT_SET }}\nof_jina_s: 1");
    check("jtype: A\nmetas:\n  py_modules: a.py");
    assert!(!load("jtype: A\nmetas: {name: a}").unwrap().0.is_python);
}

#[test]
fn text_that_is_not_yaml_is_reported() {
    check_problem("a: [", "`config.yml` is not valid YAML");
}

#[test]
fn a_type_is_named_as_programs_are() {
    let check = |jtype: &str, name: &str| {
        let (config, _) = load(&format!("jtype: {jtype}")).unwrap();
        assert_eq!(config.uses(), crate::Uses::Named(name.to_owned()));
    };
    check("Echo", "echo");
    check("SentenceEncoder", "sentence-encoder");
    check("sentence-encoder", "sentence-encoder");
    check("BaseExecutor", "echo");
}

#[test]
fn a_config_may_say_how_requests_share_calls() {
    let text = "jtype: A\nversion: 1\ndynamic_batching:\n  /index: {preferred_batch_size: 8, timeout: 2s}\n  \
                search: {metric: bytes, flush_all: true, use_dynamic_batching: false}";
    let (config, _) = load(text).unwrap();
    let json = serde_json::to_value(&config.batching).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "/index": {"preferred_batch_size": 8, "timeout": 2000},
            "search": {"flush_all": true, "metric": "bytes", "use_dynamic_batching": false},
        })
    );
}
