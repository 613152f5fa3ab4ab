//! What the options say, or else the model's files.

use std::num::NonZeroUsize;

use super::LoadEncoderError;
use crate::options::EncoderOptions;
use crate::pooling::PoolingConfig;
use crate::sentence_config::SentenceConfig;
use crate::tokenizer::Prompt;

/// The requested maximum length, or else that of the model's files, in tokens. `max` is what the architecture allows.
pub(crate) fn max_length(
    options: &EncoderOptions,
    config: &SentenceConfig,
    max: usize,
) -> Result<usize, LoadEncoderError> {
    match options.max_length.map(NonZeroUsize::get) {
        Some(requested) if requested > max => Err(LoadEncoderError::MaxLength { requested, max }),
        Some(requested) => Ok(requested),
        None => Ok(config.max_length.unwrap_or(max).min(max)),
    }
}

pub(super) fn width(options: &EncoderOptions, max: usize) -> Result<usize, LoadEncoderError> {
    match options.dimensions.map(NonZeroUsize::get) {
        Some(requested) if requested > max => Err(LoadEncoderError::Dimensions { requested, max }),
        Some(requested) => Ok(requested),
        None => Ok(max),
    }
}

/// The number of leading tokens that are not pooled.
pub(super) fn skipped_tokens(pools_prompt: bool, prompt: &Prompt) -> usize {
    match pools_prompt {
        true => 0,
        false => prompt.length,
    }
}

pub(super) fn pooling(options: &EncoderOptions, config: &SentenceConfig) -> PoolingConfig {
    let own = config.pooling.clone();
    match options.pooling {
        Some(mode) => PoolingConfig {
            modes: vec![mode],
            ..own
        },
        None => own,
    }
}

pub(crate) fn prompt(
    options: &EncoderOptions,
    config: &SentenceConfig,
) -> Result<String, LoadEncoderError> {
    if let Some(prompt) = &options.prompt {
        return Ok(prompt.clone());
    }
    let name = options.prompt_name.as_ref();
    let Some(name) = name.or(config.default_prompt.as_ref()) else {
        return Ok(String::new());
    };
    let unknown = || LoadEncoderError::Prompt {
        requested: name.clone(),
        available: available_prompts(config),
    };
    config.prompts.get(name).cloned().ok_or_else(unknown)
}

fn available_prompts(config: &SentenceConfig) -> String {
    let names: Vec<String> = config
        .prompts
        .keys()
        .map(|name| format!("`{name}`"))
        .collect();
    if names.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", names.join(", "))
    }
}
