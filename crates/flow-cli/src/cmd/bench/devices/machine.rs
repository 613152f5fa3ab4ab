//! The operations that experiments run on a machine, for processors and for GPUs.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use flow_cuda::{CudaDevice, Epilogue, Gpu, GpuError};
use flow_kernels::{
    Activation, Activations, CpuPrecision, InstructionSetUnavailable, Kernels, Linear,
    PackedWeights, Rows, Storage,
};

/// Multiplies matrices of 32-bit floats, one product after the other.
pub(super) trait Multiply: Send {
    /// Rows that are multiplied, and results.
    type States: Send;
    /// What they are multiplied by.
    type Weights: Send;

    /// States of these values, row after row.
    fn states(&self, values: &[f32], width: usize) -> Result<Self::States, Failed>;

    /// Weights of these values: output after output, each with its `inputs` weights.
    fn weights(&self, values: &[f32], inputs: usize) -> Result<Self::Weights, Failed>;

    /// Begins states × weights + added.
    fn multiply(
        &self,
        states: &Self::States,
        weights: &Self::Weights,
        added: Option<&Self::States>,
        out: &mut Self::States,
    ) -> Result<(), Failed>;

    /// Waits for all that was begun.
    fn finish(&self) -> Result<(), Failed>;

    /// The sum of all values, after all that was begun.
    fn fetch(&self, states: &Self::States) -> Result<f64, Failed>;
}

/// A machine that opens as many of them as are wanted.
pub(super) trait Machine {
    type Multiply: Multiply;

    fn name(&self) -> String;

    /// One for products of so much work.
    fn open(&self, work: Work) -> Result<Self::Multiply, Failed>;
}

/// How much a product is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Less than what it takes to wake a thread.
    Little,
    Much,
}

/// A machine failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("`{device}` failed")]
    Gpu {
        device: String,
        #[source]
        source: GpuError,
    },
    #[error(transparent)]
    Cpu(#[from] InstructionSetUnavailable),
}

/// The processor.
pub(super) struct Cpu {
    threads: NonZeroUsize,
}

impl Cpu {
    pub(super) fn new(threads: Option<NonZeroUsize>) -> Self {
        let all = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            threads: threads.unwrap_or_else(all),
        }
    }
}

impl Machine for Cpu {
    type Multiply = OnCpu;

    fn name(&self) -> String {
        "cpu".to_owned()
    }

    fn open(&self, work: Work) -> Result<OnCpu, Failed> {
        Ok(OnCpu {
            kernels: Kernels::select(CpuPrecision::F32, None)?,
            threads: match work {
                Work::Little => 1,
                Work::Much => self.threads.get(),
            },
        })
    }
}

/// Cuts states into as many parts as there are threads.
pub(super) struct OnCpu {
    kernels: Kernels,
    threads: usize,
}

/// One after the other, each with a thread's rows.
pub(super) struct Parts(Vec<(Activations, Range<usize>)>);

impl Multiply for OnCpu {
    type States = Parts;
    type Weights = Linear;

    fn states(&self, values: &[f32], width: usize) -> Result<Parts, Failed> {
        let rows = (values.len() / width).div_ceil(self.threads);
        let part = |values: &[f32]| {
            let count = values.len() / width;
            let mut part = Activations::new(width, Storage::F32);
            part.grow(count);
            let mut rows = part.rows_mut(0..count);
            for (row, values) in values.chunks_exact(width).enumerate() {
                rows.row(row).copy_from_slice(values);
            }
            (part, 0..count)
        };
        Ok(Parts(values.chunks(rows * width).map(part).collect()))
    }

    fn weights(&self, values: &[f32], inputs: usize) -> Result<Linear, Failed> {
        let packed: PackedWeights = self.kernels.pack(values, inputs);
        let bias = vec![0.0; packed.outputs()];
        Ok(Linear::new(packed, &bias, Activation::None))
    }

    fn multiply(
        &self,
        states: &Parts,
        weights: &Linear,
        added: Option<&Parts>,
        out: &mut Parts,
    ) -> Result<(), Failed> {
        let part = |place: usize, (out, rows): &mut (Activations, Range<usize>)| {
            let (states, _) = &states.0[place];
            let mut out = out.rows_mut(rows.clone());
            let panels = 0..weights.weights().panels();
            self.kernels
                .linear(weights, panels, states.rows(rows.clone()), &mut out);
            if let Some(added) = added {
                let added = added.0[place].0.rows(rows.clone());
                for row in rows.clone() {
                    let values = out.row(row).iter_mut().zip(added.row(row));
                    values.for_each(|(value, added)| *value += added);
                }
            }
        };
        if let [only] = &mut out.0[..] {
            part(0, only);
        } else {
            thread::scope(|scope| {
                for (place, out) in out.0.iter_mut().enumerate() {
                    scope.spawn(move || part(place, out));
                }
            });
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), Failed> {
        Ok(())
    }

    fn fetch(&self, states: &Parts) -> Result<f64, Failed> {
        let sum = |(part, rows): &(Activations, Range<usize>)| -> f64 {
            let part: Rows<'_> = part.rows(rows.clone());
            rows.clone().map(|row| sum(part.row(row))).sum()
        };
        Ok(states.0.iter().map(sum).sum())
    }
}

fn sum(values: &[f32]) -> f64 {
    f64::from(values.iter().sum::<f32>())
}

/// A GPU.
pub(super) struct Cuda {
    gpu: Arc<dyn Gpu>,
}

impl Cuda {
    pub(super) fn new(device: CudaDevice) -> Self {
        Self {
            gpu: Arc::new(device),
        }
    }
}

impl Machine for Cuda {
    type Multiply = OnCuda;

    fn name(&self) -> String {
        self.gpu.name()
    }

    fn open(&self, _: Work) -> Result<OnCuda, Failed> {
        let device = self.name();
        match flow_cuda::MatrixMultiplier::new(&self.gpu, flow_cuda::GpuPrecision::F32) {
            Ok(multiplier) => Ok(OnCuda { multiplier, device }),
            Err(source) => Err(Failed::Gpu { device, source }),
        }
    }
}

/// A queue of a GPU.
pub(super) struct OnCuda {
    multiplier: flow_cuda::MatrixMultiplier,
    device: String,
}

impl OnCuda {
    fn checked<T>(&self, result: Result<T, GpuError>) -> Result<T, Failed> {
        let device = || self.device.clone();
        result.map_err(|source| Failed::Gpu {
            device: device(),
            source,
        })
    }
}

impl Multiply for OnCuda {
    type States = flow_cuda::DeviceMatrix;
    type Weights = flow_cuda::DeviceMatrix;

    fn states(&self, values: &[f32], width: usize) -> Result<flow_cuda::DeviceMatrix, Failed> {
        self.checked(self.multiplier.matrix(values, width))
    }

    fn weights(&self, values: &[f32], inputs: usize) -> Result<flow_cuda::DeviceMatrix, Failed> {
        self.checked(self.multiplier.matrix(values, inputs))
    }

    fn multiply(
        &self,
        states: &flow_cuda::DeviceMatrix,
        weights: &flow_cuda::DeviceMatrix,
        residual: Option<&flow_cuda::DeviceMatrix>,
        out: &mut flow_cuda::DeviceMatrix,
    ) -> Result<(), Failed> {
        let epilogue = Epilogue {
            residual,
            ..Epilogue::default()
        };
        self.checked(self.multiplier.multiply(states, weights, epilogue, out))
    }

    fn finish(&self) -> Result<(), Failed> {
        self.checked(self.multiplier.synchronize())
    }

    fn fetch(&self, states: &flow_cuda::DeviceMatrix) -> Result<f64, Failed> {
        Ok(sum(&self.checked(self.multiplier.read(states))?))
    }
}
