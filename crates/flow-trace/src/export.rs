//! The thread that exports spans. It has a runtime of its own: work on spans takes no time from requests.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use flow_metrics::{Counter, Description, Registry};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::queue::SpanQueue;
use crate::settings::{Protocol, Sampling, TraceSettings};
use crate::tracer::Tracer;

/// The name of the instrumentation in every span.
const SCOPE: &str = "flow";

/// How long the last export may take when the process ends.
const LAST_EXPORT_MAX: Duration = Duration::from_secs(2);

/// The export cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum CannotExport {
    /// Its thread did not start.
    #[error("cannot start the thread that exports spans")]
    Thread(#[from] io::Error),
    /// The collector's address cannot be used.
    #[error("cannot export spans to `{endpoint}`")]
    Endpoint {
        /// The collector's URL.
        endpoint: String,
        /// Why not.
        source: ExporterBuildError,
    },
}

/// The export of a process's spans. When it is dropped, the spans that wait are exported, for at most some seconds.
#[derive(Debug)]
pub struct Exporting {
    tracer: Tracer,
    dropped: Counter,
    stop: Option<oneshot::Sender<()>>,
    ended: Receiver<()>,
}

impl Exporting {
    /// Begins to export.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started, or the collector's address is no URL.
    pub fn start(settings: &TraceSettings) -> Result<Self, CannotExport> {
        let dropped = Counter::default();
        let (queue, spans) = mpsc::channel(settings.queue_max);
        let queue = SpanQueue {
            spans: queue,
            dropped: dropped.clone(),
        };
        let resource = resource(settings);
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler(settings.sampling))
            .with_resource(resource.clone())
            .with_span_processor(queue)
            .build();
        let tracer = Tracer::new(provider.tracer(SCOPE));
        let (stop, stopped) = oneshot::channel();
        let ended = start_thread(
            settings.clone(),
            resource,
            (spans, dropped.clone(), stopped),
        )?;
        Ok(Self {
            tracer,
            dropped,
            stop: Some(stop),
            ended,
        })
    }

    /// Makes the spans that are exported.
    #[must_use]
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Counts the spans that were not exported.
    #[must_use]
    pub fn dropped(&self) -> &Counter {
        &self.dropped
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        if self.stop.take().is_some_and(|stop| stop.send(()).is_err()) {
            tracing::debug!("the thread that exports spans has ended already");
        }
        // Ends with an error when the thread ends: it sends nothing.
        let limit = LAST_EXPORT_MAX + Duration::from_secs(1);
        if self.ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the last spans were not exported in time");
        }
    }
}

/// Registers the number of spans that were not exported.
pub fn register_dropped(registry: &Registry, runtime_name: &str, dropped: &Counter) {
    let description = Description {
        name: "flow_spans_dropped_total",
        help: "Spans that were not exported: the queue was full, or the collector did not take them.",
    };
    let labels = [("runtime_name", runtime_name)];
    registry.register(description, &labels, dropped.clone());
}

type Waiting = (mpsc::Receiver<SpanData>, Counter, oneshot::Receiver<()>);

/// Starts the thread, and returns what ends when it ends.
fn start_thread(
    settings: TraceSettings,
    resource: Resource,
    (spans, dropped, stopped): Waiting,
) -> Result<Receiver<()>, CannotExport> {
    let (built, is_built) = sync_channel(1);
    let (end, ended) = sync_channel::<()>(1);
    let run = move || {
        let _end: SyncSender<()> = end;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(built.send(Err(error.into()))),
        };
        runtime.block_on(async {
            match exporter(&settings, &resource) {
                Ok(exporter) => {
                    drop(built.send(Ok(())));
                    let export = Export {
                        settings,
                        exporter,
                        dropped,
                        is_failing: false,
                    };
                    export.run(spans, stopped).await;
                }
                Err(source) => {
                    let endpoint = settings.endpoint;
                    drop(built.send(Err(CannotExport::Endpoint { endpoint, source })));
                }
            }
        });
    };
    thread::Builder::new()
        .name("trace-export".to_owned())
        .spawn(run)?;
    let ended_early = || Err(io::Error::other("the thread ended").into());
    is_built.recv().unwrap_or_else(|_| ended_early())?;
    Ok(ended)
}

/// What exports batches of spans.
struct Export {
    settings: TraceSettings,
    exporter: SpanExporter,
    dropped: Counter,
    is_failing: bool,
}

impl Export {
    async fn run(
        mut self,
        mut spans: mpsc::Receiver<SpanData>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut is_over = false;
        while !is_over {
            let gathered = gather(&self.settings, &mut spans, &mut stopped).await;
            is_over = gathered.is_last;
            if gathered.spans.is_empty() {
                continue;
            }
            let limit = self.settings.timeout;
            if is_over {
                self.export(gathered.spans, limit.min(LAST_EXPORT_MAX))
                    .await;
                continue;
            }
            let mut exporting = std::pin::pin!(self.export(gathered.spans, limit));
            tokio::select! {
                () = &mut exporting => {}
                _ = &mut stopped => {
                    is_over = true;
                    // What is still waiting would wait behind it.
                    drop(timeout(LAST_EXPORT_MAX, exporting).await);
                }
            }
        }
    }

    async fn export(&mut self, batch: Vec<SpanData>, limit: Duration) {
        let spans = batch.len();
        let cause = match timeout(limit, self.exporter.export(batch)).await {
            Ok(Ok(())) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(
                        collector = self.settings.endpoint,
                        "the collector takes spans again"
                    );
                }
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_elapsed) => format!("no answer within {limit:?}"),
        };
        self.dropped.add(spans);
        if !std::mem::replace(&mut self.is_failing, true) {
            let collector = self.settings.endpoint.as_str();
            tracing::warn!(
                collector,
                cause,
                "the collector does not take spans; they are dropped"
            );
        }
    }
}

/// Spans that are exported at once.
struct Gathered {
    spans: Vec<SpanData>,
    /// Whether the process ends.
    is_last: bool,
}

/// A span, and those that end within the delay after it, as far as they fit; or all that wait, if the process ends.
async fn gather(
    settings: &TraceSettings,
    waiting: &mut mpsc::Receiver<SpanData>,
    stopped: &mut oneshot::Receiver<()>,
) -> Gathered {
    let (mut spans, mut is_last) = (Vec::new(), false);
    let mut until = None;
    while spans.len() < settings.batch_max && !is_last {
        let due = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = &mut *stopped => is_last = true,
            span = waiting.recv() => match span {
                Some(span) => {
                    spans.push(span);
                    until.get_or_insert_with(|| Instant::now() + settings.delay);
                }
                None => is_last = true,
            },
            () = due => break,
        }
    }
    while is_last && let Ok(span) = waiting.try_recv() {
        spans.push(span);
    }
    Gathered { spans, is_last }
}

fn exporter(
    settings: &TraceSettings,
    resource: &Resource,
) -> Result<SpanExporter, ExporterBuildError> {
    let builder = SpanExporter::builder();
    let mut exporter = match settings.protocol {
        Protocol::Grpc => builder
            .with_tonic()
            .with_endpoint(&settings.endpoint)
            .with_timeout(settings.timeout)
            .build()?,
        Protocol::HttpProtobuf => builder
            .with_http()
            .with_http_client(HyperClient::with_default_connector(settings.timeout, None))
            .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
            .with_endpoint(&settings.endpoint)
            .with_timeout(settings.timeout)
            .build()?,
    };
    exporter.set_resource(resource);
    Ok(exporter)
}

fn sampler(sampling: Sampling) -> Sampler {
    let root = match sampling.ratio {
        ratio if ratio >= 1.0 => Sampler::AlwaysOn,
        ratio if ratio <= 0.0 => Sampler::AlwaysOff,
        ratio => Sampler::TraceIdRatioBased(ratio),
    };
    match sampling.follows_parent {
        true => Sampler::ParentBased(Box::new(root)),
        false => root,
    }
}

/// What every span says of its process, besides what `OTEL_RESOURCE_ATTRIBUTES` says.
fn resource(settings: &TraceSettings) -> Resource {
    let name = settings.runtime_name.clone();
    let own = [
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new(
            "service.instance.id",
            format!("{name}@{}", std::process::id()),
        ),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ];
    let resource = Resource::builder().with_attributes(own);
    match settings.is_named {
        true => resource.build(),
        false => resource.with_service_name(name).build(),
    }
}
