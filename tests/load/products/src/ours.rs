//! `flow-kernels`, each back end that the machine has.

use flow_kernels::{Activation, Activations, BackEnd, Format, InstructionSet, Keeps, Kernels};

use crate::shape::Matrices;
use crate::{Product, System};

struct Ours {
    kernels: Kernels,
    product: flow_kernels::Product,
    states: Activations,
    out: Activations,
    rows: usize,
}

pub(crate) fn systems(matrices: &Matrices) -> Vec<System<'static>> {
    let kernels = BackEnd::all().filter(|it| is_of_use(*it));
    let system = |kernels: Kernels| System {
        name: format!("flow {} {}", kernels.back_end(), kernels.format()),
        product: Box::new(Ours::new(kernels, matrices)),
        error_max: match kernels.format() {
            Format::F32 => 1e-3,
            Format::Bf16 => 0.5,
        },
    };
    kernels.map(system).collect()
}

/// bf16 without instructions for them save memory, not time.
fn is_of_use(kernels: Kernels) -> bool {
    let instructions: InstructionSet = kernels.back_end().instructions();
    kernels.format() == Format::F32 || instructions.has_bf16()
}

impl Ours {
    fn new(kernels: Kernels, matrices: &Matrices) -> Self {
        let shape = matrices.shape;
        let weights = kernels.pack(&matrices.weights, shape.inputs);
        let mut states = Activations::new(shape.inputs, Keeps::Both);
        states.grow(shape.rows);
        let mut all = states.rows_mut(0..shape.rows);
        for (row, values) in matrices.states.chunks(shape.inputs).enumerate() {
            all.row(row).copy_from_slice(values);
        }
        all.round(&kernels);
        let mut out = Activations::new(shape.outputs, Keeps::F32);
        out.grow(shape.rows);
        Self {
            kernels,
            product: flow_kernels::Product::new(
                weights,
                &vec![0.0; shape.outputs],
                Activation::None,
            ),
            states,
            out,
            rows: shape.rows,
        }
    }
}

impl Product for Ours {
    fn run(&mut self) {
        let all = 0..self.rows;
        let panels = 0..self.product.weights().panels();
        let mut out = self.out.rows_mut(all.clone());
        self.kernels
            .product(&self.product, panels, self.states.rows(all), &mut out);
    }

    fn value(&self, row: usize, output: usize) -> f32 {
        self.out.rows(row..row + 1).row(0)[output]
    }
}
