//! CPU instruction sets, and which of them this machine has.

use std::fmt;
use std::str::FromStr;

/// An instruction set that kernels are written for, from the most common to the rarest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionSet {
    /// The instructions that the program was compiled for.
    Portable,
    /// ARM's vector instructions.
    Neon,
    /// ARM's vector instructions with dot products of 8-bit integers.
    NeonDotprod,
    /// ARM's vector instructions with products of matrices of 8-bit integers.
    NeonI8mm,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-VNNI: AVX2 with sums of products of 8-bit integers.
    AvxVnni,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 VNNI: sums of products of 8-bit integers.
    Avx512Vnni,
    /// AVX-512 BF16. All processors that have it have AVX-512 VNNI too. Intel processors multiply 32-bit floats at least as
    /// fast, so they use it only on request.
    Avx512Bf16,
    /// AMX with bf16 and 8-bit integers.
    Amx,
}

/// The text does not name an instruction set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a back end: give `amx`, `avx512-bf16`, `avx512-vnni`, `avx512`, `avx-vnni`, `avx2`, `neon-i8mm`, `neon-dotprod`, `neon` or `portable`"
)]
pub struct UnknownInstructionSet(String);

impl InstructionSet {
    /// All instruction sets, best first.
    pub(crate) const ALL: [Self; 10] = [
        Self::Amx,
        Self::Avx512Bf16,
        Self::Avx512Vnni,
        Self::Avx512,
        Self::AvxVnni,
        Self::Avx2,
        Self::NeonI8mm,
        Self::NeonDotprod,
        Self::Neon,
        Self::Portable,
    ];

    /// The instruction sets that this machine has, best first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|set| set.is_available())
    }

    /// Whether it multiplies bf16 faster than 32-bit floats.
    #[must_use]
    pub fn has_bf16(self) -> bool {
        matches!(self, Self::Avx512Bf16 | Self::Amx)
    }

    /// Whether it multiplies 8-bit integers faster than 32-bit floats.
    #[must_use]
    pub fn has_int8(self) -> bool {
        matches!(
            self,
            Self::NeonDotprod
                | Self::NeonI8mm
                | Self::AvxVnni
                | Self::Avx512Vnni
                | Self::Avx512Bf16
                | Self::Amx
        )
    }

    /// Whether it is used by default on machines that have it.
    pub(crate) fn is_default(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => !crate::x86::is_intel(),
            _ => true,
        }
    }

    /// Whether this machine has it.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn is_available(self) -> bool {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = || {
            avx2 && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
        };
        match self {
            Self::Portable => true,
            Self::Neon | Self::NeonDotprod | Self::NeonI8mm => false,
            Self::Avx2 => avx2,
            Self::AvxVnni => avx2 && is_x86_feature_detected!("avxvnni"),
            Self::Avx512 => avx512(),
            Self::Avx512Vnni => avx512() && is_x86_feature_detected!("avx512vnni"),
            Self::Avx512Bf16 => {
                Self::Avx512Vnni.is_available() && is_x86_feature_detected!("avx512bf16")
            }
            Self::Amx => Self::Avx512Bf16.is_available() && crate::x86::amx::is_allowed(),
        }
    }

    /// Whether this machine has it.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::NeonDotprod => {
                Self::Neon.is_available() && std::arch::is_aarch64_feature_detected!("dotprod")
            }
            Self::NeonI8mm => {
                Self::NeonDotprod.is_available() && std::arch::is_aarch64_feature_detected!("i8mm")
            }
            Self::Avx2
            | Self::AvxVnni
            | Self::Avx512
            | Self::Avx512Vnni
            | Self::Avx512Bf16
            | Self::Amx => false,
        }
    }

    /// Whether this machine has it.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(crate) fn is_available(self) -> bool {
        self == Self::Portable
    }
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Neon => "neon",
            Self::NeonDotprod => "neon-dotprod",
            Self::NeonI8mm => "neon-i8mm",
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avx-vnni",
            Self::Avx512 => "avx512",
            Self::Avx512Vnni => "avx512-vnni",
            Self::Avx512Bf16 => "avx512-bf16",
            Self::Amx => "amx",
        })
    }
}

impl FromStr for InstructionSet {
    type Err = UnknownInstructionSet;

    fn from_str(text: &str) -> Result<Self, UnknownInstructionSet> {
        let found = Self::ALL.into_iter().find(|set| set.to_string() == text);
        found.ok_or_else(|| UnknownInstructionSet(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_to_the_same_set() {
        for set in InstructionSet::ALL {
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        let error = "avx1024".parse::<InstructionSet>().unwrap_err().to_string();
        assert!(
            error.contains("`avx1024`") && error.contains("`avx2`"),
            "{error}"
        );
    }
}
