//! Probes: how the kubelet finds out whether a pod has started, is ready and lives.
//!
//! The kubelet asks over gRPC, which cannot have TLS, or over HTTP, where it accepts any certificate. It has no
//! certificate of its own and no API key. Where the gateway asks for one, the kubelet only connects.

use std::time::Duration;

use k8s_openapi::api::core::v1::{GRPCAction, HTTPGetAction, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{EXECUTOR, Flow, role};
use crate::render::gateway_health::GatewayHealth;
use crate::render::parts::Workload;

/// Stands for no limit, which a probe does not have.
const FOR_EVER: Duration = Duration::from_secs(24 * 60 * 60);
/// Seconds between two probes of a pod that starts.
const STARTUP_PERIOD: u16 = 2;
/// Whether each executor has been ready.
const READY: &str = "/v2/health/ready";
/// Whether the gateway answers.
const LIVE: &str = "/v2/health/live";

impl Flow<'_> {
    /// The startup probe. The other probes wait until it succeeds for the first time.
    pub(super) fn startup(&self, unit: &Workload) -> Probe {
        let limit = unit.timeout_ready.unwrap_or(FOR_EVER).as_secs();
        let times = limit.div_ceil(STARTUP_PERIOD.into()).max(1);
        Probe {
            period_seconds: Some(STARTUP_PERIOD.into()),
            failure_threshold: Some(i32::try_from(times).unwrap_or(i32::MAX)),
            ..self.probe(unit, READY)
        }
    }

    pub(super) fn readiness(&self, unit: &Workload) -> Probe {
        Probe {
            period_seconds: Some(5),
            failure_threshold: Some(2),
            ..self.probe(unit, READY)
        }
    }

    pub(super) fn liveness(&self, unit: &Workload) -> Probe {
        Probe {
            period_seconds: Some(10),
            failure_threshold: Some(3),
            ..self.probe(unit, LIVE)
        }
    }

    /// A probe of the health service, which flow's and Jina's servers have; over HTTP, of this path.
    fn probe(&self, unit: &Workload, path: &str) -> Probe {
        let health = match role(unit) {
            EXECUTOR => GatewayHealth::Grpc,
            _ => self.health,
        };
        let probe = Probe {
            timeout_seconds: Some(5),
            ..Probe::default()
        };
        let port = IntOrString::Int(unit.port.into());
        match health {
            GatewayHealth::Grpc => Probe {
                grpc: Some(GRPCAction {
                    port: unit.port.into(),
                    service: None,
                }),
                ..probe
            },
            GatewayHealth::Http { has_tls } => Probe {
                http_get: Some(HTTPGetAction {
                    path: Some(path.to_owned()),
                    port,
                    scheme: has_tls.then(|| "HTTPS".to_owned()),
                    ..HTTPGetAction::default()
                }),
                ..probe
            },
            GatewayHealth::Listening => Probe {
                tcp_socket: Some(TCPSocketAction { port, host: None }),
                ..probe
            },
        }
    }
}
