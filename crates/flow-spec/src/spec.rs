//! What a flow file says, before it is checked.
//!
//! Every value has its type and its span; `None` was not written. Inheritance, defaults, names and the graph are
//! decided in `flow/`.

mod config;
pub(crate) mod hub;
mod include;
mod parse;
pub(crate) mod program;
pub(crate) mod python_config;

use crate::diagnostics::{Diagnostics, SourceSpan};
use crate::keys::{
    ContainerOptions, EntryOptions, ExecutorOptions, FlowOptions, GatewayOptions, InheritedOptions,
    LogOptions, MonitoringOptions, Options as _, Section, TelemetryOptions,
};
use crate::values::ConnectMethod;

/// A flow file as it is written, with the problems that were found while it was read.
///
/// [`Flow::check`](crate::Flow::check) turns it into a [`Flow`](crate::Flow) if there are none.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSpec {
    pub(crate) span: SourceSpan,
    pub(crate) options: FlowOptions,
    /// The hub of the environment, where executors are looked up if the file names none.
    pub(crate) hub_variable: Option<String>,
    /// What the gateway inherits from `with`.
    pub(crate) gateway_with: GatewaySpec,
    /// What the executors inherit from `with`.
    pub(crate) executors_with: InheritedSpec,
    pub(crate) gateway: GatewaySpec,
    pub(crate) executors: Vec<ExecutorSpec>,
    pub(crate) diagnostics: Diagnostics,
}

/// Options of the gateway.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct GatewaySpec {
    pub(crate) options: GatewayOptions,
    pub(crate) log: LogOptions,
    pub(crate) monitoring: MonitoringOptions,
    pub(crate) telemetry: TelemetryOptions,
}

/// Options of an executor that `with` may state for all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct InheritedSpec {
    pub(crate) options: InheritedOptions,
    pub(crate) log: LogOptions,
    pub(crate) monitoring: MonitoringOptions,
    pub(crate) telemetry: TelemetryOptions,
    pub(crate) container: ContainerOptions,
}

/// An entry of `executors`.
#[derive(Debug, Clone)]
pub(crate) struct ExecutorSpec {
    pub(crate) span: SourceSpan,
    pub(crate) entry: EntryOptions,
    pub(crate) options: ExecutorOptions,
    pub(crate) inherited: InheritedSpec,
}

impl PartialEq for ExecutorSpec {
    fn eq(&self, other: &Self) -> bool {
        self.entry == other.entry
            && self.options == other.options
            && self.inherited == other.inherited
    }
}

impl ExecutorSpec {
    pub(crate) fn method(&self) -> ConnectMethod {
        let written = self.entry.method.as_ref();
        written.map_or(ConnectMethod::Add, |method| method.value)
    }
}

impl GatewaySpec {
    pub(crate) fn read(section: &Section<'_>, diagnostics: &mut Diagnostics) -> Self {
        Self {
            options: section.options(diagnostics),
            log: section.options(diagnostics),
            monitoring: section.options(diagnostics),
            telemetry: section.options(diagnostics),
        }
    }

    /// These options, and those of `with` that are not written here.
    pub(crate) fn or(&self, with: &Self) -> Self {
        Self {
            options: self.options.or(&with.options),
            log: self.log.or(&with.log),
            monitoring: self.monitoring.or(&with.monitoring),
            telemetry: self.telemetry.or(&with.telemetry),
        }
    }
}

impl InheritedSpec {
    pub(crate) fn read(section: &Section<'_>, diagnostics: &mut Diagnostics) -> Self {
        Self {
            options: section.options(diagnostics),
            log: section.options(diagnostics),
            monitoring: section.options(diagnostics),
            telemetry: section.options(diagnostics),
            container: section.options(diagnostics),
        }
    }

    /// These options, and those of `with` that are not written here.
    pub(crate) fn or(&self, with: &Self) -> Self {
        Self {
            options: self.options.or(&with.options),
            log: self.log.or(&with.log),
            monitoring: self.monitoring.or(&with.monitoring),
            telemetry: self.telemetry.or(&with.telemetry),
            container: self.container.or(&with.container),
        }
    }
}
