//! `precision: fast`: the fastest precision of a CPU whose vectors are close to those of 32-bit floats.

use flow_kernels::{CpuPrecision, InstructionSet, InstructionSetUnavailable, Kernels};

use crate::engine::EngineConfigError;
use crate::fidelity::Fidelity;
use crate::options::{EncoderOptions, Precision};

/// The precision for a model on this CPU. `measure` loads the model with some options, and measures its fidelity.
pub(crate) fn fast_precision<E: From<EngineConfigError>>(
    options: &EncoderOptions,
    measure: impl Fn(&EncoderOptions) -> Result<Fidelity, E>,
) -> Result<Precision, E> {
    let candidates = candidates(options.back_end).map_err(EngineConfigError::InstructionSet)?;
    first_close(candidates, |precision| {
        measure(&EncoderOptions {
            precision: Some(precision),
            ..options.clone()
        })
    })
}

/// Precisions that are faster than 32-bit floats, the fastest first.
fn candidates(
    max: Option<InstructionSet>,
) -> Result<&'static [Precision], InstructionSetUnavailable> {
    let set = |precision| Ok(Kernels::select(precision, max)?.instruction_set());
    Ok(faster_than_f32(
        set(CpuPrecision::Int8)?,
        set(CpuPrecision::Bf16)?,
    ))
}

/// The same for the instruction sets that multiply 8-bit integers and bf16.
fn faster_than_f32(int8: InstructionSet, bf16: InstructionSet) -> &'static [Precision] {
    match (int8.has_int8(), bf16) {
        (true, bf16) if bf16.has_bf16() => &[Precision::Int8, Precision::Bf16],
        (true, _) => &[Precision::Int8],
        (false, bf16) if bf16.has_bf16() => &[Precision::Bf16],
        (false, _) => &[],
    }
}

/// The first precision whose vectors are close enough; 32-bit floats if there is none.
fn first_close<E>(
    candidates: &[Precision],
    measure: impl Fn(Precision) -> Result<Fidelity, E>,
) -> Result<Precision, E> {
    for precision in candidates {
        let fidelity = measure(*precision)?;
        if fidelity.reaches(Fidelity::FAST) {
            return Ok(*precision);
        }
        tracing::warn!(
            %precision,
            lowest_cosine = fidelity.lowest_cosine,
            mean_cosine = fidelity.mean_cosine,
            "vectors differ too much from those of f32 for `precision: fast`; a slower precision is used"
        );
    }
    Ok(Precision::F32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_precisions_depend_on_the_instruction_sets() {
        use InstructionSet::{
            Amx, Avx2, Avx512, Avx512Bf16, Avx512Vnni, AvxVnni, Neon, NeonDotprod, NeonI8mm,
            Portable,
        };
        use Precision::{Bf16, Int8};
        let check =
            |int8, bf16, expected: &[Precision]| assert_eq!(faster_than_f32(int8, bf16), expected);
        check(Amx, Amx, &[Int8, Bf16]);
        check(Avx512Bf16, Avx512Bf16, &[Int8, Bf16]);
        check(Avx512Vnni, Avx512, &[Int8]);
        check(AvxVnni, Avx2, &[Int8]);
        check(NeonI8mm, Neon, &[Int8]);
        check(NeonDotprod, Neon, &[Int8]);
        for slow in [Avx512, Avx2, Neon, Portable] {
            check(slow, slow, &[]);
        }
    }

    #[test]
    fn a_precision_whose_vectors_differ_too_much_is_skipped() {
        let check = |lowest: [f64; 2], mean, expected| {
            let candidates = [Precision::Int8, Precision::Bf16];
            let measure = |precision| {
                let lowest_cosine = lowest[usize::from(precision == Precision::Bf16)];
                let mean_cosine = mean;
                Ok::<_, ()>(Fidelity {
                    lowest_cosine,
                    mean_cosine,
                })
            };
            assert_eq!(first_close(&candidates, measure), Ok(expected));
        };
        check([0.999, 0.9999], 0.9997, Precision::Int8);
        check([0.9989, 0.9999], 0.9997, Precision::Bf16);
        check([0.999, 0.9999], 0.9996, Precision::F32);
        check([-1.0, -1.0], 0.9999, Precision::F32);
        assert_eq!(
            first_close(&[], |_| Err("not measured")),
            Ok(Precision::F32)
        );
    }
}
