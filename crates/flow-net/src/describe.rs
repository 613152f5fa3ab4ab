//! What each process of flow reports about itself: services and version.

use flow_proto::DESCRIPTORS;
use flow_proto::jina::JinaInfoProto;
use tonic_reflection::server::Builder;

use crate::GrpcRoutes;

const HEALTH: &str = "grpc.health.v1.Health";

/// The version of Jina whose protocol this is; stock clients read it.
const JINA_VERSION: &str = "3.34.0";

/// Adds reflection of these services and of health, in both versions: the first request of stock gateways to a new address is one for v1alpha.
///
/// # Panics
///
/// Never: the descriptors are part of the program, and a test reads them.
#[must_use]
pub fn with_reflection(routes: GrpcRoutes, services: &[&str]) -> GrpcRoutes {
    let builder = || {
        let builder = Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .with_service_name(HEALTH);
        let advertise = |builder: Builder<'static>, name: &&str| builder.with_service_name(*name);
        services.iter().fold(builder, advertise)
    };
    let v1 = builder().build_v1().expect("the descriptors are generated");
    let v1alpha = builder()
        .build_v1alpha()
        .expect("the descriptors are generated");
    routes.add_service(v1).add_service(v1alpha)
}

/// The versions of this program and its platform.
#[must_use]
pub fn info() -> JinaInfoProto {
    let facts = [
        ("jina", JINA_VERSION),
        ("flow", env!("CARGO_PKG_VERSION")),
        ("platform", std::env::consts::OS),
        ("architecture", std::env::consts::ARCH),
    ];
    let jina = facts
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    JinaInfoProto {
        jina,
        ..JinaInfoProto::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptors_are_valid_for_reflection() {
        drop(with_reflection(GrpcRoutes::default(), &["jina.JinaRPC"]));
    }
}
