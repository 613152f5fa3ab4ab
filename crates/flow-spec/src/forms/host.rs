//! Hosts: a name or address, perhaps with scheme and port, or a service in the DNS; several separated by commas.

use super::form::{Shape, ValueForm};
use super::scalar::{list, reject, text};
use crate::diagnostics::{Diagnostics, Problem, Spanned};
use crate::service_address::ServiceAddress;
use crate::yaml::YamlNode;

/// One host or a list of them; each text may hold several, separated by commas.
pub(crate) const HOSTS: ValueForm<Vec<Spanned<Vec<Host>>>> = ValueForm::new(Shape::Texts, hosts);
pub(crate) const LISTEN_HOSTS: ValueForm<Vec<Spanned<String>>> =
    ValueForm::new(Shape::Texts, listen_hosts);

fn hosts(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<Vec<Host>>>> {
    Some(list(node, diagnostics, parts))
}

fn listen_hosts(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<String>>> {
    Some(list(node, diagnostics, listen_host))
}

/// A host as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: Option<u16>,
    /// Written as a URL, so it cannot be an address to listen at.
    pub(crate) has_scheme: bool,
    /// Written with a scheme that asks for TLS.
    pub(crate) tls: bool,
    /// Written as a service in the DNS, whose name it has then.
    pub(crate) service: Option<ServiceAddress>,
}

/// Reads the hosts of one text: `a:1234,b:1234`.
fn parts(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Vec<Host>> {
    let text = text(node, diagnostics)?;
    let mut hosts = Vec::new();
    for part in text.split(',') {
        match host(part.trim()) {
            Ok(host) => hosts.push(host),
            Err(why) => diagnostics.problem(Problem::new(&node.span, format!("`{part}` {why}"))),
        }
    }
    Some(hosts)
}

/// A host to listen at, which has neither scheme nor port.
fn listen_host(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<String> {
    match <[Host; 1]>::try_from(parts(node, diagnostics)?) {
        Ok(
            [
                Host {
                    name,
                    port: None,
                    has_scheme: false,
                    ..
                },
            ],
        ) => Some(name),
        Ok(_) => reject(node, "a host without scheme and port", diagnostics),
        // Several, or none because each has its problem already.
        Err(hosts) if hosts.is_empty() => None,
        Err(_) => reject(node, "one host", diagnostics),
    }
}

fn host(text: &str) -> Result<Host, &'static str> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    match scheme {
        None | Some("grpc" | "grpcs") => {}
        Some("srv") => return service(rest),
        Some("http" | "https" | "ws" | "wss") => {
            return Err("is not a gRPC address, and flow calls executors only over gRPC");
        }
        Some(_) => {
            return Err("has an unknown scheme; `grpc://host:port` or `srv://service` is expected");
        }
    }
    let (name, port) = split_port(rest.trim_end_matches('/'))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.:%".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err("is not a host; `host`, `host:port` or `grpc://host:port` is expected");
    }
    Ok(Host {
        name: name.to_owned(),
        port,
        has_scheme: scheme.is_some(),
        tls: scheme == Some("grpcs"),
        service: None,
    })
}

fn service(text: &str) -> Result<Host, &'static str> {
    let service = ServiceAddress::parse(text)?;
    Ok(Host {
        name: service.service.clone(),
        port: None,
        has_scheme: true,
        tls: false,
        service: Some(service),
    })
}

fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    if let Some(rest) = text.strip_prefix('[') {
        let (name, after) = rest
            .split_once(']')
            .ok_or("lacks the `]` after its address")?;
        return match after.strip_prefix(':') {
            Some(digits) => Ok((name, Some(port(digits)?))),
            None if after.is_empty() => Ok((name, None)),
            None => Err("has more after `]` than a port"),
        };
    }
    match text.split_once(':') {
        Some((name, digits)) if !digits.contains(':') => Ok((name, Some(port(digits)?))),
        // Two colons without brackets: an IPv6 address.
        _ => Ok((text, None)),
    }
}

fn port(digits: &str) -> Result<u16, &'static str> {
    let bare = digits.bytes().all(|b| b.is_ascii_digit());
    let port = bare
        .then(|| digits.parse().ok())
        .flatten()
        .filter(|port| *port > 0);
    port.ok_or("has a port that is not from 1 to 65535")
}
