//! The options of `docker_kwargs`, read and typed. `flow-docker` writes them in the engine's form.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Options of a container by the names of Docker's Python SDK, each at most once, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DockerOptions(IndexMap<String, DockerOption>);

/// The value of an option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DockerOption {
    /// A text.
    Text(String),
    /// Texts in order.
    Texts(Vec<String>),
    /// A number; bytes, where it is a size.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// Values by name.
    Pairs(IndexMap<String, String>),
    /// Addresses by the name of a host.
    Hosts(IndexMap<String, String>),
    /// Devices of the machine.
    Devices(Vec<ContainerDevice>),
    /// Limits on resources of processes.
    Ulimits(Vec<Ulimit>),
    /// How the engine keeps the container's log.
    Logging(LogDriver),
}

/// A device of the machine, as a container sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerDevice {
    /// Its path on the machine.
    pub host: String,
    /// Its path in the container.
    pub inside: String,
    /// What the container may do: any of `r` (read), `w` (write) and `m` (create device files).
    pub permissions: String,
}

/// A limit on a resource of processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ulimit {
    /// The resource, such as `nofile`.
    pub name: String,
    /// The limit that a process may raise.
    pub soft: i64,
    /// The limit up to which it may be raised.
    pub hard: i64,
}

/// How an engine keeps the log of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogDriver {
    /// The driver's name, such as `json-file`.
    pub driver: String,
    /// Its options.
    pub options: IndexMap<String, String>,
}

impl DockerOptions {
    /// The text of an option; `None` if it is not set or no text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(DockerOption::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether no option is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The options, each with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &DockerOption)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Sets an option, and returns its value before.
    pub fn set(&mut self, name: &str, value: DockerOption) -> Option<DockerOption> {
        self.0.insert(name.to_owned(), value)
    }

    /// Removes an option that is a text.
    pub(crate) fn take_text(&mut self, name: &str) -> Option<String> {
        self.text(name)?;
        match self.0.shift_remove(name) {
            Some(DockerOption::Text(text)) => Some(text),
            _ => None,
        }
    }
}
