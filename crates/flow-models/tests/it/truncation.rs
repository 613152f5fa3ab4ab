//! Long texts lose their end, or their beginning if a request asks for it.

use std::num::NonZeroUsize;

use flow_models::{
    ClassifierInput, CrossEncoder, EncodeRequest, EncoderOptions, Prompt, ScoreRequest,
    TextClassifier, TextEncoder, Tokenizer, TokenizerOptions, TruncationDirection,
};
use proptest::prelude::*;

use crate::tiny_model::TinyModel;

/// The tokens of a text alone that the models of these tests read, besides `[CLS]` and `[SEP]`.
const READ: usize = 6;

fn options() -> EncoderOptions {
    EncoderOptions {
        max_length: NonZeroUsize::new(READ + 2),
        ..EncoderOptions::default()
    }
}

fn left(prompt: Option<&str>) -> EncodeRequest<'_> {
    EncodeRequest {
        prompt,
        direction: TruncationDirection::Left,
        ..EncodeRequest::default()
    }
}

fn encode(encoder: &TextEncoder, text: &str, request: EncodeRequest<'_>) -> Vec<f32> {
    // Two texts are encoded in a batch, and one is not.
    let alone = encoder.encode_with(&[text], request).unwrap();
    let batch = encoder.encode_with(&[text, "a"], request).unwrap();
    let row = alone.rows().next().unwrap().to_vec();
    assert_eq!(batch.rows().next().unwrap(), row);
    row
}

#[test]
fn a_text_that_is_cut_from_the_left_has_the_vector_of_its_end() {
    let encoder = crate::load(TinyModel::bert().path(), &options());
    let (long, end, start) = ("a b c d d c b a", "c d d c b a", "a b c d d c");
    let default = EncodeRequest::default();
    assert_eq!(
        encode(&encoder, long, left(None)),
        encode(&encoder, end, default)
    );
    assert_eq!(
        encode(&encoder, long, default),
        encode(&encoder, start, default)
    );
    assert_eq!(
        encode(&encoder, "a b", left(None)),
        encode(&encoder, "a b", default)
    );
}

#[test]
fn the_prompt_stays_in_front_of_a_text_that_loses_its_beginning() {
    let encoder = crate::load(TinyModel::bert().path(), &options());
    let cut = encode(&encoder, "a b c d d c b a", left(Some("d d ")));
    let whole = encode(&encoder, "d d d c b a", EncodeRequest::default());
    assert_eq!(cut, whole);
}

#[test]
fn in_a_pair_the_longer_text_loses_its_beginning() {
    let request = ScoreRequest {
        direction: TruncationDirection::Left,
        ..ScoreRequest::default()
    };
    let (query, text) = ("a b", "d c b a b c d");
    // The special tokens of a pair are three.
    let kept = "b c d";
    let reranker = CrossEncoder::load(
        TinyModel::classifier("bert", 1).path(),
        &options(),
        crate::cpu(),
    );
    let reranker = reranker.unwrap();
    let score = |text, request| {
        let scored = reranker.score(&[query], &[(0, text)], request, &|| false);
        scored.unwrap().scores
    };
    assert_eq!(score(text, request), score(kept, ScoreRequest::default()));

    let classifier = TextClassifier::load(
        TinyModel::classifier("bert", 3).path(),
        &options(),
        crate::cpu(),
    );
    let classifier = classifier.unwrap();
    let classify = |text: &str, pair: Option<&str>, request| {
        let input = ClassifierInput {
            text: text.to_owned(),
            pair: pair.map(str::to_owned),
        };
        let classified = classifier.classify(&[input], request, &|| false);
        classified.unwrap().values
    };
    let whole = ScoreRequest::default();
    assert_eq!(
        classify(query, Some(text), request),
        classify(query, Some(kept), whole)
    );
    assert_eq!(
        classify(text, None, request),
        classify("c b a b c d", None, whole)
    );
}

/// The token ids of a text, as the library cuts it from the left.
fn by_the_library(model: &TinyModel, text: &str) -> Vec<u32> {
    let mut tokenizer = tokenizers::Tokenizer::from_file(model.file("tokenizer.json")).unwrap();
    let truncation = tokenizers::TruncationParams {
        direction: tokenizers::TruncationDirection::Left,
        max_length: READ + 2,
        ..tokenizers::TruncationParams::default()
    };
    tokenizer.with_truncation(Some(truncation)).unwrap();
    tokenizer.encode(text, true).unwrap().get_ids().to_vec()
}

proptest! {
    #[test]
    fn texts_are_cut_from_the_left_as_the_library_does_it(
        words in prop::collection::vec("[a-d]{1,3}", 0..20),
    ) {
        let model = TinyModel::bert();
        let options = TokenizerOptions { max_length: READ + 2, lower_case: false };
        let tokenizer = Tokenizer::load(&model.file("tokenizer.json"), options).unwrap();
        let text = words.join(" ");
        let ids = tokenizer.ids(&text, &Prompt::default(), TruncationDirection::Left).unwrap();
        prop_assert_eq!(ids, by_the_library(&model, &text));
    }
}
