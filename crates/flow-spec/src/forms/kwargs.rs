//! `docker_kwargs`: options of a container by the names that Docker's Python SDK has for them, turned
//! into the options of the engine's API.
//!
//! The table is the whole list. What flow does itself, or says in another key, is refused with that key's
//! name.

use flow_core::closest;
use serde_json::{Map, Value, json};

use super::form::{Form, Shape};
use super::scalar::{entries, flag, integer, loose_text, mapping, reject, scalar, text};
use crate::diagnostics::{Diagnostics, Problem};
use crate::yaml::{Content, Entry, Node, Resolved, Scalar};

pub(crate) const DOCKER_KWARGS: Form<Map<String, Value>> = Form::new(Shape::Docker, kwargs);

/// How a value is written, and how it is converted for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Texts,
    Number,
    /// A number, or one with a unit: `512m`.
    Bytes,
    Flag,
    /// A mapping, or a list of `name=value`.
    Pairs,
    /// A mapping of names to addresses, or a list of `name:address`.
    Hosts,
    /// `/dev/x[:/dev/y[:rwm]]`.
    Devices,
    /// `{name: …, soft: …, hard: …}`.
    Ulimits,
    /// `{type: …, config: {…}}`.
    LogConfig,
}

/// An option of a container.
#[derive(Debug)]
pub(crate) struct Kwarg {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The engine's own name for it.
    field: &'static str,
    /// It is one of the engine's `HostConfig`.
    is_hosts: bool,
}

impl Kwarg {
    /// Whether `docker_kwargs` may call it by this name: that of the SDK or the engine's own.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.field == name
    }
}

const fn host(name: &'static str, kind: Kind, field: &'static str) -> Kwarg {
    Kwarg {
        name,
        kind,
        field,
        is_hosts: true,
    }
}

const fn own(name: &'static str, kind: Kind, field: &'static str) -> Kwarg {
    Kwarg {
        name,
        kind,
        field,
        is_hosts: false,
    }
}

pub(crate) const KWARGS: &[Kwarg] = &[
    host("blkio_weight", Kind::Number, "BlkioWeight"),
    host("cap_add", Kind::Texts, "CapAdd"),
    host("cap_drop", Kind::Texts, "CapDrop"),
    host("cgroup_parent", Kind::Text, "CgroupParent"),
    host("cgroupns", Kind::Text, "CgroupnsMode"),
    host("cpu_period", Kind::Number, "CpuPeriod"),
    host("cpu_quota", Kind::Number, "CpuQuota"),
    host("cpu_rt_period", Kind::Number, "CpuRealtimePeriod"),
    host("cpu_rt_runtime", Kind::Number, "CpuRealtimeRuntime"),
    host("cpu_shares", Kind::Number, "CpuShares"),
    host("cpuset_cpus", Kind::Text, "CpusetCpus"),
    host("cpuset_mems", Kind::Text, "CpusetMems"),
    host("device_cgroup_rules", Kind::Texts, "DeviceCgroupRules"),
    host("devices", Kind::Devices, "Devices"),
    host("dns", Kind::Texts, "Dns"),
    host("dns_opt", Kind::Texts, "DnsOptions"),
    host("dns_search", Kind::Texts, "DnsSearch"),
    own("domainname", Kind::Text, "Domainname"),
    host("extra_hosts", Kind::Hosts, "ExtraHosts"),
    host("group_add", Kind::Texts, "GroupAdd"),
    own("hostname", Kind::Text, "Hostname"),
    host("init", Kind::Flag, "Init"),
    host("ipc_mode", Kind::Text, "IpcMode"),
    own("labels", Kind::Pairs, "Labels"),
    host("log_config", Kind::LogConfig, "LogConfig"),
    host("mem_limit", Kind::Bytes, "Memory"),
    host("mem_reservation", Kind::Bytes, "MemoryReservation"),
    host("mem_swappiness", Kind::Number, "MemorySwappiness"),
    host("memswap_limit", Kind::Bytes, "MemorySwap"),
    host("nano_cpus", Kind::Number, "NanoCpus"),
    host("network", Kind::Text, "NetworkMode"),
    host("network_mode", Kind::Text, "NetworkMode"),
    host("oom_kill_disable", Kind::Flag, "OomKillDisable"),
    host("oom_score_adj", Kind::Number, "OomScoreAdj"),
    host("pid_mode", Kind::Text, "PidMode"),
    host("pids_limit", Kind::Number, "PidsLimit"),
    own("platform", Kind::Text, PLATFORM),
    host("privileged", Kind::Flag, "Privileged"),
    host("read_only", Kind::Flag, "ReadonlyRootfs"),
    host("runtime", Kind::Text, "Runtime"),
    host("security_opt", Kind::Texts, "SecurityOpt"),
    host("shm_size", Kind::Bytes, "ShmSize"),
    own("stop_signal", Kind::Text, "StopSignal"),
    host("storage_opt", Kind::Pairs, "StorageOpt"),
    host("sysctls", Kind::Pairs, "Sysctls"),
    host("tmpfs", Kind::Pairs, "Tmpfs"),
    host("ulimits", Kind::Ulimits, "Ulimits"),
    own("user", Kind::Text, "User"),
    host("userns_mode", Kind::Text, "UsernsMode"),
    host("uts_mode", Kind::Text, "UTSMode"),
    own("working_dir", Kind::Text, "WorkingDir"),
];

/// An option of the request's URL instead of its body; the caller moves it there.
pub(crate) const PLATFORM: &str = "Platform";

/// The engine's options of the machine that the container runs on.
const HOST_CONFIG: &str = "HostConfig";

/// Options of the SDK's that flow does not take, and why.
const REFUSED: &[(&str, &str)] = &[
    (
        "auto_remove",
        "flow removes the container, after it has looked how it ended",
    ),
    (
        "command",
        "flow tells the executor its arguments; `entrypoint` is what gets them",
    ),
    ("detach", "flow relays the container's log"),
    ("device_requests", "write `gpus` beside `docker_kwargs`"),
    ("entrypoint", "write it beside `docker_kwargs`"),
    ("environment", "write `env` beside `docker_kwargs`"),
    ("gpus", "write it beside `docker_kwargs`"),
    (
        "healthcheck",
        "flow asks the executor itself for its health",
    ),
    ("image", "`uses` names it"),
    (
        "links",
        "containers of one network find each other by name: write `network`",
    ),
    ("mounts", "write `volumes` beside `docker_kwargs`"),
    ("name", "each replica has a name of its own"),
    (
        "ports",
        "flow publishes the executor's port; `port` beside `docker_kwargs` says which",
    ),
    ("publish_all_ports", "flow publishes the executor's port"),
    (
        "remove",
        "flow removes the container, after it has looked how it ended",
    ),
    ("restart_policy", "flow starts it again when it ends"),
    ("stdin_open", "nothing is said to an executor but over gRPC"),
    ("tty", "flow reads the log as lines"),
    ("volumes", "write it beside `docker_kwargs`"),
    ("volumes_from", "write `volumes` beside `docker_kwargs`"),
];

/// Reads all of them; what is left out here was reported.
fn kwargs(node: &Node, diagnostics: &mut Diagnostics) -> Option<Map<String, Value>> {
    if scalar(node).is_some_and(|it| it.text.trim().is_empty()) {
        return None;
    }
    let node = mapping(node, diagnostics)?;
    let mut engine = Map::new();
    for entry in entries(&node, diagnostics)? {
        let Some(kwarg) = find(entry, diagnostics) else {
            continue;
        };
        let Some(value) = value(&entry.value, kwarg, diagnostics) else {
            continue;
        };
        let section = match kwarg.is_hosts {
            true => object(&mut engine, HOST_CONFIG),
            false => &mut engine,
        };
        if section.insert(kwarg.field.to_owned(), value).is_some() {
            let message = format!("`{}` is said twice, by two names", entry.key);
            diagnostics.problem(Problem::new(&entry.span, message).remedy("keep one of them"));
        }
    }
    Some(engine)
}

/// The mapping of this name, which is created if it does not exist.
fn object<'m>(within: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    let value = within.entry(name).or_insert_with(|| json!({}));
    value.as_object_mut().expect("only mappings are put there")
}

fn find(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<&'static Kwarg> {
    let key = entry.key.as_str();
    let found = KWARGS.iter().find(|it| it.is_called(key));
    if found.is_some() || entry.value.is_null() {
        return found.filter(|_| !entry.value.is_null());
    }
    let refused = REFUSED.iter().find(|(name, _)| *name == key);
    let problem = match refused {
        Some((name, why)) => {
            let message = format!("`{name}` is not for `docker_kwargs`: {why}");
            Problem::new(&entry.span, message)
        }
        None => {
            let message = format!("`{key}` is no option of a container that flow knows");
            let meant = closest(key, KWARGS.iter().map(|it| it.name));
            Problem::new(&entry.span, message).suggest(meant)
        }
    };
    diagnostics.problem(problem);
    None
}

fn value(node: &Node, kwarg: &Kwarg, diagnostics: &mut Diagnostics) -> Option<Value> {
    match kwarg.kind {
        Kind::Text if kwarg.field == "NetworkMode" => network(node, diagnostics).map(Value::from),
        Kind::Text => loose_text(node, diagnostics).map(Value::from),
        Kind::Texts => Some(json!(texts(node, diagnostics))),
        Kind::Number => match integer(node) {
            Some(number) => Some(number.into()),
            None => reject(node, "a whole number", diagnostics),
        },
        Kind::Bytes => bytes(node, diagnostics).map(Value::from),
        Kind::Flag => flag(node, diagnostics).map(Value::from),
        Kind::Pairs => pairs(node, '=', diagnostics).map(Value::from),
        Kind::Hosts => {
            let hosts = pairs(node, ':', diagnostics)?;
            let line = |(name, address): (&String, &Value)| {
                format!("{name}:{}", address.as_str().unwrap_or_default())
            };
            Some(json!(hosts.iter().map(line).collect::<Vec<_>>()))
        }
        Kind::Devices => Some(json!(
            texts(node, diagnostics)
                .iter()
                .map(|it| device(it))
                .collect::<Vec<_>>()
        )),
        Kind::Ulimits => {
            let read = |item: &Node| ulimit(item, diagnostics);
            let limits: Option<Vec<Value>> = items(node).iter().map(read).collect();
            limits.map(Value::from)
        }
        Kind::LogConfig => log_config(node, diagnostics),
    }
}

/// A network in which the executor can be reached.
fn network(node: &Node, diagnostics: &mut Diagnostics) -> Option<String> {
    let name = text(node, diagnostics)?;
    if name != "none" && !name.starts_with("container:") {
        return Some(name);
    }
    let message = format!("nobody could reach an executor in the network `{name}`");
    let remedy = "write `bridge`, `host`, or the name of a network";
    diagnostics.problem(Problem::new(&node.span, message).remedy(remedy));
    None
}

/// The items of a list; one value is a list of one.
fn items(node: &Node) -> &[Node] {
    match &node.content {
        Content::List(items) => items,
        Content::Scalar(_) | Content::Mapping(_) => std::slice::from_ref(node),
    }
}

fn texts(node: &Node, diagnostics: &mut Diagnostics) -> Vec<String> {
    let read = |item: &Node| loose_text(item, diagnostics);
    items(node).iter().filter_map(read).collect()
}

/// `512m`: bytes, with Docker's units. -1 is what it means there: no limit.
fn bytes(node: &Node, diagnostics: &mut Diagnostics) -> Option<i64> {
    const WANTED: &str = "bytes, as a number or with a unit (`512m`, `2g`)";
    if let Some(number) = integer(node).filter(|it| *it >= -1) {
        return Some(number);
    }
    let Some(Resolved::Text(text)) = scalar(node).map(Scalar::resolve) else {
        return reject(node, WANTED, diagnostics);
    };
    let lower = text.to_ascii_lowercase();
    let lower = lower.trim_end_matches('b').trim_end_matches('i');
    let digits = lower.trim_end_matches(['k', 'm', 'g', 't']).trim();
    let shift = match &lower[lower.trim_end_matches(['k', 'm', 'g', 't']).len()..] {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return reject(node, WANTED, diagnostics),
    };
    let number: Option<i64> = digits.parse().ok().filter(|it| *it >= 0);
    match number.and_then(|it| it.checked_mul(1 << shift)) {
        Some(bytes) => Some(bytes),
        None => reject(node, WANTED, diagnostics),
    }
}

/// A mapping, or a list of texts that are cut at `sign`.
fn pairs(node: &Node, sign: char, diagnostics: &mut Diagnostics) -> Option<Map<String, Value>> {
    if let Content::Mapping(entries) = &node.content {
        let read =
            |entry: &Entry| Some((entry.key.clone(), loose_text(&entry.value, diagnostics)?));
        let found = entries.iter().filter_map(read);
        return Some(found.map(|(key, value)| (key, value.into())).collect());
    }
    let texts = texts(node, diagnostics);
    let pair = |text: &String| {
        let (key, value) = text.split_once(sign).unwrap_or((text, ""));
        (key.to_owned(), Value::from(value))
    };
    Some(texts.iter().map(pair).collect())
}

fn device(written: &str) -> Value {
    let mut parts = written.split(':');
    let on_host = parts.next().unwrap_or_default();
    let inside = parts.next().unwrap_or(on_host);
    json!({
        "PathOnHost": on_host,
        "PathInContainer": inside,
        "CgroupPermissions": parts.next().unwrap_or("rwm"),
    })
}

fn ulimit(node: &Node, diagnostics: &mut Diagnostics) -> Option<Value> {
    let find = |name: &str| {
        let mut entries = match &node.content {
            Content::Mapping(entries) => entries.iter(),
            Content::List(_) | Content::Scalar(_) => [].iter(),
        };
        entries.find(|entry| entry.key.eq_ignore_ascii_case(name))
    };
    let number = |name: &str| find(name).and_then(|entry| integer(&entry.value));
    let Some(name) = find("name") else {
        return reject(
            node,
            "`{name: nofile, soft: 1024, hard: 4096}`",
            diagnostics,
        );
    };
    let (soft, hard) = (number("soft"), number("hard"));
    Some(json!({
        "Name": text(&name.value, diagnostics)?,
        "Soft": soft.or(hard)?,
        "Hard": hard.or(soft)?,
    }))
}

fn log_config(node: &Node, diagnostics: &mut Diagnostics) -> Option<Value> {
    let Some(driver) = node.get("type").or_else(|| node.get("Type")) else {
        return reject(
            node,
            "`{type: json-file, config: {max-size: 10m}}`",
            diagnostics,
        );
    };
    let config = node.get("config").or_else(|| node.get("Config"));
    let config = match config {
        Some(config) => pairs(config, '=', diagnostics)?,
        None => Map::new(),
    };
    Some(json!({"Type": text(driver, diagnostics)?, "Config": config}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    /// What the engine is told, or the problems.
    fn read(text: &str) -> String {
        let node = yaml::parse(text).unwrap();
        let mut diagnostics = Diagnostics::default();
        let engine = kwargs(&node, &mut diagnostics);
        if diagnostics.problems.is_empty() {
            return Value::from(engine.unwrap()).to_string();
        }
        let problems = diagnostics.problems.iter().map(ToString::to_string);
        problems.collect::<Vec<_>>().join(" / ")
    }

    #[test]
    fn options_become_the_engines_own() {
        let check = |text: &str, expected: &str| assert_eq!(read(text), expected, "{text}");
        check(
            "{mem_limit: 512m}",
            r#"{"HostConfig":{"Memory":536870912}}"#,
        );
        check(
            "{shm_size: 1GiB}",
            r#"{"HostConfig":{"ShmSize":1073741824}}"#,
        );
        check("{memswap_limit: -1}", r#"{"HostConfig":{"MemorySwap":-1}}"#);
        check("{Memory: 7}", r#"{"HostConfig":{"Memory":7}}"#);
        check(
            "{network: team}",
            r#"{"HostConfig":{"NetworkMode":"team"}}"#,
        );
        check(
            "{user: 1000, read_only: true}",
            r#"{"User":"1000","HostConfig":{"ReadonlyRootfs":true}}"#,
        );
        check(
            "{extra_hosts: {db: 10.0.0.1}}",
            r#"{"HostConfig":{"ExtraHosts":["db:10.0.0.1"]}}"#,
        );
        check(
            "{extra_hosts: ['db:::1']}",
            r#"{"HostConfig":{"ExtraHosts":["db:::1"]}}"#,
        );
        check("{cap_drop: ALL}", r#"{"HostConfig":{"CapDrop":["ALL"]}}"#);
        check("{labels: [a=b, c]}", r#"{"Labels":{"a":"b","c":""}}"#);
        check("{platform: linux/arm64}", r#"{"Platform":"linux/arm64"}"#);
        check("{runtime: ~}", "{}");
        check(
            "{devices: ['/dev/fuse', '/dev/a:/dev/b:r']}",
            r#"{"HostConfig":{"Devices":[{"PathOnHost":"/dev/fuse","PathInContainer":"/dev/fuse","CgroupPermissions":"rwm"},{"PathOnHost":"/dev/a","PathInContainer":"/dev/b","CgroupPermissions":"r"}]}}"#,
        );
        check(
            "{ulimits: [{name: nofile, soft: 5}], log_config: {type: local}}",
            r#"{"HostConfig":{"Ulimits":[{"Name":"nofile","Soft":5,"Hard":5}],"LogConfig":{"Type":"local","Config":{}}}}"#,
        );
    }

    #[test]
    fn what_is_no_option_is_refused_with_what_was_meant() {
        let check = |text: &str, expected: &str| assert_eq!(read(text), expected, "{text}");
        check(
            "{mem_limits: 1}",
            "`mem_limits` is no option of a container that flow knows; did you mean `mem_limit`?",
        );
        check(
            "{name: x}",
            "`name` is not for `docker_kwargs`: each replica has a name of its own",
        );
        check(
            "{mem_limit: much}",
            "must be bytes, as a number or with a unit (`512m`, `2g`), is the text `much`",
        );
        check(
            "{network: a, network_mode: b}",
            "`network_mode` is said twice, by two names; keep one of them",
        );
        check(
            "{network_mode: none}",
            "nobody could reach an executor in the network `none`; write `bridge`, `host`, or the name \
             of a network",
        );
    }
}
