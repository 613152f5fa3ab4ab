//! The thread that exports. It has a runtime of its own: work on telemetry takes no time from requests.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime};

use flow_metrics::{Counter, Description, Registry};
use flow_process::RecordsExported;
use flow_trace::Tracer;
use prost::Message;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::batches::Batches;
use crate::client::{BadTarget, CollectorClient};
use crate::delivery::{Delivery, LAST_EXPORT_MAX};
use crate::logs::{note_exporter, take_records};
use crate::metrics::MetricExport;
use crate::resource::resource;
use crate::settings::{
    ExportSettings, ExportTarget, MetricSettings, RecordSettings, Signal, TraceSettings,
};
use crate::spans::{SpanEnvelope, SpanExport, SpanQueue};

/// The export cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum CannotExport {
    /// Its thread did not start.
    #[error("cannot start the thread that exports telemetry")]
    Thread(#[from] io::Error),
    /// The collector cannot be used as the settings say.
    #[error("cannot export {what} to `{endpoint}`")]
    Target {
        /// What should be exported.
        what: &'static str,
        /// The collector's URL.
        endpoint: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The export of a process's telemetry. When it is dropped, what waits is exported, for at most some seconds.
#[derive(Debug)]
pub struct Exporting {
    tracer: Option<Tracer>,
    records: Option<RecordsExported>,
    stop: CancellationToken,
    ended: Receiver<()>,
}

impl Exporting {
    /// Begins to export what the settings ask for; `None` if that is nothing. What is lost is counted in the registry, which
    /// is also the one whose metrics are exported.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started, or a collector's address or certificates cannot be used.
    pub fn start(
        settings: &ExportSettings,
        registry: Option<&Registry>,
    ) -> Result<Option<Self>, CannotExport> {
        let stop = CancellationToken::new();
        let process = Process {
            settings,
            stop: &stop,
        };
        let mut work = Vec::new();
        let register = |name, help, lost: &Counter| {
            let description = Description { name, help };
            let labels = [("runtime_name", settings.runtime_name.as_str())];
            if let Some(registry) = registry {
                registry.register(description, &labels, lost.clone());
            }
        };
        let mut tracer = None;
        if let Some(traces) = &settings.traces {
            let (made, spans) = spans(process, traces)?;
            register(
                "flow_spans_dropped_total",
                "Spans that were not exported: the queue was full, or the collector did not take them.",
                &spans.lost,
            );
            tracer = Some(made);
            work.push(spans.work);
        }
        if let (Some(metrics), Some(registry)) = (&settings.metrics, registry) {
            let metrics = metrics_work(process, metrics, registry)?;
            register(
                "flow_metric_exports_failed_total",
                "Exports of metrics that the collector did not take. The next one has the same values, and newer ones.",
                &metrics.lost,
            );
            work.push(metrics.work);
        }
        let mut records = None;
        if let Some(logs) = &settings.logs {
            let (taken, logs) = log_records(process, logs)?;
            register(
                "flow_log_records_dropped_total",
                "Log records that were not exported: the queue was full, or the collector did not take them.",
                &logs.lost,
            );
            records = Some(taken);
            work.push(logs.work);
        }
        if work.is_empty() {
            return Ok(None);
        }
        let ended = start_thread(work)?;
        Ok(Some(Self {
            tracer,
            records,
            stop,
            ended,
        }))
    }

    /// Makes the spans that are exported; `None` if none are.
    #[must_use]
    pub fn tracer(&self) -> Option<&Tracer> {
        self.tracer.as_ref()
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        self.records = None;
        self.stop.cancel();
        // Ends with an error when the thread ends: it sends nothing.
        let limit = LAST_EXPORT_MAX + Duration::from_secs(1);
        if self.ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the last telemetry was not exported in time");
        }
    }
}

/// The export of one signal, which ends soon after the token is cancelled.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A process that exports, and the token that ends it.
#[derive(Clone, Copy)]
struct Process<'p> {
    settings: &'p ExportSettings,
    stop: &'p CancellationToken,
}

/// The export of one signal, and what counts its losses.
struct Export {
    work: Work,
    lost: Counter,
}

fn delivery(
    (signal, what): (Signal, &'static str),
    target: &ExportTarget,
    lost: &Counter,
) -> Result<Delivery, CannotExport> {
    let client = CollectorClient::new(signal, target.clone());
    let client = client.map_err(|error: BadTarget| CannotExport::Target {
        what,
        endpoint: target.endpoint.clone(),
        source: error.into(),
    })?;
    Ok(Delivery::new(client, what, lost.clone()))
}

fn spans(process: Process<'_>, traces: &TraceSettings) -> Result<(Tracer, Export), CannotExport> {
    let lost = Counter::default();
    let delivery = delivery((Signal::Traces, "spans"), &traces.target, &lost)?;
    let queue = Arc::new(SpanQueue::new(traces.batches, lost.clone()));
    let export = SpanExport {
        queue: queue.clone(),
        delivery,
        envelope: SpanEnvelope::new(&resource(process.settings)),
    };
    let tracer = Tracer::new(traces.sampling, move |span| queue.push(&span));
    let work = Box::pin(export.run(process.stop.clone()));
    Ok((tracer, Export { work, lost }))
}

fn metrics_work(
    process: Process<'_>,
    metrics: &MetricSettings,
    registry: &Registry,
) -> Result<Export, CannotExport> {
    let lost = Counter::default();
    let export = MetricExport {
        delivery: delivery((Signal::Metrics, "metrics"), &metrics.target, &lost)?,
        settings: metrics.clone(),
        registry: registry.clone(),
        resource: resource(process.settings),
        began: SystemTime::now(),
    };
    let work = Box::pin(export.run(process.stop.clone()));
    Ok(Export { work, lost })
}

fn log_records(
    process: Process<'_>,
    logs: &RecordSettings,
) -> Result<(RecordsExported, Export), CannotExport> {
    let lost = Counter::default();
    let delivery = delivery((Signal::Logs, "log records"), &logs.target, &lost)?;
    let (taken, waiting) = take_records(logs.batches.queue_max, lost.clone());
    let resource = resource(process.settings);
    let batches = Batches {
        settings: logs.batches,
        waiting,
        delivery,
        encode: move |records| crate::logs::request(records, &resource).encode_to_vec(),
    };
    let work = Box::pin(batches.run(process.stop.clone()));
    Ok((taken, Export { work, lost }))
}

/// Starts the thread, and returns what ends when it ends.
fn start_thread(work: Vec<Work>) -> io::Result<Receiver<()>> {
    let (end, ended) = sync_channel::<()>(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let run = move || {
        let _end: SyncSender<()> = end;
        note_exporter();
        runtime.block_on(async {
            let all: JoinSet<()> = work.into_iter().collect();
            all.join_all().await;
        });
        // What a connection still does is of no use.
        runtime.shutdown_background();
    };
    thread::Builder::new()
        .name("telemetry".to_owned())
        .spawn(run)?;
    Ok(ended)
}
