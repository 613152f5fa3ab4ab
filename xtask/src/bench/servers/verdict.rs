//! What the figures say beside the bars.

use crate::bench::report::Table;
use crate::bench::servers::load::{BULK, Load, MANY, SINGLE};
use crate::bench::servers::names::{
    CORPORA, INFINITY_ONNX, INFINITY_TORCH, P50, P99, RATE, flow_grpc, flow_http, row,
};
use crate::statistics::median;

/// Milliseconds of one text in bf16 over gRPC, at the median.
const ONE_TEXT_BAR: f64 = 0.6;

/// A comparison over HTTP that the summary states.
struct Comparison {
    /// The precision of ours.
    ours: &'static str,
    /// The best of these is the peer.
    theirs: &'static [&'static str],
    words: &'static str,
    /// Ours over theirs in texts per second, for each corpus.
    rate_bars: Option<[f64; 2]>,
    /// Ours over theirs in the 99th percentile.
    p99_bar: Option<f64>,
}

const ENGINES: &[&str] = &[INFINITY_ONNX, INFINITY_TORCH];

const COMPARISONS: [Comparison; 4] = [
    Comparison {
        ours: "f32",
        theirs: ENGINES,
        words: "the better engine of Infinity",
        rate_bars: None,
        p99_bar: None,
    },
    Comparison {
        ours: "bf16",
        theirs: ENGINES,
        words: "the better engine of Infinity",
        rate_bars: Some([2.0; 2]),
        p99_bar: None,
    },
    Comparison {
        ours: "int8",
        theirs: ENGINES,
        words: "the better engine of Infinity",
        rate_bars: None,
        p99_bar: None,
    },
    Comparison {
        ours: "int8",
        theirs: &[INFINITY_ONNX],
        words: "Infinity with ONNX Runtime",
        rate_bars: Some([3.5, 6.0]),
        p99_bar: Some(0.25),
    },
];

/// One line for each comparison of which both sides were measured, and one for the time of one text.
pub(super) fn verdict(table: &Table) -> String {
    let mut text = "Both systems answer over HTTP with vectors as base64.\n\n".to_owned();
    for (place, corpus) in CORPORA.into_iter().enumerate() {
        for load in [&BULK, &MANY] {
            let lines = COMPARISONS.iter();
            text.extend(lines.filter_map(|it| line(table, it, (place, corpus), load)));
        }
    }
    let one_text = row(CORPORA[0], &SINGLE, P50);
    if let Some(p50) = table.values(&one_text, &flow_grpc("bf16")).map(median) {
        text += &format!(
            "- {}, {}: flow bf16 takes {p50:.2} ms over gRPC at the median (the bar: {ONE_TEXT_BAR})\n",
            CORPORA[0], SINGLE.name
        );
    }
    text
}

fn line(
    table: &Table,
    comparison: &Comparison,
    (place, corpus): (usize, &str),
    load: &Load,
) -> Option<String> {
    let of = |figure, system: &str| table.values(&row(corpus, load, figure), system).map(median);
    let all = |figure| {
        comparison
            .theirs
            .iter()
            .filter_map(move |it| of(figure, it))
    };
    let ours = flow_http(comparison.ours);
    let rate = of(RATE, &ours)? / all(RATE).max_by(f64::total_cmp)?;
    let p99 = of(P99, &ours)? / all(P99).min_by(f64::total_cmp)?;
    let rate_bar = bar(comparison.rate_bars.map(|bars| bars[place]));
    let p99_bar = bar(comparison.p99_bar);
    Some(format!(
        "- {corpus}, {}: flow {} has {rate:.2} × the rate of {}{rate_bar}, and {p99:.2} of its p99{p99_bar}\n",
        load.name, comparison.ours, comparison.words
    ))
}

fn bar(bar: Option<f64>) -> String {
    bar.map(|bar| format!(" (the bar: {bar})"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with texts per second and the 99th percentile of each system for one corpus and load.
    fn table(corpus: &str, load: &Load, systems: &[(&str, f64, f64)]) -> Table {
        let mut table = Table::new(systems.iter().map(|it| it.0), "see each row");
        for (system, rate, p99) in systems {
            table.add(&row(corpus, load, RATE), system, *rate);
            table.add(&row(corpus, load, P99), system, *p99);
        }
        table
    }

    fn lines(table: &Table) -> Vec<String> {
        let verdict = verdict(table);
        let lines = verdict.lines().filter(|line| line.starts_with("- "));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn ours_is_compared_with_the_better_engine() {
        let bf16 = flow_http("bf16");
        let systems = [
            (bf16.as_str(), 900.0, 20.0),
            (INFINITY_ONNX, 300.0, 100.0),
            (INFINITY_TORCH, 200.0, 80.0),
        ];
        let expected = "- mixed, 1 text, 64 at a time: flow bf16 has 3.00 × the rate of the better engine of Infinity \
                        (the bar: 2), and 0.25 of its p99";
        assert_eq!(lines(&table("mixed", &MANY, &systems)), [expected]);
    }

    #[test]
    fn the_bar_of_int8_depends_on_the_corpus() {
        let int8 = flow_http("int8");
        let systems = [(int8.as_str(), 1200.0, 20.0), (INFINITY_ONNX, 300.0, 100.0)];
        let of = |corpus| {
            lines(&table(corpus, &BULK, &systems))
                .pop()
                .expect("a line")
        };
        let expected = "- tutorial, 32 texts, 8 at a time: flow int8 has 4.00 × the rate of Infinity with ONNX Runtime \
                        (the bar: 3.5), and 0.20 of its p99 (the bar: 0.25)";
        assert_eq!(of("tutorial"), expected);
        assert!(of("mixed").contains("(the bar: 6)"), "{}", of("mixed"));
    }

    #[test]
    fn one_text_over_grpc_has_a_bar_in_milliseconds() {
        let mut table = Table::new(["flow"], "see each row");
        let row = row("tutorial", &SINGLE, P50);
        table.add(&row, &flow_grpc("bf16"), 0.55);
        let expected = "- tutorial, 1 text, 1 at a time: flow bf16 takes 0.55 ms over gRPC at the median (the bar: 0.6)";
        assert_eq!(lines(&table), [expected]);
    }
}
