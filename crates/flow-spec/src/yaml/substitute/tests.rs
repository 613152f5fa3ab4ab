#![expect(
    clippy::needless_pass_by_value,
    reason = "`json!` reads best where it is made"
)]

use serde_json::json;

use super::*;
use crate::diagnostics::Problems;
use crate::yaml::parse;

fn variables() -> Variables {
    let env = [
        ("X", "text"),
        ("PORT", "8080"),
        ("FLAG", "true"),
        ("LIST", "[a, 1, 'b']"),
        ("QUOTED", "'08'"),
        ("EMPTY", ""),
        ("TO_X", "$X"),
        ("TO_TO_X", "$TO_X"),
        ("MAP", "a: b"),
    ];
    let env = env
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let context = json!({"size": 3, "name": "ann", "ratio": 0.5, "no": null});
    Variables {
        env,
        context: context.as_object().unwrap().clone(),
    }
}

fn run(text: &str) -> (Value, Diagnostics) {
    let mut diagnostics = Diagnostics::default();
    let root = substitute(parse(text).unwrap(), &variables(), &mut diagnostics);
    (root.to_json().unwrap(), diagnostics)
}

/// Checks the result of one scalar.
#[track_caller]
fn check(written: &str, expected: Value) {
    let (value, diagnostics) = run(&format!("v: \"{written}\""));
    assert_eq!(diagnostics, Diagnostics::default(), "{written}");
    assert_eq!(value["v"], expected, "{written}");
}

/// Checks a whole document.
#[track_caller]
fn check_document(written: &str, expected: Value) {
    let (value, diagnostics) = run(written);
    assert_eq!(diagnostics, Diagnostics::default(), "{written}");
    assert_eq!(value, expected, "{written}");
}

/// Checks what is said of a scalar, which stays as it is.
#[track_caller]
fn check_problem(written: &str, expected: &str) {
    let (value, diagnostics) = run(&format!("v: \"{written}\""));
    assert_eq!(value["v"], json!(written));
    assert_eq!(
        Problems::sorted(diagnostics.problems).to_string(),
        format!("  1:4  v  {expected}")
    );
}

#[track_caller]
fn check_warning(written: &str, expected: &str) {
    let (value, diagnostics) = run(&format!("v: \"{written}\""));
    assert_eq!(
        (&value["v"], diagnostics.problems),
        (&json!(written), vec![])
    );
    assert_eq!(
        Problems::sorted(diagnostics.warnings).to_string(),
        format!("  1:4  v  {expected}")
    );
}

#[test]
fn every_form_of_the_environment_is_replaced() {
    for written in [
        "${{ ENV.X }}",
        "${{ env.X }}",
        "${{ENV.X}}",
        "${{env.X}}",
        "$X",
        "${X}",
    ] {
        check(written, json!("text"));
    }
}

#[test]
fn every_form_of_the_context_is_replaced() {
    for written in ["${{ CONTEXT.name }}", "${{ context.name }}", "${{ name }}"] {
        check(written, json!("ann"));
    }
    check("${{ size }}", json!(3));
    check("${{ ratio }}", json!(0.5));
    check("${{ no }}", json!(null));
}

#[test]
fn the_result_is_cast() {
    check("$PORT", json!(8080));
    check("$FLAG", json!(true));
    check("$LIST", json!(["a", 1, "b"]));
    check("$QUOTED", json!("08"));
    check("$EMPTY", json!(null));
    check("1${{ size }}.5", json!(13.5));
}

#[test]
fn a_part_of_a_text_is_replaced() {
    check("grpc://${{ ENV.X }}:$PORT", json!("grpc://text:8080"));
    check("${X}y", json!("texty"));
    check("$X $X", json!("text text"));
}

#[test]
fn a_value_cannot_become_a_mapping() {
    check("$MAP", json!("a: b"));
}

#[test]
fn a_text_without_reference_is_left_alone() {
    for text in [
        "", "text", "5 $", "$5", "$", "a$", "$ {X}", "${", "${X", "${{", "{{ X }}", "${}", "é$é",
    ] {
        check(text, json!(text));
    }
    check_document("v: '08'", json!({"v": "08"}));
}

#[test]
fn keys_are_not_replaced() {
    check_document("$X: 1", json!({"$X": 1}));
}

#[test]
fn root_refers_to_the_whole_document_and_this_to_the_same_mapping() {
    check_document(
        "a: {b: [5, {c: 6}]}\nd: ${{root.a.b[0]}}\ne: ${{root.a.b[1].c}}",
        json!({"a": {"b": [5, {"c": 6}]}, "d": 5, "e": 6}),
    );
    check_document(
        "a: {x: 1, y: '${{this.x}}'}",
        json!({"a": {"x": 1, "y": 1}}),
    );
    check_document(
        "a: {x: 1, y: ['${{this.x}}']}",
        json!({"a": {"x": 1, "y": [1]}}),
    );
    check_document("a: 1\nb: ${{ root.a }}", json!({"a": 1, "b": 1}));
    check_document("a:\nb: ${{root.a}}", json!({"a": null, "b": null}));
}

#[test]
fn references_may_lead_to_references() {
    check("$TO_TO_X", json!("text"));
    check_document(
        "a: $PORT\nb: ${{root.a}}\nc: ${{root.b}}",
        json!({"a": 8080, "b": 8080, "c": 8080}),
    );
}

#[test]
fn unset_variables_are_reported() {
    check_problem(
        "${{ ENV.PROT }}",
        "`${{ ENV.PROT }}` cannot be replaced: environment variable `PROT` is not set; did you mean `PORT`?",
    );
    check_problem(
        "${{ sise }}",
        "`${{ sise }}` cannot be replaced: no variable `sise` is given with the file; did you mean `size`?",
    );
    check_problem(
        "${{root.x.y}}",
        "`${{root.x.y}}` cannot be replaced: there is nothing at `x.y`",
    );
    check_problem(
        "${{root.v[0]}}",
        "`${{root.v[0]}}` cannot be replaced: there is nothing at `v[0]`",
    );
    check_problem(
        "${{root.v[}}",
        "`${{root.v[}}` cannot be replaced: there is nothing at `v[`",
    );
}

#[test]
fn the_old_form_may_be_a_text_so_it_is_a_warning() {
    check_warning(
        "$nobody",
        "`$nobody` cannot be replaced: environment variable `nobody` is not set",
    );
    check_warning(
        "a${nobody}",
        "`${nobody}` cannot be replaced: environment variable `nobody` is not set",
    );
}

#[test]
fn references_with_other_blanks_are_not_replaced() {
    for written in [
        "${{  ENV.X  }}",
        "${{ ENV.X}}",
        "${{ a b }}",
        "${{}}",
        "${{  }}",
    ] {
        let expected = format!(
            "`{written}` cannot be replaced: it is not a reference; \
             write one blank on each side, as in `${{{{ ENV.NAME }}}}`"
        );
        check_warning(written, &expected);
    }
}

#[test]
fn circular_references_end() {
    check_problem(
        "${{this.v}}",
        "`${{this.v}}` cannot be replaced: it refers to itself",
    );
}

#[test]
fn a_mapping_is_not_a_single_value() {
    let (_, diagnostics) = run("a: {b: 1}\nc: ${{root.a}}");
    assert_eq!(
        diagnostics.problems[0].message,
        "`${{root.a}}` cannot be replaced: `a` is a mapping, not a single value"
    );
}

#[test]
fn references_to_references_cannot_fill_the_memory() {
    let (_, diagnostics) = run(&format!("v: \"{}\"", "${{this.v}}".repeat(2000)));
    assert!(!diagnostics.problems.is_empty());
}

#[test]
fn references_to_a_long_text_cannot_fill_the_memory() {
    let long = "x".repeat(1 << 19);
    let references = "\"${{root.long}}\", ".repeat(10_000);
    let mut diagnostics = Diagnostics::default();
    let root = parse(&format!("long: {long}\nall: [{references}]")).unwrap();
    let root = substitute(root, &variables(), &mut diagnostics);
    assert!(root.text_bytes() < 32 << 20, "{}", root.text_bytes());
    let problems = Problems::sorted(diagnostics.problems).to_string();
    assert!(
        problems.contains("references stand for more than 16 MiB in all"),
        "{problems}"
    );
}
