//! The keys of containers: GPUs, volumes and entrypoints, as Docker's own command line reads them.

use flow_core::closest;
use indexmap::IndexMap;

use super::form::{Shape, ValueForm};
use super::scalar::{flag, list, reject, scalar, text, word};
use crate::diagnostics::{Diagnostics, Problem, Spanned};
use crate::values::{Gpus, NetworkMode, Volume};
use crate::yaml::{YamlContent, YamlEntry, YamlNode};

pub(crate) const ENTRYPOINT: ValueForm<Vec<String>> = ValueForm::new(Shape::Texts, entrypoint);
pub(crate) const GPUS: ValueForm<Gpus> = ValueForm::new(Shape::Gpus, gpus);
pub(crate) const NETWORK_MODE: ValueForm<NetworkMode> = ValueForm::new(
    Shape::Word(&["AUTO", "HOST", "BRIDGE", "NONE"]),
    network_mode,
);
pub(crate) const VOLUMES: ValueForm<Vec<Spanned<Volume>>> = ValueForm::new(Shape::Volumes, volumes);

/// Every GPU, in the words of an engine's API.
const ALL: i64 = -1;

const GPUS_WANTED: &str = "GPUs: `all`, a number, or `device=0,1` or `device=GPU-…`";

/// What `gpus` says.
fn gpus(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Gpus> {
    let written = match scalar(node) {
        Some(scalar) if scalar.text.trim().is_empty() => return None,
        Some(scalar) => scalar.text.clone(),
        None => return reject(node, GPUS_WANTED, diagnostics),
    };
    let mut gpus = Gpus::default();
    let mut previous = "";
    for field in fields(&written) {
        let (key, value) = match field.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value)),
            None => (previous, None),
        };
        let taken = match value {
            // `device=0,1` goes on behind the comma.
            None if previous == "device" && is_device(&field) => add_devices(&mut gpus, &field),
            None => set_count(&mut gpus, &field),
            Some(value) => set(&mut gpus, key, value),
        };
        if let Err(why) = taken {
            let message = format!("`{written}` names no GPUs: {why}");
            let remedy = "write `all`, a number, or `device=0,1` or `device=GPU-…`";
            diagnostics.problem(Problem::new(&node.span, message).remedy(remedy));
            return None;
        }
        previous = match key {
            "device" => "device",
            _ => "",
        };
    }
    complete(gpus, node, diagnostics)
}

/// What was not said: one GPU, as Docker has it.
fn complete(mut gpus: Gpus, node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Gpus> {
    match (gpus.count, gpus.devices.is_empty()) {
        (Some(_), false) => {
            let message = "gives both a number of GPUs and a list of them";
            diagnostics.problem(Problem::new(&node.span, message).remedy("keep one of them"));
            return None;
        }
        (None, true) => gpus.count = Some(1),
        _ => {}
    }
    Some(gpus)
}

/// Cut at commas outside quotes.
fn fields(text: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for letter in text.chars() {
        match (letter, fields.last_mut()) {
            ('"', _) => is_quoted = !is_quoted,
            (',', _) if !is_quoted => fields.push(String::new()),
            (letter, Some(last)) => last.push(letter),
            (_, None) => {}
        }
    }
    fields.iter().map(|field| field.trim().to_owned()).collect()
}

fn is_device(text: &str) -> bool {
    let is_number = !text.is_empty() && text.chars().all(|it| it.is_ascii_digit());
    is_number || text.starts_with("GPU-") || text.starts_with("MIG-")
}

fn add_devices(gpus: &mut Gpus, list: &str) -> Result<(), String> {
    for device in list.split(',').map(str::trim) {
        if device.is_empty() || device.contains(char::is_whitespace) {
            return Err(format!("`{device}` is not a device"));
        }
        gpus.devices.push(device.to_owned());
    }
    Ok(())
}

fn set_count(gpus: &mut Gpus, text: &str) -> Result<(), String> {
    let count = match text {
        "all" => Some(ALL),
        number => number.parse().ok().filter(|it| *it > 0 || *it == ALL),
    };
    let count = count.ok_or_else(|| format!("`{text}` is not a number of GPUs"))?;
    match gpus.count.replace(count) {
        None => Ok(()),
        Some(_) => Err("it gives the number twice".to_owned()),
    }
}

fn set(gpus: &mut Gpus, key: &str, value: &str) -> Result<(), String> {
    let list = || value.split(',').map(|it| it.trim().to_owned());
    match key {
        "count" => return set_count(gpus, value),
        "device" => return add_devices(gpus, value),
        "driver" => gpus.driver = Some(value.to_owned()),
        "capabilities" => gpus.capabilities = list().filter(|it| it != "gpu").collect(),
        "options" => {
            let pairs = list().map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((&pair, ""));
                (key.to_owned(), value.to_owned())
            });
            gpus.options = pairs.collect::<IndexMap<_, _>>();
        }
        "runtime" => return Err("`runtime` belongs under `docker_kwargs`".to_owned()),
        other => return Err(format!("`{other}` is not an option of GPUs")),
    }
    Ok(())
}

/// How a volume of the engine is written.
const NAMED_VOLUME: &str = "{type: volume, source: NAME, target: /folder/in/the/container}";

/// `host[:container][:ro]`, or a mapping as in Compose.
fn volumes(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<Volume>>> {
    Some(list(node, diagnostics, volume))
}

fn volume(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Volume> {
    match &node.content {
        YamlContent::Mapping(entries) => mount(node, entries, diagnostics),
        YamlContent::Scalar(_) | YamlContent::List(_) => folder(node, diagnostics),
    }
}

/// `{type: volume, source: NAME, target: /inside}`, or the same of a folder with `type: bind`.
fn mount(node: &YamlNode, entries: &[YamlEntry], diagnostics: &mut Diagnostics) -> Option<Volume> {
    const KEYS: [&str; 4] = ["type", "source", "target", "read_only"];
    let (mut is_named, mut host, mut inside, mut read_only) = (None, None, None, false);
    for YamlEntry { key, span, value } in entries {
        match key.as_str() {
            "type" => is_named = word(value, &[("volume", true), ("bind", false)], diagnostics),
            "source" => host = text(value, diagnostics),
            "target" => inside = text(value, diagnostics),
            "read_only" => read_only = flag(value, diagnostics)?,
            other => {
                let message = format!("`{other}` is not a key of a volume");
                let problem = Problem::new(span, message);
                diagnostics.problem(problem.suggest(closest(other, KEYS)));
                return None;
            }
        }
    }
    let (Some(is_named), Some(host), Some(inside)) = (is_named, host, inside) else {
        return reject(node, &format!("`{NAMED_VOLUME}`"), diagnostics);
    };
    let is_folder = inside.starts_with('/') && !inside.trim_matches('/').is_empty();
    if !is_folder || host.is_empty() || (is_named && !is_volume_name(&host)) {
        let message = format!("`{host}` at `{inside}` is not a valid volume of a container");
        let remedy =
            format!("write `{NAMED_VOLUME}`; a name is made of letters, digits, `_`, `.` and `-`");
        diagnostics.problem(Problem::new(&node.span, message).remedy(remedy));
        return None;
    }
    Some(Volume {
        host,
        is_named,
        inside,
        read_only,
    })
}

/// What the engine takes for the name of a volume.
fn is_volume_name(text: &str) -> bool {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || "_.-".contains(it);
    text.len() > 1
        && text.starts_with(|it: char| it.is_ascii_alphanumeric())
        && text.chars().all(is_allowed)
}

/// `host[:container][:ro]`; without a span in the container it is at its root, under its own name.
fn folder(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Volume> {
    let written = text(node, diagnostics)?;
    let mut parts: Vec<&str> = written.split(':').collect();
    let read_only = match parts.last() {
        Some(&"ro") if parts.len() > 1 => true,
        Some(&"rw") if parts.len() > 1 => false,
        _ => {
            parts.push("");
            false
        }
    };
    parts.pop();
    let (host, inside) = match parts.as_slice() {
        [host] => (*host, format!("/{}", last_part(host))),
        [host, inside] => (*host, (*inside).to_owned()),
        _ => return reject(node, "`folder[:folder in the container][:ro]`", diagnostics),
    };
    if host.is_empty() || !inside.starts_with('/') || inside.trim_matches('/').is_empty() {
        let message = format!("`{written}` does not say where in the container");
        let remedy = "write `folder:/folder/in/the/container`";
        diagnostics.problem(Problem::new(&node.span, message).remedy(remedy));
        return None;
    }
    Some(Volume {
        host: host.to_owned(),
        is_named: false,
        inside,
        read_only,
    })
}

fn last_part(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

/// A list of words, or a text that is cut as a shell would.
fn entrypoint(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Vec<String>> {
    if let YamlContent::List(items) = &node.content {
        return items.iter().map(|item| text(item, diagnostics)).collect();
    }
    let written = text(node, diagnostics)?;
    words(&written).or_else(|| {
        let message = format!("`{written}` has a quote without its end");
        diagnostics.problem(Problem::new(&node.span, message));
        None
    })
}

/// The words of a command line, or `None` if a quote is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// Jina's words, all but one of which mean a published port.
fn network_mode(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<NetworkMode> {
    let words = [
        ("AUTO", NetworkMode::Published),
        ("HOST", NetworkMode::Host),
        ("BRIDGE", NetworkMode::Published),
        ("NONE", NetworkMode::Published),
    ];
    word(node, &words, diagnostics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    /// What was read as JSON, or the problem.
    fn read<T: serde::Serialize>(
        text: &str,
        read: impl Fn(&YamlNode, &mut Diagnostics) -> Option<T>,
    ) -> String {
        let node = yaml::parse(text).unwrap();
        let mut diagnostics = Diagnostics::default();
        match read(&node, &mut diagnostics) {
            Some(value) => serde_json::to_string(&value).unwrap(),
            None => diagnostics.problems[0].to_string(),
        }
    }

    #[test]
    fn gpus_are_read_as_docker_reads_them_and_a_list_of_devices_needs_no_quotes() {
        let check = |text: &str, expected: &str| assert_eq!(read(text, gpus), expected, "{text}");
        check("all", r#"{"count":-1}"#);
        check("2", r#"{"count":2}"#);
        check("count=2", r#"{"count":2}"#);
        check("device=0", r#"{"devices":["0"]}"#);
        check("device=0,1", r#"{"devices":["0","1"]}"#);
        check("device=0,device=1", r#"{"devices":["0","1"]}"#);
        check(r#"'"device=0,1"'"#, r#"{"devices":["0","1"]}"#);
        check("device=GPU-3a,GPU-4b", r#"{"devices":["GPU-3a","GPU-4b"]}"#);
        check("driver=nvidia", r#"{"count":1,"driver":"nvidia"}"#);
        check(
            r#"'all,"capabilities=utility,compute"'"#,
            r#"{"count":-1,"capabilities":["utility","compute"]}"#,
        );
    }

    #[test]
    fn invalid_gpus_are_refused() {
        let rest = "; write `all`, a number, or `device=0,1` or `device=GPU-…`";
        let check = |text: &str, why: &str| {
            assert_eq!(
                read(text, gpus),
                format!("`{text}` names no GPUs: {why}{rest}")
            );
        };
        check("many", "`many` is not a number of GPUs");
        check("0", "`0` is not a number of GPUs");
        check("1,2", "it gives the number twice");
        check("devices=0", "`devices` is not an option of GPUs");
        check("runtime=nvidia", "`runtime` belongs under `docker_kwargs`");
        assert_eq!(
            read("device=0,all", gpus),
            "gives both a number of GPUs and a list of them; keep one of them"
        );
    }

    #[test]
    fn a_volume_is_a_folder_its_place_inside_and_whether_it_may_be_written() {
        let check = |text: &str, expected: &str| assert_eq!(read(text, volume), expected, "{text}");
        check(
            "/a/b:/c",
            r#"{"host":"/a/b","inside":"/c","read_only":false}"#,
        );
        check(
            "~/x:/c:ro",
            r#"{"host":"~/x","inside":"/c","read_only":true}"#,
        );
        check("a/b", r#"{"host":"a/b","inside":"/b","read_only":false}"#);
        check("a/b:ro", r#"{"host":"a/b","inside":"/b","read_only":true}"#);
        check("a:/b:rw", r#"{"host":"a","inside":"/b","read_only":false}"#);
        let remedy = "does not say where in the container; write `folder:/folder/in/the/container`";
        check("a:b", &format!("`a:b` {remedy}"));
        check("a:/", &format!("`a:/` {remedy}"));
        check("/", &format!("`/` {remedy}"));
        check(
            "a:/b:ro:z",
            "must be `folder[:folder in the container][:ro]`, is the text `a:/b:ro:z`",
        );
    }

    #[test]
    fn a_volume_of_the_engine_is_written_as_in_compose() {
        let check = |text: &str, expected: &str| assert_eq!(read(text, volume), expected, "{text}");
        check(
            "{type: volume, source: flow-cache, target: /cache}",
            r#"{"host":"flow-cache","is_named":true,"inside":"/cache","read_only":false}"#,
        );
        check(
            "{type: bind, source: ./data, target: /data, read_only: true}",
            r#"{"host":"./data","inside":"/data","read_only":true}"#,
        );
        let form = "`{type: volume, source: NAME, target: /folder/in/the/container}`";
        let check_refused = |text: &str, part: &str| {
            let problem = read(text, volume);
            assert!(problem.contains(part), "{text}: {problem}");
        };
        check_refused("{type: volume, target: /cache}", form);
        check_refused("{source: a, target: /cache}", form);
        check_refused("{type: tmpfs, source: a, target: /b}", "`volume`");
        check_refused(
            "{type: volume, source: ./cache, target: /cache}",
            "`./cache` at `/cache` is not a valid volume of a container",
        );
        check_refused(
            "{type: volume, source: ab, target: cache}",
            "is not a valid volume",
        );
        check_refused(
            "{type: volume, source: ab, tarket: /cache}",
            "`tarket` is not a key of a volume; did you mean `target`?",
        );
    }

    #[test]
    fn an_entrypoint_is_words() {
        let check = |text: &str, expected: &str| {
            assert_eq!(read(text, entrypoint), expected, "{text}");
        };
        check("jina executor", r#"["jina","executor"]"#);
        check("[a, 'b c']", r#"["a","b c"]"#);
        check("a 'b c' \"\"", r#"["a","b c",""]"#);
        check("a 'b", "`a 'b` has a quote without its end");
    }
}
