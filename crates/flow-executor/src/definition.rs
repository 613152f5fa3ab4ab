//! Executors as values: what the runtime needs to serve one, whether a Rust type or something else describes it.

use std::fmt;

use flow_core::Models;
use flow_process::{Facts, KeepsState};
use serde_json::{Map, Value};

use crate::options::{self, BadOptions};
use crate::sdk::{Endpoints, Executor, Fork, LoadContext, LoadError, ShortCalls};

/// An executor to serve: its endpoints, and how it is loaded.
///
/// [`Definition::of`] makes it of a type that implements [`Executor`]. What is known only when the program runs, such as
/// an executor in another language, uses [`Definition::new`].
pub struct Definition<E> {
    pub(crate) class: String,
    pub(crate) endpoints: Endpoints<E>,
    pub(crate) read_options: Box<ReadOptions<E>>,
    pub(crate) hooks: Hooks<E>,
    pub(crate) raises_exceptions: bool,
}

/// Checks the options, and returns what loads the executor with them on a worker's thread.
type ReadOptions<E> = dyn FnOnce(Map<String, Value>) -> Result<Box<Load<E>>, BadOptions> + Send;

/// Loads the executor.
pub(crate) type Load<E> = dyn FnOnce(&LoadContext) -> Result<E, LoadError> + Send;

/// What the workers ask a loaded executor; see [`Executor`].
pub(crate) struct Hooks<E> {
    pub(crate) fork: fn(&E) -> Option<Fork<E>>,
    pub(crate) facts: fn(&E) -> Facts,
    pub(crate) models: fn(&E) -> Models,
    pub(crate) keeps_state: fn(&E) -> KeepsState,
    pub(crate) short_calls: fn(&E) -> ShortCalls<E>,
}

impl<E: 'static> Definition<E> {
    /// An executor whose class has this name. `load` gets the options of the flow file, and runs on a worker's thread.
    pub fn new(
        class: impl Into<String>,
        endpoints: Endpoints<E>,
        load: impl FnOnce(Map<String, Value>, &LoadContext) -> Result<E, LoadError> + Send + 'static,
    ) -> Self {
        Self {
            class: class.into(),
            endpoints,
            read_options: Box::new(move |with| Ok(Box::new(move |context| load(with, context)))),
            hooks: Hooks {
                fork: |_| None,
                facts: |_| Facts::new(),
                models: |_| Models::new(),
                keeps_state: |_| KeepsState::Nowhere,
                short_calls: |_| ShortCalls::on_worker(),
            },
            raises_exceptions: false,
        }
    }

    /// How further workers get their executors; see [`Executor::fork`].
    #[must_use]
    pub fn fork(mut self, fork: fn(&E) -> Option<Fork<E>>) -> Self {
        self.hooks.fork = fork;
        self
    }

    /// What it reports about itself when it is ready; see [`Executor::facts`].
    #[must_use]
    pub fn facts(mut self, facts: fn(&E) -> Facts) -> Self {
        self.hooks.facts = facts;
        self
    }

    /// Lets `exit_on_exceptions` name exceptions of the executor's own language.
    #[must_use]
    pub fn raises_exceptions(mut self) -> Self {
        self.raises_exceptions = true;
        self
    }
}

impl<E: Executor> Definition<E> {
    /// The executor that a type describes.
    #[must_use]
    pub fn of() -> Self {
        Self {
            class: type_name::<E>().to_owned(),
            endpoints: E::endpoints(),
            read_options: Box::new(|with| {
                let with = options::read::<E>(with)?;
                Ok(Box::new(move |context| E::load(with, context)))
            }),
            hooks: Hooks {
                fork: E::fork,
                facts: E::facts,
                models: E::models,
                keeps_state: E::keeps_state,
                short_calls: E::short_calls,
            },
            raises_exceptions: false,
        }
    }
}

impl<E> Clone for Hooks<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Hooks<E> {}

impl<E> fmt::Debug for Definition<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

/// The name of a type without its modules and parameters.
fn type_name<E>() -> &'static str {
    let name = std::any::type_name::<E>();
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name)
}
