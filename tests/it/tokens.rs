//! The server that issues tokens for a registry: a small one of the test's own, with a key that
//! `openssl` makes.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::registry::LOGIN;

/// What the registry calls itself, and whom it believes.
const SERVICE: &str = "flow-test";
const ISSUER: &str = "flow-tests";

/// What `docker login` keeps in place of a password where it was given one.
pub(crate) const IDENTITY: &str = "kept-since-the-login";

/// A server that gives tokens for the right password.
pub(crate) struct Tokens {
    address: String,
    folder: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
}

/// The scope of a requested token.
struct TokenRequest {
    scopes: Vec<String>,
    knows_us: bool,
}

impl Tokens {
    /// Starts it; its key is in this folder. `None` if there is no `openssl`.
    pub(crate) fn start(folder: &Path) -> Option<Self> {
        let line = "req -x509 -newkey rsa:2048 -nodes -keyout token.key -out token.crt -days 2 -subj /CN=flow";
        openssl(folder, line)?;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let it = Self {
            address: listener.local_addr().unwrap().to_string(),
            folder: folder.to_owned(),
            asked: Arc::default(),
        };
        let (folder, asked) = (it.folder.clone(), it.asked.clone());
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(&stream.unwrap(), &folder, &asked);
            }
        });
        Some(it)
    }

    /// The part of a registry's config that names this server.
    pub(crate) fn config(&self) -> String {
        let bundle = self.folder.join("token.crt");
        format!(
            "auth: {{token: {{realm: 'http://{}/token', service: {SERVICE}, issuer: {ISSUER}, \
             rootcertbundle: '{}'}}}}\n",
            self.address,
            bundle.display()
        )
    }

    /// The scopes of all tokens so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Runs `openssl` there; `None` if this machine has no `openssl`.
pub(crate) fn openssl(folder: &Path, line: &str) -> Option<()> {
    let mut command = Command::new("openssl");
    command.args(line.split(' ')).current_dir(folder);
    let Ok(output) = command.output() else {
        flow_tests::skipped("no `openssl` on PATH");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {line}: {said}");
    Some(())
}

fn answer(stream: &TcpStream, folder: &Path, asked: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    let Some(question) = read(&mut reader) else {
        return;
    };
    let (status, body) = match question.knows_us {
        true => (
            "200 OK",
            json!({"token": token(folder, &question.scopes), "expires_in": 300}),
        ),
        false => ("401 Unauthorized", json!({"details": "who are you?"})),
    };
    if question.knows_us {
        asked.lock().unwrap().extend(question.scopes);
    }
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = stream;
    // The client has disconnected.
    drop(stream.write_all((head + &body).as_bytes()));
}

/// `GET /token?…` with a password, or a form with what a login has kept.
fn read(reader: &mut impl BufRead) -> Option<TokenRequest> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let (mut knows_us, mut len) = (false, 0);
    loop {
        let header = line()?;
        let Some((name, value)) = header.split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => knows_us = value == format!("Basic {LOGIN}"),
            "content-length" => len = value.parse().unwrap(),
            _ => {}
        }
    }
    let mut form = vec![0; len];
    reader.read_exact(&mut form).ok()?;
    let form = String::from_utf8(form).unwrap();
    let target = first.split(' ').nth(1)?;
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let pairs: Vec<(String, String)> = query
        .split('&')
        .chain(form.split('&'))
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), decoded(value)))
        .collect();
    let of = |wanted: &str| {
        let found = pairs.iter().filter(move |(name, _)| name == wanted);
        found.map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("service"), [SERVICE]);
    knows_us |= of("refresh_token") == [IDENTITY];
    let scopes = of("scope");
    let scopes = scopes.iter().flat_map(|it| it.split(' '));
    Some(TokenRequest {
        scopes: scopes.map(str::to_owned).collect(),
        knows_us,
    })
}

/// `%3A` is a colon.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

/// A token for all that was asked, signed.
fn token(folder: &Path, scopes: &[String]) -> String {
    let pem = std::fs::read_to_string(folder.join("token.crt")).unwrap();
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    let certificate: String = lines.collect();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let head = json!({"typ": "JWT", "alg": "RS256", "x5c": [certificate]});
    let access: Vec<Value> = scopes.iter().filter_map(|scope| granted(scope)).collect();
    let claims = json!({
        "iss": ISSUER, "aud": SERVICE, "sub": "someone", "jti": now.to_string(),
        "iat": now, "nbf": now - 60, "exp": now + 300, "access": access,
    });
    let part = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let signed = format!("{}.{}", part(&head), part(&claims));
    let signature = sign(folder, signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// `repository:team/shout:pull,push` as a token grants it.
fn granted(scope: &str) -> Option<Value> {
    let mut parts = scope.splitn(3, ':');
    let (kind, name, actions) = (parts.next()?, parts.next()?, parts.next()?);
    let actions: Vec<&str> = actions.split(',').collect();
    Some(json!({"type": kind, "name": name, "actions": actions}))
}

fn sign(folder: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut openssl = Command::new("openssl")
        .args(["dgst", "-sha256", "-sign", "token.key"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    openssl.stdin.take().unwrap().write_all(bytes).unwrap();
    openssl.wait_with_output().unwrap().stdout
}

#[test]
fn the_password_comes_from_the_saved_login() {
    let kept = STANDARD.encode(format!(
        "{}:{}",
        crate::registry::USER,
        crate::registry::PASSWORD
    ));
    assert_eq!(kept, LOGIN);
}
