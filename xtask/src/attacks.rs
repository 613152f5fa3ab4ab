//! `cargo xtask attacks`: runs the tests of hostile clients one after another, and makes a table of what each attack cost.
//!
//! The tests (`tests/it/hostile/`) decide whether an attack is survived; this only shows how.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::repository::root;
use crate::test::cargo_test;

/// The page with the table, between the lines [`BEGIN`] and [`END`].
const PAGE: &str = "docs/src/attacks.md";
const BEGIN: &str = "<!-- The table: cargo xtask attacks --write -->\n";
const END: &str = "<!-- The end of the table -->";

/// Names the file to which each test adds a line.
const FILE_VARIABLE: &str = "FLOW_ATTACKS_OUT";

/// What attacks did before the limits against them, by the tests that repeat them.
const BEFORE: &[(&str, &str)] = &[
    (
        "compressed_routes_do_not_fill_the_memory",
        "15 KiB: 2.5 GiB; 63 KiB: killed for memory",
    ),
    (
        "deep_documents_are_refused_by_the_gateway_and_by_executors",
        "90 KiB: the executor aborts, after ten requests for good",
    ),
    (
        "deep_documents_do_not_pass_a_join",
        "36 KiB: the gateway aborts",
    ),
    (
        "silent_connections_make_room_for_others",
        "1,100 connections: no other client is served",
    ),
    (
        "a_gateway_without_files_for_more_connections_makes_room_and_warns_once",
        "71 % of a core, no client is served, no log line",
    ),
    (
        "long_texts_in_a_header_fail_their_own_request_and_no_other",
        "70 KB: all 50 requests of others fail",
    ),
    (
        "begun_calls_stay_near_the_memory_that_the_gateway_names",
        "60 connections: 1.1 GiB of a limit of 256 MiB",
    ),
    (
        "bodies_of_json_stay_near_the_memory_that_the_gateway_names",
        "4 bodies of 10 MB: 1.9 GB of a limit of 256 MiB",
    ),
    (
        "attacks_at_the_same_time_stay_near_the_memory_that_the_gateway_names",
        "323 to 519 MiB of a limit of 256 MiB",
    ),
    (
        "calls_that_are_given_up_fail_no_others",
        "50–330 of 4,000–7,000 requests of others fail",
    ),
    (
        "a_stream_that_reads_no_replies_holds_little_memory",
        "477 MiB of requests: 800 MiB",
    ),
    (
        "many_fields_through_a_join_delay_no_other_request",
        "health unanswered for 10 s, the gateway is killed",
    ),
    (
        "a_long_regular_expression_is_refused_before_it_is_parsed",
        "5 MB: 15 s, 2.6–4.4 GiB, killed for memory",
    ),
    (
        "compressed_documents_and_parameters_do_not_fill_the_memory",
        "15 KiB: 2.3 GiB in the executor",
    ),
    (
        "a_shape_without_bytes_takes_no_memory",
        "584 bytes: 3–6 GiB",
    ),
    (
        "a_score_that_is_no_number_is_refused_and_later_searches_work",
        "every later search that meets it fails",
    ),
    (
        "chunks_repeat_a_text_and_its_id_only_so_often",
        "2 MB: killed for memory",
    ),
    (
        "a_long_text_keeps_no_other_client_of_an_encoder_waiting",
        "20 MB: others wait 5 s, 2.2 GiB",
    ),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the table into the book instead of printing it.
    #[arg(long)]
    write: bool,
}

/// What an attack cost, at most, where its test looked several times.
#[derive(Debug, Default, PartialEq)]
struct Cost {
    sent: u64,
    waited_ms: f64,
    /// Bytes that processes have taken.
    taken: BTreeMap<String, u64>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let out = root().join("target/attacks.jsonl");
    std::fs::write(&out, "").with_context(|| format!("cannot write `{}`", out.display()))?;
    let tests = ["--test", "it", "hostile::", "--", "--test-threads", "1"];
    let mut command = cargo_test(&tests.map(str::to_owned))?;
    crate::shell::run(command.env(FILE_VARIABLE, &out))?;
    let table = table(&costs(&std::fs::read_to_string(&out)?)?);
    if args.write {
        return write(&root().join(PAGE), &table);
    }
    print!("{table}");
    Ok(())
}

/// The cost of each attack, by the name of its test.
fn costs(lines: &str) -> anyhow::Result<BTreeMap<String, Cost>> {
    let mut costs = BTreeMap::<String, Cost>::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).context("a test wrote something else")?;
        let test = line["test"].as_str().unwrap_or_default();
        let name = test.rsplit("::").next().unwrap_or_default();
        let cost = costs.entry(name.to_owned()).or_default();
        cost.sent = cost.sent.max(line["sent"].as_u64().unwrap_or_default());
        cost.waited_ms = cost
            .waited_ms
            .max(line["waited_ms"].as_f64().unwrap_or_default());
        for (process, bytes) in line["taken"].as_object().into_iter().flatten() {
            let taken = cost.taken.entry(process.clone()).or_default();
            *taken = (*taken).max(bytes.as_u64().unwrap_or_default());
        }
    }
    Ok(costs)
}

fn table(costs: &BTreeMap<String, Cost>) -> String {
    let mut table = String::from(
        "| Attack | Before | Sent | Memory: gateway | Memory: executors | Another client waits |\n|---|---|---|---|---|---|\n",
    );
    for (name, cost) in costs {
        let before = BEFORE.iter().find(|(test, _)| test == name);
        let executors = cost.taken.iter().filter(|(name, _)| *name != "gateway");
        let executors = executors.map(|(_, bytes)| *bytes).max().unwrap_or_default();
        let gateway = cost.taken.get("gateway").copied().unwrap_or_default();
        let row = [
            sentence(name),
            before.map_or("–", |(_, text)| text).to_owned(),
            size(cost.sent),
            size(gateway),
            size(executors),
            format!("{:.0} ms", cost.waited_ms),
        ];
        writeln!(table, "| {} |", row.join(" | ")).expect("writing to a String cannot fail");
    }
    table
}

/// The name of a test as a sentence.
fn sentence(name: &str) -> String {
    let words = name.replace('_', " ").replace("json", "JSON");
    let (first, rest) = words.split_at(words.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

/// Bytes in the largest unit that leaves a whole number.
fn size(bytes: u64) -> String {
    match bytes {
        0 => "–".to_owned(),
        1..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn write(page: &Path, table: &str) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(page)?;
    let text = replaced(&text, table)
        .with_context(|| format!("`{}` has no place for the table", page.display()))?;
    Ok(std::fs::write(page, text)?)
}

/// The page with another table. `None` if it has no place for one.
fn replaced(page: &str, table: &str) -> Option<String> {
    let (head, rest) = page.split_once(BEGIN)?;
    let (_, tail) = rest.split_once(END)?;
    Some(format!("{head}{BEGIN}\n{table}\n{END}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"{"test": "hostile::a_b", "sent": 2048, "waited_ms": 3.2, "taken": {"gateway": 5, "x": 7}}
{"test": "hostile::a_b", "sent": 2048, "waited_ms": 1.0, "taken": {"gateway": 3145728, "y": 9}}"#;

    #[test]
    fn an_attack_is_a_row_with_the_most_that_it_cost() {
        let table = table(&costs(LINES).unwrap());
        let row = table.lines().last().unwrap();
        assert_eq!(row, "| A b | – | 2 KiB | 3 MiB | 9 B | 3 ms |");
    }

    #[test]
    fn the_table_of_a_page_is_replaced() {
        let page = format!("a\n{BEGIN}old{END}\nb");
        let expected = format!("a\n{BEGIN}\nnew\n\n{END}\nb");
        assert_eq!(replaced(&page, "new\n").unwrap(), expected);
        assert_eq!(replaced("a", "new"), None);
    }

    #[test]
    fn every_attack_of_the_past_has_a_test() {
        let folder = root().join("tests/it/hostile");
        let files = std::fs::read_dir(folder).unwrap();
        let texts: String = files
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        for (test, _) in BEFORE {
            assert!(texts.contains(&format!("fn {test}(")), "{test}");
        }
    }
}
