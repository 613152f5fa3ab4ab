//! The connection to an engine.

use std::net::IpAddr;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};

use crate::error::EngineError;

/// Where an engine listens if nobody says otherwise.
const HOST_DEFAULT: &str = "unix:///var/run/docker.sock";

/// An engine begins its answer sooner, except that it may first wait for a container's end.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// A Docker engine that answers.
#[derive(Debug, Clone)]
pub struct Engine {
    docker: Docker,
    host: String,
}

impl Engine {
    /// Connects to the engine at this address, written as in DOCKER_HOST; none: where engines are.
    ///
    /// # Errors
    /// If nobody answers there, or not to us.
    pub async fn connect(host: Option<&str>) -> Result<Self, EngineError> {
        let host = host.filter(|it| !it.is_empty()).unwrap_or(HOST_DEFAULT);
        let within = ANSWER_WITHIN.as_secs();
        let docker = if host.starts_with("unix://") {
            Docker::connect_with_unix(host, within, API_DEFAULT_VERSION)
        } else if host.starts_with("tcp://") || host.starts_with("http://") {
            Docker::connect_with_http(host, within, API_DEFAULT_VERSION)
        } else {
            let host = host.to_owned();
            return Err(EngineError::BadHost { host });
        };
        let unheard = |answer| EngineError::of("say its version", host, answer);
        let docker = docker.map_err(unheard)?;
        let docker = docker.negotiate_version().await.map_err(unheard)?;
        Ok(Self {
            docker,
            host: host.to_owned(),
        })
    }

    /// Whether it is on this machine, as far as its address says so.
    #[must_use]
    pub fn is_here(&self) -> bool {
        let Some((_, host)) = self.host.split_once("://") else {
            return false;
        };
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let is_loopback = |ip: IpAddr| ip.is_loopback();
        self.host.starts_with("unix://")
            || name == "localhost"
            || name.trim_matches(['[', ']']).parse().is_ok_and(is_loopback)
    }

    /// The client below, for what this layer has no words for.
    #[must_use]
    pub fn raw(&self) -> &Docker {
        &self.docker
    }

    /// Its address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// An error's meaning, see [`EngineError::of`].
    pub(crate) fn met(
        &self,
        what: impl Into<String>,
        answer: bollard::errors::Error,
    ) -> EngineError {
        EngineError::of(what, &self.host, answer)
    }
}
