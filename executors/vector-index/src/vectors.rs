//! The vectors of an index, by place: in memory, or as codes in memory and originals in the log.

use flow_index::{dot, normalised};

use crate::codes::{Codes, Quantization};
use crate::log::{LogError, LogReader};
use crate::top::{Hit, TopMatches};

/// Maximum candidates of a query that asks for fewer matches. Each may be read from the disk.
const CANDIDATES_MAX: usize = 10_000;

/// How an index holds its vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VectorConfig {
    pub(crate) quantization: Option<Quantization>,
    /// Candidates for each match that are compared by their original vectors.
    pub(crate) oversampling: usize,
    /// Whether original vectors of codes are read from the log.
    pub(crate) has_log: bool,
}

/// The vectors of an index.
#[derive(Debug)]
pub(crate) struct IndexVectors {
    config: VectorConfig,
    dimensions: usize,
    codes: Option<Codes>,
    originals: Originals,
}

#[derive(Debug)]
enum Originals {
    /// One after another, each of length 1.
    Memory(Vec<f32>),
    /// Where each begins in the log, in bytes.
    Log(Vec<u64>),
}

impl IndexVectors {
    pub(crate) fn new(config: VectorConfig) -> Self {
        let in_log = config.has_log && config.quantization.is_some();
        Self {
            config,
            dimensions: 0,
            codes: config.quantization.map(Codes::new),
            originals: match in_log {
                true => Originals::Log(Vec::new()),
                false => Originals::Memory(Vec::new()),
            },
        }
    }

    /// IndexVectors of the same kind without any.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.config)
    }

    /// Length of each vector; 0 before there is one.
    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Adds a vector. `at` is where it begins in the log, if there is one.
    pub(crate) fn push(&mut self, vector: Vec<f32>, at: Option<u64>) {
        self.dimensions = vector.len();
        let vector = normalised(vector);
        if let Some(codes) = &mut self.codes {
            codes.push(&vector);
        }
        match &mut self.originals {
            Originals::Memory(values) => values.extend(vector),
            Originals::Log(places) => {
                places.push(at.expect("a vector is logged before it is added"))
            }
        }
    }

    /// Adds the vector at a place of other vectors of the same kind.
    pub(crate) fn push_from(&mut self, other: &Self, place: usize) {
        self.dimensions = other.dimensions;
        if let (Some(codes), Some(from)) = (&mut self.codes, &other.codes) {
            codes.push_from(from, place, other.dimensions);
        }
        match (&mut self.originals, &other.originals) {
            (Originals::Memory(values), Originals::Memory(_)) => {
                values.extend_from_slice(other.in_memory(place));
            }
            (Originals::Log(places), Originals::Log(from)) => places.push(from[place]),
            _ => unreachable!("the vectors of an index are of one kind"),
        }
    }

    /// Sets where all vectors begin in a new log.
    pub(crate) fn move_to(&mut self, at: Vec<u64>) {
        if let Originals::Log(places) = &mut self.originals {
            *places = at;
        }
    }

    /// The vector at a place. Its length is 1, if it was not read from the log.
    pub(crate) fn original(
        &self,
        place: usize,
        log: Option<&LogReader>,
    ) -> Result<Vec<f32>, LogError> {
        match &self.originals {
            Originals::Memory(_) => Ok(self.in_memory(place).to_vec()),
            Originals::Log(places) => {
                let log = log.expect("vectors are in the log only if there is one");
                log.vector(places[place], self.dimensions)
            }
        }
    }

    /// Whether searches compare codes.
    pub(crate) fn are_quantized(&self) -> bool {
        self.codes.is_some()
    }

    /// The vector at a place, if vectors are in memory.
    pub(crate) fn in_memory(&self, place: usize) -> &[f32] {
        match &self.originals {
            Originals::Memory(values) => &values[place * self.dimensions..][..self.dimensions],
            Originals::Log(_) => unreachable!("vectors in the log are not in memory"),
        }
    }

    /// The nearest vectors to one of length 1 by their codes, with the scores of the originals. `is_there` tells for each place
    /// whether it still has an entry.
    pub(crate) fn search_codes(
        &self,
        vector: &[f32],
        limit: usize,
        is_there: impl Fn(usize) -> bool,
        log: Option<&LogReader>,
    ) -> Result<Vec<Hit>, LogError> {
        let Some(codes) = &self.codes else {
            return Ok(Vec::new());
        };
        let candidates = limit.saturating_mul(self.config.oversampling);
        let mut candidates = TopMatches::new(candidates.min(limit.max(CANDIDATES_MAX)));
        codes.compare(vector, |place, score| {
            if is_there(place) {
                candidates.offer(Hit { place, score });
            }
        });
        let mut top = TopMatches::new(limit);
        for Hit { place, .. } in candidates.into_hits() {
            let score = match &self.originals {
                Originals::Memory(_) => dot(vector, self.in_memory(place)),
                Originals::Log(_) => dot(vector, &normalised(self.original(place, log)?)),
            };
            top.offer(Hit { place, score });
        }
        Ok(top.into_hits())
    }
}
