//! The options of `docker_kwargs` in the form of the engine's API (`ContainerCreate`). Pure.

use flow_spec::{ContainerDevice, DockerOption, DockerOptions, LogDriver, Ulimit, engine_name};
use serde_json::{Map, Value, json};

/// The engine's options of the machine that the container runs on.
const HOST_CONFIG: &str = "HostConfig";

/// Options of the container itself; all others are in [`HOST_CONFIG`].
const OWN: &[&str] = &[
    "domainname",
    "hostname",
    "labels",
    "stop_signal",
    "user",
    "working_dir",
];

/// The options as part of the request to the engine.
pub(crate) fn engine_options(options: &DockerOptions) -> Map<String, Value> {
    let (mut own, mut host) = (Map::new(), Map::new());
    for (name, value) in options.iter() {
        let section = match OWN.contains(&name) {
            true => &mut own,
            false => &mut host,
        };
        let name = engine_name(name).unwrap_or(name);
        section.insert(name.to_owned(), engine_value(value));
    }
    if !host.is_empty() {
        own.insert(HOST_CONFIG.to_owned(), Value::Object(host));
    }
    own
}

fn engine_value(value: &DockerOption) -> Value {
    match value {
        DockerOption::Text(text) => json!(text),
        DockerOption::Texts(texts) => json!(texts),
        DockerOption::Number(number) => json!(number),
        DockerOption::Flag(flag) => json!(flag),
        DockerOption::Pairs(pairs) => json!(pairs),
        DockerOption::Hosts(hosts) => {
            let line = |(name, address)| Value::from(format!("{name}:{address}"));
            hosts.iter().map(line).collect()
        }
        DockerOption::Devices(devices) => devices.iter().map(device).collect(),
        DockerOption::Ulimits(limits) => limits.iter().map(ulimit).collect(),
        DockerOption::Logging(LogDriver { driver, options }) => {
            json!({"Type": driver, "Config": options})
        }
    }
}

fn device(device: &ContainerDevice) -> Value {
    json!({
        "PathOnHost": device.host,
        "PathInContainer": device.inside,
        "CgroupPermissions": device.permissions,
    })
}

fn ulimit(limit: &Ulimit) -> Value {
    json!({"Name": limit.name, "Soft": limit.soft, "Hard": limit.hard})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_those_of_the_engine() {
        let check = |written: Value, expected: Value| {
            let options: DockerOptions = serde_json::from_value(written).unwrap();
            assert_eq!(Value::Object(engine_options(&options)), expected);
        };
        check(json!({}), json!({}));
        check(
            json!({"user": {"text": "1000"}, "read_only": {"flag": true}}),
            json!({"User": "1000", "HostConfig": {"ReadonlyRootfs": true}}),
        );
        check(
            json!({"mem_limit": {"number": 7}, "cap_drop": {"texts": ["ALL"]}}),
            json!({"HostConfig": {"Memory": 7, "CapDrop": ["ALL"]}}),
        );
        check(
            json!({"labels": {"pairs": {"a": "b"}}, "extra_hosts": {"hosts": {"db": "::1"}}}),
            json!({"Labels": {"a": "b"}, "HostConfig": {"ExtraHosts": ["db:::1"]}}),
        );
        check(
            json!({"devices": {"devices": [{"host": "/a", "inside": "/b", "permissions": "r"}]}}),
            json!({"HostConfig": {"Devices": [
                {"PathOnHost": "/a", "PathInContainer": "/b", "CgroupPermissions": "r"},
            ]}}),
        );
        check(
            json!({
                "ulimits": {"ulimits": [{"name": "nofile", "soft": 5, "hard": 6}]},
                "log_config": {"logging": {"driver": "local", "options": {}}},
            }),
            json!({"HostConfig": {
                "Ulimits": [{"Name": "nofile", "Soft": 5, "Hard": 6}],
                "LogConfig": {"Type": "local", "Config": {}},
            }}),
        );
    }
}
