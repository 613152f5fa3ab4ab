//! Reads tensors from a safetensors file, one at a time.
//!
//! The file is neither mapped nor read as a whole: each tensor is read straight into the memory that
//! the model keeps, so that loading never holds two copies of the weights, and no `unsafe` is needed.
//! Which tensors there must be, and of which shapes, the family says.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

/// Longest header that is read: far above any real one, and far below what a damaged length can say.
const HEADER_BYTES_MAX: u64 = 100_000_000;
/// The file begins with its header's length in so many bytes.
const LENGTH_BYTES: u64 = 8;

/// Why weights could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file cannot be read.
    #[error("cannot read weights `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file ends too early or too late.
    #[error(
        "weights `{path}` hold {found} bytes where {wanted} belong: half a download? remove the file and fetch it again"
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// How many bytes its header promises.
        wanted: u64,
        /// How many there are.
        found: u64,
    },
    /// The file's header is not one.
    #[error("`{path}` is not a safetensors file: {reason}")]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor that the family needs is not there.
    #[error("weights `{path}` have no tensor `{name}`")]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A tensor has other dimensions than `config.json` says.
    #[error(
        "tensor `{name}` has shape {found:?} where `config.json` asks for {wanted:?}: weights and configuration are of different models"
    )]
    Shape {
        /// The tensor.
        name: String,
        /// Its shape by `config.json`.
        wanted: Vec<usize>,
        /// Its shape in the file.
        found: Vec<usize>,
    },
    /// A tensor holds numbers of a kind that is not read.
    #[error("tensor `{name}` holds values of type {found:?}; F32, F16 and BF16 can be read")]
    Type {
        /// The tensor.
        name: String,
        /// The type of its values.
        found: Dtype,
    },
}

/// An open safetensors file whose header has been checked against its length.
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    file: File,
    header: Metadata,
    data_start: u64,
}

impl Weights {
    /// Opens the file and reads its header.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no safetensors file, or is not as long as its header says.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let failed = |source| WeightsError::Read {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(failed)?;
        let file_bytes = file.metadata().map_err(failed)?.len();
        let header_bytes = header_length(path, &mut file, file_bytes)?;
        let mut text = Vec::new();
        Read::by_ref(&mut file)
            .take(header_bytes)
            .read_to_end(&mut text)
            .map_err(failed)?;
        let header: Metadata =
            serde_json::from_slice(&text).map_err(|error| bad_header(path, error.to_string()))?;
        let data_start = LENGTH_BYTES + header_bytes;
        let wanted = data_start + header.data_len() as u64;
        if wanted != file_bytes {
            return Err(WeightsError::Length {
                path: path.to_owned(),
                wanted,
                found: file_bytes,
            });
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            header,
            data_start,
        })
    }

    /// How many numbers all tensors hold.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let tensors = self.header.tensors().into_values();
        let numbers = |tensor: &TensorInfo| tensor.shape.iter().product::<usize>() as u64;
        tensors.map(numbers).sum()
    }

    /// Whether there is a tensor of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.header.info(name).is_some()
    }

    /// Checks that tensor `name` is there, has this shape, and holds numbers that can be read.
    ///
    /// # Errors
    ///
    /// If one of these is not so.
    pub fn check(&self, name: &str, wanted: &[usize]) -> Result<(), WeightsError> {
        let info = self.info(name)?;
        if info.shape != wanted {
            let (wanted, found) = (wanted.to_vec(), info.shape.clone());
            return Err(WeightsError::Shape {
                name: name.to_owned(),
                wanted,
                found,
            });
        }
        match info.dtype {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(()),
            found => Err(WeightsError::Type {
                name: name.to_owned(),
                found,
            }),
        }
    }

    /// The values of tensor `name` in row-major order.
    ///
    /// # Errors
    ///
    /// If it is not there or cannot be read.
    pub fn read(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let info = self.info(name)?;
        let (start, end) = info.data_offsets;
        let mut reader = self.reader(start as u64);
        match info.dtype {
            Dtype::F32 => read_values(&mut reader, (end - start) / 4, f32::from_le_bytes),
            Dtype::F16 => read_values(&mut reader, (end - start) / 2, half_to_f32),
            Dtype::BF16 => read_values(&mut reader, (end - start) / 2, bfloat_to_f32),
            found => {
                return Err(WeightsError::Type {
                    name: name.to_owned(),
                    found,
                });
            }
        }
        .map_err(|source| WeightsError::Read {
            path: self.path.clone(),
            source,
        })
    }

    fn info(&self, name: &str) -> Result<&TensorInfo, WeightsError> {
        let missing = || WeightsError::Missing {
            path: self.path.clone(),
            name: name.to_owned(),
        };
        self.header.info(name).ok_or_else(missing)
    }

    fn reader(&self, offset: u64) -> At<'_> {
        At {
            file: &self.file,
            offset: self.data_start + offset,
        }
    }
}

/// Reads on from a place in a file without moving the file's own position, which all readers share.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl At<'_> {
    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, self.offset)?;
        self.offset += buffer.len() as u64;
        Ok(())
    }
}

fn header_length(path: &Path, file: &mut File, file_bytes: u64) -> Result<u64, WeightsError> {
    let mut length = [0; LENGTH_BYTES as usize];
    if let Err(source) = file.read_exact(&mut length) {
        return Err(match source.kind() {
            io::ErrorKind::UnexpectedEof => bad_header(path, "it is empty".to_owned()),
            _ => WeightsError::Read {
                path: path.to_owned(),
                source,
            },
        });
    }
    let length = u64::from_le_bytes(length);
    if length > HEADER_BYTES_MAX {
        return Err(bad_header(
            path,
            format!("its header would be {length} bytes long"),
        ));
    }
    let wanted = LENGTH_BYTES + length;
    if wanted > file_bytes {
        return Err(WeightsError::Length {
            path: path.to_owned(),
            wanted,
            found: file_bytes,
        });
    }
    Ok(length)
}

fn bad_header(path: &Path, reason: String) -> WeightsError {
    WeightsError::Header {
        path: path.to_owned(),
        reason,
    }
}

/// Reads through a small buffer, so that only the values themselves take up memory.
fn read_values<const N: usize>(
    reader: &mut At<'_>,
    count: usize,
    value: impl Fn([u8; N]) -> f32,
) -> io::Result<Vec<f32>> {
    const CHUNK_VALUES: usize = 64 * 1024;
    let mut values = Vec::with_capacity(count);
    let mut chunk = vec![0; CHUNK_VALUES.min(count) * N];
    while values.len() < count {
        let bytes = &mut chunk[..CHUNK_VALUES.min(count - values.len()) * N];
        reader.read_exact(bytes)?;
        values.extend(bytes.as_chunks::<N>().0.iter().map(|bytes| value(*bytes)));
    }
    Ok(values)
}

fn bfloat_to_f32(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
}

fn half_to_f32(bytes: [u8; 2]) -> f32 {
    let bits = u16::from_le_bytes(bytes);
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    sign * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_read_exactly() {
        for (bits, wanted) in [
            (0x3c00_u16, 1.0),
            (0xc000, -2.0),
            (0x0001, 2f32.powi(-24)),
            (0x7bff, 65504.0),
            (0x3555, 0.333_251_95),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(half_to_f32(bits.to_le_bytes()), wanted, "{bits:#x}");
        }
        assert!(half_to_f32(0x7e00_u16.to_le_bytes()).is_nan());
    }

    #[test]
    fn bfloat_is_the_upper_half_of_a_float() {
        let bits = (std::f32::consts::PI.to_bits() >> 16) as u16;
        let wanted = f32::from_bits(u32::from(bits) << 16);
        assert_eq!(bfloat_to_f32(bits.to_le_bytes()), wanted);
    }
}
