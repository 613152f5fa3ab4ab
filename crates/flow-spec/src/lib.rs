//! From the text of a flow file to a checked plan.
//!
//! ```text
//! text ──► FlowSpec   what was written   parse.rs, substitute.rs
//!      ──► Flow       what is true       check.rs: every problem at once
//!      ──► Plan       what to do         plan.rs: cannot fail
//!      ──► Placement  where              place.rs: cannot fail
//! ```
//!
//! Nothing in here reads a file, the environment or a clock: text and variables are arguments.
//! The dialect is Jina's Flow YAML, read strictly: what flow does not know or does not do yet is
//! a problem, never ignored.
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

mod address;
mod check;
mod config;
mod container;
mod executors;
mod files;
mod flow;
mod graph;
mod hub;
mod keys;
mod parse;
mod place;
mod plan;
pub mod plot;
mod problem;
mod read;
mod reference;
mod schema;
mod section;
mod settings;
mod spec;
mod substitute;
mod suggest;
mod yaml;

use std::path::Path;

pub use address::Address;
pub use check::Checked;
pub use config::ExecutorConfig;
pub use container::{Container, Gpus, Volume};
pub use executors::{AnyExecutor, Executors, Found, NotFound};
pub use files::{Files, NoFiles};
pub use flow::Flow;
pub use flow_core::BadOption;
pub use hub::{BadHubName, HUB_VARIABLE, Hub, HubName};
pub use place::{Placement, Places};
pub use plan::{NodeIdx, NodePlan, Plan, Source};
pub use problem::{LoadError, Place, Position, Problem, Problems, SyntaxError};
pub use reference::key_reference;
pub use schema::json_schema;
pub use settings::{
    Batching, Calls, Env, Gateway, LocalRun, Log, Metric, Monitoring, Poll, Polling, Protocol,
    Retries, Run, Uses, Workers,
};
pub use spec::FlowSpec;
pub use substitute::Variables;

/// A file that somebody else has read.
#[derive(Debug, Clone, Copy)]
pub struct TextFile<'f> {
    /// Its path, for messages only.
    pub path: &'f Path,
    /// What it holds.
    pub text: &'f str,
}

/// What a flow file refers to besides its own text.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// Values of its references, such as `${{ ENV.X }}`.
    pub variables: &'c Variables,
    /// The Deployments and the gateway's config that it names.
    pub files: &'c dyn Files,
    /// The executors that it names.
    pub executors: &'c dyn Executors,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Context");
        shown
            .field("variables", self.variables)
            .finish_non_exhaustive()
    }
}

/// Reads and checks a flow file that names no other files. Its executors are not looked for.
///
/// # Errors
/// If the text is not YAML, or with all problems that it has as a flow.
pub fn load(file: TextFile<'_>, variables: &Variables) -> Result<Checked, LoadError> {
    let context = Context {
        variables,
        files: &NoFiles,
        executors: &AnyExecutor,
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
