//! Compares whole models of odd sizes, in each precision, with a plain implementation.

use std::sync::Arc;

use flow_cuda::{
    Activation, CudaEncoder, Gpu, GpuPrecision, ModelLoader, ModelShape, PoolingMode, PoolingSpec,
    STREAMS, TokenIds,
};
use flow_cuda_emulator::EmulatorSettings;

use crate::reference::ReferenceModel;
use crate::{cosine, emulated_gpu};

pub(crate) const MODES: [PoolingMode; 7] = [
    PoolingMode::Cls,
    PoolingMode::Mean,
    PoolingMode::Max,
    PoolingMode::Min,
    PoolingMode::MeanSqrtLen,
    PoolingMode::WeightedMean,
    PoolingMode::LastToken,
];

pub(crate) fn shape(hidden_size: usize, heads: usize, intermediate_size: usize) -> ModelShape {
    ModelShape {
        hidden_size,
        intermediate_size,
        heads,
        max_tokens: 140,
        token_types: 1,
        vocab_size: 50,
        epsilon: 1e-12,
        activation: Activation::Gelu,
    }
}

pub(crate) fn mean(width: usize) -> PoolingSpec {
    PoolingSpec {
        modes: vec![PoolingMode::Mean],
        skipped_tokens: 0,
        width,
        normalize: true,
    }
}

pub(crate) fn load(
    gpu: &Arc<dyn Gpu>,
    model: &ReferenceModel,
    precision: GpuPrecision,
) -> CudaEncoder {
    let mut loader = ModelLoader::new(gpu, model.shape, precision, &model.embeddings).unwrap();
    for layer in &model.layers {
        loader.layer(layer).unwrap();
    }
    CudaEncoder::new(loader, STREAMS).unwrap()
}

/// Token ids of a text with `length` tokens. A few are beyond the vocabulary.
pub(crate) fn text(length: usize) -> Vec<u32> {
    (0..length)
        .map(|n| (n * n * 7 + length) as u32 % 53)
        .collect()
}

/// The minimum cosine and the maximum error of a precision, which rounds several times in a layer.
fn bounds(precision: GpuPrecision) -> (f64, f64) {
    match precision {
        GpuPrecision::F32 => (0.999_999_9, 2e-6),
        GpuPrecision::Tf32 => (0.999_99, 2e-3),
        GpuPrecision::F16 => (0.999_95, 4e-3),
        GpuPrecision::Bf16 => (0.999_5, 3e-2),
    }
}

#[track_caller]
fn check(
    model: &ReferenceModel,
    lengths: &[usize],
    pooling: &PoolingSpec,
    precisions: &[GpuPrecision],
) {
    check_pairs(model, (lengths, &[]), pooling, precisions);
}

#[track_caller]
fn check_pairs(
    model: &ReferenceModel,
    (lengths, second_starts): (&[usize], &[usize]),
    pooling: &PoolingSpec,
    precisions: &[GpuPrecision],
) {
    let Some(gpu) = emulated_gpu(EmulatorSettings::default()) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    let texts: Vec<Vec<u32>> = lengths.iter().map(|length| text(*length)).collect();
    for precision in precisions {
        let encoder = load(&gpu, model, *precision);
        let texts_in_a_row = texts.concat();
        let token_ids = TokenIds {
            ids: &texts_in_a_row,
            lengths,
            second_starts,
        };
        let vectors = encoder.encode(token_ids, pooling).unwrap();
        let (cosine_min, error_max) = bounds(*precision);
        for (text, actual) in vectors.chunks(pooling.width).enumerate() {
            let ids = &texts[text];
            let second_start = second_starts.get(text).copied();
            let expected = model.pair_vector((ids, second_start.unwrap_or(ids.len())), pooling);
            let what = format!("{precision}, {} tokens, {:?}", ids.len(), model.shape);
            let scale = expected.iter().fold(0.0_f64, |most, it| most.max(it.abs()));
            for (actual, expected) in actual.iter().zip(&expected) {
                let error = (f64::from(*actual) - expected).abs();
                assert!(
                    error <= error_max * scale,
                    "{what}: {actual}, expected {expected}"
                );
            }
            assert!(
                cosine(actual, &expected) >= cosine_min,
                "{what}: {}",
                cosine(actual, &expected)
            );
        }
    }
}

const ALL: [GpuPrecision; 4] = [
    GpuPrecision::F32,
    GpuPrecision::Tf32,
    GpuPrecision::F16,
    GpuPrecision::Bf16,
];
const LENGTHS: &[usize] = &[1, 15, 16, 17, 2, 31, 33, 127, 129];

#[test]
fn heads_of_32_values() {
    check(
        &ReferenceModel::new(shape(96, 3, 130), 2, false),
        LENGTHS,
        &mean(96),
        &ALL,
    );
}

#[test]
fn heads_of_64_values_with_a_position_bias() {
    check(
        &ReferenceModel::new(shape(128, 2, 72), 1, true),
        LENGTHS,
        &mean(128),
        &ALL,
    );
}

#[test]
fn heads_of_32_values_with_a_position_bias() {
    check(
        &ReferenceModel::new(shape(32, 1, 33), 2, true),
        LENGTHS,
        &mean(32),
        &ALL,
    );
}

#[test]
fn heads_of_odd_size() {
    check(
        &ReferenceModel::new(shape(66, 2, 31), 2, true),
        &[1, 16, 33, 70],
        &mean(66),
        &ALL,
    );
    check(
        &ReferenceModel::new(shape(8, 2, 15), 2, false),
        &[1, 16, 33, 70],
        &mean(8),
        &ALL,
    );
}

#[test]
fn large_heads_and_another_activation() {
    let shape = ModelShape {
        activation: Activation::Relu,
        ..shape(256, 1, 64)
    };
    check(
        &ReferenceModel::new(shape, 1, false),
        &[3, 34],
        &mean(256),
        &ALL,
    );
}

#[test]
fn attention_scores_of_very_different_magnitude() {
    let mut model = ReferenceModel::new(shape(64, 2, 8), 1, false);
    let qkv = &mut model.layers[0].qkv.weights;
    // Scales queries and keys, so that scores reach several hundred, whose exponentials overflow 32-bit floats.
    qkv[..2 * 64 * 64].iter_mut().for_each(|it| *it *= 12.0);
    let Some(gpu) = emulated_gpu(EmulatorSettings::default()) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    let expected = model.vector(&text(40), &mean(64));
    // Half precision has three decimal digits fewer for such numbers.
    for (precision, cosine_min) in [(GpuPrecision::F32, 0.999_999), (GpuPrecision::F16, 0.9)] {
        let encoder = load(&gpu, &model, precision);
        let token_ids = TokenIds {
            ids: &text(40),
            lengths: &[40],
            second_starts: &[],
        };
        let actual = encoder.encode(token_ids, &mean(64)).unwrap();
        let cosine = cosine(&actual, &expected);
        assert!(cosine >= cosine_min, "{precision}: {cosine}");
    }
}

#[test]
fn second_texts_of_pairs_have_a_token_type_of_their_own() {
    let shape = ModelShape {
        token_types: 2,
        ..shape(64, 2, 72)
    };
    let model = ReferenceModel::new(shape, 1, false);
    let pairs = (&[3, 17, 129, 4][..], &[1, 9, 40, 4][..]);
    check_pairs(&model, pairs, &mean(64), &ALL);
}

#[test]
fn each_pooling_mode() {
    let model = ReferenceModel::new(shape(40, 1, 16), 0, false);
    for mode in MODES {
        for skipped_tokens in [0, 2] {
            let pooling = PoolingSpec {
                modes: vec![mode],
                skipped_tokens,
                width: 40,
                normalize: false,
            };
            check(
                &model,
                &[3, 17, 129],
                &pooling,
                &[GpuPrecision::F32, GpuPrecision::F16, GpuPrecision::Bf16],
            );
        }
    }
}

#[test]
fn several_pooling_modes_with_truncated_vectors() {
    let pooling = PoolingSpec {
        modes: MODES.to_vec(),
        skipped_tokens: 1,
        width: 7 * 33 - 5,
        normalize: true,
    };
    check(
        &ReferenceModel::new(shape(33, 1, 16), 1, false),
        &[2, 18],
        &pooling,
        &ALL,
    );
}

#[test]
fn rows_longer_than_a_warp_reads_at_once() {
    for hidden in [520, 768, 1032] {
        check(
            &ReferenceModel::new(shape(hidden, hidden / 8, 16), 0, false),
            &[5],
            &mean(hidden),
            &ALL,
        );
    }
}
