//! TLS at the gateway of a real flow, seen by OpenSSL, curl and `flow` itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flow_tests::{
    DocArrayVersion, Program, TestFlow, eventually, flow_command, last_json, script, send, skipped,
};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

/// An authority of its own, and a certificate for `localhost`, made by the program `openssl`.
pub(crate) struct Certificates(TempDir);

impl Certificates {
    /// None if there is no `openssl`.
    pub(crate) fn new() -> Option<Self> {
        let has_openssl = Command::new("openssl").arg("version").output().is_ok();
        if !has_openssl {
            skipped("no `openssl` on PATH, which makes the certificates");
            return None;
        }
        let made = Self(tempfile::tempdir().unwrap());
        made.openssl(
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test",
        );
        made.issue("90");
        Some(made)
    }

    /// Makes a new certificate in place of the one before.
    fn issue(&self, days: &str) {
        fs::write(
            self.path("names.txt"),
            "subjectAltName=DNS:localhost,IP:127.0.0.1\n",
        )
        .unwrap();
        self.openssl(
            "req -newkey rsa:2048 -nodes -keyout new.key -out new.csr -subj /CN=localhost",
        );
        self.openssl(&format!(
            "x509 -req -in new.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} -extfile names.txt -out new.pem"
        ));
        fs::rename(self.path("new.key"), self.path("gateway.key")).unwrap();
        fs::rename(self.path("new.pem"), self.path("gateway.pem")).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let made = Command::new("openssl")
            .args(arguments.split(' '))
            .current_dir(self.0.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "openssl {arguments}: {said}");
    }

    /// A flow with the certificate, and more options of its gateway.
    fn flow(&self, more: &str) -> TestFlow {
        let folder = self.0.path().display();
        TestFlow::up(&format!(
            "gateway: {{ssl_certfile: {folder}/gateway.pem, ssl_keyfile: {folder}/gateway.key, {more}}}\n\
             executors: [{{uses: echo}}]"
        ))
    }

    /// What `openssl s_client` reports about a connection.
    fn connect(&self, flow: &TestFlow, arguments: &str) -> String {
        let said = Command::new("openssl")
            .args([
                "s_client",
                "-connect",
                &format!("localhost:{}", flow.port()),
            ])
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&said.stdout) + &text(&said.stderr)
    }

    /// What tells the flow's certificate from another one.
    fn serial(&self, flow: &TestFlow) -> String {
        let said = self.connect(flow, "-CAfile ca.pem");
        let start = said.find("-----BEGIN CERTIFICATE").unwrap();
        said[start..].lines().take(12).collect()
    }
}

/// The exit code of `flow`, and what it said.
fn flow(arguments: &[&str], folder: &Path) -> (Option<i32>, String) {
    let mut command = flow_command();
    command.args(arguments).current_dir(folder);
    let (code, program) = Program::run(command);
    (code, program.said())
}

#[test]
fn openssl_agrees_on_versions_protocols_and_names() {
    let Some(certificates) = Certificates::new() else {
        return;
    };
    let flow = certificates.flow("");
    let trusting = "-CAfile ca.pem -verify_hostname localhost";
    for version in ["-tls1_2", "-tls1_3"] {
        let said = certificates.connect(&flow, &format!("{trusting} {version} -alpn h2,http/1.1"));
        assert!(said.contains("ALPN protocol: h2"), "{said}");
        assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
    }
    let said = certificates.connect(&flow, &format!("{trusting} -alpn http/1.1"));
    assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
    let said = certificates.connect(&flow, "-tls1_1");
    assert!(!said.contains("Server certificate\n-----BEGIN"), "{said}");
    let other = "-CAfile ca.pem -verify_hostname elsewhere -verify_return_error";
    let said = certificates.connect(&flow, other);
    assert!(said.to_lowercase().contains("hostname mismatch"), "{said}");
}

#[test]
fn openssl_without_a_certificate_is_refused_where_one_is_required() {
    let Some(certificates) = Certificates::new() else {
        return;
    };
    let roots = certificates.path("ca.pem");
    let flow = certificates.flow(&format!("ssl_ca_certs: {}", roots.display()));
    // TLS 1.2 tells the client during the handshake.
    let said = certificates.connect(&flow, "-tls1_2 -CAfile ca.pem");
    assert!(said.to_lowercase().contains("alert"), "{said}");
    let own = "-tls1_2 -CAfile ca.pem -cert gateway.pem -key gateway.key";
    let said = certificates.connect(&flow, own);
    assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
}

#[test]
fn stock_clients_post_over_tls() {
    let Some(certificates) = Certificates::new() else {
        return;
    };
    let flow = certificates.flow("");
    let expected = json!(["a", "b", "c"]);
    for version in [DocArrayVersion::V1, DocArrayVersion::V2] {
        let Some(mut command) = script(version, "tls_client.py") else {
            continue;
        };
        command.arg(flow.port().to_string());
        // Each of its libraries reads the authority from a variable of its own.
        let authority = certificates.path("ca.pem");
        command.env("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", &authority);
        command.env("SSL_CERT_FILE", &authority);
        let back = last_json(command);
        let all = json!({"grpc": expected, "http": expected, "websocket": expected});
        assert_eq!(back, all, "{version:?}");
    }
}

#[test]
fn a_renewed_certificate_is_shown_without_a_restart() {
    let Some(certificates) = Certificates::new() else {
        return;
    };
    let flow = certificates.flow("");
    let serial = || certificates.serial(&flow);
    let before = serial();
    certificates.issue("30");
    eventually("the new certificate is shown", || serial() != before);
    flow.expect("new connections get the new certificate");
}

/// The kubelet writes the files of a Secret into a folder of their own, and changes the link to that folder.
#[test]
fn a_certificate_that_the_kubelet_renews_is_shown_without_a_restart() {
    let Some(certificates) = Certificates::new() else {
        return;
    };
    let folder = certificates.path("secret");
    let write = |version: &str| {
        let own = folder.join(version);
        fs::create_dir_all(&own).unwrap();
        fs::copy(certificates.path("gateway.pem"), own.join("tls.crt")).unwrap();
        fs::copy(certificates.path("gateway.key"), own.join("tls.key")).unwrap();
        symlink(version, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    write("..1");
    for name in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(name), folder.join(name)).unwrap();
    }
    let secret = folder.display();
    let flow = TestFlow::up(&format!(
        "gateway: {{ssl_certfile: {secret}/tls.crt, ssl_keyfile: {secret}/tls.key}}\nexecutors: [{{uses: echo}}]"
    ));
    let serial = || certificates.serial(&flow);
    let before = serial();
    certificates.issue("30");
    assert_eq!(serial(), before, "the Secret is what it was");
    write("..2");
    eventually("the new certificate is shown", || serial() != before);
}

/// How the kubelet asks a gateway with a certificate and keys: it takes any certificate, and has neither.
#[test]
fn a_probe_over_https_needs_no_key() {
    let Some(certificates) = Certificates::new() else {
        return;
    };
    fs::write(certificates.path("keys.yml"), "keys: []\n").unwrap();
    let keys = certificates.path("keys.yml");
    let flow = certificates.flow(&format!("api_keys: {}", keys.display()));
    let status = |path: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--insecure", "--output", "/dev/null"]);
        curl.args(["--write-out", "%{http_code}", "--max-time", "10"]);
        curl.arg(format!("https://127.0.0.1:{}{path}", flow.port()));
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    };
    assert_eq!(status("/v2/health/ready"), "200");
    assert_eq!(status("/v2/health/live"), "200");
    assert_eq!(status("/status"), "401");
}

#[test]
fn files_that_do_not_fit_are_found_before_anything_starts() {
    let Some(certificates) = Certificates::new() else {
        return;
    };
    let folder = certificates.0.path();
    let check = |gateway: &str, expected: &str| {
        let text = format!("jtype: Flow\ngateway: {{{gateway}}}\nexecutors: [{{uses: echo}}]\n");
        fs::write(folder.join("flow.yml"), text).unwrap();
        for command in ["check", "up"] {
            let (code, said) = self::flow(&[command, "flow.yml"], folder);
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains(expected), "{said}");
        }
    };
    check(
        "ssl_certfile: gateway.pem, ssl_keyfile: ca.key",
        "ca.key` does not belong to the certificate `",
    );
    check(
        "ssl_certfile: nowhere.pem, ssl_keyfile: ca.key",
        "cannot read the certificate `",
    );
    check("api_keys: nowhere.yml", "cannot read the API keys `");
}

#[test]
fn a_gateway_with_tls_that_hangs_is_killed_and_started_again() {
    let Some(certificates) = Certificates::new() else {
        return;
    };
    let roots = certificates.path("ca.pem");
    let more = ["".to_owned(), format!("ssl_ca_certs: {}", roots.display())];
    let flows = more.map(|more| certificates.flow(&more));
    let pids = flows.each_ref().map(|flow| {
        // The supervisor has asked before, when the gateway was ready.
        certificates.serial(flow);
        let pid = flow.pid("gateway");
        send(pid, Signal::STOP);
        pid
    });
    for (flow, pid) in flows.iter().zip(pids) {
        flow.expect("process does not answer health checks and is killed")
            .expect("process died and is restarted");
        flow.program()
            .line("process does not answer health checks and is killed");
        eventually("there is another gateway", || flow.pid("gateway") != pid);
    }
}
