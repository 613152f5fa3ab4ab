//! What `docker_kwargs` mean for a pod. Pure.

use std::net::IpAddr;

use flow_spec::{DockerOption, DockerOptions};
use indexmap::IndexMap;
use k8s_openapi::api::core::v1::{HostAlias, PodDNSConfig};

/// The options of a container that a pod has, too.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PodOptions {
    /// Size of the shared memory, in bytes.
    pub(super) shared_memory: Option<String>,
    /// Limit on the memory, in bytes.
    pub(super) memory_limit: Option<String>,
    /// Memory that the scheduler keeps for it, in bytes.
    pub(super) memory_request: Option<String>,
    /// Limit on CPUs, in billionths.
    pub(super) cpu_limit: Option<String>,
    pub(super) working_dir: Option<String>,
    pub(super) read_only: Option<bool>,
    pub(super) user: Option<i64>,
    pub(super) group: Option<i64>,
    pub(super) groups: Option<Vec<i64>>,
    pub(super) hosts: Option<Vec<HostAlias>>,
    pub(super) nameservers: Option<Vec<String>>,
    pub(super) searches: Option<Vec<String>>,
    /// Names of options that no pod of an export has.
    pub(super) left_out: Vec<String>,
}

impl PodOptions {
    pub(super) fn of(options: &DockerOptions) -> Self {
        let mut found = Self::default();
        for (name, value) in options.iter() {
            if found.take(name, value).is_none() {
                found.left_out.push(name.to_owned());
            }
        }
        found
    }

    /// How it resolves host names; `None` for the cluster's way.
    pub(super) fn dns(&self) -> Option<PodDNSConfig> {
        (self.nameservers.is_some() || self.searches.is_some()).then(|| PodDNSConfig {
            nameservers: self.nameservers.clone(),
            searches: self.searches.clone(),
            options: None,
        })
    }

    /// Notes an option; `None` if it has no meaning here.
    fn take(&mut self, name: &str, value: &DockerOption) -> Option<()> {
        match (name, value) {
            ("shm_size", DockerOption::Number(bytes)) => {
                self.shared_memory = Some(bytes.to_string());
            }
            ("mem_limit", DockerOption::Number(bytes)) => {
                self.memory_limit = Some(bytes.to_string());
            }
            ("mem_reservation", DockerOption::Number(bytes)) => {
                self.memory_request = Some(bytes.to_string());
            }
            ("nano_cpus", DockerOption::Number(billionths)) => {
                self.cpu_limit = Some(format!("{billionths}n"));
            }
            ("working_dir", DockerOption::Text(path)) => self.working_dir = Some(path.clone()),
            ("read_only", DockerOption::Flag(flag)) => self.read_only = Some(*flag),
            ("user", DockerOption::Text(user)) => self.take_user(user)?,
            ("group_add", DockerOption::Texts(groups)) => {
                let numbers = groups.iter().map(|it| it.parse().ok());
                self.groups = Some(numbers.collect::<Option<_>>()?);
            }
            ("extra_hosts", DockerOption::Hosts(hosts)) => self.hosts = Some(aliases(hosts)?),
            ("dns", DockerOption::Texts(servers)) => self.nameservers = Some(servers.clone()),
            ("dns_search", DockerOption::Texts(names)) => self.searches = Some(names.clone()),
            _ => return None,
        }
        Some(())
    }

    /// A cluster does not know the names of users, and exports do not run as root.
    fn take_user(&mut self, user: &str) -> Option<()> {
        let (user, group) = match user.split_once(':') {
            Some((user, group)) => (user, Some(group.parse().ok()?)),
            None => (user, None),
        };
        let user = user.parse().ok().filter(|id| *id > 0)?;
        (self.user, self.group) = (Some(user), group);
        Some(())
    }
}

/// The names of each address; `None` if one is no address, such as Docker's own `host-gateway`.
fn aliases(hosts: &IndexMap<String, String>) -> Option<Vec<HostAlias>> {
    let mut names: IndexMap<IpAddr, Vec<String>> = IndexMap::new();
    for (name, address) in hosts {
        let address = address.parse().ok()?;
        names.entry(address).or_default().push(name.clone());
    }
    let alias = |(ip, names): (IpAddr, _)| HostAlias {
        ip: ip.to_string(),
        hostnames: Some(names),
    };
    Some(names.into_iter().map(alias).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(written: serde_json::Value) -> PodOptions {
        PodOptions::of(&serde_json::from_value(written).unwrap())
    }

    #[test]
    fn options_with_an_equivalent_in_kubernetes_are_translated() {
        let found = of(json!({
            "shm_size": {"number": 1024}, "mem_limit": {"number": 2048}, "nano_cpus": {"number": 1_500_000_000},
            "user": {"text": "1000:50"}, "group_add": {"texts": ["7"]},
            "extra_hosts": {"hosts": {"db": "10.0.0.1", "cache": "10.0.0.1"}},
        }));
        assert_eq!(found.shared_memory.as_deref(), Some("1024"));
        assert_eq!(found.memory_limit.as_deref(), Some("2048"));
        assert_eq!(found.cpu_limit.as_deref(), Some("1500000000n"));
        assert_eq!((found.user, found.group), (Some(1000), Some(50)));
        assert_eq!(found.groups, Some(vec![7]));
        let names = vec!["db".to_owned(), "cache".to_owned()];
        let alias = HostAlias {
            ip: "10.0.0.1".to_owned(),
            hostnames: Some(names),
        };
        assert_eq!(found.hosts, Some(vec![alias]));
        assert_eq!(found.left_out, [""; 0]);
    }

    #[test]
    fn options_without_an_equivalent_are_reported() {
        let found = of(json!({
            "cap_add": {"texts": ["SYS_ADMIN"]}, "user": {"text": "root"}, "privileged": {"flag": true},
            "extra_hosts": {"hosts": {"machine": "host-gateway"}},
        }));
        assert_eq!(
            found.left_out,
            ["cap_add", "user", "privileged", "extra_hosts"]
        );
        assert_eq!(of(json!({"user": {"text": "0"}})).left_out, ["user"]);
    }
}
