//! The container of an executor.

use serde::{Deserialize, Serialize};

use super::entry::EntryChecker;
use super::options::{is_set, or_default, value, values};
use crate::diagnostics::{Diagnostics, Problem, SourceSpan, Spanned};
use crate::forms::{NETWORK, PLATFORM};
use crate::keys::CONTAINER;
use crate::spec::ExecutorSpec;
use crate::values::{DockerOptions, Gpus, NetworkMode, Uses, Volume};

/// The container of an executor, beside its image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// GPUs assigned to the container; `None` assigns none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Gpus>,
    /// Folders of the machine, and volumes of the engine, that it sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// The program that runs in it, instead of the image's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// It uses the machine's network; otherwise its port is published.
    #[serde(skip_serializing_if = "is_false")]
    pub on_host_network: bool,
    /// The platform of the image, such as `linux/arm64`; `None` leaves the choice to the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The image is pulled at each start, even if it exists.
    #[serde(skip_serializing_if = "is_false")]
    pub is_refetched: bool,
    /// The workspace is not mounted.
    #[serde(skip_serializing_if = "is_false")]
    pub without_workspace: bool,
    /// The options of `docker_kwargs`.
    #[serde(skip_serializing_if = "DockerOptions::is_empty")]
    pub options: DockerOptions,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(it: &bool) -> bool {
    !it
}

impl EntryChecker<'_> {
    pub(super) fn container(&self, diagnostics: &mut Diagnostics) -> Container {
        let written = &self.effective.container;
        let mut options = or_default(&written.docker_kwargs);
        let platform = options.take_text(PLATFORM);
        Container {
            gpus: value(&written.gpus),
            volumes: values(&written.volumes),
            entrypoint: value(&written.entrypoint),
            on_host_network: self.on_host_network(&mut options, diagnostics),
            platform: platform.or_else(|| value(&written.prefer_platform)),
            is_refetched: is_set(&written.force_update),
            without_workspace: is_set(&written.disable_auto_volume),
            options,
        }
    }

    /// Two keys may ask for the machine's network, and one of them for another network.
    fn on_host_network(&self, options: &mut DockerOptions, diagnostics: &mut Diagnostics) -> bool {
        let forced = value(&self.effective.container.force_network_mode) == Some(NetworkMode::Host);
        match (forced, options.text(NETWORK)) {
            (_, Some("host")) => {
                options.take_text(NETWORK);
                true
            }
            (true, Some(named)) => {
                let message = format!("`force_network_mode: HOST` and the network `{named}`");
                let problem = Problem::new(&self.entry.span, message);
                diagnostics.problem(problem.remedy("keep one of them"));
                true
            }
            _ => forced,
        }
    }
}

/// Warns of options of a container if there is none.
pub(super) fn warn_of_no_effect<'u>(
    entry: &ExecutorSpec,
    mut programs: impl Iterator<Item = &'u Uses>,
    diagnostics: &mut Diagnostics,
) {
    if programs.any(|uses| matches!(uses, Uses::Image(_))) {
        return;
    }
    let it = &entry.inherited.container;
    let written: [(&str, Option<&SourceSpan>); 5] = [
        (CONTAINER.gpus.name(), asks(&it.gpus, |_| true)),
        (
            CONTAINER.volumes.name(),
            asks(&it.volumes, |it| !it.is_empty()),
        ),
        (
            CONTAINER.entrypoint.name(),
            asks(&it.entrypoint, |it| !it.is_empty()),
        ),
        (
            CONTAINER.docker_kwargs.name(),
            asks(&it.docker_kwargs, |it| !it.is_empty()),
        ),
        (
            CONTAINER.force_update.name(),
            asks(&it.force_update, |it| *it),
        ),
    ];
    for (key, span) in written {
        let Some(span) = span else { continue };
        let message = format!("`{key}` has no effect: `uses` names no image (`docker://…`)");
        diagnostics.warn(Problem::new(span, message));
    }
}

/// The span of a value that asks for anything.
fn asks<T>(written: &Option<Spanned<T>>, asks: impl Fn(&T) -> bool) -> Option<&SourceSpan> {
    let written = written.as_ref().filter(|written| asks(&written.value));
    written.map(|written| &written.span)
}

#[cfg(test)]
mod tests;
