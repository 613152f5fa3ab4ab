//! The connection to an engine.

use std::net::IpAddr;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};

use crate::error::EngineError;

/// The default address of an engine.
const HOST_DEFAULT: &str = "unix:///var/run/docker.sock";

/// Time for an engine to begin its response. Waits for a container's exit take longer, and are repeated.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);

/// A connection to a Docker engine.
#[derive(Debug, Clone)]
pub struct Engine {
    docker: Docker,
    host: String,
}

impl Engine {
    /// Connects to the engine at this address, in the form of DOCKER_HOST; `None` for the default address.
    ///
    /// # Errors
    /// If no engine responds there, or this user may not use it.
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
        let failed = |error| EngineError::new("report its version", host, error);
        let docker = docker.map_err(failed)?;
        let docker = docker.negotiate_version().await.map_err(failed)?;
        Ok(Self {
            docker,
            host: host.to_owned(),
        })
    }

    /// Whether it is on this machine, judged by its address.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let Some((_, host)) = self.host.split_once("://") else {
            return false;
        };
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let is_loopback = |ip: IpAddr| ip.is_loopback();
        self.host.starts_with("unix://")
            || name == "localhost"
            || name.trim_matches(['[', ']']).parse().is_ok_and(is_loopback)
    }

    /// The client of the engine's API.
    pub(crate) fn raw(&self) -> &Docker {
        &self.docker
    }

    /// Its address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its version and that of its API, as `28.3.2, API 1.51`.
    ///
    /// # Errors
    /// If it does not say so.
    pub async fn version(&self) -> Result<String, EngineError> {
        let version = self.docker.version().await;
        let version = version.map_err(|error| self.api_error("report its version", error))?;
        let part = |part: Option<String>| part.unwrap_or_else(|| "unknown".to_owned());
        Ok(format!(
            "{}, API {}",
            part(version.version),
            part(version.api_version)
        ))
    }

    /// The meaning of an error, see [`EngineError::new`].
    pub(crate) fn api_error(
        &self,
        action: impl Into<String>,
        error: bollard::errors::Error,
    ) -> EngineError {
        EngineError::new(action, &self.host, error)
    }
}
