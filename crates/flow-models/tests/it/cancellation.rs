//! Encodings that are cancelled.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use flow_models::{CachedEncoder, EncodeError, EncodeRequest, EncoderOptions};

use crate::tiny_model::TinyModel;

#[test]
fn an_encoding_ends_before_the_batch_at_which_it_is_cancelled() {
    let model = TinyModel::bert();
    let encoder = crate::load(model.path(), &EncoderOptions::default());
    let texts = vec!["a b c"; 100];
    let one_by_one = EncodeRequest {
        batch_size: NonZeroUsize::new(1),
        ..EncodeRequest::default()
    };
    let asked = AtomicUsize::new(0);
    let count = || asked.fetch_add(1, Ordering::Relaxed);
    let encode = |allowed: usize| {
        asked.store(0, Ordering::Relaxed);
        encoder.encode_timed(&texts, one_by_one, &|| count() >= allowed)
    };
    assert!(encode(usize::MAX).is_ok());
    let jobs = asked.load(Ordering::Relaxed);
    assert!(jobs >= texts.len(), "it asks before each of {jobs} batches");
    for allowed in [0, 1, 50, jobs - 1] {
        let cancelled = encode(allowed);
        assert!(matches!(cancelled, Err(EncodeError::Cancelled)));
    }
    assert!(encode(jobs).is_ok());
}

#[test]
fn an_encoder_works_on_after_a_call_that_was_cancelled() {
    let model = TinyModel::bert();
    let encoder = crate::load(model.path(), &EncoderOptions::default());
    let expected = encoder.encode(&["a", "b"], None).unwrap();
    let texts = ["a", "b"].map(str::to_owned);
    let mut encoder = CachedEncoder::new(encoder, None);
    let request = EncodeRequest::default();
    let cancelled = encoder.encode_unless(&texts, request, &|| true);
    // Two texts are one batch.
    assert!(matches!(cancelled, Err(EncodeError::Cancelled)));
    let encoded = encoder.encode(&texts, request).unwrap();
    assert!(encoded.vectors.rows().eq(expected.rows()));
}
