//! The bill of materials (SBOM) of a program: CycloneDX 1.5 as JSON.
//!
//! The same release has the same bytes: the time is that of the commit, and there is no random serial number, which the format
//! leaves out on purpose where documents are to be equal.

use serde_json::{Value, json};

use super::commit::Commit;
use super::dependencies::{Crate, Key, PROGRAM};
use super::target::Target;

/// The document of a program made of `crates`, of which one is [`PROGRAM`].
pub(super) fn document(crates: &[Crate], target: &Target, commit: &Commit) -> Value {
    let is_program = |it: &&Crate| it.key.0 == PROGRAM;
    let program = crates
        .iter()
        .find(is_program)
        .map(|it| root(it, target, commit));
    let components = crates.iter().filter(|it| !is_program(it)).map(component);
    let dependencies = crates.iter().map(|it| {
        let to: Vec<String> = it.depends_on.iter().map(reference).collect();
        json!({"ref": reference(&it.key), "dependsOn": to})
    });
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(commit.time),
            "tools": {"components": [{"type": "application", "name": "cargo xtask dist"}]},
            "component": program,
        },
        "components": components.collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    })
}

/// The program itself.
fn root(program: &Crate, target: &Target, commit: &Commit) -> Value {
    let mut root = component(program);
    root["type"] = json!("application");
    root["name"] = json!("flow");
    root["properties"] = json!([
        {"name": "flow:commit", "value": commit.name},
        {"name": "flow:target", "value": target.name()},
    ]);
    root
}

fn component(it: &Crate) -> Value {
    let (name, version) = &it.key;
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(&it.key),
        "name": name,
        "version": version,
        "scope": if it.is_in_program { "required" } else { "excluded" },
    });
    if let Some(description) = &it.description {
        component["description"] = json!(description);
    }
    if let Some(checksum) = &it.checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        component["purl"] = json!(reference(&it.key));
    }
    if let Some(license) = &it.license {
        component["licenses"] = json!([{"expression": expression(license)}]);
    }
    if let Some(repository) = &it.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

/// The package URL of a crate, which also names it in this document. The plus of a version is escaped in URLs.
fn reference((name, version): &Key) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// A licence as an SPDX expression. Older crates write a slash for `OR`.
pub(super) fn expression(license: &str) -> String {
    license.replace(" / ", " OR ").replace('/', " OR ")
}

/// Seconds since 1970 as a date and time of RFC 3339.
fn timestamp(seconds: u64) -> String {
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(day);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar.
pub(super) fn date(mut day: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    loop {
        let days = if is_leap(year) { 366 } else { 365 };
        if day < days {
            break;
        }
        day -= days;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::dependencies::tests::key_of;
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_has_them() {
        let check = |seconds: u64, expected: &str| assert_eq!(timestamp(seconds), expected);
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_399, "2000-02-28T23:59:59Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(1_735_689_599, "2024-12-31T23:59:59Z");
        check(1_795_424_125, "2026-11-23T08:55:25Z");
    }

    #[test]
    fn licences_become_spdx_expressions() {
        let check = |given: &str, expected: &str| assert_eq!(expression(given), expected);
        check("MIT/Apache-2.0", "MIT OR Apache-2.0");
        check("MIT / Apache-2.0", "MIT OR Apache-2.0");
        check(
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
        );
    }

    #[test]
    fn crates_are_components_with_hash_licence_and_edges() {
        let of = |name: &str, checksum: Option<&str>, to: &[Key]| Crate {
            key: key_of(name, "1.0.0+x"),
            description: None,
            license: Some("MIT".to_owned()),
            repository: None,
            checksum: checksum.map(str::to_owned),
            folder: PathBuf::new(),
            is_in_program: checksum.is_none(),
            depends_on: to.iter().cloned().collect(),
        };
        let crates = [
            of("bytes", Some("ff"), &[]),
            of(PROGRAM, None, &[key_of("bytes", "1.0.0+x")]),
        ];
        let commit = Commit {
            name: "0123".to_owned(),
            time: 0,
        };
        let document = document(&crates, &Target::named("x86_64-unknown-linux-gnu"), &commit);
        assert_eq!(document["metadata"]["component"]["name"], "flow");
        assert_eq!(
            document["metadata"]["component"]["properties"][0]["value"],
            "0123"
        );
        let components = document["components"].as_array().unwrap();
        assert_eq!(components.len(), 1);
        assert_eq!(components[0]["purl"], "pkg:cargo/bytes@1.0.0%2Bx");
        assert_eq!(components[0]["scope"], "excluded");
        assert_eq!(components[0]["hashes"][0]["content"], "ff");
        assert_eq!(
            document["dependencies"][1]["dependsOn"][0],
            "pkg:cargo/bytes@1.0.0%2Bx"
        );
    }
}
