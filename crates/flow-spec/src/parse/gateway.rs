//! `gateway`, and what it inherits from `with`.

use super::{log, only};
use crate::problem::{Findings, Problem};
use crate::read;
use crate::section::Section;
use crate::spec::GatewaySpec;
use crate::suggest::closest;
use crate::yaml::Node;

pub(super) fn gateway(section: &Section<'_>, findings: &mut Findings) -> GatewaySpec {
    let hosts = section.values("host", findings, read::listen_host);
    let ports = section.values("port", findings, read::gateway_port);
    let monitoring = section.values("port_monitoring", findings, read::port_or_any);
    let protocols = section.values("protocol", findings, read::protocol);
    // What it names is the gateway itself; there is nothing to keep of it.
    section.value("uses", findings, uses);
    GatewaySpec {
        host: only(hosts, "a gateway with several hosts", findings),
        port: only(ports, "a gateway with several ports", findings),
        protocol: only(protocols, "a gateway with several protocols", findings),
        prefetch: section.value("prefetch", findings, read::prefetch),
        in_flight_max: section.value("in_flight_max", findings, read::in_flight_max),
        env: section.value("env", findings, read::env),
        timeout_ready: section.value("timeout_ready", findings, read::timeout_ready),
        timeout_send: section.value("timeout_send", findings, read::timeout_send),
        retries: section.value("retries", findings, read::retries),
        log: log(section, findings),
        monitoring: section.value("monitoring", findings, read::flag),
        port_monitoring: only(
            monitoring,
            "a gateway with several ports for metrics",
            findings,
        ),
    }
}

const GRPC_GATEWAY: &str = "GRPCGateway";

/// Which gateway it is; a path has been put in by its file's content before.
pub(super) fn uses(node: &Node, findings: &mut Findings) -> Option<()> {
    let text = read::text(node, findings)?;
    let problem = match text.as_str() {
        GRPC_GATEWAY => return Some(()),
        "HTTPGateway" | "WebSocketGateway" | "CompositeGateway" => {
            let message = format!("`{text}` is a gateway of Jina's that flow does not have yet");
            Problem::new(&node.place, message).remedy(format!("write `{GRPC_GATEWAY}`"))
        }
        _ if text.contains("://") => {
            let message =
                format!("`{text}` is no gateway of flow's, which starts no containers for it");
            Problem::new(&node.place, message).remedy(format!("write `{GRPC_GATEWAY}`"))
        }
        _ => {
            let message = format!("`{text}` is no gateway of flow's, and flow runs no Python");
            let problem = Problem::new(&node.place, message);
            match closest(&text, [GRPC_GATEWAY]) {
                Some(meant) => problem.suggest(Some(meant)),
                None => problem.remedy(format!("write `{GRPC_GATEWAY}`, or leave it out")),
            }
        }
    };
    findings.problem(problem);
    None
}
