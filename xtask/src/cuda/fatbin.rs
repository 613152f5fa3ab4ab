//! Reads the output of the compiler: the images of a fatbin, and the kernels of an image.
//!
//! NVIDIA documents neither the fatbin nor the flag that marks a kernel. This is what nvcc 13.0 writes; a
//! file of another make is refused, not guessed at.

use anyhow::{Context, bail, ensure};

/// First four bytes of a fatbin.
const MAGIC: u32 = 0xba55_ed50;

/// A section of symbols.
const SYMBOLS: u32 = 2;
/// The kind of a symbol that is a function.
const FUNCTION: u8 = 2;
/// Marks a function that the host may start.
const ENTRY: u8 = 0x10;

/// One image of a fatbin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Image {
    /// Instructions for a capability, such as 90 for 9.0.
    Sass(u32),
    /// Text that a driver can compile for this capability and all later ones.
    Ptx(u32),
}

/// The images of a fatbin, in the order of capabilities.
pub(super) fn images(bytes: &[u8]) -> anyhow::Result<Vec<Image>> {
    ensure!(number(bytes, 0, 4)? == u64::from(MAGIC), "not a fatbin");
    let mut at = field(bytes, 6, 2)?;
    let end = at + field(bytes, 8, 8)?;
    let mut images = Vec::new();
    while at < end {
        let capability = u32::try_from(number(bytes, at + 28, 4)?)?;
        images.push(match number(bytes, at, 2)? {
            1 => Image::Ptx(capability),
            2 => Image::Sass(capability),
            kind => bail!("an image of the unknown kind {kind}"),
        });
        at += field(bytes, at + 4, 4)? + field(bytes, at + 8, 8)?;
    }
    images.sort_unstable();
    Ok(images)
}

/// The names of the kernels in an image of instructions, an ELF file, in order.
pub(super) fn kernels(cubin: &[u8]) -> anyhow::Result<Vec<String>> {
    ensure!(
        cubin.starts_with(b"\x7fELF\x02\x01"),
        "not a 64-bit ELF file"
    );
    let (table, size) = (field(cubin, 0x28, 8)?, field(cubin, 0x3a, 2)?);
    let section = |index: usize| table + index * size;
    let mut names = Vec::new();
    for index in 0..field(cubin, 0x3c, 2)? {
        let symbols = section(index);
        if number(cubin, symbols + 4, 4)? != u64::from(SYMBOLS) {
            continue;
        }
        let strings = field(cubin, section(field(cubin, symbols + 0x28, 4)?) + 0x18, 8)?;
        let start = field(cubin, symbols + 0x18, 8)?;
        for symbol in (start..start + field(cubin, symbols + 0x20, 8)?).step_by(24) {
            let (kind, flags) = (number(cubin, symbol + 4, 1)?, number(cubin, symbol + 5, 1)?);
            if kind & 0xf == u64::from(FUNCTION) && flags & u64::from(ENTRY) != 0 {
                names.push(text(cubin, strings + field(cubin, symbol, 4)?)?);
            }
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// A number of this many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, size: usize) -> anyhow::Result<u64> {
    let bytes = bytes.get(at..).and_then(|rest| rest.get(..size));
    let bytes =
        bytes.with_context(|| format!("it ends before byte {}", at.saturating_add(size)))?;
    Ok(bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// A number that says where something is, or how large.
fn field(bytes: &[u8], at: usize, size: usize) -> anyhow::Result<usize> {
    let value = usize::try_from(number(bytes, at, size)?)?;
    ensure!(
        value <= bytes.len(),
        "it points outside itself, to byte {value}"
    );
    Ok(value)
}

fn text(bytes: &[u8], at: usize) -> anyhow::Result<String> {
    let rest = bytes.get(at..).context("a name outside the file")?;
    let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8(name.to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fatbin of images of these kinds and capabilities, each with four bytes inside.
    fn fatbin(images: &[(u16, u32)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (kind, capability) in images {
            let mut head = [0; 64];
            head[..2].copy_from_slice(&kind.to_le_bytes());
            head[4] = 64;
            head[8] = 4;
            head[28..32].copy_from_slice(&capability.to_le_bytes());
            body.extend_from_slice(&head);
            body.extend_from_slice(b"code");
        }
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[1, 0, 16, 0]);
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    #[test]
    fn a_fatbin_lists_its_images_by_kind_and_capability() {
        let found = images(&fatbin(&[(2, 90), (2, 75), (1, 90)])).unwrap();
        assert_eq!(found, [Image::Sass(75), Image::Sass(90), Image::Ptx(90)]);
        assert_eq!(images(&fatbin(&[])).unwrap(), []);
    }

    #[test]
    fn truncated_and_other_files_are_refused() {
        let whole = fatbin(&[(2, 90)]);
        assert!(images(&whole[..30]).is_err());
        assert!(images(b"\x7fELF and so on").is_err());
        assert!(images(&fatbin(&[(7, 90)])).is_err());
        assert!(kernels(b"\x7fELF\x02\x01").is_err());
        assert!(kernels(&whole).is_err());
    }
}
