//! Whole models of odd sizes in each format, against their formulas.

use std::sync::Arc;

use flow_cuda::{Activation, Engine, Format, Gpu, Loader, Pooling, PoolingMode, STREAMS, Shape};
use flow_cuda_emulator::Settings;

use crate::reference::Naive;
use crate::{cosine, emulator};

pub(crate) const MODES: [PoolingMode; 7] = [
    PoolingMode::Cls,
    PoolingMode::Mean,
    PoolingMode::Max,
    PoolingMode::Min,
    PoolingMode::MeanSqrtLen,
    PoolingMode::WeightedMean,
    PoolingMode::LastToken,
];

pub(crate) fn shape(hidden: usize, heads: usize, inner: usize) -> Shape {
    Shape {
        hidden,
        inner,
        heads,
        positions: 140,
        vocabulary: 50,
        epsilon: 1e-12,
        activation: Activation::Gelu,
    }
}

pub(crate) fn mean(width: usize) -> Pooling {
    Pooling {
        modes: vec![PoolingMode::Mean],
        skipped: 0,
        width,
        normalize: true,
    }
}

pub(crate) fn load(gpu: &Arc<dyn Gpu>, model: &Naive, format: Format) -> Engine {
    let mut loader = Loader::new(gpu, model.shape, format, &model.embeddings).unwrap();
    for layer in &model.layers {
        loader.layer(layer).unwrap();
    }
    Engine::new(loader, STREAMS).unwrap()
}

/// Ids of a text of so many tokens; a few beyond the vocabulary.
pub(crate) fn text(length: usize) -> Vec<u32> {
    (0..length)
        .map(|at| (at * at * 7 + length) as u32 % 53)
        .collect()
}

/// What is left to a vector after it was rounded several times in a layer.
fn bounds(format: Format) -> (f64, f64) {
    match format {
        Format::F32 => (0.999_999_9, 2e-6),
        Format::Tf32 => (0.999_99, 2e-3),
        Format::F16 => (0.999_95, 4e-3),
        Format::Bf16 => (0.999_5, 3e-2),
    }
}

#[track_caller]
fn check(model: &Naive, lengths: &[usize], pooling: &Pooling, formats: &[Format]) {
    let Some(gpu) = emulator(Settings::default()) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    let texts: Vec<Vec<u32>> = lengths.iter().map(|length| text(*length)).collect();
    for format in formats {
        let engine = load(&gpu, model, *format);
        let vectors = engine.encode(&texts.concat(), lengths, pooling).unwrap();
        let (cosine_min, off_max) = bounds(*format);
        for (ids, got) in texts.iter().zip(vectors.chunks(pooling.width)) {
            let wanted = model.vector(ids, pooling);
            let what = format!("{format}, {} tokens, {:?}", ids.len(), model.shape);
            let scale = wanted.iter().fold(0.0_f64, |most, it| most.max(it.abs()));
            for (got, wanted) in got.iter().zip(&wanted) {
                let off = (f64::from(*got) - wanted).abs();
                assert!(off <= off_max * scale, "{what}: {got}, wanted {wanted}");
            }
            assert!(
                cosine(got, &wanted) >= cosine_min,
                "{what}: {}",
                cosine(got, &wanted)
            );
        }
    }
}

const ALL: [Format; 4] = [Format::F32, Format::Tf32, Format::F16, Format::Bf16];
const LENGTHS: &[usize] = &[1, 15, 16, 17, 2, 31, 33, 127, 129];

#[test]
fn heads_of_32_values() {
    check(
        &Naive::of(shape(96, 3, 130), 2, false),
        LENGTHS,
        &mean(96),
        &ALL,
    );
}

#[test]
fn heads_of_64_values_and_distances() {
    check(
        &Naive::of(shape(128, 2, 72), 1, true),
        LENGTHS,
        &mean(128),
        &ALL,
    );
}

#[test]
fn heads_of_32_values_and_distances() {
    check(
        &Naive::of(shape(32, 1, 33), 2, true),
        LENGTHS,
        &mean(32),
        &ALL,
    );
}

#[test]
fn heads_of_odd_width() {
    check(
        &Naive::of(shape(66, 2, 31), 2, true),
        &[1, 16, 33, 70],
        &mean(66),
        &ALL,
    );
    check(
        &Naive::of(shape(8, 2, 15), 2, false),
        &[1, 16, 33, 70],
        &mean(8),
        &ALL,
    );
}

#[test]
fn wide_heads_and_another_activation() {
    let shape = Shape {
        activation: Activation::Relu,
        ..shape(256, 1, 64)
    };
    check(&Naive::of(shape, 1, false), &[3, 34], &mean(256), &ALL);
}

#[test]
fn products_of_queries_and_keys_that_are_far_apart() {
    let mut model = Naive::of(shape(64, 2, 8), 1, false);
    let heads = &mut model.layers[0].heads.weights;
    // Of queries and keys: their products reach some hundreds, whose exponentials 32-bit floats do not have.
    heads[..2 * 64 * 64].iter_mut().for_each(|it| *it *= 12.0);
    let Some(gpu) = emulator(Settings::default()) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    let wanted = model.vector(&text(40), &mean(64));
    // Numbers of hundreds have three digits fewer behind the point.
    for (format, cosine_min) in [(Format::F32, 0.999_999), (Format::F16, 0.9)] {
        let engine = load(&gpu, &model, format);
        let got = engine.encode(&text(40), &[40], &mean(64)).unwrap();
        let cosine = cosine(&got, &wanted);
        assert!(cosine >= cosine_min, "{format}: {cosine}");
    }
}

#[test]
fn every_way_to_pool_alone() {
    let model = Naive::of(shape(40, 1, 16), 0, false);
    for mode in MODES {
        for skipped in [0, 2] {
            let pooling = Pooling {
                modes: vec![mode],
                skipped,
                width: 40,
                normalize: false,
            };
            check(
                &model,
                &[3, 17, 129],
                &pooling,
                &[Format::F32, Format::F16, Format::Bf16],
            );
        }
    }
}

#[test]
fn ways_to_pool_one_after_the_other_and_cut_short() {
    let pooling = Pooling {
        modes: MODES.to_vec(),
        skipped: 1,
        width: 7 * 33 - 5,
        normalize: true,
    };
    check(
        &Naive::of(shape(33, 1, 16), 1, false),
        &[2, 18],
        &pooling,
        &ALL,
    );
}

#[test]
fn rows_longer_than_a_block_takes_at_once() {
    check(
        &Naive::of(shape(520, 65, 16), 0, false),
        &[5],
        &mean(520),
        &ALL,
    );
}
