//! The candle engine keeps to its own threads.

use std::num::NonZeroUsize;

use flow_models::{EncoderOptions, EngineKind};

use crate::load;
use crate::tiny_model::TinyModel;

#[test]
fn candle_computes_on_its_own_threads_and_not_on_the_global_pool() {
    let options = EncoderOptions {
        engine: EngineKind::Candle,
        threads: NonZeroUsize::new(3),
        ..EncoderOptions::default()
    };
    let model = TinyModel::bert();
    let encoder = load(model.path(), &options);
    encoder.encode(&["a b", "c", "a b c d"], None).unwrap();
    assert_eq!(encoder.threads(), 3);
    // This fails if any operation has started rayon's global pool.
    let global = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global();
    global.expect("no operation has used the global pool");
}
