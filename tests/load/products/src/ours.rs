//! `flow-kernels`, with each instruction set that the machine has.

use flow_kernels::{
    Activation, Activations, CpuPrecision, InstructionSet, Kernels, Linear, Storage,
};

use crate::shape::Matrices;
use crate::{Product, System};

struct Ours {
    kernels: Kernels,
    layer: Linear,
    states: Activations,
    out: Activations,
    rows: usize,
}

pub(crate) fn systems(matrices: &Matrices) -> Vec<System<'static>> {
    let kernels = Kernels::all().filter(|it| is_fast(*it));
    let system = |kernels: Kernels| System {
        name: format!("flow {} {}", kernels.instruction_set(), kernels.precision()),
        product: Box::new(Ours::new(kernels, matrices)),
        error_max: match kernels.precision() {
            CpuPrecision::F32 => 1e-3,
            CpuPrecision::Bf16 => 0.5,
        },
    };
    kernels.map(system).collect()
}

/// Whether a precision is faster than 32-bit floats: without instructions for it, bf16 saves memory only.
fn is_fast(kernels: Kernels) -> bool {
    let instructions: InstructionSet = kernels.instruction_set();
    kernels.precision() == CpuPrecision::F32 || instructions.has_bf16()
}

impl Ours {
    fn new(kernels: Kernels, matrices: &Matrices) -> Self {
        let shape = matrices.shape;
        let weights = kernels.pack(&matrices.weights, shape.inputs);
        let mut states = Activations::new(shape.inputs, Storage::Both);
        states.grow(shape.rows);
        let mut all = states.rows_mut(0..shape.rows);
        for (row, values) in matrices.states.chunks(shape.inputs).enumerate() {
            all.row(row).copy_from_slice(values);
        }
        kernels.round_rows(&mut all);
        let mut out = Activations::new(shape.outputs, Storage::F32);
        out.grow(shape.rows);
        Self {
            kernels,
            layer: Linear::new(weights, &vec![0.0; shape.outputs], Activation::None),
            states,
            out,
            rows: shape.rows,
        }
    }
}

impl Product for Ours {
    fn run(&mut self) {
        let all = 0..self.rows;
        let panels = 0..self.layer.weights().panels();
        let mut out = self.out.rows_mut(all.clone());
        self.kernels
            .linear(&self.layer, panels, self.states.rows(all), &mut out);
    }

    fn value(&self, row: usize, output: usize) -> f32 {
        self.out.rows(row..row + 1).row(0)[output]
    }
}
