//! From the text of a flow file to a plan that can run.
//!
//! ```text
//! text ──► FlowSpec   what is written        yaml/, forms/, keys/, spec/
//!      ──► Flow       checked and complete   flow/: reports all problems at once
//!      ──► Plan       nodes in order         plan.rs: cannot fail
//!      ──► Placement  with addresses         plan/placement.rs: cannot fail
//! ```
//!
//! - `yaml/` reads text into a tree in which every value has its span, and replaces references to variables.
//! - `keys/` has one table of all keys. The parser, the JSON schema and the reference page are made from it.
//! - `forms/` turns the value of a key into a typed value, or a problem.
//! - `spec/` reads the mappings of a flow file with the table.
//! - `flow/` decides inheritance, defaults, names and the graph.
//! - `plot/` draws a plan.
//!
//! Nothing here reads a file, the environment or a clock: text and variables are arguments. The format is Jina's Flow
//! YAML, read strictly: a key that flow does not know or does not support is a problem, never ignored.
//!
//! ```
//! use flow_spec::{Plan, TextFile, Variables, load};
//!
//! let text = "jtype: Flow\nexecutors: [{name: encoder, uses: sentence-encoder}]";
//! let file = TextFile { path: "encode.yml".as_ref(), text };
//! let checked = load(file, &Variables::default())?;
//! let plan = Plan::from(checked.flow);
//! assert_eq!(plan.nodes[0].name.as_str(), "encoder");
//! # Ok::<(), flow_spec::LoadError>(())
//! ```
#![warn(missing_docs)]

mod context;
mod diagnostics;
mod error;
mod flow;
mod forms;
mod keys;
mod plan;
pub mod plot;
#[cfg(test)]
mod print;
mod service_address;
mod spec;
mod values;
mod yaml;

pub use context::{
    AnyExecutor, Context, ExecutorDescription, Executors, Files, FoundExecutor, NoFiles, NotFound,
    TextFile,
};
pub use diagnostics::{Position, Problem, Problems, SourceSpan};
pub use error::{LoadError, SyntaxError};
pub use flow::{
    ApiKeys, CallTls, Calls, CertificateFiles, Checked, ClientAuthorities, Collector, Container,
    Flow, Gateway, GatewayLimits, GatewayPort, GatewayTls, HttpOptions, Jwt, JwtKeys, LocalRun,
    ModelTarget, Monitoring, RequestLogging, Run, Telemetry,
};
pub use flow_core::{BadOption, Secret};
pub use forms::engine_name;
pub use keys::{json_schema, key_reference};
pub use plan::{
    Address, DocumentSource, NodeAddresses, NodeIdx, NodePlan, Placement, Plan, TcpAddress,
    UnsetVariable, metadata_reference,
};
pub use service_address::ServiceAddress;
pub use spec::FlowSpec;
pub use spec::hub::{BadHubName, HUB_VARIABLE, Hub, HubName};
pub use spec::program::ExecutorConfig;
pub use spec::python_config::PythonConfig;
pub use values::{
    BatchMetric, BatchingRule, ClientCertificates, Compression, Console, ContainerDevice, Cors,
    DockerOption, DockerOptions, Env, ExposedEndpoint, Gpus, Hedge, InheritEnv, LogDriver,
    LogStyle, Millicpus, Poll, Polling, Protocol, PythonSource, Retries, Sandbox, Ulimit, Uses,
    Volume, Workers,
};
pub use yaml::{Variables, yaml_to_json};

/// Reads and checks a flow file that names no other files. Its executors are not looked for.
///
/// # Errors
/// If the text is not YAML, or with all problems that it has as a flow.
pub fn load(file: TextFile<'_>, variables: &Variables) -> Result<Checked, LoadError> {
    let context = Context {
        variables,
        files: &NoFiles,
        executors: &AnyExecutor,
        lenient: false,
    };
    load_with(file, &context)
}

/// Reads and checks a flow file and everything that it refers to.
///
/// # Errors
/// If the text is not YAML, or with all problems that it has as a flow.
pub fn load_with(file: TextFile<'_>, context: &Context<'_>) -> Result<Checked, LoadError> {
    let path = || file.path.to_owned();
    let spec = FlowSpec::parse_with(file.text, context.variables, context.files);
    let spec = spec.map_err(|source| LoadError::Syntax {
        path: path(),
        source,
    })?;
    Flow::check_with(spec, context).map_err(|problems| LoadError::Invalid {
        path: path(),
        problems,
    })
}
