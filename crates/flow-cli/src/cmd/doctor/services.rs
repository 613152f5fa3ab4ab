//! External services that flow uses: the Docker engine, interpreters of Python, and the hub of models.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use flow_core::Chain;
use flow_models::source::SourceEnvironment;
use tokio::time::timeout;

use super::finding::Finding;
use super::flow_file::Needs;
use crate::folder::python::interpreter_with_package;
use crate::shell::Shell;

/// Time for a Docker engine to say its version.
const DOCKER_WITHIN: Duration = Duration::from_secs(5);

/// Time for the hub to accept a connection.
const HUB_WITHIN: Duration = Duration::from_secs(5);

pub(super) async fn examine(needs: &Needs, online: bool, shell: &Shell) -> Vec<Finding> {
    let mut findings = vec![docker(needs, shell).await];
    if !needs.is_flow {
        findings.push(python(shell));
    }
    if online {
        let models = SourceEnvironment::from_variables(|name| shell.variable(name));
        let proxy = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
        let mut proxy = proxy.iter().filter_map(|name| shell.variable(name));
        let proxy = proxy.find(|it| !it.is_empty());
        findings.push(hub(&models, proxy.as_deref()));
    }
    findings
}

async fn docker(needs: &Needs, shell: &Shell) -> Finding {
    const SUBJECT: &str = "Docker";
    let host = shell.variable("DOCKER_HOST");
    let connecting = flow_docker::Engine::connect(host.as_deref());
    let why = match timeout(DOCKER_WITHIN, connecting).await {
        Ok(Ok(engine)) => return Finding::ok(SUBJECT, format!("answers at `{}`", engine.host())),
        Ok(Err(error)) => Chain(&error).to_string(),
        Err(_elapsed) => format!("it does not answer within {DOCKER_WITHIN:?}"),
    };
    match needs.docker {
        true => Finding::problem(
            SUBJECT,
            format!("the flow has executors in images: {why}"),
            "start the engine, or set DOCKER_HOST to one that you may use",
        ),
        false => Finding::ok(
            SUBJECT,
            format!("only needed for executors in images: {why}"),
        ),
    }
}

/// The interpreter that would run an executor in the current folder.
fn python(shell: &Shell) -> Finding {
    const SUBJECT: &str = "Python";
    match interpreter_with_package(Path::new("executor.py"), |name| shell.variable(name)) {
        Some(python) => Finding::ok(SUBJECT, format!("`{}` has `flow_serve`", python.display())),
        None => Finding::ok(
            SUBJECT,
            "no interpreter has `flow_serve`, which executors in Python need (`pip install flow-serve`)",
        ),
    }
}

/// Connects to the hub, or to the proxy before it.
fn hub(models: &SourceEnvironment, proxy: Option<&str>) -> Finding {
    const SUBJECT: &str = "hub";
    let what = match proxy {
        Some(_) => format!("the proxy before `{}`", models.endpoint),
        None => format!("`{}`", models.endpoint),
    };
    if models.offline {
        let text = format!("{what} is not used, because HF_HUB_OFFLINE is set");
        return Finding::ok(SUBJECT, text);
    }
    match reach(proxy.unwrap_or(&models.endpoint)) {
        Ok(()) => Finding::ok(SUBJECT, format!("{what} can be reached")),
        Err(why) => Finding::warning(
            SUBJECT,
            format!("cannot reach {what}: {why}"),
            "set HTTPS_PROXY or HF_ENDPOINT, or copy models here and set HF_HUB_OFFLINE=1",
        ),
    }
}

/// Connects to the host of a URL.
fn reach(url: &str) -> Result<(), String> {
    let (host, port) = host_and_port(url).ok_or("the URL names no host")?;
    let addresses = (host, port).to_socket_addrs();
    let addresses = addresses.map_err(|error| error.to_string())?;
    let mut last = "the name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, HUB_WITHIN) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

/// The host of a URL and its port, without user and password.
fn host_and_port(url: &str) -> Option<(&str, u16)> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split(['/', '?']).next()?;
    let authority = authority.rsplit('@').next()?;
    let default = if scheme == "https" { 443 } else { 80 };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|it| it.is_ascii_digit()) => {
            (host, port.parse().ok()?)
        }
        _ => (authority, default),
    };
    let host = host.trim_matches(['[', ']']);
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn the_host_of_a_url_is_found() {
        let check = |url, expected| assert_eq!(host_and_port(url), expected, "{url}");
        check("https://huggingface.co", Some(("huggingface.co", 443)));
        check("https://h.example/a/b", Some(("h.example", 443)));
        check("http://me:secret@proxy:3128/", Some(("proxy", 3128)));
        check("proxy:3128", Some(("proxy", 3128)));
        check("http://[::1]:8080", Some(("::1", 8080)));
        check("https://", None);
    }

    #[test]
    fn a_hub_that_cannot_be_reached_is_a_warning() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = format!("http://{}", listener.local_addr().unwrap());
        let hub_at = |endpoint: &str, offline: &str| {
            let variable = |name: &str| match name {
                "HF_ENDPOINT" => Some(endpoint.to_owned()),
                "HF_HUB_OFFLINE" => Some(offline.to_owned()),
                _ => None,
            };
            SourceEnvironment::from_variables(variable)
        };
        assert_eq!(hub(&hub_at(&there, ""), None).level, Level::Ok);
        let gone = "http://127.0.0.1:1";
        let found = hub(&hub_at(gone, ""), None);
        assert_eq!(found.level, Level::Warning);
        assert!(found.text.contains("refused"), "{found:?}");
        assert_eq!(hub(&hub_at(gone, ""), Some(&there)).level, Level::Ok);
        assert_eq!(hub(&hub_at(gone, "1"), None).level, Level::Ok);
    }
}
