//! `sandbox`: limits of an executor's processes.

use std::num::{NonZeroU32, NonZeroU64};

use super::form::{Shape, ValueForm};
use super::kwargs::bytes;
use super::scalar::{mapping, reject, scalar};
use crate::diagnostics::{Diagnostics, Problem};
use crate::keys::{Options as _, SANDBOX_MAPPING, SandboxOptions, Section};
use crate::values::{Millicpus, Sandbox};
use crate::yaml::YamlNode;

pub(crate) const SANDBOX: ValueForm<Sandbox> = ValueForm::new(Shape::Sandbox, sandbox);
pub(crate) const SANDBOX_MEMORY: ValueForm<NonZeroU64> = ValueForm::new(Shape::Bytes, memory);
pub(crate) const SANDBOX_CPUS: ValueForm<Millicpus> = ValueForm::new(Shape::Cpus, cpus);

/// Less than any program needs to start; what is below it was written without its unit.
const MEMORY_MIN: u64 = 16 << 20;

/// The least share of a processor that the kernel enforces.
const CPUS_MIN: f64 = 0.01;

/// More processors than any machine has.
const CPUS_MAX: f64 = 65_536.0;

fn sandbox(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Sandbox> {
    let node = mapping(node, diagnostics)?;
    let section = Section::read(Some(&*node), &SANDBOX_MAPPING, diagnostics);
    let written = SandboxOptions::read(&section, diagnostics);
    Some(Sandbox {
        memory: written.memory.map(|it| it.value),
        cpus: written.cpus.map(|it| it.value),
        no_network: written.no_network.is_some_and(|it| it.value),
        read_only: written.read_only.is_some_and(|it| it.value),
    })
}

fn memory(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<NonZeroU64> {
    let bytes = bytes(node, diagnostics)?;
    let enough = u64::try_from(bytes).ok().filter(|it| *it >= MEMORY_MIN);
    if enough.is_none() {
        let message = format!("must be at least 16 MiB, is {}", node.described());
        let remedy = "write a number with a unit, such as `2GiB`";
        diagnostics.problem(Problem::new(&node.span, message).remedy(remedy));
    }
    enough.and_then(NonZeroU64::new)
}

/// A number of processors, also as a text.
fn cpus(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Millicpus> {
    let number: Option<f64> = scalar(node).and_then(|it| it.text.trim().parse().ok());
    let number = number.filter(|it| (CPUS_MIN..=CPUS_MAX).contains(it));
    // In this range it fits.
    let millis = number.map(|it| (it * f64::from(Millicpus::OF_ONE)).round() as u32);
    match millis.and_then(NonZeroU32::new) {
        Some(millis) => Some(Millicpus(millis)),
        None => reject(
            node,
            "a number of processors, at least 0.01, such as `1.5`",
            diagnostics,
        ),
    }
}
