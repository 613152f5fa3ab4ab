//! The libraries that flow's products are compared with.

use anyhow::Context;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use tract_data::prelude::{DatumType, Tensor};
use tract_linalg::MmmDispatch;
use tract_linalg::mmm::{AsInputValue, FusedSpec, MMMInputValue, MatMatMul};

use crate::shape::{Matrices, Shape};
use crate::{Product, System};

/// What `gemm` and `faer` are given; neither can keep packed weights.
struct Plain<'a> {
    matrices: &'a Matrices,
    out: Vec<f32>,
    multiply: fn(&Matrices, &mut [f32]),
}

struct Tract<'a> {
    matrices: &'a Matrices,
    kernel: Box<dyn MatMatMul>,
    weights: Box<dyn MMMInputValue>,
    states: Tensor,
    out: Tensor,
}

pub(crate) fn systems(matrices: &Matrices) -> anyhow::Result<Vec<System<'_>>> {
    Ok(vec![
        system("gemm 0.19", Plain::new(matrices, by_gemm)),
        system("faer 0.24", Plain::new(matrices, by_faer)),
        system("tract 0.23", Tract::new(matrices)?),
    ])
}

fn system<'a>(name: &str, product: impl Product + 'a) -> System<'a> {
    System {
        name: name.to_owned(),
        product: Box::new(product),
        error_max: 1e-3,
    }
}

impl<'a> Plain<'a> {
    fn new(matrices: &'a Matrices, multiply: fn(&Matrices, &mut [f32])) -> Self {
        let out = vec![0.0; matrices.shape.rows * matrices.shape.outputs];
        Self {
            matrices,
            out,
            multiply,
        }
    }
}

impl Product for Plain<'_> {
    fn run(&mut self) {
        (self.multiply)(self.matrices, &mut self.out);
    }

    fn value(&self, row: usize, output: usize) -> f32 {
        self.out[row * self.matrices.shape.outputs + output]
    }
}

fn by_gemm(matrices: &Matrices, out: &mut [f32]) {
    let Shape {
        rows,
        inputs,
        outputs,
    } = matrices.shape;
    assert_eq!(out.len(), rows * outputs);
    // SAFETY: the matrices are as large as their shape says, and the strides are theirs.
    unsafe {
        gemm::gemm(
            rows,
            outputs,
            inputs,
            out.as_mut_ptr(),
            1,
            outputs.cast_signed(),
            false,
            matrices.states.as_ptr(),
            1,
            inputs.cast_signed(),
            matrices.weights.as_ptr(),
            inputs.cast_signed(),
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

fn by_faer(matrices: &Matrices, out: &mut [f32]) {
    let Shape {
        rows,
        inputs,
        outputs,
    } = matrices.shape;
    matmul(
        MatMut::from_row_major_slice_mut(out, rows, outputs),
        Accum::Replace,
        MatRef::from_row_major_slice(&matrices.states, rows, inputs),
        MatRef::from_column_major_slice(&matrices.weights, inputs, outputs),
        1.0,
        Par::Seq,
    );
}

impl<'a> Tract<'a> {
    fn new(matrices: &'a Matrices) -> anyhow::Result<Self> {
        let Shape {
            rows,
            inputs,
            outputs,
        } = matrices.shape;
        let kernel = MmmDispatch::native()
            .preferred_kernel(DatumType::F32, Some(outputs), Some(inputs), Some(rows))
            .context("tract has no kernel")?;
        let weights = Tensor::from_shape(&[outputs, inputs], &matrices.weights)?;
        let weights = kernel.packings()[0].0.prepare_one(&weights, 1, 0)?;
        Ok(Self {
            matrices,
            weights,
            kernel,
            states: Tensor::from_shape(&[rows, inputs], &matrices.states)?,
            out: Tensor::zero::<f32>(&[rows, outputs])?,
        })
    }

    fn multiply(&mut self) -> anyhow::Result<()> {
        let Shape { rows, outputs, .. } = self.matrices.shape;
        let states = self.kernel.packings()[0]
            .1
            .prepare_one(&self.states, 1, 0)?;
        // SAFETY: the view is of a tensor with these axes, and both sides were packed for this kernel.
        unsafe {
            let view = self.kernel.c_view(Some(1), Some(0));
            let steps = [
                FusedSpec::AddMatMul {
                    a: AsInputValue::Borrowed(&*self.weights),
                    b: AsInputValue::Borrowed(&*states),
                    packing: 0,
                },
                FusedSpec::Store(view.wrap(&self.out.view_mut())),
            ];
            Ok(self.kernel.run(outputs, rows, &steps)?)
        }
    }
}

impl Product for Tract<'_> {
    fn run(&mut self) {
        self.multiply().expect("both sides were packed for it");
    }

    fn value(&self, row: usize, output: usize) -> f32 {
        let values = self.out.try_as_plain_ram().expect("it is plain");
        let values = values.as_slice::<f32>().expect("it holds f32");
        values[row * self.matrices.shape.outputs + output]
    }
}
