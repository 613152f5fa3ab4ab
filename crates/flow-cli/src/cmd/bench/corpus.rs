//! Three sets of texts, the same on every machine.

use clap::ValueEnum;

/// A set of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Corpus {
    /// The same sentence of 14 tokens, 10,000 times.
    Tutorial,
    /// 4,096 texts as in search traffic: 28 words in the median, 200 at most.
    Mixed,
    /// 512 texts like chunks of documents: 245 words, about 250 tokens each.
    Long,
}

const SENTENCE: &str = "Using a GPU allows you to significantly speed up encoding.";

const WORDS: &str = "time year people way day man thing woman life child world school state family \
    student group country problem hand part place case week company system program question work \
    government number night point home water room mother area money story fact month lot right \
    study book eye job word business issue side kind head house service friend father power hour \
    game line end member law car city community name president team minute idea body information \
    back parent face others level office door health person art war history party result change \
    morning reason research girl guy moment air teacher force education encode vector search \
    gateway pipeline accelerate transformer embedding quickly slowly always never perhaps because \
    although between through against without within is are was were has have had will would can \
    could should may might must do does did make take find give tell ask seem feel try leave call \
    large small new old long great little own other early young important few public bad same able \
    better best free full open clear recent certain strong possible whole different local sure \
    cold common";

impl Corpus {
    /// Its texts.
    pub(crate) fn texts(self) -> Vec<String> {
        let mut random = Random(2021);
        match self {
            Self::Tutorial => vec![SENTENCE.to_owned(); 10_000],
            Self::Mixed => (0..4096)
                .map(|_| {
                    let words = (3.33 + 0.75 * random.normal()).exp().clamp(3.0, 200.0);
                    random.text(words as usize) + "."
                })
                .collect(),
            Self::Long => (0..512).map(|_| random.text(245)).collect(),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tutorial => "tutorial",
            Self::Mixed => "mixed",
            Self::Long => "long",
        }
    }
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Between 0 and 1, never 0.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Around 0, with the variance 1 (Box and Muller's way).
    fn normal(&mut self) -> f64 {
        let length = (-2.0 * self.uniform().ln()).sqrt();
        length * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn text(&mut self, words: usize) -> String {
        let all: Vec<&str> = WORDS.split_whitespace().collect();
        let word = |_| all[(self.next() % all.len() as u64) as usize];
        (0..words).map(word).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_always_the_same_and_as_long_as_they_should_be() {
        let words = |text: &String| text.split(' ').count();
        let mixed = Corpus::Mixed.texts();
        assert_eq!(mixed, Corpus::Mixed.texts());
        let mut lengths: Vec<usize> = mixed.iter().map(words).collect();
        lengths.sort_unstable();
        assert!(
            (26..=30).contains(&lengths[2048]),
            "median {}",
            lengths[2048]
        );
        assert!(lengths[0] >= 3 && lengths[4095] <= 200);
        assert!(Corpus::Long.texts().iter().all(|text| words(text) == 245));
        assert_eq!(Corpus::Tutorial.texts().len(), 10_000);
    }
}
