//! `docker_kwargs`: options of a container by the names that Docker's Python SDK or its engine have for them.
//!
//! The table is the whole list. What flow does itself, or says in another key, is refused with that key's
//! name.

use flow_core::closest;
use indexmap::IndexMap;

use super::form::{Shape, ValueForm};
use super::scalar::{entries, flag, integer, loose_text, mapping, reject, scalar, text};
use crate::diagnostics::{Diagnostics, Problem};
use crate::values::{ContainerDevice, DockerOption, DockerOptions, LogDriver, Ulimit};
use crate::yaml::{Resolved, Scalar, YamlContent, YamlEntry, YamlNode};

pub(crate) const DOCKER_KWARGS: ValueForm<DockerOptions> = ValueForm::new(Shape::Docker, kwargs);

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KwargKind {
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
    pub(crate) kind: KwargKind,
    /// The engine's own name for it.
    engine_name: &'static str,
}

impl Kwarg {
    /// Whether `docker_kwargs` may call it by this name: that of the SDK or the engine's own.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.engine_name == name
    }
}

const fn kwarg(name: &'static str, kind: KwargKind, engine_name: &'static str) -> Kwarg {
    Kwarg {
        name,
        kind,
        engine_name,
    }
}

/// The engine's own name for an option of the SDK.
#[must_use]
pub fn engine_name(option: &str) -> Option<&'static str> {
    let kwarg = KWARGS.iter().find(|kwarg| kwarg.name == option);
    kwarg.map(|kwarg| kwarg.engine_name)
}

pub(crate) const KWARGS: &[Kwarg] = &[
    kwarg("blkio_weight", KwargKind::Number, "BlkioWeight"),
    kwarg("cap_add", KwargKind::Texts, "CapAdd"),
    kwarg("cap_drop", KwargKind::Texts, "CapDrop"),
    kwarg("cgroup_parent", KwargKind::Text, "CgroupParent"),
    kwarg("cgroupns", KwargKind::Text, "CgroupnsMode"),
    kwarg("cpu_period", KwargKind::Number, "CpuPeriod"),
    kwarg("cpu_quota", KwargKind::Number, "CpuQuota"),
    kwarg("cpu_rt_period", KwargKind::Number, "CpuRealtimePeriod"),
    kwarg("cpu_rt_runtime", KwargKind::Number, "CpuRealtimeRuntime"),
    kwarg("cpu_shares", KwargKind::Number, "CpuShares"),
    kwarg("cpuset_cpus", KwargKind::Text, "CpusetCpus"),
    kwarg("cpuset_mems", KwargKind::Text, "CpusetMems"),
    kwarg("device_cgroup_rules", KwargKind::Texts, "DeviceCgroupRules"),
    kwarg("devices", KwargKind::Devices, "Devices"),
    kwarg("dns", KwargKind::Texts, "Dns"),
    kwarg("dns_opt", KwargKind::Texts, "DnsOptions"),
    kwarg("dns_search", KwargKind::Texts, "DnsSearch"),
    kwarg("domainname", KwargKind::Text, "Domainname"),
    kwarg("extra_hosts", KwargKind::Hosts, "ExtraHosts"),
    kwarg("group_add", KwargKind::Texts, "GroupAdd"),
    kwarg("hostname", KwargKind::Text, "Hostname"),
    kwarg("init", KwargKind::Flag, "Init"),
    kwarg("ipc_mode", KwargKind::Text, "IpcMode"),
    kwarg("labels", KwargKind::Pairs, "Labels"),
    kwarg("log_config", KwargKind::LogConfig, "LogConfig"),
    kwarg("mem_limit", KwargKind::Bytes, "Memory"),
    kwarg("mem_reservation", KwargKind::Bytes, "MemoryReservation"),
    kwarg("mem_swappiness", KwargKind::Number, "MemorySwappiness"),
    kwarg("memswap_limit", KwargKind::Bytes, "MemorySwap"),
    kwarg("nano_cpus", KwargKind::Number, "NanoCpus"),
    kwarg(NETWORK, KwargKind::Text, "NetworkMode"),
    kwarg("network_mode", KwargKind::Text, "NetworkMode"),
    kwarg("oom_kill_disable", KwargKind::Flag, "OomKillDisable"),
    kwarg("oom_score_adj", KwargKind::Number, "OomScoreAdj"),
    kwarg("pid_mode", KwargKind::Text, "PidMode"),
    kwarg("pids_limit", KwargKind::Number, "PidsLimit"),
    kwarg(PLATFORM, KwargKind::Text, "Platform"),
    kwarg("privileged", KwargKind::Flag, "Privileged"),
    kwarg("read_only", KwargKind::Flag, "ReadonlyRootfs"),
    kwarg("runtime", KwargKind::Text, "Runtime"),
    kwarg("security_opt", KwargKind::Texts, "SecurityOpt"),
    kwarg("shm_size", KwargKind::Bytes, "ShmSize"),
    kwarg("stop_signal", KwargKind::Text, "StopSignal"),
    kwarg("storage_opt", KwargKind::Pairs, "StorageOpt"),
    kwarg("sysctls", KwargKind::Pairs, "Sysctls"),
    kwarg("tmpfs", KwargKind::Pairs, "Tmpfs"),
    kwarg("ulimits", KwargKind::Ulimits, "Ulimits"),
    kwarg("user", KwargKind::Text, "User"),
    kwarg("userns_mode", KwargKind::Text, "UsernsMode"),
    kwarg("uts_mode", KwargKind::Text, "UTSMode"),
    kwarg("working_dir", KwargKind::Text, "WorkingDir"),
];

/// The platform of the image, which is no option of the container itself.
pub(crate) const PLATFORM: &str = "platform";

/// The network that the container joins; also called `network_mode`.
pub(crate) const NETWORK: &str = "network";

/// Options of the SDK's that flow does not take, and why.
const REFUSED: &[(&str, &str)] = &[
    (
        "auto_remove",
        "flow removes the container after it has read its exit status",
    ),
    (
        "command",
        "flow sets the arguments of the executor; `entrypoint` receives them",
    ),
    ("detach", "flow relays the container's log"),
    ("device_requests", "write `gpus` beside `docker_kwargs`"),
    ("entrypoint", "write it beside `docker_kwargs`"),
    ("environment", "write `env` beside `docker_kwargs`"),
    ("gpus", "write it beside `docker_kwargs`"),
    (
        "healthcheck",
        "flow checks the health of the executor itself",
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
        "flow removes the container after it has read its exit status",
    ),
    ("restart_policy", "flow starts it again when it ends"),
    ("stdin_open", "flow talks to executors only over gRPC"),
    ("tty", "flow reads the log as lines"),
    ("volumes", "write it beside `docker_kwargs`"),
    ("volumes_from", "write `volumes` beside `docker_kwargs`"),
];

/// Reads all of them; what is left out here was reported.
fn kwargs(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<DockerOptions> {
    if scalar(node).is_some_and(|it| it.text.trim().is_empty()) {
        return None;
    }
    let node = mapping(node, diagnostics)?;
    let mut options = DockerOptions::default();
    for entry in entries(&node, diagnostics)? {
        let Some(kwarg) = find(entry, diagnostics) else {
            continue;
        };
        let Some(value) = value(&entry.value, kwarg, diagnostics) else {
            continue;
        };
        if options.set(main_name(kwarg), value).is_some() {
            let message = format!("`{}` is given twice, under two names", entry.key);
            diagnostics.problem(Problem::new(&entry.span, message).remedy("keep one of them"));
        }
    }
    Some(options)
}

/// The first of an option's names in the SDK.
fn main_name(kwarg: &Kwarg) -> &'static str {
    let mut same = KWARGS
        .iter()
        .filter(|it| it.engine_name == kwarg.engine_name);
    same.next().map_or(kwarg.name, |it| it.name)
}

fn find(entry: &YamlEntry, diagnostics: &mut Diagnostics) -> Option<&'static Kwarg> {
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
            let message = format!("`{key}` is not a container option that flow knows");
            let meant = closest(key, KWARGS.iter().map(|it| it.name));
            Problem::new(&entry.span, message).suggest(meant)
        }
    };
    diagnostics.problem(problem);
    None
}

fn value(node: &YamlNode, kwarg: &Kwarg, diagnostics: &mut Diagnostics) -> Option<DockerOption> {
    use DockerOption as Value;
    match kwarg.kind {
        KwargKind::Text if main_name(kwarg) == NETWORK => {
            network(node, diagnostics).map(Value::Text)
        }
        KwargKind::Text => loose_text(node, diagnostics).map(Value::Text),
        KwargKind::Texts => Some(Value::Texts(texts(node, diagnostics))),
        KwargKind::Number => match integer(node) {
            Some(number) => Some(Value::Number(number)),
            None => reject(node, "a whole number", diagnostics),
        },
        KwargKind::Bytes => bytes(node, diagnostics).map(Value::Number),
        KwargKind::Flag => flag(node, diagnostics).map(Value::Flag),
        KwargKind::Pairs => Some(Value::Pairs(pairs(node, '=', diagnostics))),
        KwargKind::Hosts => Some(Value::Hosts(pairs(node, ':', diagnostics))),
        KwargKind::Devices => {
            let texts = texts(node, diagnostics);
            Some(Value::Devices(texts.iter().map(|it| device(it)).collect()))
        }
        KwargKind::Ulimits => {
            let read = |item: &YamlNode| ulimit(item, diagnostics);
            let limits: Option<Vec<Ulimit>> = items(node).iter().map(read).collect();
            limits.map(Value::Ulimits)
        }
        KwargKind::LogConfig => log_config(node, diagnostics).map(Value::Logging),
    }
}

/// A network in which the executor can be reached.
fn network(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<String> {
    let name = text(node, diagnostics)?;
    if name != "none" && !name.starts_with("container:") {
        return Some(name);
    }
    let message = format!("no other process could reach an executor in the network `{name}`");
    let remedy = "write `bridge`, `host`, or the name of a network";
    diagnostics.problem(Problem::new(&node.span, message).remedy(remedy));
    None
}

/// The items of a list; one value is a list of one.
fn items(node: &YamlNode) -> &[YamlNode] {
    match &node.content {
        YamlContent::List(items) => items,
        YamlContent::Scalar(_) | YamlContent::Mapping(_) => std::slice::from_ref(node),
    }
}

fn texts(node: &YamlNode, diagnostics: &mut Diagnostics) -> Vec<String> {
    let read = |item: &YamlNode| loose_text(item, diagnostics);
    items(node).iter().filter_map(read).collect()
}

/// `512m`: bytes, with Docker's units. -1 is what it means there: no limit.
pub(super) fn bytes(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<i64> {
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
fn pairs(node: &YamlNode, sign: char, diagnostics: &mut Diagnostics) -> IndexMap<String, String> {
    if let YamlContent::Mapping(entries) = &node.content {
        let read =
            |entry: &YamlEntry| Some((entry.key.clone(), loose_text(&entry.value, diagnostics)?));
        return entries.iter().filter_map(read).collect();
    }
    let texts = texts(node, diagnostics);
    let pair = |text: &String| {
        let (key, value) = text.split_once(sign).unwrap_or((text, ""));
        (key.to_owned(), value.to_owned())
    };
    texts.iter().map(pair).collect()
}

fn device(written: &str) -> ContainerDevice {
    let mut parts = written.split(':');
    let host = parts.next().unwrap_or_default();
    let inside = parts.next().unwrap_or(host);
    ContainerDevice {
        host: host.to_owned(),
        inside: inside.to_owned(),
        permissions: parts.next().unwrap_or("rwm").to_owned(),
    }
}

fn ulimit(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Ulimit> {
    let find = |name: &str| {
        let mut entries = match &node.content {
            YamlContent::Mapping(entries) => entries.iter(),
            YamlContent::List(_) | YamlContent::Scalar(_) => [].iter(),
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
    Some(Ulimit {
        name: text(&name.value, diagnostics)?,
        soft: soft.or(hard)?,
        hard: hard.or(soft)?,
    })
}

fn log_config(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<LogDriver> {
    let Some(driver) = node.get("type").or_else(|| node.get("Type")) else {
        return reject(
            node,
            "`{type: json-file, config: {max-size: 10m}}`",
            diagnostics,
        );
    };
    let options = node.get("config").or_else(|| node.get("Config"));
    Some(LogDriver {
        driver: text(driver, diagnostics)?,
        options: options.map_or_else(IndexMap::new, |it| pairs(it, '=', diagnostics)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    /// The options as JSON, or the problems.
    fn read(text: &str) -> String {
        let node = yaml::parse(text).unwrap();
        let mut diagnostics = Diagnostics::default();
        let options = kwargs(&node, &mut diagnostics);
        if diagnostics.problems.is_empty() {
            return serde_json::to_string(&options.unwrap()).unwrap();
        }
        let problems = diagnostics.problems.iter().map(ToString::to_string);
        problems.collect::<Vec<_>>().join(" / ")
    }

    #[test]
    fn options_are_read_by_their_kind() {
        let check = |text: &str, expected: &str| assert_eq!(read(text), expected, "{text}");
        check("{mem_limit: 512m}", r#"{"mem_limit":{"number":536870912}}"#);
        check("{shm_size: 1GiB}", r#"{"shm_size":{"number":1073741824}}"#);
        check("{memswap_limit: -1}", r#"{"memswap_limit":{"number":-1}}"#);
        check("{Memory: 7}", r#"{"mem_limit":{"number":7}}"#);
        check("{network: team}", r#"{"network":{"text":"team"}}"#);
        check("{network_mode: team}", r#"{"network":{"text":"team"}}"#);
        check(
            "{user: 1000, read_only: true}",
            r#"{"user":{"text":"1000"},"read_only":{"flag":true}}"#,
        );
        check(
            "{extra_hosts: {db: 10.0.0.1}}",
            r#"{"extra_hosts":{"hosts":{"db":"10.0.0.1"}}}"#,
        );
        check(
            "{extra_hosts: ['db:::1']}",
            r#"{"extra_hosts":{"hosts":{"db":"::1"}}}"#,
        );
        check("{cap_drop: ALL}", r#"{"cap_drop":{"texts":["ALL"]}}"#);
        check(
            "{labels: [a=b, c]}",
            r#"{"labels":{"pairs":{"a":"b","c":""}}}"#,
        );
        check(
            "{platform: linux/arm64}",
            r#"{"platform":{"text":"linux/arm64"}}"#,
        );
        check("{runtime: ~}", "{}");
        check(
            "{devices: ['/dev/fuse', '/dev/a:/dev/b:r']}",
            r#"{"devices":{"devices":[{"host":"/dev/fuse","inside":"/dev/fuse","permissions":"rwm"},{"host":"/dev/a","inside":"/dev/b","permissions":"r"}]}}"#,
        );
        check(
            "{ulimits: [{name: nofile, soft: 5}], log_config: {type: local}}",
            r#"{"ulimits":{"ulimits":[{"name":"nofile","soft":5,"hard":5}]},"log_config":{"logging":{"driver":"local","options":{}}}}"#,
        );
    }

    #[test]
    fn unknown_options_are_refused_with_a_suggestion() {
        let check = |text: &str, expected: &str| assert_eq!(read(text), expected, "{text}");
        check(
            "{mem_limits: 1}",
            "`mem_limits` is not a container option that flow knows; did you mean `mem_limit`?",
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
            "`network_mode` is given twice, under two names; keep one of them",
        );
        check(
            "{network_mode: none}",
            "no other process could reach an executor in the network `none`; write `bridge`, `host`, or the name \
             of a network",
        );
    }
}
