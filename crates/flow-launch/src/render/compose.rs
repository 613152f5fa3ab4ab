//! A flow for Docker Compose: one file, one service for each replica.
//!
//! A replica that is a service of its own has a name, so the gateway's placement names it, a device is
//! given to exactly one, and any version of Compose runs it.

use std::path::Path;

use flow_spec::{Address, Gateway, Plan, Run, Volume};
use indexmap::IndexMap;
use serde::Serialize;

use crate::render::devices::Share;
use crate::render::docker::{Healthcheck, as_it_is, entrypoint, secret_path, stop_grace_period};
use crate::render::export::{
    ExportError, ExportOptions, GatewayFiles, Rendered, RenderedFile, build_commands,
};
use crate::render::gateway_files;
use crate::render::gateway_health::GatewayHealth;
use crate::render::parts::{CACHE, Units, WORKSPACE, Workload};
use crate::render::placement::{self, placement};
use crate::render::secret_references::SecretReferences;
use crate::render::yaml;

#[derive(Debug, Serialize)]
struct File {
    services: IndexMap<String, Service>,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    volumes: IndexMap<String, Empty>,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    secrets: IndexMap<&'static str, SecretFile>,
}

/// A file of the machine that containers get as a secret.
#[derive(Debug, Serialize)]
struct SecretFile {
    file: String,
}

/// A volume with nothing but a name.
#[derive(Debug, Serialize)]
struct Empty {}

#[derive(Debug, Serialize)]
struct Service {
    image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    entrypoint: Option<Vec<String>>,
    command: Vec<String>,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    environment: IndexMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expose: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extra_hosts: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    volumes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    healthcheck: Option<Healthcheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deploy: Option<Deploy>,
    restart: &'static str,
    stop_grace_period: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tmpfs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cap_drop: Vec<&'static str>,
    security_opt: [&'static str; 1],
}

#[derive(Debug, Serialize)]
struct Deploy {
    resources: Reservations,
}

#[derive(Debug, Serialize)]
struct Reservations {
    reservations: Reserved,
}

#[derive(Debug, Serialize)]
struct Reserved {
    devices: [Device; 1],
}

#[derive(Debug, Serialize)]
struct Device {
    driver: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<Count>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    device_ids: Vec<String>,
    capabilities: [&'static str; 1],
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Count {
    Number(u16),
    All(&'static str),
}

/// The flow as a file for Docker Compose.
///
/// # Errors
/// If a node has no image, or its devices are not known.
pub fn compose(plan: &Plan, target: &ExportOptions) -> Result<Rendered, ExportError> {
    let units = Units::of(plan, target)?;
    let files = GatewayFiles::at(|key| Some(secret_path(key)));
    let placement = placement(plan, &units, &files, |unit| {
        let hosts = hosts(unit).into_iter();
        hosts.map(|host| Address::new(host, unit.port)).collect()
    });
    let placement = serde_json::to_string(&placement).expect("a placement is always JSON");
    let secret_references = SecretReferences::of(&units);
    let mut services = IndexMap::new();
    let mut gateway = gateway(plan, &units.gateway, &placement, &secret_references);
    for unit in units.executors() {
        for (replica, host) in (0..).zip(hosts(unit)) {
            gateway.depends_on.push(host.clone());
            let mut service = executor(unit, (replica, &host), target, &secret_references)?;
            service.environment = environment(unit, &secret_references);
            services.insert(host, service);
        }
    }
    gateway.environment = environment(&units.gateway, &secret_references);
    services.insert_before(0, units.gateway.name.clone(), gateway);
    let volumes = volumes(&services);
    let file = File {
        services,
        volumes,
        secrets: secrets(&plan.gateway),
    };
    let text = header(target) + &yaml::document(&file);
    Ok(Rendered {
        files: vec![RenderedFile {
            path: "docker-compose.yml".into(),
            text,
        }],
        remarks: remarks(plan, &secret_references),
    })
}

fn remarks(plan: &Plan, secret_references: &SecretReferences<'_>) -> Vec<String> {
    // Compose has keys for the common options, and not for those of the engine's API.
    let mut remarks = placement::remarks(
        plan,
        |_, container| {
            let has_options = !container.options.is_empty();
            has_options
                .then(|| "docker_kwargs".to_owned())
                .into_iter()
                .collect()
        },
        &placement::LIMITS,
    );
    remarks.extend(files_remark(&plan.gateway));
    remarks.extend(secret_references.remarks(|name| {
        format!(
            "write `{name}=…` into a file `.env` in the same folder that only you can read, or set the variable for \
             `docker compose`"
        )
    }));
    remarks
}

/// Docker gives files of the machine to containers with the rights that they have there.
fn files_remark(gateway: &Gateway) -> Option<String> {
    let files = gateway_files::files(gateway);
    let paths: Vec<String> = files
        .iter()
        .map(|(_, path)| format!("`{}`", path.display()))
        .collect();
    (!paths.is_empty()).then(|| {
        format!(
            "the gateway runs as the user 65532, which must be able to read {}; after replacing one of them, run `docker compose restart gateway`",
            paths.join(", ")
        )
    })
}

/// The files of the gateway, by the names of their secrets.
fn secrets(gateway: &Gateway) -> IndexMap<&'static str, SecretFile> {
    let secret = |(key, path): (&'static str, &Path)| {
        let file = as_it_is(&path.display().to_string());
        (key, SecretFile { file })
    };
    let files = gateway_files::files(gateway).into_iter();
    files.map(secret).collect()
}

fn header(target: &ExportOptions) -> String {
    format!(
        "# Made from {} by `flow export docker-compose`. Run it with `docker compose up`.\n\
         # The image {} is built in a checkout of flow:\n#   {}\n",
        target.source,
        target.image,
        build_commands(&target.image)
    )
}

/// The host names of a unit's replicas.
fn hosts(unit: &Workload) -> Vec<String> {
    match unit.replicas {
        1 => vec![unit.name.clone()],
        many => (0..many)
            .map(|it| format!("{}-rep-{it}", unit.name))
            .collect(),
    }
}

fn gateway(
    plan: &Plan,
    unit: &Workload,
    placement: &str,
    secret_references: &SecretReferences<'_>,
) -> Service {
    let mut service = service(unit, 0, secret_references);
    service
        .command
        .extend(["--placement".to_owned(), as_it_is(placement)]);
    service.secrets = secrets(&plan.gateway).into_keys().collect();
    service.healthcheck = Some(gateway_healthcheck(plan, unit));
    let more = unit.more_ports.iter().map(|(_, port)| *port);
    let ports = std::iter::once(unit.port).chain(more);
    service.ports = ports.map(|port| format!("{port}:{port}")).collect();
    if plan
        .nodes
        .iter()
        .any(|node| matches!(node.run, Run::External { .. }))
    {
        service.extra_hosts = vec!["host.docker.internal:host-gateway"];
    }
    service
}

fn executor(
    unit: &Workload,
    (replica, host): (u16, &str),
    target: &ExportOptions,
    secret_references: &SecretReferences<'_>,
) -> Result<Service, ExportError> {
    let mut service = service(unit, replica, secret_references);
    if unit.needs.downloads_models {
        service.volumes.push(format!("cache:{CACHE}"));
    }
    if unit.keeps_files {
        service
            .volumes
            .push(format!("{host}-workspace:{WORKSPACE}"));
    }
    let devices = unit.devices.of_replica(replica, target.devices);
    let devices = devices.map_err(|why| ExportError::Devices {
        name: unit.name.clone(),
        why,
    })?;
    service.deploy = deploy(devices);
    service.volumes.extend(unit.folders.iter().map(folder));
    Ok(service)
}

fn environment(
    unit: &Workload,
    secret_references: &SecretReferences<'_>,
) -> IndexMap<String, String> {
    let variable = |(name, value): (&str, &str)| {
        let reference = secret_references.get(unit, name);
        let value = reference.unwrap_or_else(|| as_it_is(value));
        (name.to_owned(), value)
    };
    let variables = unit.env.revealed().map(variable);
    unit.health_port().into_iter().chain(variables).collect()
}

/// A service that lacks its environment.
fn service(unit: &Workload, replica: u16, secret_references: &SecretReferences<'_>) -> Service {
    Service {
        image: unit.image.clone(),
        entrypoint: entrypoint(unit),
        command: secret_references.command(unit, replica),
        environment: IndexMap::new(),
        ports: Vec::new(),
        // For a Prometheus on the same machine, and not for the network.
        expose: unit.metrics.iter().map(|it| it.port.to_string()).collect(),
        extra_hosts: Vec::new(),
        volumes: Vec::new(),
        secrets: Vec::new(),
        depends_on: Vec::new(),
        healthcheck: unit.is_flow.then(|| healthcheck(unit)),
        deploy: None,
        restart: "unless-stopped",
        stop_grace_period: stop_grace_period(unit),
        read_only: unit.is_flow,
        tmpfs: if unit.is_flow {
            vec!["/tmp"]
        } else {
            Vec::new()
        },
        cap_drop: if unit.is_flow {
            vec!["ALL"]
        } else {
            Vec::new()
        },
        security_opt: ["no-new-privileges:true"],
    }
}

/// Other images may lack `flow`; their own health check counts.
fn healthcheck(unit: &Workload) -> Healthcheck {
    let url = format!("grpc://127.0.0.1:{}", unit.port);
    Healthcheck::ping(unit, &[&url])
}

/// Where `flow ping` would need TLS or a key, it only connects.
fn gateway_healthcheck(plan: &Plan, unit: &Workload) -> Healthcheck {
    let url = format!("grpc://127.0.0.1:{}", unit.port);
    match GatewayHealth::of(&plan.gateway) {
        GatewayHealth::Grpc => healthcheck(unit),
        GatewayHealth::Http { .. } | GatewayHealth::Listening => {
            Healthcheck::ping(unit, &["--check", "listening", &url])
        }
    }
}

/// `None` for no devices.
fn deploy(share: Share) -> Option<Deploy> {
    let (count, device_ids) = match share {
        Share::Named(names) if names.is_empty() => return None,
        Share::Named(names) => (None, names),
        Share::Counted(0) => return None,
        Share::Counted(number) => (Some(Count::Number(number)), Vec::new()),
        Share::All => (Some(Count::All("all")), Vec::new()),
    };
    let device = Device {
        driver: "nvidia",
        count,
        device_ids,
        capabilities: ["gpu"],
    };
    Some(Deploy {
        resources: Reservations {
            reservations: Reserved { devices: [device] },
        },
    })
}

/// A folder of the machine, with an absolute path.
fn folder(volume: &Volume) -> String {
    let end = if volume.read_only { ":ro" } else { "" };
    as_it_is(&format!("{}:{}{end}", volume.host, volume.inside))
}

/// Every volume that a service names.
fn volumes(services: &IndexMap<String, Service>) -> IndexMap<String, Empty> {
    let mounts = services.values().flat_map(|it| &it.volumes);
    // Folders of the machine are not volumes.
    let volumes = mounts.filter(|mount| !mount.starts_with('/'));
    let names = volumes.filter_map(|mount| mount.split_once(':'));
    names.map(|(name, _)| (name.to_owned(), Empty {})).collect()
}
