//! Decides where a text is cut.
//!
//! Sentences and words are those of Unicode's text segmentation (UAX #29), so no language is special. What
//! is between two words belongs to the first; a chunk loses only the white space at its ends.

use std::ops::Range;

use serde::Deserialize;
use unicode_segmentation::UnicodeSegmentation;

/// Default number of words of a window: what a small sentence model reads without truncation.
const WINDOW_WORDS: usize = 128;

/// How often the chunks of a text may repeat it. Overlaps of a tenth to a half of a chunk are usual, which is twice.
const REPEATED_MAX: usize = 16;

/// Shorter texts may be repeated as often as the options say, in bytes.
const SHORT_TEXT: usize = 4 << 10;

/// Most words, or sentences, of a text. Each takes some bytes of memory while the text is cut: these are a few hundred
/// megabytes. English text of this length has about 50 MB.
const UNITS_MAX: usize = 8 << 20;

/// What chunks are made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SplitUnit {
    /// Whole sentences.
    #[default]
    #[serde(alias = "sentence")]
    Sentences,
    /// Windows with a fixed number of words.
    #[serde(alias = "word")]
    Words,
}

/// The options contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCut {
    /// A chunk without words.
    #[error("`max_words` must be 1 or more")]
    NoWords,
    /// Every window would begin where the one before did.
    #[error("`overlap` ({overlap}) must be less than `max_words` ({max_words})")]
    Overlap {
        /// Words that are repeated.
        overlap: usize,
        /// Words in a chunk.
        max_words: usize,
    },
    /// The chunks repeat too much.
    #[error(
        "`overlap` repeats the text of a document more than {REPEATED_MAX} times; make it smaller, or `max_words` larger"
    )]
    Repeated,
    /// The text is too long.
    #[error("a text has more than {UNITS_MAX} sentences or words; send it as several documents")]
    TooLong,
    /// The text makes too many chunks.
    #[error("a text makes more than {0} chunks")]
    TooManyChunks(usize),
    /// One sentence a chunk leaves nothing to repeat.
    #[error("`overlap` of sentences needs `max_words`: without it, each chunk is one sentence")]
    LoneSentences,
}

/// How texts are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    by: SplitUnit,
    max_words: Option<usize>,
    overlap: usize,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Range<usize>,
    /// The same, counted in characters.
    pub(crate) chars: Range<usize>,
}

/// A sentence, with what follows it.
struct Sentence {
    bytes: Range<usize>,
    words: usize,
}

impl Cut {
    pub(crate) fn new(
        by: SplitUnit,
        max_words: Option<usize>,
        overlap: usize,
    ) -> Result<Self, BadCut> {
        match (by, max_words) {
            (_, Some(0)) => Err(BadCut::NoWords),
            (SplitUnit::Words, max_words) if overlap >= max_words.unwrap_or(WINDOW_WORDS) => {
                let max_words = max_words.unwrap_or(WINDOW_WORDS);
                Err(BadCut::Overlap { overlap, max_words })
            }
            (SplitUnit::Sentences, None) if overlap > 0 => Err(BadCut::LoneSentences),
            _ => Ok(Self {
                by,
                max_words,
                overlap,
            }),
        }
    }

    /// The same, but for what is given.
    pub(crate) fn with(
        self,
        by: Option<SplitUnit>,
        max_words: Option<usize>,
        overlap: Option<usize>,
    ) -> Result<Self, BadCut> {
        Self::new(
            by.unwrap_or(self.by),
            max_words.or(self.max_words),
            overlap.unwrap_or(self.overlap),
        )
    }

    /// The pieces of a text, in order, none of them empty, and at most `max`.
    ///
    /// # Errors
    ///
    /// If the text is too long, or its pieces are too many or repeat it too often.
    pub(crate) fn pieces(&self, text: &str, max: usize) -> Result<Vec<Piece>, BadCut> {
        let mut ranges = Ranges::new(text, max);
        match (self.by, self.max_words) {
            (SplitUnit::Words, max_words) => {
                windows(&word_bounds(text, 0..text.len())?, max_words, self.overlap)
                    .try_for_each(|range| ranges.push(range))?;
            }
            (SplitUnit::Sentences, None) => {
                sentences(text).try_for_each(|range| ranges.push(range))?;
            }
            (SplitUnit::Sentences, Some(max_words)) => self.gather(text, max_words, &mut ranges)?,
        }
        Ok(located(text, ranges.all))
    }

    /// As many whole sentences as fit; one that is too long by itself is cut into windows.
    fn gather(&self, text: &str, max_words: usize, ranges: &mut Ranges) -> Result<(), BadCut> {
        let sentences = counted_sentences(text)?;
        let mut first = 0;
        while let Some(sentence) = sentences.get(first) {
            if sentence.words > max_words {
                let bounds = word_bounds(text, sentence.bytes.clone())?;
                windows(&bounds, Some(max_words), 0).try_for_each(|it| ranges.push(it))?;
                first += 1;
                continue;
            }
            let end = first + count_that_fit(&sentences[first..], max_words);
            ranges.push(sentence.bytes.start..sentences[end - 1].bytes.end)?;
            if end == sentences.len() {
                break;
            }
            // At least one sentence is new, whatever the overlap.
            first = end.saturating_sub(self.overlap).max(first + 1);
        }
        Ok(())
    }
}

/// The ranges of a text that become chunks. Their number and their bytes have a limit.
struct Ranges {
    all: Vec<Range<usize>>,
    max: usize,
    bytes_left: usize,
}

impl Ranges {
    fn new(text: &str, max: usize) -> Self {
        Self {
            all: Vec::new(),
            max,
            bytes_left: text.len().max(SHORT_TEXT).saturating_mul(REPEATED_MAX),
        }
    }

    fn push(&mut self, range: Range<usize>) -> Result<(), BadCut> {
        let left = self.bytes_left.checked_sub(range.len());
        self.bytes_left = left.ok_or(BadCut::Repeated)?;
        if self.all.len() == self.max {
            return Err(BadCut::TooManyChunks(self.max));
        }
        self.all.push(range);
        Ok(())
    }
}

/// The sentences of a text that are not white space.
fn sentences(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bounds = text.split_sentence_bound_indices();
    let filled = bounds.filter(|(_, sentence)| !sentence.trim().is_empty());
    filled.map(|(start, sentence)| start..start + sentence.len())
}

fn counted_sentences(text: &str) -> Result<Vec<Sentence>, BadCut> {
    let counted = sentences(text).map(|bytes| Sentence {
        words: text[bytes.clone()].unicode_words().count(),
        bytes,
    });
    at_most_units(counted)
}

/// Where the words of part of a text begin, and where the last one ends. A part without any is one word.
fn word_bounds(text: &str, part: Range<usize>) -> Result<Vec<usize>, BadCut> {
    let starts = text[part.clone()].unicode_word_indices();
    let starts = starts.map(|(start, _)| part.start + start);
    // Text before the first word belongs to the first piece.
    let starts = std::iter::once(part.start).chain(starts.skip(1));
    let mut bounds = at_most_units(starts)?;
    bounds.push(part.end);
    Ok(bounds)
}

fn at_most_units<T>(units: impl Iterator<Item = T>) -> Result<Vec<T>, BadCut> {
    let units: Vec<T> = units.take(UNITS_MAX + 1).collect();
    match units.len() <= UNITS_MAX {
        true => Ok(units),
        false => Err(BadCut::TooLong),
    }
}

/// Windows of so many words, from the bounds of the words.
fn windows(
    bounds: &[usize],
    max_words: Option<usize>,
    overlap: usize,
) -> impl Iterator<Item = Range<usize>> {
    let (words, length) = (bounds.len() - 1, max_words.unwrap_or(WINDOW_WORDS));
    let mut next = Some(0_usize);
    std::iter::from_fn(move || {
        let first = next?;
        let end = words.min(first.saturating_add(length));
        next = (end < words).then(|| end - overlap);
        Some(bounds[first]..bounds[end])
    })
}

/// How many sentences from the first on are one chunk; at least one.
fn count_that_fit(sentences: &[Sentence], max_words: usize) -> usize {
    let mut words = 0;
    let fit = sentences.iter().take_while(|sentence| {
        words += sentence.words;
        words <= max_words
    });
    fit.count().max(1)
}

/// Ranges without the white space at their ends, counted in characters too.
fn located(text: &str, ranges: Vec<Range<usize>>) -> Vec<Piece> {
    let mut counter = Counter {
        text,
        byte: 0,
        char: 0,
    };
    let pieces = ranges.into_iter().filter_map(|range| {
        let whole = &text[range.clone()];
        let start = range.start + (whole.len() - whole.trim_start().len());
        let trimmed = whole.trim();
        let bytes = start..start + trimmed.len();
        let first = counter.chars_before(bytes.start);
        let chars = first..first + trimmed.chars().count();
        (!trimmed.is_empty()).then_some(Piece { bytes, chars })
    });
    pieces.collect()
}

/// Counts characters from where it last was, for pieces mostly go forward.
struct Counter<'a> {
    text: &'a str,
    byte: usize,
    char: usize,
}

impl Counter<'_> {
    fn chars_before(&mut self, byte: usize) -> usize {
        if byte >= self.byte {
            self.char += self.text[self.byte..byte].chars().count();
        } else {
            self.char -= self.text[byte..self.byte].chars().count();
        }
        self.byte = byte;
        self.char
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cut: (SplitUnit, Option<usize>, usize), text: &str, expected: &[&str]) {
        let (by, max_words, overlap) = cut;
        let cut = Cut::new(by, max_words, overlap).unwrap();
        let pieces = cut.pieces(text, usize::MAX).unwrap();
        let found: Vec<&str> = pieces.iter().map(|it| &text[it.bytes.clone()]).collect();
        assert_eq!(found, expected);
        let chars: Vec<char> = text.chars().collect();
        for piece in pieces {
            let by_chars: String = chars[piece.chars].iter().collect();
            assert_eq!(by_chars, text[piece.bytes]);
        }
    }

    #[test]
    fn sentences_are_unicodes() {
        let sentences = (SplitUnit::Sentences, None, 0);
        check(sentences, "", &[]);
        check(sentences, " \n ", &[]);
        check(sentences, "One", &["One"]);
        check(
            sentences,
            "One. Two!  Three? 3.5 is no end.",
            &["One.", "Two!", "Three?", "3.5 is no end."],
        );
        check(sentences, "Ä ö. Ü!\n\nß?", &["Ä ö.", "Ü!", "ß?"]);
        check(sentences, "你好。再见。", &["你好。", "再见。"]);
    }

    #[test]
    fn as_many_sentences_as_fit_are_one_chunk() {
        let text = "A b. C. D e f. G.";
        check(
            (SplitUnit::Sentences, Some(3), 0),
            text,
            &["A b. C.", "D e f.", "G."],
        );
        check((SplitUnit::Sentences, Some(100), 0), text, &[text]);
        check(
            (SplitUnit::Sentences, Some(2), 0),
            "A b c d e. F.",
            &["A b", "c d", "e.", "F."],
        );
    }

    #[test]
    fn overlapping_sentences_terminate() {
        check(
            (SplitUnit::Sentences, Some(2), 1),
            "A. B. C. D.",
            &["A. B.", "B. C.", "C. D."],
        );
        check(
            (SplitUnit::Sentences, Some(2), 5),
            "A. B. C.",
            &["A. B.", "B. C."],
        );
        check(
            (SplitUnit::Sentences, Some(2), 1),
            "A b. C d. E.",
            &["A b.", "C d.", "E."],
        );
    }

    #[test]
    fn windows_of_words_overlap() {
        let text = "«one» two, three four! five";
        check(
            (SplitUnit::Words, Some(2), 0),
            text,
            &["«one» two,", "three four!", "five"],
        );
        check(
            (SplitUnit::Words, Some(3), 1),
            text,
            &["«one» two, three", "three four! five"],
        );
        check((SplitUnit::Words, None, 0), text, &[text]);
        check((SplitUnit::Words, Some(2), 1), "!?", &["!?"]);
        check((SplitUnit::Words, Some(2), 0), "  ", &[]);
    }

    #[test]
    fn overlap_that_multiplies_a_long_text_is_refused() {
        let text = "word ".repeat(100_000);
        let cut = |overlap| Cut::new(SplitUnit::Words, Some(1000), overlap).unwrap();
        let pieces = |overlap| cut(overlap).pieces(&text, usize::MAX);
        assert_eq!(pieces(999), Err(BadCut::Repeated));
        assert!(pieces(900).is_ok());
        let sentences = "Some words. ".repeat(50_000);
        let cut = Cut::new(SplitUnit::Sentences, Some(1000), 499).unwrap();
        assert_eq!(cut.pieces(&sentences, usize::MAX), Err(BadCut::Repeated));
    }

    #[test]
    fn a_text_makes_only_so_many_chunks() {
        for (by, max_words) in [
            (SplitUnit::Words, Some(1)),
            (SplitUnit::Sentences, None),
            (SplitUnit::Sentences, Some(1)),
        ] {
            let cut = Cut::new(by, max_words, 0).unwrap();
            assert_eq!(cut.pieces("A. B. C.", 3).unwrap().len(), 3, "{cut:?}");
            let refused = cut.pieces("A. B. C.", 2);
            assert_eq!(refused, Err(BadCut::TooManyChunks(2)), "{cut:?}");
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let check = |by, max_words, overlap, expected: &str| {
            let error = Cut::new(by, max_words, overlap).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            SplitUnit::Words,
            Some(0),
            0,
            "`max_words` must be 1 or more",
        );
        check(
            SplitUnit::Words,
            Some(4),
            4,
            "`overlap` (4) must be less than `max_words` (4)",
        );
        check(
            SplitUnit::Sentences,
            None,
            1,
            "`overlap` of sentences needs `max_words`: without it, each chunk is one sentence",
        );
    }
}
