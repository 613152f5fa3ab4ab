//! Executors that a flow file names. The caller knows which exist, and which options they take.

use flow_core::BadOption;
use serde_json::{Map, Value};

use crate::values::{Env, Uses};

/// Knows the executors that a flow file can name.
///
/// Nothing is started or loaded to answer these questions. `env` holds the variables that the file sets for
/// the executor's processes.
pub trait Executors {
    /// Finds what `uses` names.
    ///
    /// # Errors
    /// If there is no such executor.
    fn find(&self, uses: &Uses, env: &Env) -> Result<FoundExecutor, NotFound>;

    /// Finds an executor by the name that its own `config.yml` gives, which is never that of a folder.
    ///
    /// # Errors
    /// If there is no such executor.
    fn find_named(&self, name: &str, env: &Env) -> Result<FoundExecutor, NotFound>;

    /// A folder that holds an executor of the same name as one that was found elsewhere, as `uses` would name
    /// the folder.
    fn namesake(&self, name: &str) -> Option<String>;

    /// Finds what is wrong with the options of a [built-in](FoundExecutor::BuiltIn) executor.
    fn check_options(&self, name: &str, options: &Map<String, Value>) -> Vec<BadOption>;

    /// Whether a name is that of a [built-in](FoundExecutor::BuiltIn) executor, or of none, which is a problem of its own.
    fn may_be_built_in(&self, name: &str, env: &Env) -> bool {
        !matches!(
            self.find_named(name, env),
            Ok(FoundExecutor::Program | FoundExecutor::Config { .. })
        )
    }

    /// Describes a [built-in](FoundExecutor::BuiltIn) executor; `None` if nothing more is known of it.
    fn describe(&self, name: &str) -> Option<ExecutorDescription>;
}

/// What is known of a built-in executor before it is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutorDescription {
    /// Its endpoints, each with a method.
    pub endpoints: Vec<String>,
    /// Whether each of its processes keeps what requests change, such as an index.
    pub keeps_state: bool,
}

/// An executor that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundExecutor {
    /// It is built in, under this name, and its options can be checked.
    BuiltIn(String),
    /// It is a program, a package or an image; nothing more is known of it.
    Program,
    /// A file says which executor it is.
    Config {
        /// The path of the file, as messages show it.
        path: String,
        /// What the file holds.
        text: String,
        /// The file lies in a package, which is built unless the executor is built in.
        is_package: bool,
    },
}

/// Why an executor was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFound {
    /// What is wrong.
    pub message: String,
    /// What to do about it, where that can be guessed.
    pub remedy: Option<String>,
}

/// Finds every executor, and knows nothing more of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnyExecutor;

impl Executors for AnyExecutor {
    fn find(&self, _uses: &Uses, _env: &Env) -> Result<FoundExecutor, NotFound> {
        Ok(FoundExecutor::Program)
    }

    fn find_named(&self, _name: &str, _env: &Env) -> Result<FoundExecutor, NotFound> {
        Ok(FoundExecutor::Program)
    }

    fn may_be_built_in(&self, _name: &str, _env: &Env) -> bool {
        true
    }

    fn namesake(&self, _name: &str) -> Option<String> {
        None
    }

    fn check_options(&self, _name: &str, _options: &Map<String, Value>) -> Vec<BadOption> {
        Vec::new()
    }

    fn describe(&self, _name: &str) -> Option<ExecutorDescription> {
        None
    }
}
