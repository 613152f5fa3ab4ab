//! The vectors of tokens are what the vectors of texts are made of.

use flow_models::engine::FAMILIES;
use flow_models::{EncodeError, EncodeRequest, EncoderOptions, PoolingMode, TextEncoder};

use crate::tiny_model::{HIDDEN, TinyModel};

const TEXTS: [&str; 4] = ["a b c d d c b a", "a", "d", "c c b"];

fn load(model: &TinyModel, pooling: PoolingMode) -> TextEncoder {
    let options = EncoderOptions {
        pooling: Some(pooling),
        normalize: Some(false),
        ..EncoderOptions::default()
    };
    crate::load(model.path(), &options)
}

#[test]
fn their_mean_is_the_vector_of_the_text() {
    for model_type in FAMILIES {
        let encoder = load(&TinyModel::of(model_type), PoolingMode::Mean);
        let texts: Vec<&str> = TEXTS.into_iter().cycle().take(150).collect();
        let (tokens, _) = encoder
            .token_vectors(&texts, (EncodeRequest::default(), 10_000), &|| false)
            .unwrap();
        let vectors = encoder.encode(&texts, None).unwrap();
        assert_eq!(tokens.len(), texts.len());
        for ((of_tokens, of_text), count) in tokens.iter().zip(vectors.rows()).zip(vectors.tokens())
        {
            assert_eq!(of_tokens.tokens, *count);
            assert_eq!(of_tokens.values.len(), count * HIDDEN);
            for (value, expected) in of_text.iter().enumerate() {
                let sum: f32 = of_tokens
                    .values
                    .chunks_exact(HIDDEN)
                    .map(|token| token[value])
                    .sum();
                let mean = sum / *count as f32;
                assert!(
                    (mean - expected).abs() < 1e-5,
                    "{model_type}: {mean} {expected}"
                );
            }
        }
    }
}

#[test]
fn a_prompt_is_read_before_each_text() {
    let encoder = load(&TinyModel::bert(), PoolingMode::LastToken);
    let last = |texts: &[&str], prompt| {
        let request = EncodeRequest {
            prompt,
            ..EncodeRequest::default()
        };
        let (tokens, _) = encoder
            .token_vectors(texts, (request, 100), &|| false)
            .unwrap();
        let rows = tokens
            .iter()
            .map(|it| it.values.rchunks_exact(HIDDEN).next().unwrap().to_vec());
        rows.collect::<Vec<_>>()
    };
    let request = EncodeRequest {
        prompt: Some("c d "),
        ..EncodeRequest::default()
    };
    let vectors = encoder.encode_with(&["a", "b"], request).unwrap();
    assert_eq!(
        last(&["a", "b"], Some("c d ")),
        vectors.rows().collect::<Vec<_>>()
    );
    assert_eq!(last(&["c d a"], None), last(&["a"], Some("c d ")));
}

#[test]
fn the_tokens_of_a_call_are_limited() {
    let encoder = load(&TinyModel::bert(), PoolingMode::Mean);
    let request = EncodeRequest::default();
    let call = |texts: &[&str], max| encoder.token_vectors(texts, (request, max), &|| false);
    assert!(call(&["a", "b"], 6).is_ok());
    let error = call(&["a", "b"], 5).unwrap_err();
    assert!(
        matches!(error, EncodeError::TooManyTokens { tokens: 6, max: 5 }),
        "{error}"
    );
    let cancelled = encoder.token_vectors(&["a"], (request, 6), &|| true);
    assert!(matches!(cancelled, Err(EncodeError::Cancelled)));
    assert!(call(&[], 0).unwrap().0.is_empty());
}
