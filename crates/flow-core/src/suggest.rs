//! "Did you mean …?": finds the known word that is closest to an unknown one.

/// The known word that is closest to `written`, if one is close enough to be a likely correction.
#[must_use]
pub fn closest<'w>(written: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let written = folded(written);
    // One edit in three letters: `uess` may be `uses`, `cat` is not `dog`.
    let slips_max = (written.len() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|word| (distance(&written, &folded(word)), word))
        .filter(|(slips, _)| *slips <= slips_max)
        // The first of several equally close words, so that the result is deterministic.
        .min()
        .map(|(_, word)| word)
}

/// The letters without differences of case, and with `_` for `-`.
fn folded(word: &str) -> Vec<char> {
    // Longer words are not names, and the comparison takes quadratic time.
    const LEN_MAX: usize = 64;
    word.chars()
        .take(LEN_MAX)
        .map(|c| {
            if c == '-' {
                '_'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
}

/// The edit distance of two words: letters deleted, inserted, replaced, or two neighbours swapped.
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut rows: Vec<Vec<usize>> = vec![(0..width).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, known: &[&str], expected: Option<&str>) {
        assert_eq!(
            closest(written, known.iter().copied()),
            expected,
            "{written}"
        );
    }

    #[test]
    fn a_word_with_one_edit_is_found() {
        check("encodr", &["encoder", "ranker"], Some("encoder"));
        check("uess", &["uses", "needs"], Some("uses"));
        check("replica", &["replicas"], Some("replicas"));
        check(
            "timeuot_send",
            &["timeout_send", "timeout_ready"],
            Some("timeout_send"),
        );
    }

    #[test]
    fn case_and_dashes_are_not_edits() {
        check("Uses-With", &["uses_with", "uses"], Some("uses_with"));
    }

    #[test]
    fn a_different_word_is_not_suggested() {
        check("cat", &["dog", "bird"], None);
        check("", &["uses"], None);
        check("x", &["when"], None);
    }

    #[test]
    fn the_first_of_equally_close_words_in_the_alphabet_is_suggested() {
        check("b2", &["c2", "a2"], Some("a2"));
    }
}
