//! The workers of a model: they tokenize texts, and compute batches of them.

use std::num::NonZeroUsize;
use std::ops::Range;

use rayon::ThreadPoolBuildError;

use crate::batch_plan::{BatchLimits, plan_batches};
use crate::encoder::{EncodeError, IsCancelled};
use crate::parallelism::Parallelism;
use crate::worker_pool::WorkerPool;

/// Texts that a worker tokenizes before it asks again whether the outputs are wanted.
const TOKENIZE_TEXTS: usize = 16;

/// The workers of a model, and how texts are divided among them.
#[derive(Debug)]
pub(crate) struct TextWorkers {
    pool: WorkerPool,
    /// Number of workers that compute batches. The others only tokenize.
    batch_workers: usize,
    limits: BatchLimits,
    window_texts: usize,
}

impl TextWorkers {
    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub(crate) fn start(parallelism: &Parallelism) -> Result<Self, ThreadPoolBuildError> {
        Ok(Self {
            pool: WorkerPool::start(parallelism.workers)?,
            batch_workers: parallelism.batch_workers,
            limits: parallelism.limits,
            window_texts: parallelism.window_texts,
        })
    }

    /// Number of workers.
    pub(crate) fn count(&self) -> usize {
        self.pool.size()
    }

    /// Limits on the texts and tokens of a batch. A request may have another number of texts.
    pub(crate) fn limits(&self, texts: Option<NonZeroUsize>) -> BatchLimits {
        BatchLimits {
            max_texts: texts.unwrap_or(self.limits.max_texts),
            ..self.limits
        }
    }

    /// Number of texts that are tokenized before their batches are computed.
    pub(crate) fn window_texts(&self) -> usize {
        self.window_texts
    }

    /// What `make` makes of each item, on all workers.
    ///
    /// # Errors
    ///
    /// If `make` fails, or `is_cancelled` returns true between two pieces of work.
    pub(crate) fn each<I: Sync, T: Clone + Default + Send>(
        &self,
        items: &[I],
        make: impl Fn(&I) -> Result<T, EncodeError> + Sync,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<Vec<T>, EncodeError> {
        let parts: Vec<_> = items.chunks(TOKENIZE_TEXTS).enumerate().collect();
        let make_part = |(index, part): &(usize, &[I])| {
            if is_cancelled() {
                return Err(EncodeError::Cancelled);
            }
            let made: Result<Vec<T>, _> = part.iter().map(&make).collect();
            Ok((*index, made?))
        };
        let mut all = vec![T::default(); items.len()];
        for result in self.pool.run((&parts, &[]), self.pool.size(), make_part) {
            let (index, part) = result?;
            for (to, from) in all[index * TOKENIZE_TEXTS..].iter_mut().zip(part) {
                *to = from;
            }
        }
        Ok(all)
    }

    /// What `compute` makes of the texts of each batch, in the order of the texts. `lengths` are their numbers of tokens, and
    /// `compute` gets the places of a batch's texts.
    ///
    /// # Errors
    ///
    /// If `compute` fails, or `is_cancelled` returns true between two batches.
    pub(crate) fn in_batches<T: Clone + Default + Send>(
        &self,
        lengths: &[usize],
        limits: BatchLimits,
        compute: impl Fn(&[usize]) -> Result<Vec<T>, EncodeError> + Sync,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<Vec<T>, EncodeError> {
        let plan = plan_batches(lengths, limits);
        let compute = |batch: &Range<usize>| {
            if is_cancelled() {
                return Err(EncodeError::Cancelled);
            }
            Ok((batch.clone(), compute(&plan.order[batch.clone()])?))
        };
        let mut all = vec![T::default(); lengths.len()];
        for result in self
            .pool
            .run((&plan.batches, &[]), self.batch_workers, compute)
        {
            let (batch, of_batch) = result?;
            for (&text, made) in plan.order[batch].iter().zip(of_batch) {
                all[text] = made;
            }
        }
        Ok(all)
    }
}
