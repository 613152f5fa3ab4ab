//! A fingerprint of configuration, which changes with it. Pure.

/// A hash of texts. FNV-1a: the same in every build. It needs no protection against attacks.
pub(super) fn of<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let bytes = texts
        .into_iter()
        .flat_map(|text| text.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325, step);
    format!("{bytes:016x}")
}
