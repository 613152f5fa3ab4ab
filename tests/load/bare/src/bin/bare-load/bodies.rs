//! Files of bodies: before each is its length, as four bytes in network order.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use bytes::{Buf, BufMut, Bytes};

/// Reads all bodies of a file; there is at least one.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Bytes>> {
    let file = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let mut rest = Bytes::from(file);
    let mut bodies = Vec::new();
    while !rest.is_empty() {
        let length = rest.try_get_u32().context("the last length is cut short")?;
        let length = length as usize;
        ensure!(length <= rest.len(), "the last body is cut short");
        bodies.push(rest.split_to(length));
    }
    ensure!(!bodies.is_empty(), "`{}` is empty", path.display());
    Ok(bodies)
}

pub(crate) fn write(path: &Path, bodies: &[Bytes]) -> anyhow::Result<()> {
    let mut file = Vec::new();
    for body in bodies {
        file.put_u32(u32::try_from(body.len()).context("a body has more than 4 GiB")?);
        file.put_slice(body);
    }
    fs::write(path, file).with_context(|| format!("cannot write `{}`", path.display()))
}
