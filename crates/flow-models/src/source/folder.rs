//! Checks whether a folder contains a complete model.
//!
//! The check runs before each use, so it is cheap: all files must exist, and the weights must be as long as their header
//! says, which detects every truncated download. The contents are checked when the model is loaded.

use std::path::{Path, PathBuf};

use crate::weights::{WeightsError, WeightsFile};

/// File with the model's family and dimensions.
pub const CONFIG_FILE: &str = "config.json";
/// File with the tokenizer, in the format of the `tokenizers` library.
pub const TOKENIZER_FILE: &str = "tokenizer.json";
/// File with the weights.
pub const WEIGHTS_FILE: &str = "model.safetensors";

/// A folder does not contain a complete model.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder does not exist.
    #[error("there is no folder `{0}`")]
    NoFolder(PathBuf),
    /// A file is missing.
    #[error("folder `{folder}` has no `{file}`{}", hint(.file, .folder))]
    NoFile {
        /// The folder.
        folder: PathBuf,
        /// The file.
        file: &'static str,
    },
    /// The weights are incomplete or invalid.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// Checks that `folder` contains a complete model.
///
/// # Errors
///
/// If a file is missing or the weights are not as long as their header says.
pub fn check_folder(folder: &Path) -> Result<(), FolderError> {
    if !folder.is_dir() {
        return Err(FolderError::NoFolder(folder.to_owned()));
    }
    for file in [CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE] {
        if !folder.join(file).is_file() {
            return Err(FolderError::NoFile {
                folder: folder.to_owned(),
                file,
            });
        }
    }
    WeightsFile::open(&folder.join(WEIGHTS_FILE))?;
    Ok(())
}

/// Suggests what to do if the folder has the same content in another format.
fn hint(file: &str, folder: &Path) -> &'static str {
    let has = |other: &str| folder.join(other).exists();
    if file == TOKENIZER_FILE && has("vocab.txt") {
        "; create it from the vocabulary with `AutoTokenizer.from_pretrained(…).save_pretrained(…)`"
    } else if file == WEIGHTS_FILE && has("pytorch_model.bin") {
        "; weights in `pytorch_model.bin` are not supported, convert them to safetensors with `save_pretrained`"
    } else if file == WEIGHTS_FILE && has("model.safetensors.index.json") {
        "; weights in several files are not supported yet"
    } else {
        ""
    }
}
