//! The attributes of the process that every export has, besides those of `OTEL_RESOURCE_ATTRIBUTES`.

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::resource::v1 as proto;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::Resource;

use crate::settings::ExportSettings;

/// The process that exports.
pub(crate) fn resource(settings: &ExportSettings) -> ResourceAttributesWithSchema {
    let name = settings.runtime_name.clone();
    let own = [
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new(
            "service.instance.id",
            format!("{name}@{}", std::process::id()),
        ),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ];
    let place = settings.place.attributes();
    let place = place.map(|(name, value)| KeyValue::new(name, value.to_owned()));
    let resource = Resource::builder()
        .with_attributes(own)
        .with_attributes(place);
    let resource = match settings.is_named {
        true => resource.build(),
        false => resource.with_service_name(name).build(),
    };
    ResourceAttributesWithSchema::from(&resource)
}

/// The same as a message.
pub(crate) fn message(resource: &ResourceAttributesWithSchema) -> proto::Resource {
    proto::Resource {
        attributes: resource.attributes.0.clone(),
        ..Default::default()
    }
}
