//! What can go wrong with an engine, told apart by what a person would do about it.

use std::error::Error;
use std::io;

use bollard::errors::Error as Answer;

/// Why an engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nobody answers.
    #[error(
        "no Docker engine answers at `{host}` (start it, such as with `systemctl start docker`, or say \
         with DOCKER_HOST where it is)"
    )]
    NoEngine {
        /// Where it was looked for.
        host: String,
        /// What the attempt met.
        source: Box<Answer>,
    },
    /// The socket is there, and not for us.
    #[error(
        "this user may not talk to the Docker engine at `{host}` (add it to the group `docker` with \
         `sudo usermod -aG docker $USER` and log in again, or run a rootless engine)"
    )]
    NoPermission {
        /// The engine's address.
        host: String,
        /// What the kernel said.
        source: Box<Answer>,
    },
    /// It cannot even be tried.
    #[error(
        "`{host}` is no address of a Docker engine that flow can talk to (write `unix:///path`, or \
         `tcp://host:port` without TLS)"
    )]
    BadHost {
        /// What was written.
        host: String,
    },
    /// Its containers are out of reach.
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
    /// The image could not be fetched.
    #[error("cannot pull the image `{image}`: {message}{}", pull_remedy(message))]
    Pull {
        /// The image's name.
        image: String,
        /// What the engine or the registry said.
        message: String,
    },
    /// The image could not be sent.
    #[error("cannot push the image `{image}`: {message}{}", pull_remedy(message))]
    Push {
        /// The image's name.
        image: String,
        /// What the engine or the registry said.
        message: String,
    },
    /// The image could not be built.
    #[error("cannot build the image `{image}`: {message}")]
    Build {
        /// The name it was to have.
        image: String,
        /// What the engine said.
        message: String,
    },
    /// Somebody else listens there.
    #[error("{port} is taken on this machine (stop who has it, or choose another)", port = port.map_or("a port".to_owned(), |it| format!("port {it}")))]
    PortTaken {
        /// Which port, if the engine said.
        port: Option<u16>,
        /// Its words.
        message: String,
    },
    /// GPUs were asked for, and the engine cannot hand any out.
    #[error(
        "the Docker engine has no NVIDIA runtime, so containers get no GPUs: {message} (install \
         nvidia-container-toolkit, then `sudo nvidia-ctk runtime configure --runtime=docker` and \
         `sudo systemctl restart docker`; or leave out `gpus`)"
    )]
    NoNvidia {
        /// The engine's words.
        message: String,
    },
    /// The engine understood and said no.
    #[error("the Docker engine refuses to {what}: {message}")]
    Refused {
        /// What was asked.
        what: String,
        /// Its HTTP status.
        status: u16,
        /// Its words.
        message: String,
    },
    /// The engine did not answer as an engine does.
    #[error("the Docker engine did not {what}")]
    Broken {
        /// What was asked.
        what: String,
        /// What came instead.
        source: Box<Answer>,
    },
}

impl EngineError {
    /// What an answer means that was met while doing this.
    pub fn of(what: impl Into<String>, host: &str, answer: Answer) -> Self {
        let what = what.into();
        match answer {
            Answer::DockerResponseServerError {
                status_code,
                message,
            } => Self::refused(what, status_code, message),
            answer => Self::unheard(what, host, answer),
        }
    }

    fn refused(what: String, status: u16, message: String) -> Self {
        if lacks_nvidia(&message) {
            return Self::NoNvidia { message };
        }
        if is_taken(&message) {
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

    /// The request did not come through.
    fn unheard(what: String, host: &str, answer: Answer) -> Self {
        let host = host.to_owned();
        let kind = io_kind(&answer);
        let source = Box::new(answer);
        match (kind, &*source) {
            (_, Answer::SocketNotFoundError(_)) => Self::NoEngine { host, source },
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
            | (_, Answer::RequestTimeoutError) => Self::NoEngine { host, source },
            _ => Self::Broken { what, source },
        }
    }
}

/// The kernel's word on a connection, however deep it lies.
fn io_kind(answer: &Answer) -> Option<io::ErrorKind> {
    // It shows its cause's causes as its own.
    if let Answer::IOError { err } = answer {
        return Some(err.kind());
    }
    let mut cause: Option<&dyn Error> = Some(answer);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        cause = error.source();
    }
    None
}

/// The engine's words where `--gpus` cannot be had: of its own, and of the runtime's hook.
fn lacks_nvidia(message: &str) -> bool {
    let names_driver = message.contains("could not select device driver");
    names_driver || message.contains("nvidia-container-cli") || message.contains("nvidia-ctk")
}

fn is_taken(message: &str) -> bool {
    message.contains("port is already allocated") || message.contains("address already in use")
}

/// The last number behind a colon: `Bind for 127.0.0.1:8080 failed: port is …`, `listen tcp4 0.0.0.0:80: …`.
fn port_in(message: &str) -> Option<u16> {
    let mut parts = message.split(|c: char| c.is_whitespace() || c == ',');
    parts.find_map(|part| {
        let (_, port) = part.trim_end_matches(':').rsplit_once(':')?;
        port.parse().ok()
    })
}

/// What helps against the two usual refusals of registries.
fn pull_remedy(message: &str) -> &'static str {
    let message = message.to_ascii_lowercase();
    let has = |part: &str| message.contains(part);
    if has("unauthorized") || has("authentication") || has("credentials") || has("denied") {
        " (if the registry wants a password: `docker login` and the registry's name)"
    } else if has("manifest unknown") || has("not found") {
        " (is the name right, and its tag?)"
    } else if has("no such host") || has("i/o timeout") || has("connection refused") {
        " (can this machine reach the registry?)"
    } else if has("server gave http response to https") {
        " (name the registry under `insecure-registries` of the engine if it is meant to be without TLS)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(message: &str) -> EngineError {
        let answer = Answer::DockerResponseServerError {
            status_code: 500,
            message: message.to_owned(),
        };
        EngineError::of("start a container", "unix:///x", answer)
    }

    #[test]
    fn a_taken_port_is_told_with_its_number() {
        for message in [
            "driver failed programming external connectivity on endpoint x (1f): Bind for \
             127.0.0.1:8080 failed: port is already allocated",
            "driver failed programming external connectivity on endpoint x (1f): Error starting \
             userland proxy: listen tcp4 127.0.0.1:8080: bind: address already in use",
        ] {
            let error = answered(message);
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
    fn a_missing_nvidia_runtime_comes_with_what_to_install() {
        let error = answered("could not select device driver \"\" with capabilities: [[gpu]]");
        assert!(
            error
                .to_string()
                .contains("install nvidia-container-toolkit"),
            "{error}"
        );
    }

    #[test]
    fn who_may_not_use_the_socket_is_told_apart_from_who_finds_none() {
        let of = |kind: io::ErrorKind| {
            let err = io::Error::from(kind);
            EngineError::of("say its version", "unix:///x", Answer::IOError { err })
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
