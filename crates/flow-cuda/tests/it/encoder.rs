//! Tests the encoder around the kernels: batches, memory, and failing devices.

use std::sync::Arc;

use flow_cuda::{
    Capability, CudaEncoder, Gpu, GpuError, GpuPrecision, MatrixMultiplier, ModelLoader, STREAMS,
    TokenIds,
};
use flow_cuda_emulator::{EmulatedGpu, EmulatorSettings};

use crate::emulated_gpu;
use crate::models::{load, mean, shape, text};
use crate::reference::ReferenceModel;

const LENGTHS: [usize; 6] = [3, 40, 1, 17, 16, 90];

fn small_model() -> ReferenceModel {
    ReferenceModel::new(shape(64, 2, 72), 1, false)
}

fn encoder(
    settings: EmulatorSettings,
    precision: GpuPrecision,
) -> Option<(Arc<EmulatedGpu>, CudaEncoder)> {
    let emulated = emulated_gpu(settings)?;
    let gpu: Arc<dyn Gpu> = emulated.clone();
    Some((emulated, load(&gpu, &small_model(), precision)))
}

fn encode(encoder: &CudaEncoder, lengths: &[usize]) -> Result<Vec<f32>, GpuError> {
    let ids: Vec<u32> = lengths.iter().flat_map(|length| text(*length)).collect();
    let token_ids = TokenIds {
        ids: &ids,
        lengths,
        second_starts: &[],
    };
    encoder.encode(token_ids, &mean(64))
}

#[test]
fn a_text_has_the_same_vector_alone_and_in_any_batch() {
    for precision in [
        GpuPrecision::F32,
        GpuPrecision::Tf32,
        GpuPrecision::F16,
        GpuPrecision::Bf16,
    ] {
        let Some((_, encoder)) = encoder(EmulatorSettings::default(), precision) else {
            return;
        };
        let together = encode(&encoder, &LENGTHS).unwrap();
        let mut reversed = LENGTHS;
        reversed.reverse();
        let backwards = encode(&encoder, &reversed).unwrap();
        for (index, length) in LENGTHS.iter().enumerate() {
            let alone = encode(&encoder, &[*length]).unwrap();
            assert_eq!(alone, together[index * 64..][..64], "{precision} {length}");
            let start = (LENGTHS.len() - 1 - index) * 64;
            assert_eq!(alone, backwards[start..][..64], "{precision} {length}");
        }
    }
}

#[test]
fn the_order_in_which_threads_run_does_not_matter() {
    let vectors = [1, 2, 3, 4].map(|seed| {
        let settings = EmulatorSettings {
            seed,
            ..EmulatorSettings::default()
        };
        let (_, encoder) = encoder(settings, GpuPrecision::F16)?;
        Some(encode(&encoder, &LENGTHS).unwrap())
    });
    assert!(vectors.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_batch_takes_one_copy_to_the_device_and_one_back() {
    let Some((emulated, encoder)) = encoder(EmulatorSettings::default(), GpuPrecision::F16) else {
        return;
    };
    let before = emulated.copies();
    encode(&encoder, &LENGTHS).unwrap();
    assert_eq!(emulated.copies() - before, 2);
    let kernels = emulated.launches();
    encode(&encoder, &LENGTHS).unwrap();
    assert_eq!(emulated.launches() - kernels, 1 + 7 + 1);
}

#[test]
fn a_batch_that_does_not_fit_is_split_until_it_does() {
    let Some((whole, unlimited)) = encoder(EmulatorSettings::default(), GpuPrecision::F16) else {
        return;
    };
    let once = encode(&unlimited, &LENGTHS).unwrap();
    // Enough for the weights and little more than the longest text.
    let memory = unlimited.weight_bytes() + 200 * 1024;
    let settings = EmulatorSettings {
        memory,
        ..EmulatorSettings::default()
    };
    let Some((limited, encoder)) = encoder(settings, GpuPrecision::F16) else {
        return;
    };
    let many = LENGTHS.repeat(8);
    let launches = |gpu: &EmulatedGpu| gpu.launches();
    let (before, limited_before) = (launches(&whole), launches(&limited));
    let expected = encode(&unlimited, &many).unwrap();
    let actual = encode(&encoder, &many).unwrap();
    assert_eq!(actual, expected);
    assert_eq!(actual[..once.len()], once);
    let passes = (launches(&limited) - limited_before) / (launches(&whole) - before);
    assert!(passes > 1, "the batch fit into {memory} bytes");
    assert!(limited.used_bytes() <= memory);
}

#[test]
fn a_text_that_does_not_fit_is_an_error_and_the_next_text_is_encoded() {
    let Some((_, unlimited)) = encoder(EmulatorSettings::default(), GpuPrecision::F16) else {
        return;
    };
    let settings = EmulatorSettings {
        memory: unlimited.weight_bytes() + 24 * 1024,
        ..EmulatorSettings::default()
    };
    let Some((_, encoder)) = encoder(settings, GpuPrecision::F16) else {
        return;
    };
    let error = encode(&encoder, &[139]).unwrap_err();
    assert!(matches!(error, GpuError::OutOfMemory { .. }), "{error}");
    assert!(!error.is_sticky());
    assert_eq!(
        encode(&encoder, &[2]).unwrap(),
        encode(&unlimited, &[2]).unwrap()
    );
}

#[test]
fn a_model_that_does_not_fit_is_an_error_and_frees_its_memory() {
    let settings = EmulatorSettings {
        memory: 20 * 1024,
        ..EmulatorSettings::default()
    };
    let Some(emulated) = emulated_gpu(settings) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = emulated.clone();
    let model = small_model();
    let mut loader = ModelLoader::new(&gpu, model.shape, GpuPrecision::F16, &model.embeddings);
    let added = loader.as_mut().map(|loader| loader.layer(&model.layers[0]));
    let error = added.map_or_else(|error| error.clone(), |added| added.unwrap_err());
    assert!(matches!(error, GpuError::OutOfMemory { .. }), "{error}");
    drop(loader);
    assert_eq!(emulated.used_bytes(), 0);
}

#[test]
fn an_encoder_reuses_its_memory_and_frees_it_when_dropped() {
    let Some((emulated, encoder)) = encoder(EmulatorSettings::default(), GpuPrecision::Bf16) else {
        return;
    };
    encode(&encoder, &LENGTHS).unwrap();
    let used = emulated.used_bytes();
    for _ in 0..3 {
        encode(&encoder, &LENGTHS).unwrap();
    }
    assert_eq!(emulated.used_bytes(), used, "memory is reused");
    drop(encoder);
    assert_eq!(emulated.used_bytes(), 0);
}

#[test]
fn a_lost_device_is_a_sticky_error() {
    let settings = |lost_at| EmulatorSettings {
        lost_at,
        ..EmulatorSettings::default()
    };
    let Some((_, first)) = encoder(settings(None), GpuPrecision::F16) else {
        return;
    };
    assert!(encode(&first, &[3]).is_ok());
    // Loading a model takes fewer synchronizations than this, so one of the batches fails.
    let Some((_, encoder)) = encoder(settings(Some(30)), GpuPrecision::F16) else {
        return;
    };
    let error = (0..30).find_map(|_| encode(&encoder, &[3]).err()).unwrap();
    assert!(error.is_sticky(), "{error}");
    assert!(encode(&encoder, &[3]).unwrap_err().is_sticky());
}

#[test]
fn more_threads_than_streams_wait_for_one() {
    let Some((_, encoder)) = encoder(EmulatorSettings::default(), GpuPrecision::F16) else {
        return;
    };
    let expected = encode(&encoder, &LENGTHS).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| encode(&encoder, &LENGTHS).unwrap()))
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
}

#[test]
fn unsupported_precisions_are_refused_by_name() {
    let settings = EmulatorSettings {
        capability: Capability { major: 7, minor: 5 },
        ..EmulatorSettings::default()
    };
    let Some(gpu) = emulated_gpu(settings) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    for precision in [GpuPrecision::Bf16, GpuPrecision::Tf32] {
        let error = MatrixMultiplier::new(&gpu, precision)
            .unwrap_err()
            .to_string();
        for part in ["capability 7.5", &precision.to_string(), "8.0"] {
            assert!(error.contains(part), "{error}");
        }
    }
    for precision in [GpuPrecision::F16, GpuPrecision::F32] {
        assert!(MatrixMultiplier::new(&gpu, precision).is_ok());
    }
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let Some(gpu) = emulated_gpu(EmulatorSettings::default()) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    let model = ReferenceModel::new(shape(264, 1, 8), 0, false);
    let error = ModelLoader::new(&gpu, model.shape, GpuPrecision::F16, &model.embeddings);
    assert!(error.unwrap_err().to_string().contains("264"));
}

#[test]
fn texts_without_tokens_have_zero_vectors() {
    let Some((_, encoder)) = encoder(EmulatorSettings::default(), GpuPrecision::F16) else {
        return;
    };
    assert_eq!(encode(&encoder, &[]).unwrap(), [0.0; 0]);
    assert_eq!(encode(&encoder, &[0, 0]).unwrap(), [0.0; 128]);
    let mixed = encode(&encoder, &[0, 5, 0]).unwrap();
    assert_eq!(mixed[..64], [0.0; 64]);
    assert_eq!(mixed[64..128], encode(&encoder, &[5]).unwrap());
}

#[test]
fn batches_are_sized_by_the_free_memory() {
    let tokens = |memory: usize| {
        let settings = EmulatorSettings {
            memory,
            ..EmulatorSettings::default()
        };
        encoder(settings, GpuPrecision::F16).map(|(_, encoder)| encoder.max_batch_tokens().get())
    };
    let Some(most) = tokens(4 << 30) else { return };
    assert_eq!(most, 32 * 1024);
    let some = tokens(8 << 20).unwrap();
    assert!((1000..most).contains(&some), "{some}");
    assert_eq!(STREAMS.get(), 2);
}
