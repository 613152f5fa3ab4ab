//! Is what a node uses there, and does it take the options that it is given?
//!
//! [`Executors`](crate::Executors) knows the executors. This file says where in the flow file, or in the
//! config of an executor, something is wrong.

use flow_core::BadOption;
use serde_json::{Map, Value};

use super::node::Checker;
use crate::config::ConfigSpec;
use crate::executors::{Found, NotFound};
use crate::problem::{Findings, Place, Problem};
use crate::section::At;
use crate::settings::{Env, LocalRun, Uses};
use crate::spec::{Inheritable, OptionPlaces, Program};

impl Checker<'_> {
    /// Checks every program that a node runs.
    pub(super) fn check_programs(&self, run: &LocalRun, findings: &mut Findings) {
        self.check_uses(run, findings);
        let before = self.written(|it| it.before.as_ref());
        let after = self.written(|it| it.after.as_ref());
        for (uses, written) in [(&run.before, before), (&run.after, after)] {
            if let (Some(uses), Some(written)) = (uses, written) {
                let place = named_at(written);
                let named = Named {
                    place,
                    options: Layers::new(place),
                    env: &run.env,
                };
                self.check_program(uses, &named, findings);
            }
        }
    }

    fn written<'s>(
        &'s self,
        field: impl Fn(&'s Inheritable) -> Option<&'s At<Program>>,
    ) -> Option<&'s At<Program>> {
        field(self.own).or_else(|| field(self.with))
    }

    fn check_uses(&self, run: &LocalRun, findings: &mut Findings) {
        let written = self.entry.uses.as_ref();
        let place = written.map_or(&self.entry.place, named_at);
        let mut options = Layers::new(place);
        if let Some(with) = &self.entry.uses_with {
            options.whole = &with.place;
            options.add(&with.value, &self.entry.uses_with_places);
        }
        match written.map(|written| &written.value) {
            // Its image is looked for when it is pulled.
            Some(Program::Hub(_)) => return,
            Some(Program::Config(config)) => {
                options.add(&config.config.with, &config.with_places);
            }
            Some(Program::Named(Uses::Named(name))) => self.warn_of_namesake(name, place, findings),
            Some(Program::Named(Uses::Path(_) | Uses::Image(_))) | None => {}
        }
        let env = &run.env;
        let named = Named {
            place,
            options,
            env,
        };
        self.check_program(&run.uses, &named, findings);
    }

    /// A name that could mean a folder too.
    fn warn_of_namesake(&self, name: &str, place: &Place, findings: &mut Findings) {
        let executors = self.context.executors;
        let found = executors.find_named(name, &Env::new());
        let what = match found {
            Ok(Found::BuiltIn(_)) => "the executor that is built into flow",
            Ok(Found::Program) => "a program on PATH",
            Ok(Found::Config { .. }) | Err(_) => return,
        };
        if let Some(folder) = executors.namesake(name) {
            let message = format!("`{name}` is {what}, and not the folder beside the flow file");
            let remedy = format!("write `{folder}` to use the folder");
            findings.warn(Problem::new(place, message).remedy(remedy));
        }
    }

    fn check_program(&self, uses: &Uses, named: &Named<'_>, findings: &mut Findings) {
        // A config without a name is told already.
        if *uses != Uses::Named(String::new()) {
            let found = self.context.executors.find(uses, named.env);
            self.check_found(found, named, findings);
        }
    }

    fn check_found(
        &self,
        found: Result<Found, NotFound>,
        named: &Named<'_>,
        findings: &mut Findings,
    ) {
        match found {
            Ok(Found::Program) => {}
            Ok(Found::BuiltIn(name)) => self.check_options(&name, &named.options, findings),
            Ok(Found::Config {
                path,
                text,
                is_package,
            }) => match ConfigSpec::of_file((&path, &text), self.context.variables, findings) {
                Ok(config) => self.check_config(&config, is_package, named, findings),
                Err(error) => {
                    let message = format!("`{path}` is not valid YAML: {error}");
                    findings.problem(Problem::new(named.place, message));
                }
            },
            Err(NotFound { message, remedy }) => findings.problem(Problem {
                remedy,
                ..Problem::new(named.place, message)
            }),
        }
    }

    /// Checks the executor that a config in a file of its own names.
    fn check_config(
        &self,
        config: &ConfigSpec,
        is_package: bool,
        named: &Named<'_>,
        findings: &mut Findings,
    ) {
        let Uses::Named(name) = config.config.uses() else {
            return;
        };
        if config.config.is_python || name.is_empty() {
            return;
        }
        let found = self.context.executors.find_named(&name, named.env);
        // A package makes the program that its config names.
        if is_package && !matches!(found, Ok(Found::BuiltIn(_))) {
            return;
        }
        let mut named = named.clone();
        named.place = &config.jtype;
        named.options.add(&config.config.with, &config.with_places);
        self.check_found(found, &named, findings);
    }

    fn check_options(&self, name: &str, options: &Layers<'_>, findings: &mut Findings) {
        let bad = self
            .context
            .executors
            .check_options(name, &options.merged());
        for bad in bad {
            let place = options.place(&bad);
            findings.problem(Problem {
                remedy: bad.remedy,
                ..Problem::new(place, bad.message)
            });
        }
    }
}

/// Where the name of an executor stands.
fn named_at(written: &At<Program>) -> &Place {
    match &written.value {
        Program::Config(config) => &config.jtype,
        Program::Named(_) | Program::Hub(_) => &written.place,
    }
}

/// An executor as a node names it.
#[derive(Clone)]
struct Named<'s> {
    place: &'s Place,
    options: Layers<'s>,
    /// Variables of its processes.
    env: &'s Env,
}

/// Options from the flow file and from configs, with where they stand. The first that has a key counts.
#[derive(Clone)]
struct Layers<'s> {
    /// Where all of them are, for what is wrong with none of them alone.
    whole: &'s Place,
    layers: Vec<(&'s Map<String, Value>, &'s OptionPlaces)>,
}

impl<'s> Layers<'s> {
    fn new(whole: &'s Place) -> Self {
        Self {
            whole,
            layers: Vec::new(),
        }
    }

    fn add(&mut self, options: &'s Map<String, Value>, places: &'s OptionPlaces) {
        self.layers.push((options, places));
    }

    fn merged(&self) -> Map<String, Value> {
        let mut merged = Map::new();
        for (options, _) in self.layers.iter().rev() {
            merged.extend((*options).clone());
        }
        merged
    }

    fn place(&self, bad: &BadOption) -> &'s Place {
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
