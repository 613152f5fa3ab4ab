//! The address of a service in the DNS, `srv://service` or `srv://name-server/service`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// The port at which name servers answer.
const NAME_SERVER_PORT: u16 = 53;

/// Most characters of a name in the DNS.
const NAME_LEN_MAX: usize = 253;

/// Most characters between two of its dots.
const LABEL_LEN_MAX: usize = 63;

/// A service whose SRV records say where its instances are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServiceAddress {
    /// Whether the connections to its instances are encrypted.
    pub tls: bool,
    /// The name of its SRV records, such as `_grpc._tcp.encoder.example`.
    pub service: String,
    /// The name server that knows it; `None` for those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_server: Option<SocketAddr>,
}

impl ServiceAddress {
    /// Reads what follows `srv://`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as the end of a sentence about the address.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (server, service) = text.rsplit_once('/').unwrap_or(("", text));
        let name_server = match server {
            "" => None,
            server => Some(name_server(server)?),
        };
        check_name(service.strip_suffix('.').unwrap_or(service))?;
        Ok(Self {
            tls: false,
            service: service.to_owned(),
            name_server,
        })
    }

    /// The domain that has the service: its name without the labels that begin with `_`. The certificates of its instances are
    /// for this name, because the records that name their hosts are not signed.
    #[must_use]
    pub fn domain(&self) -> &str {
        let mut rest = self.service.trim_end_matches('.');
        while let Some((label, after)) = rest.split_once('.')
            && label.starts_with('_')
        {
            rest = after;
        }
        rest
    }
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name_server {
            None => write!(f, "srv://{}", self.service),
            Some(server) => write!(f, "srv://{server}/{}", self.service),
        }
    }
}

fn name_server(text: &str) -> Result<SocketAddr, &'static str> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = text.parse().ok();
    let address = address.or_else(|| {
        let address: IpAddr = bare.parse().ok()?;
        Some(SocketAddr::new(address, NAME_SERVER_PORT))
    });
    address.ok_or("names no name server before its `/`; `srv://10.0.0.1:53/service` is expected")
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.contains(':') {
        return Err("has a port, but the records of a service contain the ports; leave it out");
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_label = |it: &str| (1..=LABEL_LEN_MAX).contains(&it.len()) && it.chars().all(is_part);
    if name.len() > NAME_LEN_MAX || !name.split('.').all(is_label) {
        return Err("is not a service; `srv://_grpc._tcp.encoder.example` is expected");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, service: &str, server: Option<&str>, shown: &str) {
        let address = ServiceAddress::parse(text).unwrap();
        assert_eq!(address.service, service);
        assert_eq!(
            address.name_server.map(|it| it.to_string()).as_deref(),
            server
        );
        assert_eq!(address.to_string(), shown);
    }

    #[test]
    fn a_service_is_a_name_with_an_optional_name_server() {
        check(
            "_grpc._tcp.a.b",
            "_grpc._tcp.a.b",
            None,
            "srv://_grpc._tcp.a.b",
        );
        check(
            "/a.service.consul.",
            "a.service.consul.",
            None,
            "srv://a.service.consul.",
        );
        let local = Some("127.0.0.1:8600");
        check("127.0.0.1:8600/a", "a", local, "srv://127.0.0.1:8600/a");
        check(
            "10.0.0.1/a",
            "a",
            Some("10.0.0.1:53"),
            "srv://10.0.0.1:53/a",
        );
        for text in ["::1/a", "[::1]/a", "[::1]:53/a"] {
            check(text, "a", Some("[::1]:53"), "srv://[::1]:53/a");
        }
    }

    #[test]
    fn invalid_services_are_refused() {
        let check = |text: &str, part: &str| {
            let problem = ServiceAddress::parse(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
        };
        check("a:5", "has a port");
        check("name.server/a", "names no name server");
        check("10.0.0.1:x/a", "names no name server");
        for text in ["", "/", ".", "a..b", "a b", "a%b", "10.0.0.1/"] {
            check(text, "is not a service");
        }
        let label = |len| "x".repeat(len);
        assert!(ServiceAddress::parse(&label(63)).is_ok());
        check(&label(64), "is not a service");
        let labels = |len: usize| ["abc"; 63].join(".") + "." + &label(len - 252);
        assert!(ServiceAddress::parse(&labels(253)).is_ok());
        check(&labels(254), "is not a service");
    }

    #[test]
    fn the_domain_of_a_service_has_no_underscores() {
        let check = |service: &str, domain: &str| {
            assert_eq!(ServiceAddress::parse(service).unwrap().domain(), domain);
        };
        check("_grpc._tcp.encoder.example.", "encoder.example");
        check("encoder.service.consul", "encoder.service.consul");
        check("_tcp", "_tcp");
    }
}
