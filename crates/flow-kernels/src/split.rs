//! Splits ranges into parts of similar length.

use std::ops::Range;

/// Splits `rows` into as few ranges of at most `max` rows as possible. All but the last have a multiple of `unit` rows, which
/// divides `max`, and lengths differ by at most one unit.
pub(crate) fn split_evenly(
    rows: Range<usize>,
    max: usize,
    unit: usize,
) -> impl Iterator<Item = Range<usize>> {
    let count = rows.len().div_ceil(max);
    let units = rows.len().div_ceil(unit);
    let edge = move |part: usize| rows.end.min(rows.start + units * part / count * unit);
    (0..count).map(move |part| edge(part)..edge(part + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_split_into_few_parts_of_similar_length() {
        let lengths =
            |rows, max| -> Vec<usize> { split_evenly(rows, max, 1).map(|it| it.len()).collect() };
        assert_eq!(lengths(0..28, 14), [14, 14]);
        assert_eq!(lengths(3..18, 14), [7, 8]);
        assert_eq!(lengths(0..1, 14), [1]);
        assert!(lengths(5..5, 14).is_empty());
        let all: Vec<usize> = split_evenly(2..99, 6, 1).flatten().collect();
        assert_eq!(all, (2..99).collect::<Vec<_>>());
    }

    #[test]
    fn all_parts_but_the_last_have_whole_units() {
        let lengths =
            |rows| -> Vec<usize> { split_evenly(rows, 32, 16).map(|it| it.len()).collect() };
        assert_eq!(lengths(0..98), [16, 32, 32, 18]);
        assert_eq!(lengths(0..64), [32, 32]);
        assert_eq!(lengths(5..19), [14]);
        assert_eq!(lengths(5..38), [16, 17]);
    }
}
