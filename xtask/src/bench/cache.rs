//! Benchmark: the gain of the encoder's cache for repeated queries.
//!
//! The queries follow Zipf's law: the query of rank *n* is asked in proportion to 1/*n*. They come one in a request, over
//! HTTP, to two flows that are up at the same time: one with the cache and one without. Each round has queries of its own,
//! so the cache is empty for them when it begins; the same round asks both flows the same queries in the same order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::bench::ours;
use crate::bench::participants::Bench;
use crate::bench::report::{Report, Table};
use crate::statistics::{median, quantile};

/// Queries that a round asks.
const ASKED: usize = 4_000;

/// Different queries of a round, of which most are asked seldom or never.
const DISTINCT: u32 = 10_000;

/// Words of the shortest and of the longest query.
const WORDS: (u64, u64) = (3, 12);

/// Connections, with one request at a time on each.
const CONNECTIONS: usize = 16;

/// Texts that are part of the program, whose words are those of the queries.
const TEXTS: &str = "crates/flow-models/src/engine/cpu/int8/texts.txt";

const OFF: &str = "no cache";
const ON: &str = "cache";

const RATE: &str = "texts per second";
const HITS: &str = "texts that were cached, %";
const P50: &str = "p50, ms";
const P99: &str = "p99, ms";

/// The header in which a reply says how many of its texts were cached.
const CACHED_TEXTS: &str = "x-flow-cached-texts:";

/// What a flow did with the queries of a round.
#[derive(Debug, Default)]
struct Outcome {
    seconds: f64,
    /// Milliseconds of each request.
    times: Vec<f64>,
    cached: u64,
}

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let words = words()?;
    let cached = report.scratch("cache.yml");
    std::fs::write(&cached, flow_file())?;
    let cached = cached.to_str().context("the folder's name is not UTF-8")?;
    let flows = [
        (OFF, ours::up("flows/encode.yml")?),
        (ON, ours::up(cached)?),
    ];
    for (_, flow) in &flows {
        ask(flow.port, &queries(&words, u64::MAX)[..100])?;
    }
    let mut table = Table::new([OFF, ON], "see each row");
    for round in 0..bench.rounds {
        let queries = queries(&words, round as u64);
        for (name, flow) in in_turn(&flows, round) {
            let outcome = ask(flow.port, &queries)?;
            let asked = queries.len() as f64;
            table.add(RATE, name, asked / outcome.seconds);
            table.add(HITS, name, outcome.cached as f64 / asked * 100.0);
            table.add(P50, name, median(&outcome.times));
            table.add(P99, name, quantile(&outcome.times, 0.99));
            eprintln!("cache · {name} · round {round}: {:.1} s", outcome.seconds);
        }
    }
    report.write("cache", &table, &verdict(&table))
}

/// `flows/encode.yml` with a cache.
fn flow_file() -> &'static str {
    "jtype: Flow\nexecutors:\n  - name: encoder\n    uses: sentence-encoder\n    uses_with: {cache: true}\n"
}

/// Both flows; the other one begins in every second round.
fn in_turn<T>(flows: &[T; 2], round: usize) -> [&T; 2] {
    match round % 2 {
        0 => [&flows[0], &flows[1]],
        _ => [&flows[1], &flows[0]],
    }
}

/// The words of the texts that are part of the program.
fn words() -> anyhow::Result<Vec<String>> {
    let texts = std::fs::read_to_string(ours::root(TEXTS));
    let texts = texts.with_context(|| format!("cannot read `{TEXTS}`"))?;
    Ok(texts.split_whitespace().map(str::to_owned).collect())
}

/// The queries of a round, in the order in which they are asked. The same round has the same ones on every machine.
fn queries(words: &[String], round: u64) -> Vec<String> {
    let cumulative = cumulative();
    let mut random = Random(round);
    let rank = |random: &mut Random| {
        let point = random.fraction() * cumulative[cumulative.len() - 1];
        cumulative.partition_point(|sum| *sum < point) as u64
    };
    (0..ASKED)
        .map(|_| query(words, round, rank(&mut random)))
        .collect()
}

/// The sums of the weights up to each rank: 1, 1 + 1/2, 1 + 1/2 + 1/3, …
fn cumulative() -> Vec<f64> {
    let weights = (1..=DISTINCT).map(|rank| 1.0 / f64::from(rank));
    let sums = weights.scan(0.0, |sum, weight| {
        *sum += weight;
        Some(*sum)
    });
    sums.collect()
}

/// The query of a rank: some words, and the number of the round and the rank, so that it differs from all others.
fn query(words: &[String], round: u64, rank: u64) -> String {
    let mut random = Random(round ^ (rank << 32));
    let count = WORDS.0 + random.next() % (WORDS.1 - WORDS.0 + 1);
    let mut query = format!("{round}-{rank}");
    for _ in 0..count {
        let place = random.next() as usize % words.len();
        query.push(' ');
        query.push_str(&words[place]);
    }
    query
}

/// Sends each query once, over several connections, and waits for the replies.
fn ask(port: u16, queries: &[String]) -> anyhow::Result<Outcome> {
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let parts = thread::scope(|scope| {
        let connections: Vec<_> = (0..CONNECTIONS)
            .map(|_| scope.spawn(|| ask_some(port, queries, &next)))
            .collect();
        let joined = connections.into_iter().map(|it| it.join());
        joined
            .map(|it| it.unwrap_or_else(|_| Err(anyhow::anyhow!("a connection's thread panicked"))))
            .collect::<anyhow::Result<Vec<Outcome>>>()
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let cached = parts.iter().map(|it| it.cached).sum();
    let mut times: Vec<f64> = parts.into_iter().flat_map(|it| it.times).collect();
    times.sort_by(f64::total_cmp);
    Ok(Outcome {
        seconds,
        cached,
        times,
    })
}

/// Sends queries over one connection until there is none left.
fn ask_some(port: u16, queries: &[String], next: &AtomicUsize) -> anyhow::Result<Outcome> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    let mut replies = BufReader::new(stream.try_clone()?);
    let mut outcome = Outcome::default();
    while let Some(query) = queries.get(next.fetch_add(1, Ordering::Relaxed)) {
        let started = Instant::now();
        send(&stream, query)?;
        outcome.cached += read_reply(&mut replies)?;
        outcome
            .times
            .push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(outcome)
}

fn send(mut stream: &TcpStream, query: &str) -> anyhow::Result<()> {
    let body = json!({ "input": query, "encoding_format": "base64" }).to_string();
    let head = format!(
        "POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Ok(stream.write_all((head + &body).as_bytes())?)
}

/// Reads a reply, and returns how many of its texts were cached.
fn read_reply(replies: &mut impl BufRead) -> anyhow::Result<u64> {
    let (mut line, mut len, mut cached) = (String::new(), None, 0);
    replies.read_line(&mut line)?;
    ensure!(
        line.starts_with("HTTP/1.1 200"),
        "the flow answered `{}`",
        line.trim()
    );
    loop {
        line.clear();
        replies.read_line(&mut line)?;
        let header = line.trim();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            len = Some(value.trim().parse()?);
        } else if let Some(value) = header.strip_prefix(CACHED_TEXTS) {
            cached = value.trim().parse()?;
        }
    }
    let len = len.context("a reply has no `content-length`")?;
    std::io::copy(&mut replies.take(len), &mut std::io::sink())?;
    Ok(cached)
}

fn verdict(table: &Table) -> String {
    let of = |row, system| table.values(row, system).map(median);
    let (Some(off), Some(on), Some(hits)) = (of(RATE, OFF), of(RATE, ON), of(HITS, ON)) else {
        return String::new();
    };
    format!(
        "With the cache, {hits:.0} % of the texts were not computed, and the flow answered {:.2} times as many.\n",
        on / off
    )
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_log_is_the_same_each_time_and_follows_zipfs_law() {
        let words = ["a", "b", "c"].map(str::to_owned);
        let log = queries(&words, 0);
        assert_eq!(log, queries(&words, 0));
        assert_ne!(log, queries(&words, 1));
        let mut counts = BTreeMap::<&str, usize>::new();
        log.iter()
            .for_each(|query| *counts.entry(query).or_default() += 1);
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // Of 4,000 queries, the first of 10,000 ranks has one in 9.8, and the second half of that.
        assert!((360..460).contains(&counts[0]), "{}", counts[0]);
        assert!((170..250).contains(&counts[1]), "{}", counts[1]);
        assert!((1_300..1_700).contains(&counts.len()), "{}", counts.len());
    }

    #[test]
    fn a_reply_says_how_many_texts_were_cached() {
        let mut two = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx-flow-cached-texts: 1\r\n\r\n{}HTTP/1.1 500 No\r\n"
            .as_bytes();
        assert_eq!(read_reply(&mut two).unwrap(), 1);
        let error = read_reply(&mut two).unwrap_err().to_string();
        assert!(error.contains("500"), "{error}");
    }
}
