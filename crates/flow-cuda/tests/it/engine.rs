//! What the engine does around the kernels: batches, memory, and devices that fail.

use std::sync::Arc;

use flow_cuda::{Capability, Engine, Format, Gpu, GpuError, Loader, Multiplier, STREAMS};
use flow_cuda_emulator::{Emulator, Settings};

use crate::emulator;
use crate::models::{load, mean, shape, text};
use crate::reference::Naive;

const LENGTHS: [usize; 6] = [3, 40, 1, 17, 16, 90];

fn small() -> Naive {
    Naive::of(shape(64, 2, 72), 1, false)
}

fn engine(settings: Settings, format: Format) -> Option<(Arc<Emulator>, Engine)> {
    let emulator = emulator(settings)?;
    let gpu: Arc<dyn Gpu> = emulator.clone();
    Some((emulator, load(&gpu, &small(), format)))
}

fn encode(engine: &Engine, lengths: &[usize]) -> Result<Vec<f32>, GpuError> {
    let ids: Vec<u32> = lengths.iter().flat_map(|length| text(*length)).collect();
    engine.encode(&ids, lengths, &mean(64))
}

#[test]
fn a_text_has_the_same_vector_alone_and_in_any_batch() {
    for format in [Format::F32, Format::Tf32, Format::F16, Format::Bf16] {
        let Some((_, engine)) = engine(Settings::default(), format) else {
            return;
        };
        let together = encode(&engine, &LENGTHS).unwrap();
        let mut reversed = LENGTHS;
        reversed.reverse();
        let backwards = encode(&engine, &reversed).unwrap();
        for (number, length) in LENGTHS.iter().enumerate() {
            let alone = encode(&engine, &[*length]).unwrap();
            assert_eq!(alone, together[number * 64..][..64], "{format} {length}");
            let place = (LENGTHS.len() - 1 - number) * 64;
            assert_eq!(alone, backwards[place..][..64], "{format} {length}");
        }
    }
}

#[test]
fn the_order_in_which_threads_run_does_not_matter() {
    let vectors = [1, 2, 3, 4].map(|seed| {
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        let (_, engine) = engine(settings, Format::F16)?;
        Some(encode(&engine, &LENGTHS).unwrap())
    });
    assert!(vectors.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_batch_is_one_copy_to_the_device_and_one_back() {
    let Some((emulator, engine)) = engine(Settings::default(), Format::F16) else {
        return;
    };
    let before = emulator.copies();
    encode(&engine, &LENGTHS).unwrap();
    assert_eq!(emulator.copies() - before, 2);
    let kernels = emulator.launches();
    encode(&engine, &LENGTHS).unwrap();
    assert_eq!(emulator.launches() - kernels, 1 + 7 + 1);
}

#[test]
fn a_batch_without_room_is_cut_until_it_has_some() {
    let Some((whole, unlimited)) = engine(Settings::default(), Format::F16) else {
        return;
    };
    let wanted = encode(&unlimited, &LENGTHS).unwrap();
    // The weights, and a little more than the longest text needs beside them.
    let memory = unlimited.weight_bytes() + 200 * 1024;
    let settings = Settings {
        memory,
        ..Settings::default()
    };
    let Some((limited, engine)) = engine(settings, Format::F16) else {
        return;
    };
    let many = LENGTHS.repeat(8);
    let launches = |emulator: &Emulator| emulator.launches();
    let (before, limited_before) = (launches(&whole), launches(&limited));
    let expected = encode(&unlimited, &many).unwrap();
    let got = encode(&engine, &many).unwrap();
    assert_eq!(got, expected);
    assert_eq!(got[..wanted.len()], wanted);
    let passes = (launches(&limited) - limited_before) / (launches(&whole) - before);
    assert!(passes > 1, "it had room for all of {memory} bytes");
    assert!(limited.used() <= memory);
}

#[test]
fn a_text_without_room_is_an_error_and_the_next_is_encoded() {
    let Some((_, unlimited)) = engine(Settings::default(), Format::F16) else {
        return;
    };
    let settings = Settings {
        memory: unlimited.weight_bytes() + 24 * 1024,
        ..Settings::default()
    };
    let Some((_, engine)) = engine(settings, Format::F16) else {
        return;
    };
    let error = encode(&engine, &[139]).unwrap_err();
    assert!(matches!(error, GpuError::OutOfMemory { .. }), "{error}");
    assert!(!error.is_sticky());
    assert_eq!(
        encode(&engine, &[2]).unwrap(),
        encode(&unlimited, &[2]).unwrap()
    );
}

#[test]
fn a_model_without_room_is_an_error_and_leaves_nothing_behind() {
    let settings = Settings {
        memory: 20 * 1024,
        ..Settings::default()
    };
    let Some(emulator) = emulator(settings) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = emulator.clone();
    let model = small();
    let mut loader = Loader::new(&gpu, model.shape, Format::F16, &model.embeddings);
    let added = loader.as_mut().map(|loader| loader.layer(&model.layers[0]));
    let error = added.map_or_else(|error| error.clone(), |added| added.unwrap_err());
    assert!(matches!(error, GpuError::OutOfMemory { .. }), "{error}");
    drop(loader);
    assert_eq!(emulator.used(), 0);
}

#[test]
fn an_engine_gives_back_all_that_it_took() {
    let Some((emulator, engine)) = engine(Settings::default(), Format::Bf16) else {
        return;
    };
    encode(&engine, &LENGTHS).unwrap();
    let used = emulator.used();
    for _ in 0..3 {
        encode(&engine, &LENGTHS).unwrap();
    }
    assert_eq!(emulator.used(), used, "memory is used again");
    drop(engine);
    assert_eq!(emulator.used(), 0);
}

#[test]
fn a_lost_device_is_told_as_such() {
    let settings = |lost_at| Settings {
        lost_at,
        ..Settings::default()
    };
    let Some((_, first)) = engine(settings(None), Format::F16) else {
        return;
    };
    assert!(encode(&first, &[3]).is_ok());
    // A model is loaded with fewer waits than this; some batch is the first after them.
    let Some((_, engine)) = engine(settings(Some(30)), Format::F16) else {
        return;
    };
    let error = (0..30).find_map(|_| encode(&engine, &[3]).err()).unwrap();
    assert!(error.is_sticky(), "{error}");
    assert!(encode(&engine, &[3]).unwrap_err().is_sticky());
}

#[test]
fn more_threads_than_streams_wait_for_one() {
    let Some((_, engine)) = engine(Settings::default(), Format::F16) else {
        return;
    };
    let wanted = encode(&engine, &LENGTHS).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..5)
            .map(|_| scope.spawn(|| encode(&engine, &LENGTHS).unwrap()))
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), wanted);
        }
    });
}

#[test]
fn numbers_that_a_device_does_not_know_are_refused_by_name() {
    let settings = Settings {
        capability: Capability { major: 7, minor: 5 },
        ..Settings::default()
    };
    let Some(gpu) = emulator(settings) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    for format in [Format::Bf16, Format::Tf32] {
        let error = Multiplier::new(&gpu, format).unwrap_err().to_string();
        for part in ["capability 7.5", &format.to_string(), "8.0"] {
            assert!(error.contains(part), "{error}");
        }
    }
    for format in [Format::F16, Format::F32] {
        assert!(Multiplier::new(&gpu, format).is_ok());
    }
}

#[test]
fn a_head_that_is_too_wide_is_refused() {
    let Some(gpu) = emulator(Settings::default()) else {
        return;
    };
    let gpu: Arc<dyn Gpu> = gpu;
    let model = Naive::of(shape(264, 1, 8), 0, false);
    let error = Loader::new(&gpu, model.shape, Format::F16, &model.embeddings);
    assert!(error.unwrap_err().to_string().contains("264"));
}

#[test]
fn texts_without_tokens_have_vectors_of_nothing() {
    let Some((_, engine)) = engine(Settings::default(), Format::F16) else {
        return;
    };
    assert_eq!(encode(&engine, &[]).unwrap(), [0.0; 0]);
    assert_eq!(encode(&engine, &[0, 0]).unwrap(), [0.0; 128]);
    let mixed = encode(&engine, &[0, 5, 0]).unwrap();
    assert_eq!(mixed[..64], [0.0; 64]);
    assert_eq!(mixed[64..128], encode(&engine, &[5]).unwrap());
}

#[test]
fn batches_are_sized_by_the_memory_that_is_left() {
    let tokens = |memory: usize| {
        let settings = Settings {
            memory,
            ..Settings::default()
        };
        engine(settings, Format::F16).map(|(_, engine)| engine.batch_tokens().get())
    };
    let Some(most) = tokens(4 << 30) else { return };
    assert_eq!(most, 32 * 1024);
    let some = tokens(8 << 20).unwrap();
    assert!((1000..most).contains(&some), "{some}");
    assert_eq!(STREAMS.get(), 2);
}
