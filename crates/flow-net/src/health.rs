//! The health of a process, as `grpc.health.v1` reports it.

use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthRpc, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};

/// Whether a process serves. Clients ask for one of its services by name, or for the whole process.
#[derive(Debug, Clone)]
pub struct Health {
    reporter: HealthReporter,
    services: &'static [&'static str],
}

impl Health {
    /// The health of a process with these services, which does not serve yet, and the gRPC service that reports it.
    pub async fn new(services: &'static [&'static str]) -> (Self, HealthServer<impl HealthRpc>) {
        let (reporter, service) = health_reporter();
        let health = Self { reporter, services };
        health.set_serving(false).await;
        (health, service)
    }

    /// Sets whether the process serves.
    pub async fn set_serving(&self, serving: bool) {
        let status = if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for service in self.services.iter().chain(&[""]) {
            self.reporter.set_service_status(*service, status).await;
        }
    }
}
