//! An executor's `config.yml`: what it is, and what it is built with unless a flow says otherwise.

use std::sync::Arc;

use super::program::{ConfigSpec, ExecutorConfig};
use crate::context::TextFile;
use crate::diagnostics::{Diagnostics, Problems};
use crate::error::{LoadError, SyntaxError};
use crate::forms::{OBJECT, TEXT};
use crate::keys::{CONFIG, report_unknown};
use crate::values::ArgumentSpans;
use crate::yaml::{self, Variables, YamlNode, substitute};

/// The Python modules of an executor. Older versions of Jina take the key below `metas`.
const PY_MODULES: &str = "py_modules";

impl ExecutorConfig {
    /// Reads and checks a `config.yml`, and returns it with warnings.
    ///
    /// # Errors
    /// If the text is not YAML, or with all problems that it has as a config.
    pub fn load(file: TextFile<'_>, variables: &Variables) -> Result<(Self, Problems), LoadError> {
        let path = || file.path.to_owned();
        let mut diagnostics = Diagnostics::default();
        let read =
            parse(file.text, variables, &mut diagnostics).map_err(|source| LoadError::Syntax {
                path: path(),
                source,
            })?;
        report_unknown(&mut diagnostics, false);
        if diagnostics.problems.is_empty() {
            Ok((read.config, Problems::sorted(diagnostics.warnings)))
        } else {
            let problems = Problems::sorted(diagnostics.problems);
            Err(LoadError::Invalid {
                path: path(),
                problems,
            })
        }
    }
}

impl ConfigSpec {
    /// Reads a `config.yml` that a flow file names. All spans are in that file.
    pub(crate) fn of_file(
        (path, text): (&str, &str),
        variables: &Variables,
        diagnostics: &mut Diagnostics,
    ) -> Result<Self, SyntaxError> {
        let mut inside = Diagnostics::default();
        let mut read = parse(text, variables, &mut inside)?;
        let file: Arc<str> = path.into();
        diagnostics.extend_from_file(inside, &file);
        let options = read.with_spans.values_mut();
        let spans = options.flat_map(|option| [&mut option.key, &mut option.value]);
        for span in spans.chain([&mut read.jtype]) {
            span.file = Some(Arc::clone(&file));
        }
        Ok(read)
    }
}

fn parse(
    text: &str,
    variables: &Variables,
    diagnostics: &mut Diagnostics,
) -> Result<ConfigSpec, SyntaxError> {
    let root = yaml::parse(text)?;
    if names_python(&root) {
        return Ok(ConfigSpec {
            config: python(&root),
            jtype: root.span,
            with_spans: ArgumentSpans::new(),
        });
    }
    let root = substitute(root, variables, diagnostics);
    root.report_duplicates(diagnostics);
    Ok(ConfigSpec::read(&root, diagnostics))
}

/// The type and the `metas` of a Python executor. Jina reads its config, and reports what is wrong with it.
fn python(root: &YamlNode) -> ExecutorConfig {
    let ignored = &mut Diagnostics::default();
    let jtype = root.get(CONFIG.jtype.name());
    let jtype = jtype.and_then(|it| (TEXT.read)(it, ignored));
    let metas = root.get(CONFIG.metas.name());
    let metas = metas.and_then(|it| (OBJECT.read)(it, ignored));
    ExecutorConfig {
        jtype: jtype.or_else(|| root.tag.clone()).unwrap_or_default(),
        metas: metas.unwrap_or_default(),
        is_python: true,
        ..ExecutorConfig::default()
    }
}

fn names_python(root: &YamlNode) -> bool {
    let names = |node: &YamlNode| node.get(PY_MODULES).is_some();
    names(root) || root.get(CONFIG.metas.name()).is_some_and(names)
}

#[cfg(test)]
mod tests;
