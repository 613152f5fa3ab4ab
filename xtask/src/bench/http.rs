//! Benchmark: the cost of HTTP with JSON compared with gRPC: the same documents, through the same port, to the same executors.
//!
//! Both protocols run over HTTP/2 without TLS, from the same load generator. The rows with vectors go through OpenAI's route.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::bench::corpus::SENTENCE;
use crate::bench::participants::Bench;
use crate::bench::report::{Report, Table};
use crate::bench::request::SIZES;
use crate::bench::{h2load, ours};
use crate::statistics::median;

const GRPC: &str = "gRPC";
const HTTP: &str = "HTTP with JSON";

/// Requests of a run to executors that do nothing, and to the encoder.
const NO_OP_REQUESTS: usize = 30_000;
const ENCODER_REQUESTS: usize = 300;
const ALONE_REQUESTS: usize = 500;

/// What is sent over both protocols.
struct Load {
    row: &'static str,
    /// The framed gRPC request.
    frame: Vec<u8>,
    path: &'static str,
    body: Value,
    requests: usize,
    /// One request at a time.
    is_alone: bool,
    /// HTTP over gRPC.
    bar: f64,
}

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    h2load::look_for()?;
    let echo = ours::up("flows/echo.yml")?;
    let encoder = ours::up("flows/encode.yml")?;
    let mut table = Table::new([GRPC, HTTP], "requests/s");
    for round in 0..=bench.rounds {
        for (flow, load) in no_op()
            .map(|it| (&echo, it))
            .into_iter()
            .chain(encoding().map(|it| (&encoder, it)))
        {
            let (grpc, http) = (
                rate_of_grpc(flow, &load, report)?,
                rate_of_http(flow, &load, report)?,
            );
            // The first round warms up.
            if round > 0 {
                eprintln!(
                    "{} · round {round}: {grpc:.0} and {http:.0} requests/s",
                    load.row
                );
                table.add(load.row, GRPC, grpc);
                table.add(load.row, HTTP, http);
            }
        }
    }
    report.write("http", &table, &verdict(&table))
}

fn no_op() -> [Load; 2] {
    let load = |row, size: usize, docs: usize| Load {
        row,
        frame: SIZES[size].frame(),
        path: "/post",
        body: json!({ "execEndpoint": "/encode", "data": vec![json!({ "text": SENTENCE }); docs] }),
        requests: NO_OP_REQUESTS,
        is_alone: false,
        bar: 0.0,
    };
    [
        load("no-op, 1 document", 0, 1),
        load("no-op, 32 documents", 1, 32),
    ]
}

fn encoding() -> [Load; 3] {
    let load = |row, format: &str, bar| Load {
        row,
        frame: SIZES[1].frame(),
        path: "/v1/embeddings",
        body: json!({ "input": vec![SENTENCE; 32], "encoding_format": format }),
        requests: ENCODER_REQUESTS,
        is_alone: false,
        bar,
    };
    let one = Load {
        frame: SIZES[0].frame(),
        body: json!({ "input": SENTENCE, "encoding_format": "base64" }),
        requests: ALONE_REQUESTS,
        is_alone: true,
        ..load("one text at a time, base64", "base64", 0.0)
    };
    [
        load("32 texts, base64", "base64", 0.95),
        load("32 texts, float", "float", 0.85),
        one,
    ]
}

fn rate_of_grpc(flow: &ours::Flow, load: &Load, report: &Report) -> anyhow::Result<f64> {
    let request = written(report, "request.bin", &load.frame)?;
    let url = format!("http://127.0.0.1:{}", flow.port);
    match load.is_alone {
        true => h2load::run_alone(&url, &request, load.requests),
        false => h2load::run(&url, &request, load.requests),
    }
}

fn rate_of_http(flow: &ours::Flow, load: &Load, report: &Report) -> anyhow::Result<f64> {
    let request = written(report, "request.json", load.body.to_string().as_bytes())?;
    let url = format!("http://127.0.0.1:{}{}", flow.port, load.path);
    match load.is_alone {
        true => h2load::run_json_alone(&url, &request, load.requests),
        false => h2load::run_json(&url, &request, load.requests),
    }
}

fn written(report: &Report, name: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    let path = report.scratch(name);
    std::fs::write(&path, bytes)?;
    Ok(path)
}

fn verdict(table: &Table) -> String {
    let loads = no_op().into_iter().chain(encoding());
    let line = |load: Load| {
        let rate = |column| table.values(load.row, column).map(median);
        let ratio = rate(HTTP)? / rate(GRPC)?;
        let bar = match load.bar {
            0.0 => String::new(),
            bar => format!(" (the bar: {bar})"),
        };
        Some(format!(
            "- {}: HTTP is at {ratio:.2} of gRPC{bar}\n",
            load.row
        ))
    };
    loads.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_compares_the_medians_with_the_bars() {
        let mut table = Table::new([GRPC, HTTP], "requests/s");
        for (column, rate) in [(GRPC, 100.0), (HTTP, 90.0)] {
            table.add("32 texts, base64", column, rate);
            table.add("no-op, 1 document", column, rate);
        }
        let expected = "- no-op, 1 document: HTTP is at 0.90 of gRPC\n\
                        - 32 texts, base64: HTTP is at 0.90 of gRPC (the bar: 0.95)\n";
        assert_eq!(verdict(&table), expected);
    }
}
