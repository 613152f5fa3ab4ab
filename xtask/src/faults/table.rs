//! The table of faults: pure, so that what counts as failed and as recovered can be tested.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Context;

/// A request that takes longer is not good: the flow has not recovered while there is one.
const SLOW_MS: f64 = 500.0;

/// Texts of failures in a row of the table; the most frequent ones.
const TEXTS: usize = 3;

const HEAD: &str = "| Fault | Where | Lasts | Requests | Failed | Slowest | Recovered after | Errors |\n\
                    |---|---|---|---|---|---|---|---|\n";

/// One request.
#[derive(Debug, PartialEq)]
struct Request<'a> {
    due_s: f64,
    took_ms: f64,
    failure: &'a str,
}

impl Request<'_> {
    fn ended_s(&self) -> f64 {
        self.due_s + self.took_ms / 1000.0
    }

    fn is_good(&self) -> bool {
        self.failure.is_empty() && self.took_ms <= SLOW_MS
    }
}

/// A row for each line of `faults.csv`, from the requests of `requests.csv`.
pub(super) fn table(faults: &str, requests: &str) -> anyhow::Result<String> {
    let mut by_case = BTreeMap::<(&str, &str), Vec<Request<'_>>>::new();
    for line in requests.lines().skip(1) {
        let (case, request) = request(line).with_context(|| format!("requests.csv: `{line}`"))?;
        by_case.entry(case).or_default().push(request);
    }
    let mut table = HEAD.to_owned();
    for line in faults.lines().skip(1) {
        let wrong = || format!("faults.csv: `{line}`");
        let cells: Vec<&str> = line.split(';').collect();
        let [what, place, began, ended, note] = cells[..] else {
            anyhow::bail!(wrong());
        };
        let row = if began.is_empty() {
            format!("– | – | – | – | – | {note}")
        } else {
            let times = [began.parse(), ended.parse()];
            let [began, ended] = times.map(|it: Result<f64, _>| it.with_context(wrong));
            let none = Vec::new();
            let requests = by_case.get(&(what, place)).unwrap_or(&none);
            row(requests, [began?, ended?], note)
        };
        writeln!(table, "| {what} | {place} | {row} |").expect("writing to a String cannot fail");
    }
    Ok(table)
}

fn request(line: &str) -> Option<((&str, &str), Request<'_>)> {
    let mut cells = line.splitn(5, ';');
    let case = (cells.next()?, cells.next()?);
    let request = Request {
        due_s: cells.next()?.parse().ok()?,
        took_ms: cells.next()?.parse().ok()?,
        failure: cells.next()?,
    };
    Some((case, request))
}

/// The cells of a fault that began and ended at these times, from the third one on.
fn row(requests: &[Request<'_>], [began, ended]: [f64; 2], note: &str) -> String {
    let open = |it: &&Request<'_>| began <= it.ended_s();
    let hit: Vec<_> = requests.iter().filter(open).collect();
    let failed = hit.iter().filter(|it| !it.failure.is_empty()).count();
    let slowest = hit.iter().map(|it| it.took_ms).fold(0.0, f64::max);
    let bad = hit.iter().filter(|it| !it.is_good());
    let late = bad.map(|it| it.ended_s() - ended).fold(0.0, f64::max);
    let late = match late {
        ..0.05 => "at once".to_owned(),
        _ => format!("{late:.1} s"),
    };
    let lasts = ended - began;
    let count = hit.len();
    let errors = errors(hit.iter().map(|it| it.failure), note);
    format!("{lasts:.0} s | {count} | {failed} | {slowest:.0} ms | {late} | {errors}")
}

/// The most frequent failures, and the note.
fn errors<'a>(failures: impl Iterator<Item = &'a str>, note: &str) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for failure in failures.filter(|it| !it.is_empty()) {
        *counts.entry(failure).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let texts = counts.iter().take(TEXTS).map(|(text, count)| {
        // These two characters end a cell or a code span.
        let text = text.replace('|', "/").replace('`', "'");
        format!("{count} × `{text}`")
    });
    let note = (!note.is_empty()).then(|| note.to_owned());
    let errors: Vec<String> = texts.chain(note).collect();
    if errors.is_empty() {
        "–".to_owned()
    } else {
        errors.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAULTS: &str =
        "fault;place;began_s;ended_s;note\ncut;here;3.00;13.00;\ngone;there;;;left out: why\n";

    #[track_caller]
    fn check(requests: &str, expected: &str) {
        let requests = format!("fault;place;due_s;took_ms;failure\n{requests}");
        let table = table(FAULTS, &requests).unwrap();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows[0], expected);
        assert_eq!(
            rows[1],
            "| gone | there | – | – | – | – | – | left out: why |"
        );
    }

    #[test]
    fn requests_before_a_fault_do_not_count_and_one_that_was_open_does() {
        check(
            "cut;here;1.0;900.0;\ncut;here;2.9;200.0;\ncut;here;4.0;10.0;\n",
            "| cut | here | 10 s | 2 | 0 | 200 ms | at once | – |",
        );
    }

    #[test]
    fn a_flow_has_recovered_after_the_last_request_that_is_slow_or_fails() {
        check(
            "cut;here;4.0;5000.0;late: `a`\ncut;here;12.0;3500.0;\ncut;here;16.0;400.0;\n",
            "| cut | here | 10 s | 3 | 1 | 5000 ms | 2.5 s | 1 × `late: 'a'` |",
        );
    }

    #[test]
    fn a_line_that_is_no_request_is_named() {
        let error = table(FAULTS, "head\ncut;here;x\n").unwrap_err();
        assert!(error.to_string().contains("`cut;here;x`"), "{error}");
    }
}
