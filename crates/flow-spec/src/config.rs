//! An executor's `config.yml`: what it is, and what it is built with unless a flow says otherwise.

use std::path::PathBuf;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::TextFile;
use crate::keys;
use crate::problem::{Findings, LoadError, Problem, Problems, SyntaxError};
use crate::read;
use crate::section::Section;
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
    /// Folder it may keep its files in.
    pub workspace: Option<PathBuf>,
}

impl ExecutorConfig {
    /// Reads and checks a `config.yml`; what comes with it is legal, and worth a look.
    ///
    /// # Errors
    /// If the text is not YAML, or with all problems that it has as a config.
    pub fn load(file: TextFile<'_>, variables: &Variables) -> Result<(Self, Problems), LoadError> {
        let path = || file.path.to_owned();
        let mut findings = Findings::default();
        let config =
            parse(file.text, variables, &mut findings).map_err(|source| LoadError::Syntax {
                path: path(),
                source,
            })?;
        if findings.problems.is_empty() {
            Ok((config, Problems::sorted(findings.warnings)))
        } else {
            let problems = Problems::sorted(findings.problems);
            Err(LoadError::Invalid {
                path: path(),
                problems,
            })
        }
    }
}

fn parse(
    text: &str,
    variables: &Variables,
    findings: &mut Findings,
) -> Result<ExecutorConfig, SyntaxError> {
    let root = substitute(yaml::parse(text)?, variables, findings);
    root.report_duplicates(findings);
    let section = Section::read(Some(&root), &keys::EXECUTOR_CONFIG, findings);
    let jtype = section
        .value("jtype", findings, read::text)
        .map(|jtype| jtype.value);
    if section.get("jtype").is_none() && root.tag.is_none() {
        let problem = Problem::new(
            &root.place,
            "the config does not say which executor it is for",
        );
        findings.problem(problem.remedy("write `jtype:` and its name at the top"));
    }
    let object = |key, findings: &mut Findings| {
        section
            .value(key, findings, read::object)
            .map(|at| at.value)
            .unwrap_or_default()
    };
    Ok(ExecutorConfig {
        jtype: jtype.or_else(|| root.tag.clone()).unwrap_or_default(),
        with: object("with", findings),
        metas: object("metas", findings),
        requests: section
            .value("requests", findings, read::requests)
            .map(|at| at.value)
            .unwrap_or_default(),
        workspace: section
            .value("workspace", findings, read::text)
            .map(|at| at.value.into()),
    })
}

#[cfg(test)]
mod tests;
