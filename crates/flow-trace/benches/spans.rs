//! Measures what the span of a request costs: without a tracer, where the request is not recorded, and where it is.
//!
//! ```text
//! cargo bench -p flow-trace
//! cargo bench -p flow-trace -- "not recorded, a new trace"
//! ```
//!
//! Figures are medians of rounds. For instructions, run the program of the second line in Callgrind with 100,000 and with
//! 200,000 spans as a further argument, and divide the difference of the two counts by 100,000.

#![allow(clippy::print_stdout, reason = "the figures are its output")]

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use flow_core::TraceContext;
use flow_trace::{Sampling, Tracer};
use opentelemetry::Context;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Tracer as _, TracerProvider as _};
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};

const ROUNDS: usize = 41;
const SPANS: usize = 20_000;

const PARENT: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
const NAME: Cow<'static, str> = Cow::Borrowed("/jina.JinaSingleDataRequestRPC/process_single_data");

/// One thing that is measured: a name, and a function that does it once.
type Case = (&'static str, Box<dyn Fn()>);

fn main() {
    // cargo adds an option of its own.
    let mut arguments = std::env::args().skip(1).filter(|it| !it.starts_with('-'));
    let only = arguments.next();
    let spans = arguments.next().map(|it| it.parse().expect("a number"));
    for (name, run) in cases() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        match spans {
            Some(spans) => (0..spans).for_each(|_: usize| run()),
            None => println!("{name}: {:.1} ns", median_ns(&run)),
        }
    }
}

fn cases() -> Vec<Case> {
    let none = tracer(0.0);
    let of_caller = none.clone();
    let every = tracer(1.0);
    let caller = TraceContext::parse(PARENT).map(Arc::new);
    let sdk = sdk();
    vec![
        ("no tracer", Box::new(|| server(black_box(None), None))),
        (
            "not recorded, a new trace",
            Box::new(move || server(Some(&none), None)),
        ),
        (
            "not recorded, the caller's trace",
            Box::new(move || server(Some(&of_caller), caller.as_ref())),
        ),
        ("not recorded, by the SDK", Box::new(move || by_sdk(&sdk))),
        (
            "recorded, and dropped",
            Box::new(move || server(Some(&every), None)),
        ),
    ]
}

fn tracer(ratio: f64) -> Tracer {
    let sampling = Sampling {
        ratio,
        follows_parent: true,
    };
    Tracer::new(sampling, drop)
}

/// The span of a request as the gateway makes it.
fn server(tracer: Option<&Tracer>, caller: Option<&Arc<TraceContext>>) {
    let span = tracer.map(|it| it.server(&NAME, caller, SystemTime::now));
    drop(black_box(span));
}

fn sdk() -> SdkTracer {
    let provider = SdkTracerProvider::builder();
    let provider = provider.with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)));
    provider.build().tracer("flow")
}

/// The same request, if the SDK makes a span and decides then that it is not recorded.
fn by_sdk(tracer: &SdkTracer) {
    let builder = SpanBuilder::from_name(NAME)
        .with_kind(SpanKind::Server)
        .with_start_time(SystemTime::now());
    let span = tracer.build_with_context(builder, &Context::new());
    let of = span.span_context();
    let context = Arc::new(TraceContext {
        trace_id: of.trace_id().to_bytes(),
        span_id: of.span_id().to_bytes(),
        is_sampled: of.is_sampled(),
        state: None,
    });
    drop(black_box((Box::new(span), context)));
}

fn median_ns(run: &dyn Fn()) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            (0..SPANS).for_each(|_| run());
            began.elapsed().as_secs_f64() * 1e9 / SPANS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}
