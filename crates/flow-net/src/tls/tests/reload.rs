//! A certificate that is replaced while clients connect and call.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Follows the files of a server.
fn follow(server: &mut Fixture) {
    let tls = server.tls.clone().unwrap();
    let following = async move { tls.follow_files(LOOK_EVERY).await };
    server.tasks.spawn(following);
}

/// Returns when new connections get a certificate of this authority.
async fn seen(server: &Fixture, authority: &Authority) {
    let seen = async {
        while server.ask("grpcs", trusting(authority)).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(30), seen).await;
    assert!(seen.is_ok(), "the new certificate was not loaded");
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_nothing_is_lost() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = old.issue("127.0.0.1");
    let both = old.path("both.pem");
    let roots = [old.file(), new.file()].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&both, roots.concat()).unwrap();
    let trusting_both = TlsOptions {
        roots: Some(both),
        ..TlsOptions::default()
    };
    let mut server = Fixture::start(Some(server_files(files.clone()))).await;
    follow(&mut server);
    let before = server.connect("grpcs", trusting(&old)).await.unwrap();
    let (ended, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    let load = async {
        while !ended.load(Ordering::Relaxed) {
            assert_eq!(server.ask("grpcs", trusting_both.clone()).await, Ok(true));
            assert!(healthy(&before).await.unwrap());
            calls.fetch_add(1, Ordering::Relaxed);
        }
    };
    let replace = async {
        assert!(server.ask("grpcs", trusting(&new)).await.is_err());
        new.write("127.0.0.1", 2100, &files);
        seen(&server, &new).await;
        assert!(server.ask("grpcs", trusting(&old)).await.is_err());
        ended.store(true, Ordering::Relaxed);
    };
    tokio::join!(load, load_again(&server, &before, &ended), replace);
    assert!(calls.load(Ordering::Relaxed) > 0);
    assert!(healthy(&before).await.unwrap(), "the old connection stays");
}

/// Calls over the connection that was open before.
async fn load_again(server: &Fixture, before: &Client, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        assert!(healthy(before).await.unwrap(), "{}", server.address);
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_change_nothing_until_they_are_mended() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = old.issue("127.0.0.1");
    let mut server = Fixture::start(Some(server_files(files.clone()))).await;
    follow(&mut server);
    fs::write(&files.certificate, "no certificate").unwrap();
    // Longer than it takes to notice the change.
    for _ in 0..10 {
        tokio::time::sleep(LOOK_EVERY).await;
        assert_eq!(server.ask("grpcs", trusting(&old)).await, Ok(true));
    }
    new.write("127.0.0.1", 2100, &files);
    seen(&server, &new).await;
}

#[tokio::test]
async fn clients_of_a_new_authority_are_let_in_instead_of_those_of_the_old_one_and_nothing_is_lost()
{
    let (servers, old, new) = (Authority::new(), Authority::new(), Authority::new());
    let roots = servers.path("clients.pem");
    fs::copy(old.file(), &roots).unwrap();
    let files = ServerTlsFiles {
        own: servers.issue("127.0.0.1"),
        clients: Some((roots.clone(), ClientCertificates::Required)),
    };
    let client_of = |clients: &Authority| TlsOptions {
        own: Some(clients.issue("someone")),
        ..trusting(&servers)
    };
    let (of_old, of_new) = (client_of(&old), client_of(&new));
    let mut server = Fixture::start(Some(files)).await;
    follow(&mut server);
    let before = server.connect("grpcs", of_old.clone()).await.unwrap();
    assert!(healthy(&before).await.unwrap());
    let ended = AtomicBool::new(false);
    let replace = async {
        assert!(server.ask("grpcs", of_new.clone()).await.is_err());
        let next = servers.path("next.pem");
        fs::copy(new.file(), &next).unwrap();
        fs::rename(next, &roots).unwrap();
        let accepted = async {
            while server.ask("grpcs", of_new.clone()).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        let accepted = tokio::time::timeout(Duration::from_secs(30), accepted).await;
        assert!(accepted.is_ok(), "the new authority was not loaded");
        assert!(server.ask("grpcs", of_old.clone()).await.is_err());
        ended.store(true, Ordering::Relaxed);
    };
    tokio::join!(load_again(&server, &before, &ended), replace);
    assert!(healthy(&before).await.unwrap(), "the old connection stays");
}
