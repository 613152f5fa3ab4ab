//! Measures the gain of a cache of vectors for repeated queries.
//!
//! ```text
//! cargo bench -p flow-models --bench cache
//! ```
//!
//! The log has 20,000 queries. Query number *n* of 5,000 is asked in proportion to 1/*n* (Zipf's law), in an order that is the
//! same each time. They come in calls of 8, one after the other. A line says how many queries each second were answered
//! without a cache, with an empty one, with a full one, and with one on disk after a restart.

#![allow(clippy::print_stdout, reason = "the figures are its output")]

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use flow_core::ByteSize;
use flow_models::source::{self, DEFAULT_MODEL, SourceEnvironment};
use flow_models::{
    CacheOptions, CachedEncoder, DeviceSpec, EncodeRequest, EncoderOptions, TextEncoder,
    VectorCache,
};
use serde_json::json;

const QUERIES: usize = 20_000;
const DISTINCT: u32 = 5_000;
const CALL: usize = 8;

fn main() {
    let variables: BTreeMap<String, String> = std::env::vars().collect();
    let environment = SourceEnvironment::from_variables(|name| variables.get(name).cloned());
    let model = source::pull(DEFAULT_MODEL, None, &environment, &mut ()).expect("a model");
    let disk = tempfile::tempdir().expect("a folder");
    let queries = queries();
    let distinct = queries.iter().collect::<HashSet<_>>().len();

    let without = rate(&mut encoder(&model, None), &queries);
    let mut in_memory = encoder(&model, Some(None));
    let empty = rate(&mut in_memory, &queries);
    let full = rate(&mut in_memory, &queries);
    let on_disk = || encoder(&model, Some(Some(disk.path().to_owned())));
    rate(&mut on_disk(), &queries);
    let restarted = rate(&mut on_disk(), &queries);
    let line = json!({
        "queries": QUERIES,
        "distinct": distinct,
        "without_cache_per_s": without,
        "empty_cache_per_s": empty,
        "full_cache_per_s": full,
        "disk_after_restart_per_s": restarted,
    });
    println!("{line}");
}

/// An encoder: without a cache, with one in memory, or with one on disk too.
fn encoder(model: &Path, cache: Option<Option<PathBuf>>) -> CachedEncoder {
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let devices = DeviceSpec::Cpu.open(cores).expect("a CPU");
    let options = EncoderOptions::default();
    let encoder = TextEncoder::load(model, &options, devices).expect("a complete model");
    let cache = cache.map(|path| {
        let stores = CacheOptions {
            size: ByteSize::mebibytes(256),
            path,
            disk_size: ByteSize::mebibytes(1024),
        };
        VectorCache::open(&stores, (model, &options), &encoder).expect("a folder")
    });
    CachedEncoder::new(encoder, cache)
}

/// Queries answered in a second.
fn rate(encoder: &mut CachedEncoder, queries: &[String]) -> f64 {
    let started = Instant::now();
    for call in queries.chunks(CALL) {
        let vectors = encoder.encode(call, EncodeRequest::default());
        vectors.expect("a text");
    }
    (queries.len() as f64 / started.elapsed().as_secs_f64()).round()
}

/// The log of queries.
fn queries() -> Vec<String> {
    let weights: Vec<f64> = (1..=DISTINCT).map(|n| 1.0 / f64::from(n)).collect();
    let total: f64 = weights.iter().sum();
    let mut random = 1_u64;
    let mut query = || {
        // Numerical Recipes' generator of 64-bit numbers.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut left = (random >> 11) as f64 / (1_u64 << 53) as f64 * total;
        let found = weights.iter().position(|weight| {
            left -= weight;
            left <= 0.0
        });
        format!(
            "how do I configure number {} of my machine learning services",
            found.unwrap_or_default()
        )
    };
    (0..QUERIES).map(|_| query()).collect()
}
