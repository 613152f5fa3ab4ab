//! Takes a single text through all layers on several threads.
//!
//! Each worker computes some heads and some columns of each linear layer. Workers wait for each other when the text has been
//! tokenized, and four times per layer, to read what the others have computed. No memory is written while another worker
//! reads it: each worker has output buffers that it alone writes, before a barrier, and all workers read, after it. Sums
//! are never split, so the vector equals, bit for bit, that of the same text in a batch.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use flow_kernels::{Activations, AttentionScratch, Linear, PANEL, Storage};

use super::model::{CpuLayer, CpuModel};
use crate::spin_barrier::{PoisonOnPanic, SpinBarrier};
use crate::tokens::HiddenStates;
use crate::worker_pool::WorkerPool;

/// Reusable buffers of a pass. The lock is held while a text is computed, because it takes all workers.
#[derive(Debug, Default)]
pub(super) struct SingleTextPass {
    buffers: Mutex<Option<PassBuffers>>,
}

/// The buffers of all workers.
#[derive(Debug)]
struct PassBuffers {
    outputs: Vec<OutputBuffers>,
    private: Vec<Mutex<PrivateBuffers>>,
}

/// What one worker computes for all workers: its columns of each operation.
#[derive(Debug)]
struct OutputBuffers {
    context: RwLock<Activations>,
    attention_output: RwLock<Activations>,
    intermediate: RwLock<Activations>,
    mlp_output: RwLock<Activations>,
}

/// What only one worker reads and writes.
#[derive(Debug)]
struct PrivateBuffers {
    states: Activations,
    qkv: Activations,
    context: Activations,
    intermediate: Activations,
    sums: Activations,
    scratch: AttentionScratch,
}

/// One worker's part of a pass.
struct WorkerPass<'a> {
    model: &'a CpuModel,
    buffers: &'a PassBuffers,
    barrier: &'a SpinBarrier,
    tokens: usize,
    worker: usize,
}

impl SingleTextPass {
    /// The token ids and hidden states of a text. Worker 0 calls `tokenize` while the others wake up.
    pub(super) fn forward<E: Send + Sync>(
        &self,
        model: &CpuModel,
        tokenize: &(dyn Fn() -> Result<Vec<u32>, E> + Sync),
        pool: &WorkerPool,
    ) -> Result<(Vec<u32>, HiddenStates), E> {
        let mut buffers = lock(&self.buffers);
        let buffers = &*buffers.get_or_insert_with(|| PassBuffers::new(model, pool.size()));
        let barrier = SpinBarrier::new(pool.size());
        let tokenized = OnceLock::new();
        pool.run_on_all(&|worker| {
            let _poison = PoisonOnPanic(&barrier);
            if worker == 0 {
                tokenized.get_or_init(tokenize);
            }
            barrier.wait();
            if let Some(Ok(ids)) = tokenized.get() {
                let pass = WorkerPass {
                    model,
                    buffers,
                    barrier: &barrier,
                    tokens: ids.len(),
                    worker,
                };
                pass.run(ids);
            }
        });
        let ids = tokenized.into_inner().expect("worker 0 has set it")?;
        let private = lock(&buffers.private[0]);
        let text = std::iter::once(0..ids.len()).collect::<Vec<_>>();
        let states = private.states.rows(0..ids.len());
        let states = HiddenStates::copy_from(states, model.size.hidden, &text);
        Ok((ids, states))
    }
}

impl PassBuffers {
    fn new(model: &CpuModel, workers: usize) -> Self {
        Self {
            outputs: (0..workers)
                .map(|worker| OutputBuffers::new(model, worker, workers))
                .collect(),
            private: (0..workers)
                .map(|worker| Mutex::new(PrivateBuffers::new(model, worker, workers)))
                .collect(),
        }
    }
}

impl OutputBuffers {
    fn new(model: &CpuModel, worker: usize, workers: usize) -> Self {
        let columns = |width: usize| {
            let panels = part_of(width.div_ceil(PANEL), worker, workers);
            (panels.end * PANEL).min(width) - panels.start * PANEL
        };
        let buffer = |width, storage| RwLock::new(Activations::new(width, storage));
        let heads = heads_of(model, worker, workers).len();
        let (operand, size) = (model.operand_storage(), model.size);
        Self {
            context: buffer(heads * model.heads.size, operand),
            attention_output: buffer(columns(size.hidden), Storage::F32),
            intermediate: buffer(columns(size.intermediate), operand),
            mlp_output: buffer(columns(size.hidden), Storage::F32),
        }
    }
}

impl PrivateBuffers {
    fn new(model: &CpuModel, worker: usize, workers: usize) -> Self {
        let heads = heads_of(model, worker, workers).len();
        let (operand, size) = (model.operand_storage(), model.size);
        Self {
            states: Activations::new(size.hidden, model.residual_storage()),
            qkv: Activations::new(3 * heads * model.heads.size, model.qkv_storage()),
            context: Activations::new(size.hidden, operand),
            intermediate: Activations::new(size.intermediate, operand),
            sums: Activations::new(size.hidden, Storage::F32),
            scratch: AttentionScratch::default(),
        }
    }

    fn grow(&mut self, tokens: usize) {
        for buffer in [
            &mut self.states,
            &mut self.qkv,
            &mut self.context,
            &mut self.intermediate,
            &mut self.sums,
        ] {
            buffer.grow(tokens);
        }
    }
}

impl WorkerPass<'_> {
    fn run(&self, ids: &[u32]) {
        let mut private = lock(&self.buffers.private[self.worker]);
        let private = &mut *private;
        private.grow(self.tokens);
        let mut states = private.states.rows_mut(0..self.tokens);
        self.model
            .embeddings
            .embed(&self.model.kernels, (ids, 0..0), &mut states);
        let layers = self.model.layers.len();
        for (index, layer) in self.model.layers.iter().enumerate() {
            self.attention(layer, private);
            self.mlp(layer, private);
            // The result is read from worker 0, so the others can skip the last layer norm. Worker 0 is the caller's thread
            // and finds them done.
            if index + 1 < layers || self.worker == 0 {
                self.mlp_norm(layer, private);
            }
        }
    }

    /// The attention sublayer.
    fn attention(&self, layer: &CpuLayer, private: &mut PrivateBuffers) {
        let (kernels, all) = (&self.model.kernels, 0..self.tokens);
        let heads = heads_of(self.model, self.worker, self.buffers.outputs.len());
        let columns = |head: usize| 3 * head * self.model.heads.size;
        let panels = columns(heads.start) / PANEL..columns(heads.end).div_ceil(PANEL);
        let states = private.states.rows(all.clone());
        kernels.linear(
            &layer.qkv,
            panels,
            states,
            &mut private.qkv.rows_mut(all.clone()),
        );
        self.publish(
            |outputs| &outputs.context,
            |context| {
                let attention = self.model.heads.attention(&heads);
                let qkv = private.qkv.rows(all.clone());
                let mut out = context.rows_mut(all.clone());
                kernels.attention(&attention, qkv, &mut private.scratch, &mut out);
            },
        );
        self.collect(|outputs| &outputs.context, &mut private.context);
        self.publish(
            |outputs| &outputs.attention_output,
            |out| self.linear(&layer.attention_output, &private.context, out),
        );
        self.collect(|outputs| &outputs.attention_output, &mut private.sums);
        let mut states = private.states.rows_mut(all.clone());
        layer
            .attention_norm
            .add(kernels, private.sums.rows(all), &mut states);
    }

    /// The MLP sublayer, up to its layer norm.
    fn mlp(&self, layer: &CpuLayer, private: &mut PrivateBuffers) {
        self.publish(
            |outputs| &outputs.intermediate,
            |out| self.linear(&layer.mlp_up, &private.states, out),
        );
        self.collect(|outputs| &outputs.intermediate, &mut private.intermediate);
        self.publish(
            |outputs| &outputs.mlp_output,
            |out| self.linear(&layer.mlp_down, &private.intermediate, out),
        );
    }

    /// The layer norm of the MLP sublayer.
    fn mlp_norm(&self, layer: &CpuLayer, private: &mut PrivateBuffers) {
        let all = 0..self.tokens;
        self.collect(|outputs| &outputs.mlp_output, &mut private.sums);
        let mut states = private.states.rows_mut(all.clone());
        layer
            .mlp_norm
            .add(&self.model.kernels, private.sums.rows(all), &mut states);
    }

    /// Computes this worker's columns of a linear layer.
    fn linear(&self, layer: &Linear, states: &Activations, out: &mut Activations) {
        let all = 0..self.tokens;
        let workers = self.buffers.outputs.len();
        let panels = part_of(layer.weights().panels(), self.worker, workers);
        let mut out = out.rows_mut(all.clone());
        self.model
            .kernels
            .linear(layer, panels, states.rows(all), &mut out);
    }

    /// Writes one of this worker's outputs, and waits until all workers have written theirs.
    fn publish(
        &self,
        buffer: impl Fn(&OutputBuffers) -> &RwLock<Activations>,
        write: impl FnOnce(&mut Activations),
    ) {
        let buffer = buffer(&self.buffers.outputs[self.worker]);
        {
            let mut rows = buffer.write().unwrap_or_else(PoisonError::into_inner);
            rows.grow(self.tokens);
            write(&mut rows);
        }
        self.barrier.wait();
    }

    /// Joins the columns that all workers have published.
    fn collect(
        &self,
        buffer: impl Fn(&OutputBuffers) -> &RwLock<Activations>,
        into: &mut Activations,
    ) {
        let mut into = into.rows_mut(0..self.tokens);
        let mut column = 0;
        for outputs in &self.buffers.outputs {
            let rows = read(buffer(outputs));
            into.copy_columns(column, rows.rows(0..self.tokens));
            column += rows.width();
        }
    }
}

/// The heads of one worker. Their columns in the QKV layer are whole panels.
fn heads_of(model: &CpuModel, worker: usize, workers: usize) -> Range<usize> {
    let columns = 3 * model.heads.size;
    let unit = PANEL / gcd(columns, PANEL);
    let units = part_of(model.heads.count.div_ceil(unit), worker, workers);
    let head = |unit_index: usize| (unit_index * unit).min(model.heads.count);
    head(units.start)..head(units.end)
}

/// One worker's part of `count` things.
fn part_of(count: usize, worker: usize, workers: usize) -> Range<usize> {
    count * worker / workers..count * (worker + 1) / workers
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

// Buffers are written before they are read in each pass, so what a panic has left in them does not matter.

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}
