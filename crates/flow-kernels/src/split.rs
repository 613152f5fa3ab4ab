//! Splits ranges into parts of similar length.

use std::ops::Range;

/// Splits `rows` into as few ranges of at most `max` rows as possible, with lengths that differ by at most one.
pub(crate) fn split_evenly(rows: Range<usize>, max: usize) -> impl Iterator<Item = Range<usize>> {
    let count = rows.len().div_ceil(max);
    let edge = move |part: usize| rows.start + rows.len() * part / count;
    (0..count).map(move |part| edge(part)..edge(part + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_split_into_few_parts_of_similar_length() {
        let lengths =
            |rows, max| -> Vec<usize> { split_evenly(rows, max).map(|it| it.len()).collect() };
        assert_eq!(lengths(0..28, 14), [14, 14]);
        assert_eq!(lengths(3..18, 14), [7, 8]);
        assert_eq!(lengths(0..1, 14), [1]);
        assert!(lengths(5..5, 14).is_empty());
        let all: Vec<usize> = split_evenly(2..99, 6).flatten().collect();
        assert_eq!(all, (2..99).collect::<Vec<_>>());
    }
}
