//! An executor's `config.yml`: what it is, and what it is built with unless a flow says otherwise.

use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::TextFile;
use crate::keys;
use crate::problem::{Findings, LoadError, Place, Problem, Problems, SyntaxError};
use crate::read;
use crate::section::Section;
use crate::settings::{Batching, LocalRun, Uses};
use crate::spec::OptionPlaces;
use crate::substitute::{Variables, substitute};
use crate::yaml;

/// What an executor's `config.yml` says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutorConfig {
    /// The executor, by the name it is built under.
    pub jtype: String,
    /// What it is built with; a flow's `uses_with` goes before it, key by key.
    pub with: Map<String, Value>,
    /// Name, description and the like.
    pub metas: Map<String, Value>,
    /// Endpoint → name of the method.
    pub requests: IndexMap<String, String>,
    /// Endpoint or method → how requests to it share calls.
    pub batching: IndexMap<String, Batching>,
    /// Folder it may keep its files in.
    pub workspace: Option<PathBuf>,
    /// It names modules of Python (`py_modules`): all but its name and `metas` is for Jina to read, and is
    /// not told here.
    pub is_python: bool,
}

/// A config, and where what may be wrong with it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfigSpec {
    pub(crate) config: ExecutorConfig,
    /// Where it says which executor it is for.
    pub(crate) jtype: Place,
    pub(crate) with_places: OptionPlaces,
}

impl ExecutorConfig {
    /// Reads and checks a `config.yml`; what comes with it is legal, and worth a look.
    ///
    /// # Errors
    /// If the text is not YAML, or with all problems that it has as a config.
    pub fn load(file: TextFile<'_>, variables: &Variables) -> Result<(Self, Problems), LoadError> {
        let path = || file.path.to_owned();
        let mut findings = Findings::default();
        let read =
            parse(file.text, variables, &mut findings).map_err(|source| LoadError::Syntax {
                path: path(),
                source,
            })?;
        if findings.problems.is_empty() {
            Ok((read.config, Problems::sorted(findings.warnings)))
        } else {
            let problems = Problems::sorted(findings.problems);
            Err(LoadError::Invalid {
                path: path(),
                problems,
            })
        }
    }
}

impl ConfigSpec {
    /// Reads a `config.yml` that a flow file names. Everything in it stands in that file.
    pub(crate) fn of_file(
        (path, text): (&str, &str),
        variables: &Variables,
        findings: &mut Findings,
    ) -> Result<Self, SyntaxError> {
        let mut inside = Findings::default();
        let mut read = parse(text, variables, &mut inside)?;
        let file: Arc<str> = path.into();
        findings.extend_from_file(inside, &file);
        let options = read.with_places.values_mut();
        let places = options.flat_map(|option| [&mut option.key, &mut option.value]);
        for place in places.chain([&mut read.jtype]) {
            place.file = Some(Arc::clone(&file));
        }
        Ok(read)
    }
}

fn parse(
    text: &str,
    variables: &Variables,
    findings: &mut Findings,
) -> Result<ConfigSpec, SyntaxError> {
    let root = yaml::parse(text)?;
    if names_python(&root) {
        return Ok(ConfigSpec {
            config: python(&root),
            jtype: root.place,
            with_places: OptionPlaces::new(),
        });
    }
    let root = substitute(root, variables, findings);
    root.report_duplicates(findings);
    Ok(read(&root, findings))
}

/// Jina reads it, and says what is wrong with it. Only what it calls itself is of use elsewhere.
fn python(root: &yaml::Node) -> ExecutorConfig {
    let of_no_concern = &mut Findings::default();
    let jtype = root
        .get("jtype")
        .and_then(|it| read::text(it, of_no_concern));
    let metas = root
        .get("metas")
        .and_then(|it| read::object(it, of_no_concern));
    ExecutorConfig {
        jtype: jtype.or_else(|| root.tag.clone()).unwrap_or_default(),
        metas: metas.unwrap_or_default(),
        is_python: true,
        ..ExecutorConfig::default()
    }
}

/// Reads a config from its root, or from where it stands in a flow file.
pub(crate) fn read(root: &yaml::Node, findings: &mut Findings) -> ConfigSpec {
    let section = Section::read(Some(root), &keys::EXECUTOR_CONFIG, findings);
    if let Some(version) = section.get("version") {
        read::version(version, findings);
    }
    let jtype = section.value("jtype", findings, read::text);
    let jtype_place = jtype.as_ref().map_or(&root.place, |jtype| &jtype.place);
    let jtype_place = jtype_place.clone();
    if section.get("jtype").is_none() && root.tag.is_none() {
        let problem = Problem::new(
            &root.place,
            "the config does not say which executor it is for",
        );
        findings.problem(problem.remedy("write `jtype:` and its name at the top"));
    }
    let jtype = jtype.map(|jtype| jtype.value);
    let config = ExecutorConfig {
        jtype: jtype.or_else(|| root.tag.clone()).unwrap_or_default(),
        with: section.or_default("with", findings, read::object),
        metas: section.or_default("metas", findings, read::object),
        requests: section.or_default("requests", findings, read::requests),
        batching: section.or_default("dynamic_batching", findings, read::batching),
        workspace: section
            .value("workspace", findings, read::text)
            .map(|at| at.value.into()),
        is_python: false,
    };
    ConfigSpec {
        config,
        jtype: jtype_place,
        with_places: read::option_places(section.get("with")),
    }
}

impl ExecutorConfig {
    /// The program that it is for: `SentenceEncoder` is `sentence-encoder`.
    #[must_use]
    pub fn uses(&self) -> Uses {
        match self.jtype.as_str() {
            "BaseExecutor" => read::gives_documents_back(),
            jtype => Uses::Named(kebab(jtype)),
        }
    }

    /// Whether it only says which executor it is for.
    pub(crate) fn is_bare(&self) -> bool {
        let jtype = self.jtype.clone();
        *self
            == Self {
                jtype,
                ..Self::default()
            }
    }

    /// Makes it what a node runs. The flow's word counts before the config's, key by key.
    pub fn overlay(self, run: &mut LocalRun) {
        run.uses = self.uses();
        run.with = merged(self.with, std::mem::take(&mut run.with));
        run.metas = merged(self.metas, std::mem::take(&mut run.metas));
        run.requests = merged(self.requests, std::mem::take(&mut run.requests));
        run.batching = merged(self.batching, std::mem::take(&mut run.batching));
        run.workspace = run.workspace.take().or(self.workspace);
    }
}

fn merged<M: Extend<(K, V)> + IntoIterator<Item = (K, V)>, K, V>(mut under: M, over: M) -> M {
    under.extend(over);
    under
}

/// A type's name as programs are named.
fn kebab(jtype: &str) -> String {
    let mut name = String::new();
    for letter in jtype.chars() {
        if letter.is_uppercase() && !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// Jina takes `py_modules` at the top and, as it wrote them once, under `metas`.
fn names_python(root: &yaml::Node) -> bool {
    let names = |node: &yaml::Node| node.get("py_modules").is_some();
    names(root) || root.get("metas").is_some_and(names)
}

#[cfg(test)]
mod tests;
