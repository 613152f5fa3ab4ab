//! Compares vectors, and keeps the texts that differ most.

use std::num::NonZeroUsize;

use flow_core::{Document, DocumentArray, EmbeddingType, Failure, cosine};

use super::answers::Answers;
use super::references::Expected;

/// What all vectors must reach.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bars {
    /// The lowest cosine of all.
    pub(super) lowest: f64,
    /// The mean of all cosines.
    pub(super) mean: f64,
}

/// A text and its cosine, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Compared {
    pub(super) entry: u64,
    pub(super) text: String,
    pub(super) cosine: Result<f64, String>,
}

impl Compared {
    /// Texts without a cosine differ most.
    fn rank(&self) -> f64 {
        *self.cosine.as_ref().unwrap_or(&f64::NEG_INFINITY)
    }
}

/// The cosines of all texts so far.
#[derive(Debug)]
pub(super) struct Comparison {
    cosines: Vec<f64>,
    /// Texts for which there is no cosine.
    missing: usize,
    /// Those that differ most, first.
    worst: Vec<Compared>,
    worst_max: NonZeroUsize,
}

impl Comparison {
    pub(super) fn new(worst_max: NonZeroUsize) -> Self {
        Self {
            cosines: Vec::new(),
            missing: 0,
            worst: Vec::new(),
            worst_max,
        }
    }

    /// Adds the texts of a request and its reply.
    pub(super) fn add_reply(&mut self, expected: Vec<Expected>, reply: &DocumentArray) {
        let answers = Answers::new(reply);
        for (at, expected) in expected.into_iter().enumerate() {
            let cosine = match &expected.vector {
                Ok(wanted) => compare(answers.find(at, &expected.id), wanted),
                Err(missing) => Err(missing.clone()),
            };
            self.add(expected, cosine);
        }
    }

    /// Adds the texts of a request that failed.
    pub(super) fn add_failure(&mut self, expected: Vec<Expected>, failure: &Failure) {
        for expected in expected {
            self.add(expected, Err(format!("its request failed: {failure}")));
        }
    }

    fn add(&mut self, expected: Expected, cosine: Result<f64, String>) {
        match cosine {
            Ok(cosine) => self.cosines.push(cosine),
            Err(_) => self.missing += 1,
        }
        let compared = Compared {
            entry: expected.entry,
            text: expected.text,
            cosine,
        };
        // Of equal ones, the first stays first.
        let at = (self.worst).partition_point(|it| it.rank() <= compared.rank());
        if at < self.worst_max.get() {
            self.worst.insert(at, compared);
            self.worst.truncate(self.worst_max.get());
        }
    }

    /// The number of texts.
    pub(super) fn texts(&self) -> usize {
        self.cosines.len() + self.missing
    }

    /// The number of texts for which there is no cosine.
    pub(super) fn missing(&self) -> usize {
        self.missing
    }

    /// The number of texts below a cosine.
    pub(super) fn below(&self, bar: f64) -> usize {
        self.cosines.iter().filter(|cosine| **cosine < bar).count()
    }

    /// The lowest cosine. `None` if there is no cosine.
    pub(super) fn lowest(&self) -> Option<f64> {
        self.cosines.iter().copied().reduce(f64::min)
    }

    /// The mean of the cosines. `None` if there is no cosine.
    pub(super) fn mean(&self) -> Option<f64> {
        let sum: f64 = self.cosines.iter().sum();
        (!self.cosines.is_empty()).then(|| sum / self.cosines.len() as f64)
    }

    /// The texts that differ most, first.
    pub(super) fn worst(&self) -> &[Compared] {
        &self.worst
    }

    /// Whether every text has a vector, and all are close enough.
    pub(super) fn holds(&self, bars: Bars) -> bool {
        let reaches = |value: Option<f64>, bar: f64| value.is_some_and(|value| bar <= value);
        self.missing == 0 && reaches(self.lowest(), bars.lowest) && reaches(self.mean(), bars.mean)
    }
}

fn compare(document: Option<&Document>, wanted: &[f32]) -> Result<f64, String> {
    let document = document.ok_or("the flow returned no document with its id")?;
    let embedding = document.embedding();
    let embedding = embedding.ok_or("the flow returned no vector for it")?;
    let found = EmbeddingType::floats_of(&embedding).ok_or_else(|| {
        let found = embedding.data_type().as_str();
        format!("the flow returned a vector of `{found}`, which cannot be compared")
    })?;
    if found.len() != wanted.len() {
        let (found, wanted) = (found.len(), wanted.len());
        return Err(format!(
            "the flow returned a vector of length {found}, and the reference has one of length {wanted}"
        ));
    }
    cosine(&found, wanted).ok_or_else(|| "a vector is zero, or not finite".to_owned())
}

#[cfg(test)]
mod tests {
    use flow_core::{Code, Tensor};

    use super::*;

    const WORST: NonZeroUsize = NonZeroUsize::new(2).unwrap();

    fn expected(entry: u64, vector: &[f32]) -> Expected {
        Expected {
            entry,
            id: entry.to_string(),
            text: format!("text {entry}"),
            vector: Ok(vector.to_vec()),
        }
    }

    fn reply(vectors: &[(u64, &[f32])]) -> DocumentArray {
        let document = |(entry, vector): &(u64, &[f32])| {
            let mut document = Document::new();
            document.set_id(&entry.to_string());
            document.set_embedding(&Tensor::vector(vector));
            document
        };
        vectors.iter().map(document).collect()
    }

    fn bars(bar: f64) -> Bars {
        Bars {
            lowest: bar,
            mean: bar,
        }
    }

    /// The reason that is reported for the only text.
    #[track_caller]
    fn check_missing(wanted: &[f32], found: &[(u64, &[f32])], reason: &str) {
        let mut comparison = Comparison::new(WORST);
        comparison.add_reply(vec![expected(1, wanted)], &reply(found));
        assert_eq!(comparison.worst()[0].cosine, Err(reason.to_owned()));
        assert!(!comparison.holds(bars(-1.0)));
    }

    #[test]
    fn replies_are_matched_by_id_and_the_worst_come_first() {
        let mut comparison = Comparison::new(WORST);
        let wanted = [1, 2, 3].map(|entry| expected(entry, &[1.0, 0.0]));
        let found = reply(&[(3, &[0.0, 1.0]), (1, &[1.0, 0.0]), (2, &[1.0, 1.0])]);
        comparison.add_reply(wanted.to_vec(), &found);
        let worst: Vec<u64> = comparison.worst().iter().map(|it| it.entry).collect();
        assert_eq!(worst, [3, 2]);
        assert_eq!((comparison.texts(), comparison.below(0.999)), (3, 2));
        assert_eq!(comparison.lowest(), Some(0.0));
        assert!(!comparison.holds(bars(0.5)));
        assert!(comparison.holds(Bars {
            lowest: 0.0,
            mean: 0.5
        }));
    }

    #[test]
    fn a_text_without_a_vector_is_worse_than_any_other() {
        check_missing(&[1.0], &[], "the flow returned no document with its id");
        check_missing(
            &[1.0, 2.0],
            &[(1, &[1.0])],
            "the flow returned a vector of length 1, and the reference has one of length 2",
        );
        check_missing(&[1.0], &[(1, &[0.0])], "a vector is zero, or not finite");
    }

    #[test]
    fn a_failed_request_counts_for_all_of_its_texts() {
        let mut comparison = Comparison::new(WORST);
        let failure = Failure::new(Code::Unavailable, "gone");
        comparison.add_failure(vec![expected(1, &[1.0]), expected(2, &[1.0])], &failure);
        assert_eq!((comparison.texts(), comparison.missing()), (2, 2));
        assert_eq!(comparison.lowest(), None);
    }
}
