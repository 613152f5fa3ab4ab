//! The keys of `sandbox`: limits of an executor's processes.

use std::num::NonZeroU64;

use super::unsupported::OWN;
use crate::forms;
use crate::keys::{Mapping, Options as _, options, row};
use crate::values::Millicpus;

options! {
    /// Limits of an executor's processes.
    struct SandboxOptions, SandboxTable SANDBOX {
        memory: NonZeroU64 = row(
            forms::SANDBOX_MEMORY,
            "Most memory of each process: by a control group for the process and all that it starts where `flow up` may create \
             one, otherwise by the process's limit on its data (`RLIMIT_DATA`).",
        )
            .default("no limit")
            .example("2GiB")
            .jina(OWN);
        cpus: Millicpus = row(
            forms::SANDBOX_CPUS,
            "Most processors of each process: by a control group where `flow up` may create one, otherwise the process stays on as \
             many processors as this is when rounded up.",
        )
            .default("no limit")
            .example("1.5")
            .jina(OWN);
        no_network: bool = row(
            forms::FLAG,
            "The process can create Unix sockets only, so that it neither connects to other machines nor listens at a port.",
        )
            .default("`false`")
            .example("true")
            .jina(OWN);
        read_only: bool = row(
            forms::FLAG,
            "The process changes files only in its `workspace` and in a temporary folder of its own (`TMPDIR`). It reads what its user \
             may read.",
        )
            .default("`false`")
            .example("true")
            .jina(OWN);
    }
}

/// Keys of `sandbox`.
pub(crate) static SANDBOX_MAPPING: Mapping = Mapping {
    what: "a limit of a sandbox",
    tables: &[SandboxOptions::KEYS],
};
