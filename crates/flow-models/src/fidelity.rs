//! How close the vectors of a precision are to those of 32-bit floats.
//!
//! That depends on the model, and has to be measured: a few texts are encoded in both precisions. `int8` is not calibrated with
//! these texts. As this takes a second or more for a large model, the result is stored in a file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flow_core::{Chain, cosine};
use flow_kernels::{CpuPrecision, Kernels};
use serde::{Deserialize, Serialize};
use sha2::Digest;

use crate::derived_file::{file_name, hash_weights, write_whole};
use crate::options::{EncoderOptions, Precision};

const TEXTS: &str = include_str!("fidelity_texts.txt");

/// Folder within the cache.
const FOLDER: &str = "fidelity";

/// Changes when the same vectors are compared in another way.
const FORMAT: &str = "1";

/// How close vectors are to those of 32-bit floats, over a few texts that are part of the program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    /// The lowest cosine of a text's two vectors; -1 if one of them is zero or not finite.
    pub lowest_cosine: f64,
    /// The mean of all cosines.
    pub mean_cosine: f64,
}

impl Fidelity {
    /// What [`Precision::Fast`] demands of a precision.
    pub const FAST: Self = Self {
        lowest_cosine: 0.999,
        mean_cosine: 0.9997,
    };

    /// Compares the precision of the options with 32-bit floats, for the model in `folder`. `encode` loads the model with some
    /// options and encodes texts. The result is stored in the cache of the options, and read from there if neither the model nor
    /// the program has changed. A cache that cannot be read or written only costs time.
    pub(crate) fn measure<E>(
        folder: &Path,
        options: &EncoderOptions,
        encode: impl Fn(&EncoderOptions, &[&str]) -> Result<Vec<Vec<f32>>, E>,
    ) -> Result<Self, E> {
        let file = file(folder, options);
        if let Some(stored) = file.as_deref().and_then(read) {
            return Ok(stored);
        }
        let measured = Self::compare(options, encode)?;
        if let Some(file) = &file
            && let Err(error) = write(file, measured)
        {
            tracing::warn!(
                file = %file.display(),
                error = %Chain(&error),
                "fidelity cannot be stored and will be measured at the next start"
            );
        }
        Ok(measured)
    }

    /// Whether it is at least as high as another one.
    #[must_use]
    pub fn reaches(self, other: Self) -> bool {
        self.lowest_cosine >= other.lowest_cosine && self.mean_cosine >= other.mean_cosine
    }

    fn compare<E>(
        options: &EncoderOptions,
        encode: impl Fn(&EncoderOptions, &[&str]) -> Result<Vec<Vec<f32>>, E>,
    ) -> Result<Self, E> {
        let texts: Vec<&str> = TEXTS.lines().collect();
        let encode_in = |precision| {
            // Pooling, prompts and lengths as the model's files say, so that the result is the same whatever the options are.
            let options = EncoderOptions {
                precision,
                back_end: options.back_end,
                threads: options.threads,
                cache_folder: options.cache_folder.clone(),
                ..EncoderOptions::default()
            };
            encode(&options, &texts)
        };
        let vectors = encode_in(options.precision)?;
        let exact = encode_in(Some(Precision::F32))?;
        let pairs = vectors.iter().zip(&exact);
        let cosines: Vec<f64> = pairs.map(|(a, b)| cosine(a, b).unwrap_or(-1.0)).collect();
        Ok(Self {
            lowest_cosine: cosines.iter().copied().fold(1.0, f64::min),
            mean_cosine: cosines.iter().sum::<f64>() / cosines.len() as f64,
        })
    }
}

/// The file for these options. `None` without a cache, and if the model's weights cannot be examined.
fn file(folder: &Path, options: &EncoderOptions) -> Option<PathBuf> {
    let cache = options.cache_folder.as_deref()?;
    let (precision, back_end) = (options.precision, options.back_end);
    let sets = [CpuPrecision::Int8, CpuPrecision::Bf16].map(|precision| {
        let kernels = Kernels::select(precision, back_end);
        kernels.map(|kernels| kernels.instruction_set())
    });
    let version = env!("CARGO_PKG_VERSION");
    let mut hash = hash_weights(folder)?;
    hash.update(format!(
        "{FORMAT}\n{precision:?}\n{back_end:?}\n{sets:?}\n{version}\n"
    ));
    hash.update(TEXTS);
    Some(cache.join(FOLDER).join(file_name(hash) + ".json"))
}

/// Reads a stored fidelity. `None` if there is no such file, or it is damaged.
fn read(file: &Path) -> Option<Fidelity> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

fn write(file: &Path, fidelity: Fidelity) -> io::Result<()> {
    write_whole(file, &serde_json::to_vec(&fidelity)?)
}
