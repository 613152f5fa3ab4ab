//! Prints what a flow file says as JSON, which is YAML too, so that tests can read it again.

use std::num::{NonZeroU16, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use flow_core::query::Query;
use flow_core::{NodeName, Secret};
use indexmap::IndexMap;
use serde_json::value::Serializer;
use serde_json::{Map, Value, json};

use crate::diagnostics::Spanned;
use crate::forms::Host;
use crate::spec::hub::{Hub, HubName};
use crate::spec::program::{ExecutorConfig, Program};
use crate::spec::{ExecutorSpec, FlowSpec, GatewaySpec, InheritedSpec};
use crate::values::{
    Arguments, BatchMetric, BatchingRule, ClientCertificates, Compression, ConnectMethod, Console,
    ContainerDevice, Cors, DockerOption, DockerOptions, Env, ExposedEndpoint, GatewayKind, Gpus,
    Hedge, InheritEnv, Inspect, LogDriver, LogStyle, Millicpus, ModelNames, NetworkMode, Poll,
    Polling, Protocol, Retries, Sandbox, Uses, UvicornOptions, Volume, Workers,
};
use crate::yaml::YamlNode;

/// A value as a flow file may write it.
pub(crate) trait Print {
    fn print(&self) -> Value;
}

/// The options of a table. `options!` implements it.
pub(crate) trait PrintOptions {
    fn print(&self, into: &mut Map<String, Value>);
}

impl FlowSpec {
    /// The flow file in its plainest form.
    pub(crate) fn print(&self) -> String {
        let mut with = Map::new();
        self.options.print(&mut with);
        self.gateway_with.print(&mut with);
        self.executors_with.print(&mut with);
        let mut gateway = Map::new();
        self.gateway.print(&mut gateway);
        let executors: Vec<Value> = self.executors.iter().map(ExecutorSpec::print).collect();
        json!({"jtype": "Flow", "with": with, "gateway": gateway, "executors": executors})
            .to_string()
    }
}

impl GatewaySpec {
    fn print(&self, into: &mut Map<String, Value>) {
        self.options.print(into);
        self.log.print(into);
        self.monitoring.print(into);
        self.telemetry.print(into);
    }
}

impl InheritedSpec {
    fn print(&self, into: &mut Map<String, Value>) {
        self.options.print(into);
        self.log.print(into);
        self.monitoring.print(into);
        self.telemetry.print(into);
        self.container.print(into);
    }
}

impl ExecutorSpec {
    fn print(&self) -> Value {
        let mut options = Map::new();
        self.entry.print(&mut options);
        self.options.print(&mut options);
        self.inherited.print(&mut options);
        options.into()
    }
}

impl<T: Print> Print for Vec<Spanned<T>> {
    fn print(&self) -> Value {
        self.iter().map(|item| item.value.print()).collect()
    }
}

macro_rules! print_as {
    ($($Type:ty: $it:ident => $value:expr;)*) => {
        $(impl Print for $Type {
            fn print(&self) -> Value {
                let $it = self;
                $value
            }
        })*
    };
}

print_as! {
    String: it => json!(it);
    bool: it => json!(it);
    u16: it => json!(it);
    u64: it => json!(it);
    NonZeroU16: it => json!(it);
    NonZeroUsize: it => json!(it);
    NonZeroU64: it => json!(it);
    Millicpus: it => json!(it.to_string());
    Sandbox: it => sandbox(it);
    NodeName: it => json!(it.as_str());
    DockerOptions: it => docker_options(it);
    Map<String, Value>: it => json!(it);
    IndexMap<String, String>: it => json!(it);
    Env: it => it.serialize_revealed(Serializer).expect("texts are always JSON");
    Vec<String>: it => json!(it);
    ModelNames: it => it.iter().map(|(key, value)| (key.clone(), json!(value.value))).collect();
    Vec<(String, String)>: it => it.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    Arguments: it => json!(it.values.reveal());
    Secret<Vec<(String, String)>>: it => it.reveal().print();
    IndexMap<String, BatchingRule>: it => json!(it);
    BatchMetric: it => json!(it);
    Protocol: it => json!(it);
    ClientCertificates: it => json!(it);
    Polling: it => polling(it);
    Workers: it => json!(it.to_string());
    Vec<Host>: it => json!(it.iter().map(host).collect::<Vec<_>>().join(","));
    Hub: it => json!(it.to_string());
    Gpus: it => gpus(it);
    Volume: it => volume(it);
    Option<Query>: it => it.as_ref().map_or(json!({}), |query| query.json().clone());
    Program: it => program(it);
}

/// Versions have one value.
impl Print for () {
    fn print(&self) -> Value {
        json!("1")
    }
}

impl Print for GatewayKind {
    fn print(&self) -> Value {
        let name = Self::NAMES.iter().find(|(_, kind)| kind == self);
        json!(name.map(|(name, _)| name))
    }
}

impl Print for UvicornOptions {
    fn print(&self) -> Value {
        let text = |it: &Option<Spanned<String>>| it.as_ref().map(|it| it.value.clone());
        let certificates = self.ssl_client_certs.as_ref();
        json!({
            "ssl_certfile": text(&self.ssl_certfile),
            "ssl_keyfile": text(&self.ssl_keyfile),
            "ssl_ca_certs": text(&self.ssl_ca_certs),
            "ssl_cert_reqs": certificates.map(|it| it.value.print()),
            "limit_concurrency": self.in_flight_max.as_ref().map(|it| it.value),
        })
    }
}

impl Print for InheritEnv {
    fn print(&self) -> Value {
        match self {
            Self::All => json!(true),
            Self::Listed(names) if names.is_empty() => json!(false),
            Self::Listed(names) => json!(names),
        }
    }
}

impl Print for Cors {
    fn print(&self) -> Value {
        match self {
            Self::Off => json!(false),
            Self::Any => json!(true),
            Self::Origins(origins) => json!(origins),
        }
    }
}

impl Print for Console {
    fn print(&self) -> Value {
        match self {
            Self::On => json!(true),
            Self::ReadOnly => json!("read-only"),
            Self::Off => json!(false),
        }
    }
}

impl Print for IndexMap<String, ExposedEndpoint> {
    fn print(&self) -> Value {
        let exposed = self.iter().map(|(endpoint, it)| {
            let mut options = json!({"http_path": it.path, "methods": it.methods});
            if let Some(summary) = &it.summary {
                options["summary"] = json!(summary);
            }
            (endpoint.clone(), options)
        });
        exposed.collect::<Map<_, _>>().into()
    }
}

/// Mappings of options are taken apart before a flow file is printed.
impl Print for YamlNode {
    fn print(&self) -> Value {
        self.to_json().expect("it was read as JSON")
    }
}

impl Print for Option<Compression> {
    fn print(&self) -> Value {
        self.map_or(json!("NoCompression"), |it| json!(it))
    }
}

impl Print for Option<Duration> {
    fn print(&self) -> Value {
        self.map_or(json!(-1), |time| {
            json!(humantime::format_duration(time).to_string())
        })
    }
}

impl Print for Option<LogStyle> {
    fn print(&self) -> Value {
        json!(match self {
            None => "default",
            Some(LogStyle::Text) => "plain",
            Some(LogStyle::Json) => "json",
            Some(LogStyle::Off) => "quiet",
        })
    }
}

impl Print for Retries {
    fn print(&self) -> Value {
        match self {
            Self::Default => json!(-1),
            Self::Times(times) => json!(times),
        }
    }
}

impl Print for Hedge {
    fn print(&self) -> Value {
        json!(match self {
            Self::After(time) => humantime::format_duration(*time).to_string(),
            Self::Percentile(percent) => format!("{percent}%"),
        })
    }
}

impl Print for Inspect {
    fn print(&self) -> Value {
        json!(match self {
            Self::Collect => "COLLECT",
            Self::Hang => "HANG",
            Self::Remove => "REMOVE",
        })
    }
}

impl Print for NetworkMode {
    fn print(&self) -> Value {
        json!(match self {
            Self::Host => "HOST",
            Self::Published => "AUTO",
        })
    }
}

impl Print for ConnectMethod {
    fn print(&self) -> Value {
        json!(match self {
            Self::Add => "add",
            Self::NeedsAll => "needs_all",
            Self::Inspect => "inspect",
            Self::GatherInspect => "gather_inspect",
        })
    }
}

fn polling(polling: &Polling) -> Value {
    let poll = |poll: &Poll| json!(poll);
    let named = polling.by_endpoint.iter();
    let named = named.map(|(endpoint, it)| (endpoint.clone(), poll(it)));
    named
        .chain([("*".to_owned(), poll(&polling.default))])
        .collect()
}

fn sandbox(sandbox: &Sandbox) -> Value {
    let Sandbox {
        memory,
        cpus,
        no_network,
        read_only,
    } = sandbox;
    json!({
        "memory": memory,
        "cpus": cpus.map(|it| it.to_string()),
        "no_network": no_network,
        "read_only": read_only,
    })
}

fn host(host: &Host) -> String {
    if let Some(service) = &host.service {
        return service.to_string();
    }
    let scheme = match (host.has_scheme, host.tls) {
        (true, true) => "grpcs://",
        (true, false) => "grpc://",
        (false, _) => "",
    };
    match (host.port, host.name.contains(':')) {
        (Some(port), true) => format!("{scheme}[{}]:{port}", host.name),
        (Some(port), false) => format!("{scheme}{}:{port}", host.name),
        (None, _) => format!("{scheme}{}", host.name),
    }
}

fn gpus(gpus: &Gpus) -> Value {
    let list = |key: &str, items: &[String]| match items {
        [] => None,
        items => Some(format!("\"{key}={}\"", items.join(","))),
    };
    let options: Vec<String> = gpus
        .options
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let parts = [
        gpus.count.map(|count| format!("count={count}")),
        list("device", &gpus.devices),
        gpus.driver
            .as_ref()
            .map(|driver| format!("driver={driver}")),
        list("capabilities", &gpus.capabilities),
        list("options", &options),
    ];
    json!(parts.into_iter().flatten().collect::<Vec<_>>().join(","))
}

fn volume(volume: &Volume) -> Value {
    json!({
        "type": if volume.is_named { "volume" } else { "bind" },
        "source": volume.host,
        "target": volume.inside,
        "read_only": volume.read_only,
    })
}

fn program(program: &Program) -> Value {
    match program {
        Program::Named(Uses::Named(name)) => json!(name),
        Program::Named(Uses::Path(path)) => json!(path),
        Program::Named(Uses::Image(image)) => json!(format!("docker://{image}")),
        Program::Hub(name) => json!(hub_name(name)),
        Program::Config(written) => config(&written.config),
    }
}

fn hub_name(name: &HubName) -> String {
    format!("hub://{}:{}", name.repository(), name.tag())
}

fn config(config: &ExecutorConfig) -> Value {
    let ExecutorConfig {
        jtype,
        with,
        metas,
        requests,
        batching,
        workspace,
        is_python: _,
    } = config;
    json!({
        "jtype": jtype,
        "with": with.reveal(),
        "metas": metas,
        "requests": requests,
        "dynamic_batching": batching,
        "workspace": workspace,
    })
}

fn docker_options(options: &DockerOptions) -> Value {
    let printed = options
        .iter()
        .map(|(name, value)| (name.to_owned(), docker_option(value)));
    Value::Object(printed.collect())
}

fn docker_option(option: &DockerOption) -> Value {
    match option {
        DockerOption::Text(text) => json!(text),
        DockerOption::Texts(texts) => json!(texts),
        DockerOption::Number(number) => json!(number),
        DockerOption::Flag(flag) => json!(flag),
        DockerOption::Pairs(pairs) | DockerOption::Hosts(pairs) => json!(pairs),
        DockerOption::Devices(devices) => devices.iter().map(device).collect(),
        DockerOption::Ulimits(limits) => json!(limits),
        DockerOption::Logging(LogDriver { driver, options }) => {
            json!({"type": driver, "config": options})
        }
    }
}

fn device(device: &ContainerDevice) -> Value {
    let ContainerDevice {
        host,
        inside,
        permissions,
    } = device;
    json!(format!("{host}:{inside}:{permissions}"))
}

mod tests;
