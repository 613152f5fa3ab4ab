//! One text through all layers on several threads.
//!
//! Each thread computes some heads and some columns of each product, and meets the others when the text is tokenized and
//! four times a layer, where it takes what they have computed. Threads share nothing that is written while it is read:
//! each has a shelf that only it fills, before a meeting, and all read, after it. A sum is never shared
//! out, so the vector is, bit for bit, the one that the text has among others.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use flow_kernels::{Activations, AttentionScratch, Linear, PANEL, Storage};

use super::batch_pass::{operand, residual};
use super::{Engine, Layer};
use crate::engine::States;
use crate::worker_pool::Lanes;

/// How often a thread looks before it lets others run at each further look: some tens of microseconds, in
/// which the others arrive if they have a core each.
const LOOKS: u32 = 2_000;

/// The threads' memory; whoever holds the lock has all lanes.
#[derive(Debug, Default)]
pub(in crate::engine) struct Alone {
    team: Mutex<Option<Team>>,
}

/// What the threads share while they compute one text.
#[derive(Debug)]
struct Team {
    shelves: Vec<Shelf>,
    desks: Vec<Mutex<Desk>>,
}

/// What one thread has computed for all.
#[derive(Debug)]
struct Shelf {
    context: RwLock<Activations>,
    out: RwLock<Activations>,
    inner: RwLock<Activations>,
    down: RwLock<Activations>,
}

/// What a thread works with and nobody else sees.
#[derive(Debug)]
struct Desk {
    states: Activations,
    heads: Activations,
    context: Activations,
    inner: Activations,
    sums: Activations,
    scratch: AttentionScratch,
}

/// A thread's part of the work.
struct Share<'a> {
    engine: &'a Engine,
    team: &'a Team,
    meeting: &'a Meeting,
    tokens: usize,
    lane: usize,
}

impl Engine {
    /// The states of one text's tokens, computed on all lanes. `read` gives the tokens: one lane calls it while the
    /// others wake up.
    pub(in crate::engine) fn forward_alone<E: Send + Sync>(
        &self,
        read: &(dyn Fn() -> Result<Vec<u32>, E> + Sync),
        lanes: &Lanes,
    ) -> Result<(Vec<u32>, States), E> {
        let mut team = lock(&self.alone.team);
        let team = &*team.get_or_insert_with(|| Team::new(self, lanes.count()));
        let meeting = Meeting::of(lanes.count());
        let text = OnceLock::new();
        lanes.run_together(&|lane| {
            let broken = Broken(&meeting);
            if lane == 0 {
                text.get_or_init(read);
            }
            meeting.wait();
            if let Some(Ok(ids)) = text.get() {
                let share = Share {
                    engine: self,
                    team,
                    meeting: &meeting,
                    tokens: ids.len(),
                    lane,
                };
                share.run(ids);
            }
            std::mem::forget(broken);
        });
        let ids = text.into_inner().expect("the first lane has read it")?;
        let desk = lock(&team.desks[0]);
        let all = std::iter::once(0..ids.len()).collect::<Vec<_>>();
        let states = States::gather(desk.states.rows(0..ids.len()), self.size.hidden, &all);
        Ok((ids, states))
    }

    /// The heads of one lane: so many that their columns are whole panels.
    fn heads_of(&self, lane: usize, lanes: usize) -> Range<usize> {
        let columns = 3 * self.heads.width;
        let unit = PANEL / gcd(columns, PANEL);
        let units = share(self.heads.count.div_ceil(unit), lane, lanes);
        let end = |edge: usize| (edge * unit).min(self.heads.count);
        end(units.start)..end(units.end)
    }
}

impl Team {
    fn new(engine: &Engine, lanes: usize) -> Self {
        Self {
            shelves: (0..lanes)
                .map(|lane| Shelf::new(engine, lane, lanes))
                .collect(),
            desks: (0..lanes)
                .map(|lane| Mutex::new(Desk::new(engine, lane, lanes)))
                .collect(),
        }
    }
}

impl Shelf {
    fn new(engine: &Engine, lane: usize, lanes: usize) -> Self {
        let format = engine.kernels.precision();
        let columns = |width: usize| {
            let panels = share(width.div_ceil(PANEL), lane, lanes);
            (panels.end * PANEL).min(width) - panels.start * PANEL
        };
        let shelf = |width, keeps| RwLock::new(Activations::new(width, keeps));
        let heads = engine.heads_of(lane, lanes).len();
        Self {
            context: shelf(heads * engine.heads.width, operand(format)),
            out: shelf(columns(engine.size.hidden), Storage::F32),
            inner: shelf(columns(engine.size.inner), operand(format)),
            down: shelf(columns(engine.size.hidden), Storage::F32),
        }
    }
}

impl Desk {
    fn new(engine: &Engine, lane: usize, lanes: usize) -> Self {
        let format = engine.kernels.precision();
        let heads = engine.heads_of(lane, lanes).len();
        Self {
            states: Activations::new(engine.size.hidden, residual(format)),
            heads: Activations::new(3 * heads * engine.heads.width, Storage::F32),
            context: Activations::new(engine.size.hidden, operand(format)),
            inner: Activations::new(engine.size.inner, operand(format)),
            sums: Activations::new(engine.size.hidden, Storage::F32),
            scratch: AttentionScratch::default(),
        }
    }

    fn grow(&mut self, tokens: usize) {
        for rows in [
            &mut self.states,
            &mut self.heads,
            &mut self.context,
            &mut self.inner,
            &mut self.sums,
        ] {
            rows.grow(tokens);
        }
    }
}

impl Share<'_> {
    fn run(&self, ids: &[u32]) {
        let mut desk = lock(&self.team.desks[self.lane]);
        let desk = &mut *desk;
        desk.grow(self.tokens);
        let mut states = desk.states.rows_mut(0..self.tokens);
        self.engine
            .embeddings
            .embed(&self.engine.kernels, ids, &mut states);
        let count = self.engine.layers.len();
        for (number, layer) in self.engine.layers.iter().enumerate() {
            self.attend(layer, desk);
            self.feed(layer, desk);
            // The states are read from the first lane's desk. It finds the others done, and need not sleep.
            if number + 1 < count || self.lane == 0 {
                self.leave(layer, desk);
            }
        }
    }

    fn attend(&self, layer: &Layer, desk: &mut Desk) {
        let (kernels, all) = (&self.engine.kernels, 0..self.tokens);
        let heads = self.engine.heads_of(self.lane, self.team.shelves.len());
        let columns = |head: usize| 3 * head * self.engine.heads.width;
        let panels = columns(heads.start) / PANEL..columns(heads.end).div_ceil(PANEL);
        let states = desk.states.rows(all.clone());
        kernels.linear(
            &layer.heads,
            panels,
            states,
            &mut desk.heads.rows_mut(all.clone()),
        );
        self.fill(
            |shelf| &shelf.context,
            |context| {
                let attention = self.engine.heads.attention(&heads);
                let (heads, mut out) =
                    (desk.heads.rows(all.clone()), context.rows_mut(all.clone()));
                kernels.attention(&attention, heads, &mut desk.scratch, &mut out);
            },
        );
        self.take(|shelf| &shelf.context, &mut desk.context);
        self.fill(
            |shelf| &shelf.out,
            |out| self.product(&layer.out, &desk.context, out),
        );
        self.take(|shelf| &shelf.out, &mut desk.sums);
        let mut states = desk.states.rows_mut(all.clone());
        layer
            .out_norm
            .add(kernels, desk.sums.rows(all), &mut states);
    }

    fn feed(&self, layer: &Layer, desk: &mut Desk) {
        self.fill(
            |shelf| &shelf.inner,
            |out| self.product(&layer.up, &desk.states, out),
        );
        self.take(|shelf| &shelf.inner, &mut desk.inner);
        self.fill(
            |shelf| &shelf.down,
            |out| self.product(&layer.down, &desk.inner, out),
        );
    }

    fn leave(&self, layer: &Layer, desk: &mut Desk) {
        let all = 0..self.tokens;
        self.take(|shelf| &shelf.down, &mut desk.sums);
        let mut states = desk.states.rows_mut(all.clone());
        layer
            .down_norm
            .add(&self.engine.kernels, desk.sums.rows(all), &mut states);
    }

    /// This lane's columns of a product.
    fn product(&self, product: &Linear, states: &Activations, out: &mut Activations) {
        let all = 0..self.tokens;
        let panels = share(
            product.weights().panels(),
            self.lane,
            self.team.shelves.len(),
        );
        let mut out = out.rows_mut(all.clone());
        self.engine
            .kernels
            .linear(product, panels, states.rows(all), &mut out);
    }

    /// Writes to this lane's shelf, and waits until all have done so.
    fn fill(
        &self,
        place: impl Fn(&Shelf) -> &RwLock<Activations>,
        write: impl FnOnce(&mut Activations),
    ) {
        let shelf = place(&self.team.shelves[self.lane]);
        {
            let mut rows = shelf.write().unwrap_or_else(PoisonError::into_inner);
            rows.grow(self.tokens);
            write(&mut rows);
        }
        self.meeting.wait();
    }

    /// Puts what lies on all shelves beside each other.
    fn take(&self, place: impl Fn(&Shelf) -> &RwLock<Activations>, into: &mut Activations) {
        let mut into = into.rows_mut(0..self.tokens);
        let mut column = 0;
        for shelf in &self.team.shelves {
            let rows = read(place(shelf));
            into.copy_columns(column, rows.rows(0..self.tokens));
            column += rows.width();
        }
    }
}

/// Where threads wait for each other. They look instead of sleeping, because they meet every few
/// microseconds, and only while a text is computed.
struct Meeting {
    members: usize,
    arrived: AtomicUsize,
    is_broken: AtomicBool,
}

/// Dropped when a thread panics: the others must not wait for it.
struct Broken<'a>(&'a Meeting);

impl Meeting {
    fn of(members: usize) -> Self {
        Self {
            members,
            arrived: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
        }
    }

    fn wait(&self) {
        let number = self.arrived.fetch_add(1, Ordering::AcqRel);
        let wanted = (number / self.members + 1) * self.members;
        let mut looks = 0_u32;
        while self.arrived.load(Ordering::Acquire) < wanted {
            assert!(
                !self.is_broken.load(Ordering::Relaxed),
                "another thread failed"
            );
            looks = looks.saturating_add(1);
            if looks < LOOKS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        self.0.is_broken.store(true, Ordering::Relaxed);
    }
}

/// A lane's part of so many things.
fn share(count: usize, lane: usize, lanes: usize) -> Range<usize> {
    count * lane / lanes..count * (lane + 1) / lanes
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

// What a panic left behind is written anew before it is read.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn whoever_waits_for_a_lane_that_fails_fails_too_and_lanes_go_on() {
        let lanes = Lanes::start(NonZeroUsize::new(3).unwrap()).unwrap();
        for failing in 0..3 {
            let meeting = Meeting::of(3);
            let met = AtomicUsize::new(0);
            let run = || {
                lanes.run_together(&|lane| {
                    let broken = Broken(&meeting);
                    assert_ne!(lane, failing, "this lane fails");
                    meeting.wait();
                    met.fetch_add(1, Ordering::Relaxed);
                    std::mem::forget(broken);
                });
            };
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            assert_eq!(met.into_inner(), 0, "lane {failing}");
        }
        let meeting = Meeting::of(3);
        lanes.run_together(&|_| (0..100).for_each(|_| meeting.wait()));
        assert_eq!(meeting.arrived.into_inner(), 300);
    }
}
