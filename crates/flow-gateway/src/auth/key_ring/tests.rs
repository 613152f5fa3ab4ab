use super::*;

fn write(path: &std::path::Path, keys: Vec<KeyEntry>) {
    std::fs::write(path, KeyFile { keys }.to_yaml()).unwrap();
}

fn limited(name: &str, key: &str) -> KeyEntry {
    KeyEntry {
        documents_per_day: Some(10),
        ..KeyEntry::new(name, key)
    }
}

#[test]
fn a_key_is_found_by_its_text_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), vec![limited("a", "one"), limited("b", "two")]);
    let ring = KeyRing::load(file.path().to_owned(), None).unwrap();
    let name = |text| ring.find(text).map(|key| key.entry.name.clone());
    assert_eq!(name("one").as_deref(), Some("a"));
    assert_eq!(name("two").as_deref(), Some("b"));
    assert_eq!(name("three"), None);
    assert_eq!(
        name(&KeyHash::of("one").to_string()),
        None,
        "a hash is no key"
    );
}

#[test]
fn a_key_keeps_what_it_used_when_the_file_changes() {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), vec![limited("a", "one")]);
    let metrics = Registry::new();
    let ring = KeyRing::load(file.path().to_owned(), Some(GatewayMetrics::new(&metrics))).unwrap();
    ring.find("one").unwrap().add_documents(8).unwrap();
    let renamed = limited("c", "one");
    ring.replace(KeyFile {
        keys: vec![limited("b", "two"), renamed],
    });
    let key = ring.find("one").unwrap();
    assert!(key.add_documents(3).is_err() && key.add_documents(2).is_ok());
    assert!(ring.find("two").unwrap().add_documents(10).is_ok());
    let text = metrics.text();
    let count = |name: &str| {
        format!("flow_key_documents_total{{key=\"{name}\",runtime_name=\"gateway/rep-0\"}} ")
    };
    assert!(text.contains(&(count("a") + "8\n")), "{text}");
    assert!(text.contains(&(count("c") + "2\n")), "{text}");
}

#[tokio::test]
async fn a_changed_file_is_followed_and_a_broken_one_is_not() {
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), vec![limited("a", "one")]);
    let ring = KeyRing::load(file.path().to_owned(), None).unwrap();
    let follow = ring.follow_file(Duration::from_millis(2));
    let change = async {
        std::fs::write(file.path(), "keys: nonsense").unwrap();
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert!(ring.find("one").is_some());
        }
        write(file.path(), vec![limited("b", "two")]);
        while ring.find("two").is_none() {
            tokio::task::yield_now().await;
        }
        assert!(ring.find("one").is_none(), "it is revoked");
    };
    let change = tokio::time::timeout(Duration::from_secs(30), change);
    tokio::select! {
        never = follow => match never {},
        changed = change => changed.unwrap(),
    }
}

#[test]
fn a_key_expires() {
    let key = |expires| Key {
        kind: KeyKind::ApiKey,
        metrics: None,
        name: "a".into(),
        entry: KeyEntry {
            expires,
            ..KeyEntry::new("a", "b")
        },
        counters: KeyCounters::default(),
        used: Arc::default(),
    };
    let now = SystemTime::now();
    assert!(!key(None).is_expired(now));
    assert!(key(Some(now)).is_expired(now));
    assert!(!key(Some(now + Duration::from_secs(1))).is_expired(now));
}
