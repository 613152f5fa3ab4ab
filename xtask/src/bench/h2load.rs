//! The load generator, from Debian's package nghttp2-client.
//!
//! It counts HTTP answers, and gRPC tells failures in trailers: so before a row of runs, one request
//! goes through a gRPC client that looks at them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::shell;

const PATH: &str = "jina.JinaSingleDataRequestRPC/process_single_data";

/// The headers of a gRPC call, and of a request with JSON.
const GRPC: &[&str] = &["content-type: application/grpc", "te: trailers"];
const JSON: &[&str] = &["content-type: application/json"];

/// Four connections with 16 streams each, from one thread: the servers need the other core.
const SHAPE: &[&str] = &["-c", "4", "-m", "16", "-t", "1"];

/// Connections of HTTP/1.1, with one request at a time on each.
const HTTP1: &[&str] = &["--h1", "-c", "64", "-m", "1", "-t", "1"];

/// One request at a time.
const ALONE: &[&str] = &["-c", "1", "-m", "1", "-t", "1"];

/// Requests that begin at a rate, on one connection.
const OPEN: &[&str] = &["-c", "1", "-m", "100", "-t", "1"];

/// Fails with what to do where h2load is not installed.
pub(super) fn look_for() -> anyhow::Result<()> {
    let version = shell::output(Command::new("h2load").arg("--version"));
    version
        .map(drop)
        .context("h2load is needed (Debian: apt-get install nghttp2-client)")
}

/// gRPC calls answered in a second.
pub(super) fn run(url: &str, request: &Path, count: usize) -> anyhow::Result<f64> {
    let mut command = command(SHAPE, request, count);
    parse(&shell::output(to_grpc(&mut command, url))?)
}

/// Requests with JSON answered in a second.
pub(super) fn run_json(url: &str, request: &Path, count: usize) -> anyhow::Result<f64> {
    let mut command = command(SHAPE, request, count);
    parse(&shell::output(with_headers(&mut command, JSON).arg(url))?)
}

/// Requests with JSON over HTTP/1.1 answered in a second.
pub(super) fn run_http1(url: &str, request: &Path, count: usize) -> anyhow::Result<f64> {
    let mut command = command(HTTP1, request, count);
    parse(&shell::output(with_headers(&mut command, JSON).arg(url))?)
}

/// Requests with JSON answered in a second, one after another.
pub(super) fn run_json_alone(url: &str, request: &Path, count: usize) -> anyhow::Result<f64> {
    let mut command = command(ALONE, request, count);
    parse(&shell::output(with_headers(&mut command, JSON).arg(url))?)
}

/// gRPC calls answered in a second, one after another.
pub(super) fn run_alone(url: &str, request: &Path, count: usize) -> anyhow::Result<f64> {
    let mut command = command(ALONE, request, count);
    parse(&shell::output(to_grpc(&mut command, url))?)
}

/// Milliseconds that each request takes, one after another.
pub(super) fn times(
    url: &str,
    request: &Path,
    count: usize,
    log: &Path,
) -> anyhow::Result<Vec<f64>> {
    logged(&mut command(ALONE, request, count), url, log)
}

/// Milliseconds that each request takes, of which this many begin in a second, whether those before them have ended or not. At most
/// 100 are in progress: beyond that, requests begin later, and their wait does not count.
pub(super) fn times_at(
    url: &str,
    request: &Path,
    (rate, count): (usize, usize),
    log: &Path,
) -> anyhow::Result<Vec<f64>> {
    let mut command = command(OPEN, request, count);
    command.arg(format!("--rps={rate}"));
    logged(&mut command, url, log)
}

/// Runs it with a log of its requests.
fn logged(command: &mut Command, url: &str, log: &Path) -> anyhow::Result<Vec<f64>> {
    // It adds to what there is.
    std::fs::write(log, "")?;
    command.arg("--log-file").arg(log);
    parse(&shell::output(to_grpc(command, url))?)?;
    let log = std::fs::read_to_string(log).context("h2load reported no times")?;
    log.lines().map(milliseconds).collect()
}

fn command(shape: &[&str], request: &Path, count: usize) -> Command {
    let mut command = Command::new("h2load");
    command.args(shape);
    command.args(["-n", &count.to_string(), "-d"]).arg(request);
    command
}

fn with_headers<'c>(command: &'c mut Command, headers: &[&str]) -> &'c mut Command {
    command.args(headers.iter().flat_map(|header| ["-H", header]))
}

fn to_grpc<'c>(command: &'c mut Command, url: &str) -> &'c mut Command {
    with_headers(command, GRPC).arg(format!("{url}/{PATH}"))
}

/// A line of its log: when the request began, its status, how many microseconds it took.
fn milliseconds(line: &str) -> anyhow::Result<f64> {
    let field = line
        .split('\t')
        .nth(2)
        .and_then(|it| it.parse::<f64>().ok());
    let microseconds = field.with_context(|| format!("`{line}` has no time"))?;
    Ok(microseconds / 1e3)
}

fn parse(output: &str) -> anyhow::Result<f64> {
    let line = |start: &str| output.lines().find(|line| line.starts_with(start));
    let requests = line("requests:").context("h2load reported no requests")?;
    let count = |what: &str| {
        let words: Vec<&str> = requests
            .split([' ', ','])
            .filter(|it| !it.is_empty())
            .collect();
        words
            .windows(2)
            .find(|pair| pair[1] == what)
            .map(|pair| pair[0].to_owned())
    };
    ensure!(
        count("succeeded") == count("total"),
        "not all requests succeeded: {requests}"
    );
    let finished = line("finished in").context("h2load reported no rate")?;
    let rate = finished
        .split(", ")
        .find_map(|part| part.strip_suffix(" req/s"));
    let Some(rate) = rate else {
        bail!("h2load reported no rate: {finished}")
    };
    rate.parse()
        .with_context(|| format!("`{rate}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
finished in 1.05s, 28697.92 req/s, 4.95MB/s
requests: 300 total, 300 started, 300 done, 300 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 300 2xx, 0 3xx, 0 4xx, 0 5xx
";

    #[test]
    fn the_rate_is_read() {
        assert_eq!(parse(OUTPUT).expect("a rate"), 28_697.92);
    }

    #[test]
    fn a_line_of_the_log_ends_with_microseconds() {
        let time = milliseconds("1795273510123456\t200\t3250").expect("a time");
        assert_eq!(time, 3.25);
        assert!(milliseconds("1795273510123456\t200").is_err());
    }

    #[test]
    fn a_run_with_failures_does_not_count() {
        let output = OUTPUT.replace("300 succeeded, 0 failed", "299 succeeded, 1 failed");
        assert!(parse(&output).is_err());
        assert!(parse("").is_err());
    }
}
