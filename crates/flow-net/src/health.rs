//! What `grpc.health.v1` says of a process.

use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthRpc, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};

/// Whether a process serves; asked by the names of its services, or by none for the whole of it.
#[derive(Debug)]
pub struct Health {
    reporter: HealthReporter,
    services: &'static [&'static str],
}

impl Health {
    /// A process with these services, which does not serve yet, and the service that says so.
    pub async fn new(services: &'static [&'static str]) -> (Self, HealthServer<impl HealthRpc>) {
        let (reporter, service) = health_reporter();
        let health = Self { reporter, services };
        health.say(false).await;
        (health, service)
    }

    /// Says whether the process serves.
    pub async fn say(&self, serving: bool) {
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
