//! Whether a folder holds a whole model.
//!
//! Looked at before each use, so it must cost next to nothing: files must be there, and the weights as
//! long as their own header says. That finds every download that was cut short. What the files say is
//! for those who load them.

use std::path::{Path, PathBuf};

use crate::weights::{Weights, WeightsError};

/// The model's dimensions and family.
pub const CONFIG_FILE: &str = "config.json";
/// The tokenizer, in the form of the `tokenizers` library.
pub const TOKENIZER_FILE: &str = "tokenizer.json";
/// The weights.
pub const WEIGHTS_FILE: &str = "model.safetensors";

/// What a folder lacks.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is no such folder.
    #[error("there is no folder `{0}`")]
    NoFolder(PathBuf),
    /// A file is not there.
    #[error("folder `{folder}` has no `{file}`{}", hint(.file, .folder))]
    NoFile {
        /// The folder.
        folder: PathBuf,
        /// The file.
        file: &'static str,
    },
    /// The weights are not whole.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// Checks that `folder` holds a whole model.
///
/// # Errors
///
/// If a file is missing or the weights are not as long as they should be.
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
    Weights::open(&folder.join(WEIGHTS_FILE))?;
    Ok(())
}

/// Says what to do where a model has the same content in another form.
fn hint(file: &str, folder: &Path) -> &'static str {
    let has = |other: &str| folder.join(other).exists();
    if file == TOKENIZER_FILE && has("vocab.txt") {
        "; `AutoTokenizer.from_pretrained(…).save_pretrained(…)` makes one from its vocabulary"
    } else if file == WEIGHTS_FILE && has("pytorch_model.bin") {
        "; weights in `pytorch_model.bin` are not read, `save_pretrained` writes them as safetensors"
    } else if file == WEIGHTS_FILE && has("model.safetensors.index.json") {
        "; weights in several files are not read yet"
    } else {
        ""
    }
}
