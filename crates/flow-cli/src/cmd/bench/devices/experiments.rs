//! The experiments: the amount of work of each, and the time that a machine takes for it.

use std::time::Instant;

use serde::Serialize;

use super::machine::{Failed, Machine, Multiply, Work};

/// Rows and columns of the small matrices.
pub(super) const SMALL_SIDE: usize = 100;

/// A model of the experiments is a chain of products: the states of a number of texts, taken through a number of layers.
const MODEL_ROWS: usize = 256;
const MODEL_WIDTH: usize = 1024;
const MODEL_LAYERS: usize = 16;

/// How much of everything.
#[derive(Debug)]
pub(super) struct Experiments {
    /// Of the large matrices.
    pub(super) side: usize,
    /// How many small products.
    pub(super) small: usize,
    pub(super) rounds: usize,
}

/// Seconds that a machine takes.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    pub(super) device: String,
    /// For one large product.
    pub(super) large_s: f64,
    /// For the small products, whose sum is fetched at the end.
    pub(super) small_s: f64,
    /// For the same, but each result is fetched before the next begins.
    pub(super) one_by_one_s: f64,
    /// For two models, one after the other.
    pub(super) in_sequence_s: f64,
    /// For two models at the same time.
    pub(super) side_by_side_s: f64,
}

/// Seconds that two GPUs take for a model each.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Pair {
    pub(super) devices: [String; 2],
    /// The first does both, one after the other.
    pub(super) one_gpu_s: f64,
    /// Each does one, at the same time.
    pub(super) two_gpus_s: f64,
}

/// When results leave the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetch {
    /// Each before the next is computed.
    Each,
    /// Their sum, which is kept there.
    AtTheEnd,
}

/// A row of the table.
pub(super) struct Row {
    pub(super) title: fn(&Experiments) -> String,
    pub(super) seconds: fn(&Figures) -> f64,
    pub(super) flop: fn(&Experiments) -> f64,
}

pub(super) const ROWS: &[Row] = &[
    Row {
        title: |it| format!("one product of {0} × {0}", it.side),
        seconds: |it| it.large_s,
        flop: |it| product_flop([it.side; 3]),
    },
    Row {
        title: |it| {
            format!(
                "{} products of {SMALL_SIDE} × {SMALL_SIDE}, summed there",
                it.small
            )
        },
        seconds: |it| it.small_s,
        flop: Experiments::small_flop,
    },
    Row {
        title: |_| "the same, fetched one by one".to_owned(),
        seconds: |it| it.one_by_one_s,
        flop: Experiments::small_flop,
    },
    Row {
        title: |_| format!("two models of {MODEL_LAYERS} layers, in sequence"),
        seconds: |it| it.in_sequence_s,
        flop: |_| 2.0 * model_flop(),
    },
    Row {
        title: |_| "the same, side by side".to_owned(),
        seconds: |it| it.side_by_side_s,
        flop: |_| 2.0 * model_flop(),
    },
];

/// Two for each product of two numbers.
fn product_flop(sides: [usize; 3]) -> f64 {
    2.0 * sides.map(|side| side as f64).iter().product::<f64>()
}

fn model_flop() -> f64 {
    MODEL_LAYERS as f64 * product_flop([MODEL_ROWS, MODEL_WIDTH, MODEL_WIDTH])
}

/// A chain of products on one machine: as many as a model has layers.
struct Model<M: Multiply> {
    on: M,
    layers: Vec<M::Weights>,
    /// What comes in, and what each layer's result is put into in turn.
    states: [M::States; 3],
}

impl<M: Multiply> Model<M> {
    fn new(on: M) -> Result<Self, Failed> {
        let weights = values([MODEL_WIDTH; 2]);
        let layer = |_| on.weights(&weights, MODEL_WIDTH);
        let layers = (0..MODEL_LAYERS).map(layer).collect::<Result<_, _>>()?;
        let states = || on.states(&values([MODEL_ROWS, MODEL_WIDTH]), MODEL_WIDTH);
        Ok(Self {
            states: [states()?, states()?, states()?],
            layers,
            on,
        })
    }

    /// All layers, to the end.
    fn run(&mut self) -> Result<(), Failed> {
        let [input, first, second] = &mut self.states;
        let (mut from, mut to) = (first, second);
        for (place, layer) in self.layers.iter().enumerate() {
            let states = if place == 0 { &*input } else { &*from };
            self.on.multiply(states, layer, None, to)?;
            std::mem::swap(&mut from, &mut to);
        }
        self.on.finish()
    }
}

fn in_sequence<M: Multiply>(models: &mut [Model<M>; 2]) -> Result<(), Failed> {
    models.iter_mut().try_for_each(Model::run)
}

fn side_by_side<M: Multiply>([first, second]: &mut [Model<M>; 2]) -> Result<(), Failed> {
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| second.run());
        let own = first.run();
        own.and(beside.join().expect("it does not panic"))
    })
}

/// Numbers between -1 and 1, the same each time, divided by the root of what is summed over: a chain of products of
/// such numbers neither grows nor vanishes.
fn values([rows, columns]: [usize; 2]) -> Vec<f32> {
    let scale = (3.0 / columns as f32).sqrt();
    let mut state = 1_u32;
    let number = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
    };
    (0..rows * columns).map(number).collect()
}

impl Experiments {
    fn small_flop(&self) -> f64 {
        self.small as f64 * product_flop([SMALL_SIDE; 3])
    }

    /// What one machine takes.
    pub(super) fn on<M: Machine>(&self, machine: &M) -> Result<Figures, Failed> {
        let mut models = [model(machine)?, model(machine)?];
        Ok(Figures {
            device: machine.name(),
            large_s: self.large(machine)?,
            small_s: self.small(machine, Fetch::AtTheEnd)?,
            one_by_one_s: self.small(machine, Fetch::Each)?,
            in_sequence_s: self.median(|| in_sequence(&mut models))?,
            side_by_side_s: self.median(|| side_by_side(&mut models))?,
        })
    }

    /// What two machines of a kind take together.
    pub(super) fn on_two<M: Machine>(&self, first: &M, second: &M) -> Result<Pair, Failed> {
        let mut alone = [model(first)?, model(first)?];
        let mut shared = [model(first)?, model(second)?];
        Ok(Pair {
            devices: [first.name(), second.name()],
            one_gpu_s: self.median(|| in_sequence(&mut alone))?,
            two_gpus_s: self.median(|| side_by_side(&mut shared))?,
        })
    }

    fn large<M: Machine>(&self, machine: &M) -> Result<f64, Failed> {
        let (on, side) = (machine.open(Work::Much)?, self.side);
        let values = values([side, side]);
        let weights = on.weights(&values, side)?;
        let (states, mut out) = (on.states(&values, side)?, on.states(&values, side)?);
        self.median(|| {
            on.multiply(&states, &weights, None, &mut out)?;
            on.finish()
        })
    }

    fn small<M: Machine>(&self, machine: &M, fetch: Fetch) -> Result<f64, Failed> {
        let (on, side) = (machine.open(Work::Little)?, SMALL_SIDE);
        let values = values([side, side]);
        let weights = on.weights(&values, side)?;
        let states = on.states(&values, side)?;
        let zeros = || on.states(&vec![0.0; side * side], side);
        let mut sums = [zeros()?, zeros()?];
        self.median(|| {
            let mut total = 0.0;
            for _ in 0..self.small {
                let [before, after] = &mut sums;
                on.multiply(&states, &weights, Some(&*before), after)?;
                if fetch == Fetch::Each {
                    total += on.fetch(after)?;
                }
                sums.swap(0, 1);
            }
            if fetch == Fetch::AtTheEnd {
                total = on.fetch(&sums[0])?;
            }
            // The plot shows it, so no point may be left out.
            std::hint::black_box(total);
            Ok(())
        })
    }

    /// The median of the seconds of several rounds, after one that does not count.
    fn median(&self, mut work: impl FnMut() -> Result<(), Failed>) -> Result<f64, Failed> {
        work()?;
        let mut seconds = Vec::new();
        for _ in 0..self.rounds {
            let started = Instant::now();
            work()?;
            seconds.push(started.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        Ok(seconds[seconds.len() / 2])
    }
}

fn model<M: Machine>(machine: &M) -> Result<Model<M::Multiply>, Failed> {
    Model::new(machine.open(Work::Much)?)
}
