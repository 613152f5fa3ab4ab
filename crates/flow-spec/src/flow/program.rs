//! Whether the executor of a node exists and takes its options.
//!
//! [`Executors`](crate::Executors) knows the executors. This module finds the span of the problem, in the flow file
//! or in the config of an executor.

use flow_core::BadOption;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::entry::EntryChecker;
use super::local_run::LocalRun;
use super::methods::KnownExecutor;
use crate::context::{FoundExecutor, NotFound};
use crate::diagnostics::{Diagnostics, Problem, SourceSpan, Spanned};
use crate::spec::program::{ConfigSpec, Program};
use crate::values::{ArgumentSpans, Env, Uses};

impl EntryChecker<'_> {
    /// Checks every program that a node runs.
    pub(super) fn check_programs(&self, run: &LocalRun, diagnostics: &mut Diagnostics) {
        self.check_uses(run, diagnostics);
        let options = &self.effective.options;
        let around = [
            (&run.before, &options.uses_before),
            (&run.after, &options.uses_after),
        ];
        for (uses, written) in around {
            if let (Some(uses), Some(written)) = (uses, written) {
                let span = named_at(written);
                let named = Named {
                    span,
                    options: Layers::new(span),
                    env: &run.env,
                };
                drop(self.check_program(uses, &named, diagnostics));
            }
        }
    }

    fn check_uses(&self, run: &LocalRun, diagnostics: &mut Diagnostics) {
        let written = self.entry.options.uses.as_ref();
        let span = written.map_or(&self.entry.span, named_at);
        let mut options = Layers::new(span);
        if let Some(with) = &self.entry.options.uses_with {
            options.whole = &with.span;
            options.add(with.value.values.reveal(), &with.value.spans);
        }
        match written.map(|written| &written.value) {
            // Its image is looked for when it is pulled.
            Some(Program::Hub(_)) => return,
            Some(Program::Config(config)) => {
                options.add(config.config.with.reveal(), &config.with_spans);
            }
            Some(Program::Named(Uses::Named(name))) => {
                self.warn_of_namesake(name, span, diagnostics)
            }
            Some(Program::Named(Uses::Path(_) | Uses::Image(_))) | None => {}
        }
        let env = &run.env;
        let named = Named { span, options, env };
        if let Some(executor) = self.check_program(&run.uses, &named, diagnostics) {
            self.check_methods(&executor, run, diagnostics);
        }
    }

    /// A name that could mean a folder too.
    fn warn_of_namesake(&self, name: &str, span: &SourceSpan, diagnostics: &mut Diagnostics) {
        let executors = self.context.executors;
        let found = executors.find_named(name, &Env::new());
        let what = match found {
            Ok(FoundExecutor::BuiltIn(_)) => "the executor that is built into flow",
            Ok(FoundExecutor::Program) => "a program on PATH",
            Ok(FoundExecutor::Config { .. }) | Err(_) => return,
        };
        if let Some(folder) = executors.namesake(name) {
            let message = format!("`{name}` is {what}, and not the folder beside the flow file");
            let remedy = format!("write `{folder}` to use the folder");
            diagnostics.warn(Problem::new(span, message).remedy(remedy));
        }
    }

    /// Returns the executor if it is built in.
    fn check_program(
        &self,
        uses: &Uses,
        named: &Named<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<KnownExecutor> {
        // A config without a name was reported before.
        if *uses == Uses::Named(String::new()) {
            return None;
        }
        let found = self.context.executors.find(uses, named.env);
        self.check_found(found, named, diagnostics)
    }

    fn check_found(
        &self,
        found: Result<FoundExecutor, NotFound>,
        named: &Named<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<KnownExecutor> {
        match found {
            Ok(FoundExecutor::Program) => None,
            Ok(FoundExecutor::BuiltIn(name)) => {
                self.check_options(&name, &named.options, diagnostics);
                let requests = IndexMap::new();
                Some(KnownExecutor { name, requests })
            }
            Ok(FoundExecutor::Config {
                path,
                text,
                is_package,
            }) => match ConfigSpec::of_file((&path, &text), self.context.variables, diagnostics) {
                Ok(config) => self.check_config(&config, is_package, named, diagnostics),
                Err(error) => {
                    let message = format!("`{path}` is not valid YAML: {error}");
                    diagnostics.problem(Problem::new(named.span, message));
                    None
                }
            },
            Err(NotFound { message, remedy }) => {
                diagnostics.problem(Problem {
                    remedy,
                    ..Problem::new(named.span, message)
                });
                None
            }
        }
    }

    /// Checks the executor that a config in a file of its own names.
    fn check_config(
        &self,
        config: &ConfigSpec,
        is_package: bool,
        named: &Named<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<KnownExecutor> {
        let Uses::Named(name) = config.config.uses() else {
            return None;
        };
        if config.config.is_python || name.is_empty() {
            return None;
        }
        let found = self.context.executors.find_named(&name, named.env);
        // A package makes the program that its config names.
        if is_package && !matches!(found, Ok(FoundExecutor::BuiltIn(_))) {
            return None;
        }
        let mut named = named.clone();
        named.span = &config.jtype;
        let with = config.config.with.reveal();
        named.options.add(with, &config.with_spans);
        let mut executor = self.check_found(found, &named, diagnostics)?;
        executor.requests.clone_from(&config.config.requests);
        Some(executor)
    }

    fn check_options(&self, name: &str, options: &Layers<'_>, diagnostics: &mut Diagnostics) {
        let bad = self
            .context
            .executors
            .check_options(name, &options.merged());
        for bad in bad {
            let span = options.span(&bad);
            diagnostics.problem(Problem {
                remedy: bad.remedy,
                ..Problem::new(span, bad.message)
            });
        }
    }
}

/// The span of the name of an executor.
fn named_at(written: &Spanned<Program>) -> &SourceSpan {
    match &written.value {
        Program::Config(config) => &config.jtype,
        Program::Named(_) | Program::Hub(_) => &written.span,
    }
}

/// An executor as a node names it.
#[derive(Clone)]
struct Named<'s> {
    span: &'s SourceSpan,
    options: Layers<'s>,
    /// Variables of its processes.
    env: &'s Env,
}

/// Options of the flow file and of configs, with their spans. The first layer that has a key wins.
#[derive(Clone)]
struct Layers<'s> {
    /// The span of all options, for problems that concern no single one.
    whole: &'s SourceSpan,
    layers: Vec<(&'s Map<String, Value>, &'s ArgumentSpans)>,
}

impl<'s> Layers<'s> {
    fn new(whole: &'s SourceSpan) -> Self {
        Self {
            whole,
            layers: Vec::new(),
        }
    }

    fn add(&mut self, options: &'s Map<String, Value>, places: &'s ArgumentSpans) {
        self.layers.push((options, places));
    }

    fn merged(&self) -> Map<String, Value> {
        let mut merged = Map::new();
        for (options, _) in self.layers.iter().rev() {
            merged.extend((*options).clone());
        }
        merged
    }

    fn span(&self, bad: &BadOption) -> &'s SourceSpan {
        let stands = |key: &str| self.layers.iter().find_map(|(_, places)| places.get(key));
        match bad.key.as_deref().and_then(stands) {
            Some(option) if bad.is_unknown => &option.key,
            Some(option) => &option.value,
            None => self.whole,
        }
    }
}

#[cfg(test)]
mod tests;
