//! Selects the kernels that run: the best that the machine has, or those that the user asked for.
//!
//! Two choices are independent. The [`CpuPrecision`] decides what the results are; the [`InstructionSet`] only decides
//! how fast they come. A user who names an instruction set gets it and those below it, as if the machine had no
//! better one.

use crate::dispatch::{self, DispatchTable};
use crate::instruction_set::InstructionSet;
use crate::kernels::Kernels;
use crate::precision::CpuPrecision;
use crate::self_check;

/// The machine does not have the requested instruction set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("back end `{requested}` cannot run here; this machine has `{}`", names(.available))]
pub struct InstructionSetUnavailable {
    requested: InstructionSet,
    available: Vec<InstructionSet>,
}

impl Kernels {
    /// Selects the best kernels for a precision that use no instruction set above `max`. Without `max`, instruction sets that are
    /// slow on this machine are not used.
    ///
    /// Kernels that fail a self-check are skipped with a warning.
    ///
    /// # Errors
    ///
    /// If the machine does not have `max`.
    pub fn select(
        precision: CpuPrecision,
        max: Option<InstructionSet>,
    ) -> Result<Self, InstructionSetUnavailable> {
        if let Some(requested) = max.filter(|max| !max.is_available()) {
            let available = InstructionSet::available().collect();
            return Err(InstructionSetUnavailable {
                requested,
                available,
            });
        }
        let is_allowed = |set: &InstructionSet| match max {
            Some(max) => *set <= max,
            None => set.is_default(),
        };
        let allowed = InstructionSet::ALL.into_iter().filter(is_allowed);
        let mut found = allowed.filter_map(|set| available_kernels(precision, set));
        Ok(found
            .find(self_check::passes)
            .unwrap_or_else(|| Self::portable(precision)))
    }

    /// The best kernels of another precision that use no instruction set above that of these.
    #[must_use]
    pub fn with_precision(&self, precision: CpuPrecision) -> Self {
        let selected = Self::select(precision, Some(self.instruction_set()));
        selected.unwrap_or_else(|_| Self::portable(precision))
    }

    /// All kernels that can run on this machine, for any precision, best first.
    pub fn all() -> impl Iterator<Item = Self> {
        let precisions = [CpuPrecision::Int8, CpuPrecision::Bf16, CpuPrecision::F32];
        precisions.into_iter().flat_map(|precision| {
            InstructionSet::ALL
                .into_iter()
                .filter_map(move |set| available_kernels(precision, set))
        })
    }
}

/// The kernels of an instruction set, if there are any for this precision and the machine can run them.
fn available_kernels(precision: CpuPrecision, set: InstructionSet) -> Option<Kernels> {
    let table = table(precision, set).filter(|_| set.is_available())?;
    Some(Kernels::new(set, precision, table))
}

/// The table of an instruction set. `None` where it adds nothing for this precision to the set below it.
fn table(precision: CpuPrecision, set: InstructionSet) -> Option<&'static DispatchTable> {
    match (precision, set) {
        (_, InstructionSet::Portable) => Some(&dispatch::PORTABLE),
        #[cfg(target_arch = "aarch64")]
        (_, InstructionSet::Neon) => Some(&dispatch::NEON),
        #[cfg(target_arch = "aarch64")]
        (CpuPrecision::Int8, InstructionSet::NeonDotprod) => Some(&dispatch::NEON_DOTPROD),
        #[cfg(target_arch = "aarch64")]
        (CpuPrecision::Int8, InstructionSet::NeonI8mm) => Some(&dispatch::NEON_I8MM),
        #[cfg(target_arch = "x86_64")]
        (_, InstructionSet::Avx2) => Some(&dispatch::AVX2),
        #[cfg(target_arch = "x86_64")]
        (_, InstructionSet::Avx512) => Some(&dispatch::AVX512),
        #[cfg(target_arch = "x86_64")]
        (CpuPrecision::Int8, InstructionSet::AvxVnni) => Some(&dispatch::AVX_VNNI),
        #[cfg(target_arch = "x86_64")]
        (CpuPrecision::Int8, InstructionSet::Avx512Vnni) => Some(&dispatch::AVX512_VNNI),
        #[cfg(target_arch = "x86_64")]
        (CpuPrecision::Bf16 | CpuPrecision::Int8, InstructionSet::Avx512Bf16) => {
            Some(&dispatch::AVX512_BF16)
        }
        #[cfg(target_arch = "x86_64")]
        (CpuPrecision::Bf16 | CpuPrecision::Int8, InstructionSet::Amx) => Some(&dispatch::AMX),
        _ => None,
    }
}

fn names(sets: &[InstructionSet]) -> String {
    let names: Vec<String> = sets.iter().map(ToString::to_string).collect();
    names.join("`, `")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_available_set_can_be_selected_for_each_precision() {
        for set in InstructionSet::available() {
            for precision in [CpuPrecision::F32, CpuPrecision::Bf16, CpuPrecision::Int8] {
                let kernels = Kernels::select(precision, Some(set)).unwrap();
                assert!(kernels.instruction_set() <= set);
                assert_eq!(kernels.precision(), precision);
            }
        }
    }

    #[test]
    fn a_set_that_is_slow_on_this_machine_is_used_only_if_it_is_named() {
        for precision in [CpuPrecision::Bf16, CpuPrecision::Int8] {
            let chosen = Kernels::select(precision, None).unwrap();
            assert!(chosen.instruction_set().is_default());
            for set in InstructionSet::available().filter(|set| !set.is_default()) {
                let named = Kernels::select(precision, Some(set)).unwrap();
                assert_eq!(named.instruction_set(), set);
            }
        }
    }

    #[test]
    fn an_unavailable_set_is_refused_with_the_available_ones() {
        let unavailable = if cfg!(target_arch = "x86_64") {
            InstructionSet::Neon
        } else {
            InstructionSet::Avx2
        };
        let error = Kernels::select(CpuPrecision::F32, Some(unavailable)).unwrap_err();
        assert!(error.to_string().contains("`portable`"), "{error}");
    }
}
