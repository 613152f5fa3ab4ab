#![expect(
    clippy::needless_pass_by_value,
    reason = "`json!` reads best where it is made"
)]

use serde_json::{Value, json};

use super::*;

fn json(text: &str) -> Value {
    parse(text).unwrap().to_json().unwrap()
}

#[track_caller]
fn check(text: &str, expected: Value) {
    assert_eq!(json(text), expected, "{text}");
}

#[track_caller]
fn check_not_yaml(text: &str, expected: &str) {
    assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
}

#[test]
fn scalars_are_what_yaml_1_2_says() {
    check("1", json!(1));
    check("-1", json!(-1));
    check("+1", json!(1));
    check("0x1F", json!(31));
    check("0o17", json!(15));
    check("0x-1", json!("0x-1"));
    check("1.5", json!(1.5));
    check(".5", json!(0.5));
    check("1e3", json!(1000.0));
    check("true", json!(true));
    check("False", json!(false));
    check("null", json!(null));
    check("~", json!(null));
    check("", json!(null));
    check("text", json!("text"));
}

#[test]
fn on_off_yes_and_no_are_texts() {
    for word in ["on", "off", "yes", "no", "On", "OFF", "Yes", "y", "n"] {
        check(word, json!(word));
    }
}

#[test]
fn scalars_that_only_rust_reads_as_numbers_are_texts() {
    for word in ["inf", "nan", "infinity", "1_000", "12:30", "1.2.3", "e5"] {
        check(&format!("[{word}]"), json!([word]));
    }
}

#[test]
fn quoted_scalars_are_texts() {
    check("'1'", json!("1"));
    check("\"true\"", json!("true"));
    check("''", json!(""));
    check("|\n  1\n", json!("1\n"));
    check("!!str 1", json!("1"));
    check("!!int '1'", json!(1));
}

#[test]
fn numbers_too_large_for_an_integer_are_floats() {
    check("9223372036854775807", json!(i64::MAX));
    check("9223372036854775808", json!(9_223_372_036_854_775_808.0));
}

#[test]
fn an_infinite_number_is_not_json() {
    let problem = parse("a: [.inf]").unwrap().to_json().unwrap_err();
    assert_eq!(problem.span.path, "a[0]");
    assert_eq!(problem.message, "must be a finite number, is `.inf`");
}

#[test]
fn an_alias_is_what_its_anchor_names() {
    check("{a: &x [1, 2], b: *x}", json!({"a": [1, 2], "b": [1, 2]}));
}

#[test]
fn a_mapping_s_own_keys_win_over_merged_ones() {
    check(
        "base: &b {x: 1, y: 1}\nown:\n  <<: *b\n  y: 2",
        json!({"base": {"x": 1, "y": 1}, "own": {"y": 2, "x": 1}}),
    );
    check(
        "- &a {x: 1}\n- &b {x: 2, y: 2}\n- <<: [*a, *b]",
        json!([{"x": 1}, {"x": 2, "y": 2}, {"x": 1, "y": 2}]),
    );
}

#[test]
fn one_document_is_read_with_or_without_its_marks() {
    check("---\na: 1\n...\n", json!({"a": 1}));
    check("\u{feff}a: 1", json!({"a": 1}));
    check("# only a comment", json!(null));
    check("a: 1\r\nb: 2\r\n", json!({"a": 1, "b": 2}));
}

#[test]
fn text_that_is_not_yaml_is_reported_with_its_position() {
    check_not_yaml(
        "a: 1\n---\nb: 2",
        "line 2, column 1: a second document starts here; only one is expected",
    );
    check_not_yaml("? [a]\n: 1", "line 1, column 3: a key must be a text");
    check_not_yaml("a: {<<: 1}", "line 1, column 9: `<<` must name a mapping");
    check_not_yaml(
        "a: &x [*x]",
        "line 1, column 8: an alias is inside the value that it names",
    );
    check_not_yaml(
        "!!binary x",
        "line 1, column 1: there is no tag `!!binary` here",
    );
    for broken in ["a: [1", "a: 'x", "a: b: c", "a: *nowhere", "{a: 1", "a: @x"] {
        assert!(parse(broken).is_err(), "{broken}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(64)).is_ok());
    assert!(
        parse(&nested(65))
            .unwrap_err()
            .message
            .contains("nested deeper than 64")
    );
}

#[test]
fn aliases_of_aliases_cannot_fill_the_memory() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        text += &format!("a{level}: &a{level} [{below}]\n");
    }
    assert!(
        parse(&text)
            .unwrap_err()
            .message
            .contains("values, aliases counted")
    );
}

#[test]
fn every_value_has_its_position() {
    let root = parse("a:\n  - b: 1\n    c:\n").unwrap();
    let item = &root.get("a").unwrap().children().next().unwrap().clone();
    assert_eq!(item.span.path, "a[0]");
    let span = |key: &str| item.get(key).unwrap().span.clone();
    assert_eq!(
        (span("b").path.as_str(), span("b").position.to_string()),
        ("a[0].b", "2:8".into())
    );
    assert_eq!(
        (span("c").path.as_str(), span("c").position.to_string()),
        ("a[0].c", "3:5".into())
    );
}

#[test]
fn paths_name_executors_by_their_names() {
    let root = parse("executors: [{name: a}, {uses: b}, {name: not a name}]").unwrap();
    let paths: Vec<_> = root
        .get("executors")
        .unwrap()
        .children()
        .map(|it| it.span.path.clone())
        .collect();
    assert_eq!(paths, ["executors.a", "executors[1]", "executors[2]"]);
}

/// `serde_yaml` is another reader of the same language; where both read a text, they agree.
#[test]
fn serde_yaml_reads_the_same() {
    let texts = [
        "a: 1\nb: [x, 'y', \"z\\n\"]\nc: {d: null, e: ~, f: 1.5}",
        "- on\n- yes\n- 0x10\n- -3\n- 1e3\n- '1'",
        "text: |\n  two\n  lines\nfolded: >\n  one\n  line\n",
        "a: &x {b: 1}\nc: *x",
        include_str!("../../../../flows/encode.yml"),
        include_str!("../../../../flows/echo.yml"),
        include_str!("../../../../flows/two-branches.yml"),
    ];
    for text in texts {
        assert_eq!(
            json(text),
            serde_yaml::from_str::<Value>(text).unwrap(),
            "{text}"
        );
    }
}

#[test]
fn a_document_is_json() {
    let json = yaml_to_json("!Flow\nwith: {port: 1, name: $X}\nlist:\n  - on\n  - 1.5\n").unwrap();
    let expected = serde_json::json!({"with": {"port": 1, "name": "$X"}, "list": ["on", 1.5]});
    assert_eq!(json, expected);
    let error = yaml_to_json("a: .inf").unwrap_err().to_string();
    assert!(error.contains("finite"), "{error}");
}

#[test]
fn aliases_of_a_long_text_cannot_fill_the_memory() {
    let long = "x".repeat(1 << 20);
    for (anchor, alias) in [
        (format!("&long {long}"), "*long".to_owned()),
        (format!("&long {{{long}: 1}}"), "*long".to_owned()),
        (format!("&long {{{long}: 1}}"), "{<<: *long}".to_owned()),
    ] {
        let aliases = format!("{alias}, ").repeat(49_000 / 4);
        let text = format!("a: {anchor}\nb: [{aliases}]");
        let message = parse(&text).unwrap_err().message;
        assert_eq!(message, "more than 16 MiB of text, aliases counted");
    }
}

#[test]
fn anchors_around_anchors_cannot_fill_the_memory() {
    let anchors: String = (0..60).map(|number| format!("&a{number} [")).collect();
    let text = format!("{anchors}{}{}", "x".repeat(1 << 20), "]".repeat(60));
    let message = parse(&text).unwrap_err().message;
    assert_eq!(message, "more than 16 MiB of text, aliases counted");
}

#[test]
fn the_paths_below_a_long_key_cannot_fill_the_memory() {
    let text = format!("? {}\n: [{}]", "k".repeat(1 << 20), "x, ".repeat(10_000));
    let message = parse(&text).unwrap_err().message;
    assert!(message.contains("the keys are too long"), "{message}");
}

#[test]
fn what_may_be_a_secret_is_not_described() {
    let root = parse("{api_key: hunter2, A_TOKEN: [hunter2], key_count: 3}").unwrap();
    let described = |key: &str| root.get(key).unwrap().described();
    assert!(!described("api_key").contains("hunter2"));
    let item = root.get("A_TOKEN").unwrap().children().next().unwrap();
    assert!(!item.described().contains("hunter2"));
    assert_eq!(described("key_count"), "`3`");
    let text = "{executors: [{name: a_key, replicas: x, uses_with: hunter2}], token: {a: {b: hunter2}}, url: 'redis://u:hunter2@h'}";
    let root = parse(text).unwrap();
    let mut all = Vec::new();
    root.for_each_below(&mut |node| all.push(node.described()));
    let all = all.join(", ");
    assert!(!all.contains("hunter2"), "{all}");
    assert!(all.contains("the text `x`"), "{all}");
}

#[test]
fn what_may_be_a_secret_is_hidden_in_debug_output() {
    let text = "{api_key: hunter2, with: {url: hunter2}, env: {A: hunter2}, list: [{A_TOKEN: [hunter2]}], name: x}";
    let shown = format!("{:?}", parse(text).unwrap());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("\"x\""), "{shown}");
}
