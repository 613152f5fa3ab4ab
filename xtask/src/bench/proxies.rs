//! General proxies in front of a bare echo, from Debian's packages: HAProxy and nginx.
//!
//! They use HTTP/2 without TLS on both sides, one thread or process per core, connections that are kept open, and no access
//! log.

use std::process::Command;

use anyhow::Context;

use crate::bench::ours;
use crate::bench::process::Server;
use crate::bench::report::Report;
use crate::shell;

/// HAProxy in front of the server at this address; and its URL.
pub(super) fn haproxy(report: &Report, server: &str) -> anyhow::Result<(Server, String)> {
    look_for("haproxy", "-v")?;
    let port = ours::free_port()?;
    let config = report.scratch("haproxy.cfg");
    std::fs::write(&config, haproxy_config(port, server))?;
    // `-W` reports that the configuration was loaded, `-db` keeps it in the foreground.
    let mut command = Command::new("haproxy");
    command.args(["-W", "-db", "-f"]).arg(config);
    started(&mut command, "Loading success", port)
}

/// nginx in front of the server at this address; and its URL.
pub(super) fn nginx(report: &Report, server: &str) -> anyhow::Result<(Server, String)> {
    look_for("nginx", "-v")?;
    let port = ours::free_port()?;
    let config = report.scratch("nginx.conf");
    let pid = report.scratch("nginx.pid");
    std::fs::write(&config, nginx_config(port, server, &pid.to_string_lossy()))?;
    let mut command = Command::new("nginx");
    command.arg("-c").arg(config.canonicalize()?);
    command.args(["-g", "daemon off;"]);
    started(&mut command, "start worker process ", port)
}

fn started(command: &mut Command, word: &str, port: u16) -> anyhow::Result<(Server, String)> {
    let server = Server::start(command, word)?;
    Ok((server, format!("http://127.0.0.1:{port}")))
}

fn look_for(program: &str, version: &str) -> anyhow::Result<()> {
    let found = shell::output(Command::new(program).arg(version));
    found
        .map(drop)
        .with_context(|| format!("{program} is needed (Debian: apt-get install {program})"))
}

fn haproxy_config(port: u16, server: &str) -> String {
    format!(
        "defaults\n\
         \x20 mode http\n\
         \x20 timeout connect 5s\n\
         \x20 timeout client 1m\n\
         \x20 timeout server 1m\n\
         frontend grpc\n\
         \x20 bind 127.0.0.1:{port} proto h2\n\
         \x20 default_backend echo\n\
         backend echo\n\
         \x20 http-reuse always\n\
         \x20 server echo {server} proto h2\n"
    )
}

fn nginx_config(port: u16, server: &str, pid: &str) -> String {
    format!(
        "worker_processes auto;\n\
         pid {pid};\n\
         error_log stderr notice;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         \x20 access_log off;\n\
         \x20 keepalive_requests 1000000000;\n\
         \x20 client_body_buffer_size 256k;\n\
         \x20 upstream echo {{ server {server}; keepalive 64; keepalive_requests 1000000000; }}\n\
         \x20 server {{\n\
         \x20   listen 127.0.0.1:{port} http2;\n\
         \x20   location / {{ grpc_pass grpc://echo; grpc_buffer_size 256k; }}\n\
         \x20 }}\n\
         }}\n"
    )
}
