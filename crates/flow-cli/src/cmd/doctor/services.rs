//! External services that flow uses: the Docker engine, interpreters of Python, and the hub of models.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use flow_core::Chain;
use flow_models::source::SourceEnvironment;
use serde::Deserialize;
use tokio::time::timeout;

use super::finding::Finding;
use super::flow_file::Needs;
use crate::folder::python::interpreter_with_package;
use crate::shell::Shell;

/// Time for a Docker engine to say its version.
const DOCKER_WITHIN: Duration = Duration::from_secs(5);

/// Time for the hub to accept a connection.
const HUB_WITHIN: Duration = Duration::from_secs(5);

const PYTHON: &str = "Python";

/// The version of this program, which the package has too.
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints what [`PythonPackage`] holds.
const SAY_VERSIONS: &str = "\
import importlib.metadata as metadata, json, platform
try:
    package = metadata.version('flow-serve')
except metadata.PackageNotFoundError:
    package = None
print(json.dumps({'python': platform.python_version(), 'flow_serve': package}))";

/// The versions of an interpreter and of the package for executors.
#[derive(Debug, Deserialize)]
struct PythonPackage {
    python: String,
    flow_serve: Option<String>,
}

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
    let examining = async {
        let engine = flow_docker::Engine::connect(host.as_deref()).await?;
        let version = engine.version().await?;
        Ok::<_, flow_docker::EngineError>(format!("{version}, at `{}`", engine.host()))
    };
    let why = match timeout(DOCKER_WITHIN, examining).await {
        Ok(Ok(text)) => return Finding::ok(SUBJECT, text),
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
    let python = interpreter_with_package(Path::new("executor.py"), |name| shell.variable(name));
    match python {
        Some(python) => versions(&python.display().to_string(), package_of(&python)),
        None => Finding::ok(
            PYTHON,
            "no interpreter has `flow_serve`, which executors in Python need (`pip install flow-serve`)",
        ),
    }
}

/// Compares the version of an interpreter's package with that of this program.
fn versions(python: &str, package: Option<PythonPackage>) -> Finding {
    let Some(package) = package else {
        return Finding::warning(
            PYTHON,
            format!("`{python}` has `flow_serve` and does not say its version"),
            format!("`{python} -m pip show flow-serve` should show it"),
        );
    };
    let text = |flow_serve: &str| {
        format!(
            "{} at `{python}`, with `flow_serve`{flow_serve}",
            package.python
        )
    };
    match &package.flow_serve {
        // A package that was not installed by pip, such as one on PYTHONPATH, has no version.
        None => Finding::ok(PYTHON, text("")),
        Some(version) if version == OWN_VERSION => {
            Finding::ok(PYTHON, text(&format!(" {version}")))
        }
        Some(version) => Finding::warning(
            PYTHON,
            text(&format!(" {version}, and this is flow {OWN_VERSION}")),
            format!(
                "install the same version: `{python} -m pip install flow-serve=={OWN_VERSION}`"
            ),
        ),
    }
}

fn package_of(python: &Path) -> Option<PythonPackage> {
    let mut command = Command::new(python);
    command.args(["-c", SAY_VERSIONS]).stdin(Stdio::null());
    let output = command.output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
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
    fn a_package_of_another_version_is_a_warning() {
        let check = |flow_serve: Option<&str>, level, expected: &str| {
            let package = PythonPackage {
                python: "3.12.1".to_owned(),
                flow_serve: flow_serve.map(str::to_owned),
            };
            let found = versions("/bin/python", Some(package));
            assert_eq!((found.level, found.text.as_str()), (level, expected));
        };
        let own = format!("3.12.1 at `/bin/python`, with `flow_serve` {OWN_VERSION}");
        check(Some(OWN_VERSION), Level::Ok, &own);
        let other = format!(
            "3.12.1 at `/bin/python`, with `flow_serve` 9.9.9, and this is flow {OWN_VERSION}"
        );
        check(Some("9.9.9"), Level::Warning, &other);
        check(
            None,
            Level::Ok,
            "3.12.1 at `/bin/python`, with `flow_serve`",
        );
        let unknown = versions("/bin/python", None);
        assert_eq!(unknown.level, Level::Warning);
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
