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

/// What is never cut: a sentence or a word, with what follows it.
struct Unit {
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

    /// The pieces of a text, in order, none of them empty.
    ///
    /// # Errors
    ///
    /// If they repeat the text too often.
    pub(crate) fn pieces(&self, text: &str) -> Result<Vec<Piece>, BadCut> {
        let ranges = match (self.by, self.max_words) {
            (SplitUnit::Words, max_words) => {
                windows(&words(text, 0..text.len()), max_words, self.overlap)
            }
            (SplitUnit::Sentences, None) => {
                sentences(text).into_iter().map(|it| it.bytes).collect()
            }
            (SplitUnit::Sentences, Some(max_words)) => self.gathered(text, max_words),
        };
        let bytes: usize = ranges.iter().map(Range::len).sum();
        match bytes <= text.len().max(SHORT_TEXT).saturating_mul(REPEATED_MAX) {
            true => Ok(located(text, ranges)),
            false => Err(BadCut::Repeated),
        }
    }

    /// As many whole sentences as fit; one that is too long by itself is cut into windows.
    fn gathered(&self, text: &str, max_words: usize) -> Vec<Range<usize>> {
        let sentences = sentences(text);
        let mut ranges = Vec::new();
        let mut first = 0;
        while let Some(sentence) = sentences.get(first) {
            if sentence.words > max_words {
                let words = words(text, sentence.bytes.clone());
                ranges.extend(windows(&words, Some(max_words), 0));
                first += 1;
                continue;
            }
            let end = first + count_that_fit(&sentences[first..], max_words);
            ranges.push(sentence.bytes.start..sentences[end - 1].bytes.end);
            if end == sentences.len() {
                break;
            }
            // At least one sentence is new, whatever the overlap.
            first = end.saturating_sub(self.overlap).max(first + 1);
        }
        ranges
    }
}

fn sentences(text: &str) -> Vec<Unit> {
    let bounds = text.split_sentence_bound_indices();
    let filled = bounds.filter(|(_, sentence)| !sentence.trim().is_empty());
    filled
        .map(|(start, sentence)| Unit {
            bytes: start..start + sentence.len(),
            words: sentence.unicode_words().count(),
        })
        .collect()
}

/// The words of part of a text. A part without any is one.
fn words(text: &str, part: Range<usize>) -> Vec<Unit> {
    let inside = &text[part.clone()];
    let starts = inside.unicode_word_indices().map(|(start, _)| start);
    // Text before the first word belongs to the first piece.
    let mut starts: Vec<usize> = std::iter::once(0).chain(starts.skip(1)).collect();
    starts.push(inside.len());
    starts
        .windows(2)
        .map(|bounds| Unit {
            bytes: part.start + bounds[0]..part.start + bounds[1],
            words: 1,
        })
        .collect()
}

fn windows(words: &[Unit], max_words: Option<usize>, overlap: usize) -> Vec<Range<usize>> {
    let length = max_words.unwrap_or(WINDOW_WORDS);
    let mut ranges = Vec::new();
    let mut first = 0;
    while first < words.len() {
        let end = (first + length).min(words.len());
        ranges.push(words[first].bytes.start..words[end - 1].bytes.end);
        if end == words.len() {
            break;
        }
        first = end - overlap;
    }
    ranges
}

/// How many sentences from the first on are one chunk; at least one.
fn count_that_fit(sentences: &[Unit], max_words: usize) -> usize {
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
        let pieces = cut.pieces(text).unwrap();
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
        assert_eq!(cut(999).pieces(&text), Err(BadCut::Repeated));
        assert!(cut(900).pieces(&text).is_ok());
        let sentences = "Some words. ".repeat(50_000);
        let cut = Cut::new(SplitUnit::Sentences, Some(1000), 499).unwrap();
        assert_eq!(cut.pieces(&sentences), Err(BadCut::Repeated));
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
