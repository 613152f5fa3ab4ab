//! What every process of flow tells about itself: its services, its version.

use flow_proto::DESCRIPTORS;
use flow_proto::jina::JinaInfoProto;
use tonic::service::Routes;

/// The version of Jina whose wire this is; stock clients look for it.
const JINA_VERSION: &str = "3.34.0";

/// Adds reflection in both versions: stock gateways ask v1alpha of every new address before all else.
///
/// # Panics
///
/// Never: the descriptors are made with the program, and a test reads them.
#[must_use]
pub fn with_reflection(routes: Routes) -> Routes {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = builder().build_v1().expect("the descriptors are generated");
    let v1alpha = builder()
        .build_v1alpha()
        .expect("the descriptors are generated");
    routes.add_service(v1).add_service(v1alpha)
}

/// Versions of this program and the machine it runs on.
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
    fn the_descriptors_can_be_reflected() {
        drop(with_reflection(Routes::default()));
    }
}
