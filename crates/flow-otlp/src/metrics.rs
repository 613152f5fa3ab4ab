//! Exports the values of all metrics from time to time.

mod message;

use std::time::SystemTime;

use flow_metrics::Registry;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use prost::Message;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use self::message::Times;
use crate::batches::send;
use crate::delivery::{Delivery, LAST_EXPORT_MAX};
use crate::resource;
use crate::settings::{Histograms, MetricSettings};

/// The name of the instrumentation.
const SCOPE: &str = "flow";

/// The metrics of a process, and where they go.
pub(crate) struct MetricExport {
    pub(crate) settings: MetricSettings,
    pub(crate) registry: Registry,
    /// Counts the exports that failed. No value is lost by that: the next export has the sums since the start.
    pub(crate) delivery: Delivery,
    pub(crate) resource: ResourceAttributesWithSchema,
    /// When the metrics began to count.
    pub(crate) began: SystemTime,
}

impl MetricExport {
    /// Exports until the process ends, and then once more.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let every = self.settings.interval;
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = ticks.tick() => {}
            }
            let message = self.message();
            let limit = self.settings.timeout;
            if send(&mut self.delivery, (&message, 1, limit), &stop).await {
                return;
            }
        }
        let limit = self.settings.timeout.min(LAST_EXPORT_MAX);
        let message = self.message();
        self.delivery.send(&message, 1, limit).await;
    }

    /// The values of now.
    fn message(&self) -> Vec<u8> {
        let times = Times::new(self.began, SystemTime::now());
        request(self, times).encode_to_vec()
    }
}

fn request(export: &MetricExport, times: Times) -> ExportMetricsServiceRequest {
    let histograms: Histograms = export.settings.histograms;
    let values = export.registry.values();
    let metrics = values.iter();
    let metrics = metrics.map(|values| message::metric(values, times, histograms));
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource::message(&export.resource)),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: SCOPE.to_owned(),
                    ..Default::default()
                }),
                metrics: metrics.collect(),
                ..Default::default()
            }],
            schema_url: export.resource.schema_url.clone().unwrap_or_default(),
        }],
    }
}
