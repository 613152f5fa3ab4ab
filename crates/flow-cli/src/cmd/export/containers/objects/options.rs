//! Values of the options about objects of a cluster.

use std::str::FromStr;

use clap::ValueEnum;
use flow_launch::render::{
    Autoscale, Cache, HostRoute, Resources, ScaleTarget, SecretEntry, SecretVariable,
};

use super::super::value::secret;

/// Default CPU time that pods should use, in percent of their request.
const CPU_PERCENT: u16 = 80;

/// The bounds of a node's replicas: `2..8`, `2..8@60` or `2..8@requests:16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scaled(pub(super) Autoscale);

/// The resources of a node's pods: `cpu:4,memory:2Gi`, or one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sized(pub(super) Resources);

/// A variable whose value is kept in a Secret: `HF_TOKEN:hub:token`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FromSecret(pub(super) SecretVariable);

/// Where executors keep the models that they download.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum CacheKind {
    /// A volume for each pod, which makes the pods those of a StatefulSet
    #[default]
    Pod,
    /// One volume for the flow; its storage class must support `ReadWriteMany`
    Shared,
    /// No volume: each new pod downloads its models, unless its image has them
    None,
}

impl From<CacheKind> for Cache {
    fn from(kind: CacheKind) -> Self {
        match kind {
            CacheKind::Pod => Self::PerPod,
            CacheKind::Shared => Self::Shared,
            CacheKind::None => Self::None,
        }
    }
}

/// A key of the flow file, and the entry of a Secret with its file.
pub(super) fn secret_entry(text: &str) -> Result<(String, SecretEntry), String> {
    let (key, value) = secret(text)?;
    let (name, entry) = match value.split_once(':') {
        Some((name, entry)) => (name, Some(entry)),
        None => (value.as_str(), None),
    };
    if name.is_empty() || entry.is_some_and(|it| it.is_empty() || it.contains('/')) {
        return Err(format!("`{text}` is not of the form `KEY=SECRET:ENTRY`"));
    }
    let entry = SecretEntry {
        secret: name.to_owned(),
        entry: entry.map(str::to_owned),
    };
    Ok((key, entry))
}

/// A host name, and the Gateway that has a listener for it.
pub(super) fn route(text: &str) -> Result<HostRoute, String> {
    let form = || format!("`{text}` is not of the form `HOST=GATEWAY` or `HOST=NAMESPACE/GATEWAY`");
    let (host, parent) = text.split_once('=').ok_or_else(form)?;
    let (namespace, gateway) = match parent.split_once('/') {
        Some((namespace, gateway)) => (Some(namespace), gateway),
        None => (None, parent),
    };
    if namespace.is_some_and(|it| !is_host(it)) || !is_host(gateway) {
        return Err(form());
    }
    if !is_host(host.strip_prefix("*.").unwrap_or(host)) {
        return Err(format!(
            "`{host}` is not a host name in lower-case letters, such as `search.example.com`"
        ));
    }
    Ok(HostRoute {
        host: host.to_owned(),
        gateway: gateway.to_owned(),
        namespace: namespace.map(str::to_owned),
    })
}

/// Whether it consists of DNS labels.
fn is_host(text: &str) -> bool {
    let is_inner = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    let is_label = |label: &str| {
        let is_trimmed = !label.starts_with('-') && !label.ends_with('-');
        !label.is_empty() && label.len() <= 63 && is_trimmed && label.chars().all(is_inner)
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A label's name and its value.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("needs the form `LABEL=VALUE`, such as `release=prometheus`".to_owned()),
    }
}

impl FromStr for Scaled {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "`{text}` is not of the form `MIN..MAX`, `MIN..MAX@PERCENT` or `MIN..MAX@requests:N`"
            )
        };
        let (bounds, target) = match text.split_once('@') {
            Some((bounds, target)) => (bounds, scale_target(target).ok_or_else(form)?),
            None => (text, ScaleTarget::CpuPercent(CPU_PERCENT)),
        };
        let (min, max) = bounds.split_once("..").ok_or_else(form)?;
        let bound = |it: &str| it.parse().map_err(|_| form());
        let (min, max): (u16, u16) = (bound(min)?, bound(max)?);
        if min == 0 || min > max || target == ScaleTarget::CpuPercent(0) {
            return Err(format!(
                "`{text}` needs 1 ≤ MIN ≤ MAX and a PERCENT above 0"
            ));
        }
        Ok(Self(Autoscale { min, max, target }))
    }
}

fn scale_target(text: &str) -> Option<ScaleTarget> {
    match text.strip_prefix("requests:") {
        Some(requests) => Some(ScaleTarget::Requests(requests.parse().ok()?)),
        None => Some(ScaleTarget::CpuPercent(text.parse().ok()?)),
    }
}

impl FromStr for Sized {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut resources = Resources::default();
        for part in text.split(',') {
            let (resource, value) = match part.split_once(':') {
                Some(("cpu", value)) => (&mut resources.cpu, value),
                Some(("memory", value)) => (&mut resources.memory, value),
                _ => return Err(format!("`{part}` is neither `cpu:N` nor `memory:SIZE`")),
            };
            if !is_quantity(value) {
                return Err(format!(
                    "`{value}` is not a quantity such as `500m`, `2` or `4Gi`"
                ));
            }
            *resource = Some(value.to_owned());
        }
        Ok(Self(resources))
    }
}

impl FromStr for FromSecret {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(':').collect();
        match parts[..] {
            [variable, secret, key] if !parts.contains(&"") => Ok(Self(SecretVariable {
                variable: variable.to_owned(),
                secret: secret.to_owned(),
                key: key.to_owned(),
            })),
            _ => Err(format!("`{text}` is not of the form `VARIABLE:SECRET:KEY`")),
        }
    }
}

/// Whether the text is a quantity of Kubernetes: a number with an optional unit.
fn is_quantity(text: &str) -> bool {
    let number = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit = &text[number.len()..];
    let units = [
        "", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    let is_positive = number.parse::<f64>().is_ok_and(|it| it > 0.0);
    is_positive && number.starts_with(|it: char| it.is_ascii_digit()) && units.contains(&unit)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    #[test]
    fn a_secret_of_the_gateway_may_name_the_entry() {
        let check = |text: &str, expected: Option<(&str, Option<&str>)>| {
            let found = secret_entry(text).ok().map(|(_, it)| it);
            let found = found
                .as_ref()
                .map(|it| (it.secret.as_str(), it.entry.as_deref()));
            assert_eq!(found, expected, "{text}");
        };
        check("ssl_certfile=tls", Some(("tls", None)));
        check("api_keys=flow:keys.yml", Some(("flow", Some("keys.yml"))));
        for wrong in [
            "",
            "api_keys",
            "api_keys=",
            "api_keys=:a",
            "api_keys=a:",
            "api_keys=a:b/c",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_route_names_a_host_and_a_gateway() {
        let check = |text: &str, expected: Option<(&str, Option<&str>, &str)>| {
            let found = route(text).ok();
            let found = found.as_ref().map(|it| {
                (
                    it.host.as_str(),
                    it.namespace.as_deref(),
                    it.gateway.as_str(),
                )
            });
            assert_eq!(found, expected, "{text}");
        };
        check(
            "a.example.com=public",
            Some(("a.example.com", None, "public")),
        );
        let wildcard = "*.example.com=infra/public";
        check(wildcard, Some(("*.example.com", Some("infra"), "public")));
        for wrong in [
            "",
            "a",
            "a=",
            "=b",
            "A.com=b",
            "https://a=b",
            "a:80=b",
            "a=b/",
            "a=/b",
            "a=b/c/d",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_label_has_a_name() {
        let found = label("release=prometheus").unwrap();
        assert_eq!(found, ("release".to_owned(), "prometheus".to_owned()));
        for wrong in ["", "release", "=x"] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bounds_of_replicas_are_a_range_with_an_optional_percentage() {
        let check = |text: &str, expected: Option<(u16, u16, ScaleTarget)>| {
            let found = text.parse::<Scaled>().ok();
            let found = found.map(|Scaled(it)| (it.min, it.max, it.target));
            assert_eq!(found, expected, "{text}");
        };
        check("2..8", Some((2, 8, ScaleTarget::CpuPercent(80))));
        check("1..1@60", Some((1, 1, ScaleTarget::CpuPercent(60))));
        let requests = ScaleTarget::Requests(NonZeroU16::new(16).unwrap());
        check("2..8@requests:16", Some((2, 8, requests)));
        for wrong in [
            "",
            "2",
            "0..3",
            "3..2",
            "1..2@0",
            "1..2@x",
            "a..b",
            "1..2@requests:0",
            "1..2@requests",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_secret_variable_names_the_secret_and_the_key() {
        let FromSecret(found) = "HF_TOKEN:hub:token".parse().unwrap();
        assert_eq!(
            [&found.variable, &found.secret, &found.key],
            ["HF_TOKEN", "hub", "token"]
        );
        for wrong in ["", "A", "A:b", "A:b:", "A:b:c:d"] {
            assert!(wrong.parse::<FromSecret>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn resources_are_quantities_of_kubernetes() {
        let check = |text: &str, expected: Option<(Option<&str>, Option<&str>)>| {
            let found = text.parse::<Sized>().ok();
            let found = found
                .as_ref()
                .map(|Sized(it)| (it.cpu.as_deref(), it.memory.as_deref()));
            assert_eq!(found, expected, "{text}");
        };
        check("cpu:4,memory:2Gi", Some((Some("4"), Some("2Gi"))));
        check("cpu:500m", Some((Some("500m"), None)));
        check("memory:1.5G", Some((None, Some("1.5G"))));
        for wrong in [
            "", "cpu", "cpu:", "cpu:x", "cpu:-1", "cpu:1GB", "gpu:1", "cpu:inf", "cpu:0",
        ] {
            check(wrong, None);
        }
    }
}
