//! Reads tensors from a safetensors file, one at a time.
//!
//! The file is neither mapped nor read as a whole: each tensor is read into its final memory, so that loading never holds
//! two copies of the weights, and no `unsafe` code is needed. The model's family knows the names and shapes of tensors.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

/// Maximum length of a header: far more than real ones have, and far less than a corrupt length field can ask for.
const HEADER_BYTES_MAX: u64 = 100_000_000;
/// Size of the field at the start of the file that holds the header's length.
const LENGTH_BYTES: u64 = 8;

/// Weights could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file cannot be read.
    #[error("cannot read weights `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The file is shorter or longer than its header says.
    #[error(
        "weights `{path}` have {found} bytes instead of {expected}: perhaps half a download; remove the file and fetch it again"
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// The length that follows from its header, in bytes.
        expected: u64,
        /// Its actual length, in bytes.
        found: u64,
    },
    /// The file does not begin with a valid header.
    #[error("`{path}` is not a safetensors file: {reason}")]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor that the model needs is missing.
    #[error("weights `{path}` have no tensor `{name}`")]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A tensor does not have the shape that `config.json` implies.
    #[error(
        "tensor `{name}` has shape {found:?}, but `config.json` implies {expected:?}: weights and configuration belong to different models"
    )]
    Shape {
        /// The tensor.
        name: String,
        /// The shape that `config.json` implies.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// A tensor has an unsupported data type.
    #[error("tensor `{name}` has data type {found:?}; supported are F32, F16 and BF16")]
    Type {
        /// The tensor.
        name: String,
        /// Its data type.
        found: Dtype,
    },
}

/// An open safetensors file. Its length has been compared with its header.
#[derive(Debug)]
pub struct WeightsFile {
    path: PathBuf,
    file: File,
    header: Metadata,
    data_start: u64,
}

impl WeightsFile {
    /// Opens the file and reads its header.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not a safetensors file, or is not as long as its header says.
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
        let expected = data_start + header.data_len() as u64;
        if expected != file_bytes {
            return Err(WeightsError::Length {
                path: path.to_owned(),
                expected,
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

    /// The file's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The number of elements in all tensors.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let tensors = self.header.tensors().into_values();
        let elements = |tensor: &TensorInfo| tensor.shape.iter().product::<usize>() as u64;
        tensors.map(elements).sum()
    }

    /// Whether the file has a tensor of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.header.info(name).is_some()
    }

    /// The shape of a tensor.
    ///
    /// # Errors
    ///
    /// If it does not exist.
    pub(crate) fn shape(&self, name: &str) -> Result<&[usize], WeightsError> {
        Ok(&self.info(name)?.shape)
    }

    /// Checks that a tensor exists and has this shape and a supported data type.
    ///
    /// # Errors
    ///
    /// If one of these does not hold.
    pub fn check(&self, name: &str, expected: &[usize]) -> Result<(), WeightsError> {
        let info = self.info(name)?;
        if info.shape != expected {
            let (expected, found) = (expected.to_vec(), info.shape.clone());
            return Err(WeightsError::Shape {
                name: name.to_owned(),
                expected,
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

    /// The values of a tensor in row-major order, converted to 32-bit floats.
    ///
    /// # Errors
    ///
    /// If it does not exist or cannot be read.
    pub fn read(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let info = self.info(name)?;
        let (start, end) = info.data_offsets;
        let mut reader = self.reader(start as u64);
        match info.dtype {
            Dtype::F32 => read_values(&mut reader, (end - start) / 4, f32::from_le_bytes),
            Dtype::F16 => read_values(&mut reader, (end - start) / 2, f16_to_f32),
            Dtype::BF16 => read_values(&mut reader, (end - start) / 2, bf16_to_f32),
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

    /// The values of a tensor of 8-bit integers in row-major order.
    ///
    /// # Errors
    ///
    /// If it does not exist, has another shape or data type, or cannot be read.
    pub(crate) fn read_i8(&self, name: &str, shape: &[usize]) -> Result<Vec<i8>, WeightsError> {
        let info = self.info(name)?;
        if info.shape != shape {
            let (name, expected, found) = (name.to_owned(), shape.to_vec(), info.shape.clone());
            return Err(WeightsError::Shape {
                name,
                expected,
                found,
            });
        }
        if info.dtype != Dtype::I8 {
            let (name, found) = (name.to_owned(), info.dtype);
            return Err(WeightsError::Type { name, found });
        }
        let (start, end) = info.data_offsets;
        let mut reader = self.reader(start as u64);
        let read = read_values(&mut reader, end - start, i8::from_le_bytes);
        read.map_err(|source| WeightsError::Read {
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

    fn reader(&self, offset: u64) -> OffsetReader<'_> {
        OffsetReader {
            file: &self.file,
            offset: self.data_start + offset,
        }
    }
}

/// Reads a file from an offset, without the file's own position, which all readers would share.
struct OffsetReader<'a> {
    file: &'a File,
    offset: u64,
}

impl OffsetReader<'_> {
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
            format!("its header would have {length} bytes"),
        ));
    }
    let expected = LENGTH_BYTES + length;
    if expected > file_bytes {
        return Err(WeightsError::Length {
            path: path.to_owned(),
            expected,
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

/// Reads `count` values through a small buffer, so that only the values themselves take memory.
fn read_values<const N: usize, T>(
    reader: &mut OffsetReader<'_>,
    count: usize,
    value: impl Fn([u8; N]) -> T,
) -> io::Result<Vec<T>> {
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

fn bf16_to_f32(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
}

fn f16_to_f32(bytes: [u8; 2]) -> f32 {
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
    fn half_precision_is_converted_exactly() {
        for (bits, expected) in [
            (0x3c00_u16, 1.0),
            (0xc000, -2.0),
            (0x0001, 2f32.powi(-24)),
            (0x7bff, 65504.0),
            (0x3555, 0.333_251_95),
            (0x7c00, f32::INFINITY),
        ] {
            assert_eq!(f16_to_f32(bits.to_le_bytes()), expected, "{bits:#x}");
        }
        assert!(f16_to_f32(0x7e00_u16.to_le_bytes()).is_nan());
    }

    #[test]
    fn bf16_is_the_upper_half_of_a_float() {
        let bits = (std::f32::consts::PI.to_bits() >> 16) as u16;
        let expected = f32::from_bits(u32::from(bits) << 16);
        assert_eq!(bf16_to_f32(bits.to_le_bytes()), expected);
    }
}
