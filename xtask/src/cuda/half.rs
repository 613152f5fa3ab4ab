//! Weights in half precision: a safetensors file with every 32-bit float rounded to 16 bits.

use anyhow::{Context, bail, ensure};
use half::f16;
use serde_json::{Map, Value, json};

/// A file begins with the length of its header.
const LENGTH: usize = 8;

/// What is not about a tensor.
const METADATA: &str = "__metadata__";

/// The same tensors, each half as long.
pub(super) fn halved(file: &[u8]) -> anyhow::Result<Vec<u8>> {
    let (length, rest) = file.split_first_chunk::<LENGTH>().context("no header")?;
    let length = usize::try_from(u64::from_le_bytes(*length))?;
    ensure!(length <= rest.len(), "the header is cut short");
    let (header, values) = rest.split_at(length);
    let header: Map<String, Value> = serde_json::from_slice(header)?;
    let (mut halved, mut out) = (Map::new(), Vec::new());
    for (name, about) in &header {
        if name == METADATA {
            halved.insert(name.clone(), about.clone());
            continue;
        }
        let offset = |place: usize| about["data_offsets"][place].as_u64().context("no offset");
        let (start, end) = (usize::try_from(offset(0)?)?, usize::try_from(offset(1)?)?);
        let bytes = values
            .get(start..end)
            .context("a tensor lies outside the file")?;
        let (dtype, begin) = (about["dtype"].as_str().unwrap_or_default(), out.len());
        let dtype = match dtype {
            "F32" => {
                for value in bytes.as_chunks::<4>().0 {
                    out.extend_from_slice(&rounded(*value, name)?);
                }
                "F16"
            }
            other => {
                out.extend_from_slice(bytes);
                other
            }
        };
        let offsets = [begin, out.len()];
        let about = json!({"dtype": dtype, "shape": about["shape"], "data_offsets": offsets});
        halved.insert(name.clone(), about);
    }
    let mut header = serde_json::to_vec(&halved)?;
    // Values begin where numbers of eight bytes may.
    header.resize(header.len().next_multiple_of(LENGTH), b' ');
    let length = (header.len() as u64).to_le_bytes();
    Ok([&length[..], &header, &out].concat())
}

fn rounded(value: [u8; 4], name: &str) -> anyhow::Result<[u8; 2]> {
    let value = f32::from_le_bytes(value);
    let half = f16::from_f32(value);
    if value.is_finite() && !half.is_finite() {
        bail!("`{name}` has {value}, which half precision cannot hold");
    }
    Ok(half.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(values: &[f32]) -> Vec<u8> {
        let header = json!({
            METADATA: {"format": "pt"},
            "ids": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
            "w": {"dtype": "F32", "shape": [values.len()], "data_offsets": [8, 8 + 4 * values.len()]},
        });
        let header = serde_json::to_vec(&header).unwrap();
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(&header);
        file.extend_from_slice(&7_u64.to_le_bytes());
        file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        file
    }

    #[test]
    fn floats_are_halved_and_the_rest_stays() {
        let halved = halved(&file(&[1.0, -0.5, 1e-3])).unwrap();
        let length = usize::from(halved[0]) + usize::from(halved[1]) * 256;
        assert_eq!(length % 8, 0);
        let header: Value = serde_json::from_slice(&halved[8..8 + length]).unwrap();
        assert_eq!(header["w"]["dtype"], "F16");
        assert_eq!(header["w"]["data_offsets"], json!([8, 14]));
        assert_eq!(header["ids"]["dtype"], "I64");
        let values = &halved[8 + length..];
        assert_eq!(values[..8], 7_u64.to_le_bytes());
        assert_eq!(values[8..10], f16::from_f32(1.0).to_le_bytes());
        assert_eq!(values.len(), 14);
    }

    #[test]
    fn values_beyond_half_precision_are_refused() {
        let error = halved(&file(&[1e6])).unwrap_err().to_string();
        assert!(error.contains("`w` has 1000000"), "{error}");
        assert!(halved(&file(&[f32::INFINITY])).is_ok());
    }

    #[test]
    fn a_file_that_is_cut_short_is_refused() {
        let whole = file(&[1.0, 2.0]);
        for length in [0, 7, 20, whole.len() - 1] {
            assert!(halved(&whole[..length]).is_err(), "{length}");
        }
    }
}
