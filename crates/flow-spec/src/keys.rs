//! Every key of the flow file, in one table.
//!
//! A row of a table (`keys/tables/`) has the name and the type of a key, how its value is written, and what the
//! reference page says about it. The parser, the JSON schema (`schema.rs`), the reference page (`reference.rs`)
//! and the struct of options that [`Flow::check`](crate::Flow::check) works with are made from the rows, so that
//! they cannot differ, and code that names a key that is not in the table does not compile.

mod key;
mod mappings;
mod options;
mod reference;
mod schema;
mod section;
mod tables;

#[cfg(test)]
pub(crate) use key::KeySupport;
pub(crate) use key::{Key, TypedKey, ignored, not_yet, refused, row, without_effect};
pub(crate) use mappings::{
    DEPLOYMENT_MAPPING, DEPLOYMENT_OPTIONS, ENTRY_MAPPING, GATEWAY_CONFIG_MAPPING, GATEWAY_MAPPING,
    TOP_MAPPING, WITH_MAPPING, is_for_gateways_only, report_unknown,
};
pub(crate) use options::{Options, options};
pub use reference::key_reference;
pub use schema::json_schema;
pub(crate) use section::{Mapping, Section};
pub(crate) use tables::batching::{BATCHING_MAPPING, BatchingOptions};
pub(crate) use tables::config::{CONFIG, CONFIG_MAPPING, ConfigOptions};
pub(crate) use tables::container::{CONTAINER, ContainerOptions};
pub(crate) use tables::deployment::{DEPLOYMENT, GATEWAY_CONFIG, GatewayConfigOptions};
pub(crate) use tables::entry::EntryOptions;
pub(crate) use tables::executor::{EXECUTOR, ExecutorOptions, INHERITED, InheritedOptions};
pub(crate) use tables::flow::FlowOptions;
pub(crate) use tables::gateway::{GATEWAY, GatewayOptions};
pub(crate) use tables::log::LogOptions;
pub(crate) use tables::monitoring::{MONITORING, MonitoringOptions, TELEMETRY, TelemetryOptions};
pub(crate) use tables::sandbox::{SANDBOX_MAPPING, SandboxOptions};
pub(crate) use tables::top::{TOP, TopOptions};

#[cfg(test)]
mod tests;
