//! Errors of a Docker engine, distinguished by what a person would do about them.

use std::error::Error;
use std::io;

use bollard::errors::Error as ApiError;

/// Why an engine did not execute a request.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No engine responds.
    #[error(
        "no Docker engine answers at `{host}` (start it, such as with `systemctl start docker`, or say \
         with DOCKER_HOST where it is)"
    )]
    NoEngine {
        /// The address.
        host: String,
        /// The error of the connection.
        source: Box<ApiError>,
    },
    /// This user may not use the engine's socket.
    #[error(
        "this user may not talk to the Docker engine at `{host}` (add it to the group `docker` with \
         `sudo usermod -aG docker $USER` and log in again, or run a rootless engine)"
    )]
    NoPermission {
        /// The engine's address.
        host: String,
        /// The error of the connection.
        source: Box<ApiError>,
    },
    /// The address has no known form.
    #[error(
        "`{host}` is not the address of a Docker engine that flow can use (write `unix:///path`, or \
         `tcp://host:port` without TLS)"
    )]
    BadHost {
        /// The address.
        host: String,
    },
    /// The engine is on another machine, so its containers cannot be reached.
    #[error(
        "the Docker engine at `{host}` is on another machine, where the flow cannot reach its containers \
         (start the flow there, or add the executor as `external`)"
    )]
    Elsewhere {
        /// The engine's address.
        host: String,
    },
    /// The engine has no such image.
    #[error("the Docker engine has no image `{image}` (pull or build it first)")]
    NoImage {
        /// The image's name.
        image: String,
    },
    /// The image could not be pulled.
    #[error("cannot pull the image `{image}`: {message}{}", pull_remedy(message))]
    Pull {
        /// The image's name.
        image: String,
        /// The message of the engine or the registry.
        message: String,
    },
    /// The image could not be pushed.
    #[error("cannot push the image `{image}`: {message}{}", pull_remedy(message))]
    Push {
        /// The image's name.
        image: String,
        /// The message of the engine or the registry.
        message: String,
    },
    /// The image could not be built.
    #[error("cannot build the image `{image}`: {message}")]
    Build {
        /// The name of the image.
        image: String,
        /// The engine's message.
        message: String,
    },
    /// Another program uses the port.
    #[error("{port} is in use on this machine (stop the program that uses it, or choose another port)", port = port.map_or("a port".to_owned(), |it| format!("port {it}")))]
    PortTaken {
        /// The port, if the engine named it.
        port: Option<u16>,
        /// The engine's message.
        message: String,
    },
    /// GPUs were requested, and the engine cannot provide any.
    #[error(
        "the Docker engine has no NVIDIA runtime, so containers get no GPUs: {message} (install \
         nvidia-container-toolkit, then `sudo nvidia-ctk runtime configure --runtime=docker` and \
         `sudo systemctl restart docker`; or leave out `gpus`)"
    )]
    NoNvidia {
        /// The engine's message.
        message: String,
    },
    /// The engine refused the request.
    #[error("the Docker engine refuses to {what}: {message}")]
    Refused {
        /// The request.
        what: String,
        /// Its HTTP status.
        status: u16,
        /// The engine's message.
        message: String,
    },
    /// The response is not one of a Docker engine.
    #[error("the Docker engine did not {what}")]
    Broken {
        /// The request.
        what: String,
        /// The error of the client.
        source: Box<ApiError>,
    },
}

impl EngineError {
    /// Classifies an error of the API that occurred while `what` was requested.
    pub(crate) fn new(what: impl Into<String>, host: &str, error: ApiError) -> Self {
        let what = what.into();
        match error {
            ApiError::DockerResponseServerError {
                status_code,
                message,
            } => Self::refused(what, status_code, message),
            error => Self::not_delivered(what, host, error),
        }
    }

    fn refused(what: String, status: u16, message: String) -> Self {
        if lacks_nvidia(&message) {
            return Self::NoNvidia { message };
        }
        if is_port_taken(&message) {
            return Self::PortTaken {
                port: port_in(&message),
                message,
            };
        }
        Self::Refused {
            what,
            status,
            message,
        }
    }

    /// Classifies the error of a request that got no response.
    fn not_delivered(what: String, host: &str, error: ApiError) -> Self {
        let host = host.to_owned();
        let kind = io_kind(&error);
        let source = Box::new(error);
        match (kind, &*source) {
            (_, ApiError::SocketNotFoundError(_)) => Self::NoEngine { host, source },
            (Some(io::ErrorKind::PermissionDenied), _) => Self::NoPermission { host, source },
            (
                Some(
                    io::ErrorKind::NotFound
                    | io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::TimedOut,
                ),
                _,
            )
            | (_, ApiError::RequestTimeoutError) => Self::NoEngine { host, source },
            _ => Self::Broken { what, source },
        }
    }
}

/// The kernel's error on a connection, at any depth of the causes.
fn io_kind(error: &ApiError) -> Option<io::ErrorKind> {
    // This error hides the I/O error, and shows only its causes.
    if let ApiError::IOError { err } = error {
        return Some(err.kind());
    }
    let mut cause: Option<&dyn Error> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        cause = error.source();
    }
    None
}

/// Whether a message means that there is no NVIDIA runtime: one of the engine's, or of the runtime's hook.
fn lacks_nvidia(message: &str) -> bool {
    let names_driver = message.contains("could not select device driver");
    names_driver || message.contains("nvidia-container-cli") || message.contains("nvidia-ctk")
}

fn is_port_taken(message: &str) -> bool {
    message.contains("port is already allocated") || message.contains("address already in use")
}

/// The port in a message: `Bind for 127.0.0.1:8080 failed: port is …`, `listen tcp4 0.0.0.0:80: …`.
fn port_in(message: &str) -> Option<u16> {
    let mut parts = message.split(|c: char| c.is_whitespace() || c == ',');
    parts.find_map(|part| {
        let (_, port) = part.trim_end_matches(':').rsplit_once(':')?;
        port.parse().ok()
    })
}

/// Advice for usual errors of registries.
fn pull_remedy(message: &str) -> &'static str {
    let message = message.to_ascii_lowercase();
    let has = |part: &str| message.contains(part);
    if has("unauthorized") || has("authentication") || has("credentials") || has("denied") {
        " (if the registry needs a password, run `docker login` with the registry's name)"
    } else if has("manifest unknown") || has("not found") {
        " (check the name and its tag)"
    } else if has("no such host") || has("i/o timeout") || has("connection refused") {
        " (check that this machine can reach the registry)"
    } else if has("server gave http response to https") {
        " (name the registry under `insecure-registries` of the engine if it is meant to be without TLS)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response_error(message: &str) -> EngineError {
        let error = ApiError::DockerResponseServerError {
            status_code: 500,
            message: message.to_owned(),
        };
        EngineError::new("start a container", "unix:///x", error)
    }

    #[test]
    fn a_port_in_use_is_named() {
        for message in [
            "driver failed programming external connectivity on endpoint x (1f): Bind for \
             127.0.0.1:8080 failed: port is already allocated",
            "driver failed programming external connectivity on endpoint x (1f): Error starting \
             userland proxy: listen tcp4 127.0.0.1:8080: bind: address already in use",
        ] {
            let error = response_error(message);
            assert!(
                matches!(
                    error,
                    EngineError::PortTaken {
                        port: Some(8080),
                        ..
                    }
                ),
                "{error:?}"
            );
        }
    }

    #[test]
    fn a_missing_nvidia_runtime_is_explained_with_what_to_install() {
        let error =
            response_error("could not select device driver \"\" with capabilities: [[gpu]]");
        assert!(
            error
                .to_string()
                .contains("install nvidia-container-toolkit"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_permission_is_distinguished_from_a_missing_engine() {
        let of = |kind: io::ErrorKind| {
            let err = io::Error::from(kind);
            EngineError::new("report its version", "unix:///x", ApiError::IOError { err })
        };
        assert!(matches!(
            of(io::ErrorKind::PermissionDenied),
            EngineError::NoPermission { .. }
        ));
        assert!(matches!(
            of(io::ErrorKind::ConnectionRefused),
            EngineError::NoEngine { .. }
        ));
        assert!(matches!(
            of(io::ErrorKind::InvalidData),
            EngineError::Broken { .. }
        ));
    }
}
