//! A model's weights in a device's memory: what they are made of, and what a device must be able to do for them.

use std::sync::Arc;

use crate::driver::OLDEST;
use crate::gpu::{Capability, Gpu, GpuError};
use crate::kernel::Format;
use crate::memory::{Buffer, Staging, Stream};
use crate::launcher::{Activation, HEAD_WIDTH_MAX};
use crate::upload::Upload;

/// The first whose tensor cores know bf16 and TF32.
const AMPERE: Capability = Capability { major: 8, minor: 0 };

/// A model's dimensions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Values of a token's state.
    pub hidden: usize,
    /// Values of it inside the second half of a layer.
    pub inner: usize,
    /// Heads of attention; they divide `hidden`.
    pub heads: usize,
    /// The most tokens a text can have.
    pub positions: usize,
    /// Words there are.
    pub vocabulary: usize,
    /// What is added to the variance in layer norms.
    pub epsilon: f32,
    /// What is done to inner states.
    pub activation: Activation,
}

/// A layer norm's weights.
#[derive(Debug, Clone, PartialEq)]
pub struct NormWeights {
    /// What values are multiplied by.
    pub scale: Vec<f32>,
    /// What is added then.
    pub shift: Vec<f32>,
}

/// A linear layer's weights.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearWeights {
    /// A row for each value that comes out.
    pub weights: Vec<f32>,
    /// What is added to each.
    pub bias: Vec<f32>,
}

/// What stands before the first layer, and what all layers share.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingWeights {
    /// A row for each word.
    pub words: Vec<f32>,
    /// A row for each place in a text, with all that every token has in common.
    pub positions: Vec<f32>,
    /// What becomes of their sum.
    pub norm: NormWeights,
    /// For each head and each distance from a query to a key, from `1 - positions` to `positions - 1`, what is added
    /// to their product; if anything.
    pub distances: Option<Vec<f32>>,
}

/// A layer's weights.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerWeights {
    /// All queries, then all keys, then all values.
    pub heads: LinearWeights,
    /// What becomes of attention.
    pub out: LinearWeights,
    /// What becomes of that and the states before.
    pub out_norm: NormWeights,
    /// To inner states.
    pub up: LinearWeights,
    /// And back.
    pub down: LinearWeights,
    /// What becomes of that and the states before.
    pub down_norm: NormWeights,
}

/// Weights in a device's memory. Any number of streams may use them.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) gpu: Arc<dyn Gpu>,
    pub(crate) shape: Shape,
    pub(crate) format: Format,
    pub(crate) words: Buffer,
    pub(crate) positions: Buffer,
    pub(crate) norm: Norm,
    pub(crate) distances: Option<Buffer>,
    pub(crate) layers: Vec<Layer>,
}

#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) heads: Linear,
    pub(crate) out: Linear,
    pub(crate) out_norm: Norm,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) down_norm: Norm,
}

#[derive(Debug)]
pub(crate) struct Linear {
    pub(crate) weights: Buffer,
    pub(crate) bias: Buffer,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

#[derive(Debug)]
pub(crate) struct Norm {
    pub(crate) scale: Buffer,
    pub(crate) shift: Buffer,
}

/// Takes a model's weights part by part, so that they need not be in the machine's memory all at once.
#[derive(Debug)]
pub struct Loader {
    // First, so that it is finished before the memory goes that it copies from.
    stream: Stream,
    staging: Staging,
    model: Model,
}

impl Loader {
    /// Begins with the embeddings.
    ///
    /// # Errors
    ///
    /// If the device fails, has no room, or cannot compute such a model in such numbers.
    ///
    /// # Panics
    ///
    /// If the weights are not of this shape.
    pub fn new(
        gpu: &Arc<dyn Gpu>,
        shape: Shape,
        format: Format,
        embeddings: &EmbeddingWeights,
    ) -> Result<Self, GpuError> {
        check_format(&**gpu, format)?;
        check_heads(shape)?;
        let hidden = shape.hidden;
        assert_eq!(embeddings.words.len(), shape.vocabulary * hidden, "words");
        assert_eq!(
            embeddings.positions.len(),
            shape.positions * hidden,
            "positions"
        );
        let stream = Stream::open(gpu)?;
        let mut staging = Staging::default();
        let mut upload = Upload {
            stream: &stream,
            staging: &mut staging,
        };
        let distances = embeddings.distances.as_ref().map(|distances| {
            let each = 2 * shape.positions - 1;
            assert_eq!(distances.len(), shape.heads * each, "distances");
            upload.floats(distances)
        });
        let model = Model {
            distances: distances.transpose()?,
            words: upload.matrix(&embeddings.words, hidden, format)?,
            positions: upload.floats(&embeddings.positions)?,
            norm: norm(&mut upload, &embeddings.norm, hidden)?,
            gpu: Arc::clone(gpu),
            shape,
            format,
            layers: Vec::new(),
        };
        Ok(Self {
            stream,
            staging,
            model,
        })
    }

    /// Adds the next layer.
    ///
    /// # Errors
    ///
    /// If the device fails or has no room.
    ///
    /// # Panics
    ///
    /// If the weights are not of the model's shape.
    pub fn layer(&mut self, weights: &LayerWeights) -> Result<(), GpuError> {
        let (shape, format) = (self.model.shape, self.model.format);
        let (hidden, inner) = (shape.hidden, shape.inner);
        let mut upload = Upload {
            stream: &self.stream,
            staging: &mut self.staging,
        };
        let mut linear = |weights, from, to| linear(&mut upload, weights, (from, to), format);
        let (heads, out) = (
            linear(&weights.heads, hidden, 3 * hidden)?,
            linear(&weights.out, hidden, hidden)?,
        );
        let (up, down) = (
            linear(&weights.up, hidden, inner)?,
            linear(&weights.down, inner, hidden)?,
        );
        self.model.layers.push(Layer {
            heads,
            out,
            out_norm: norm(&mut upload, &weights.out_norm, hidden)?,
            up,
            down,
            down_norm: norm(&mut upload, &weights.down_norm, hidden)?,
        });
        Ok(())
    }

    /// The model, with as many layers as were added.
    pub(crate) fn finish(self) -> Model {
        self.model
    }
}

impl Model {
    /// Bytes of all weights, as they are kept.
    pub(crate) fn weight_bytes(&self) -> usize {
        let layers = self.layers.iter().map(Layer::bytes).sum::<usize>();
        let distances = self.distances.as_ref().map_or(0, Buffer::bytes);
        self.words.bytes() + self.positions.bytes() + self.norm.bytes() + distances + layers
    }
}

impl Layer {
    fn bytes(&self) -> usize {
        let linear = [&self.heads, &self.out, &self.up, &self.down];
        let linear = linear.map(|it| it.weights.bytes() + it.bias.bytes());
        linear.iter().sum::<usize>() + self.out_norm.bytes() + self.down_norm.bytes()
    }
}

impl Norm {
    fn bytes(&self) -> usize {
        self.scale.bytes() + self.shift.bytes()
    }
}

/// Whether a device's tensor cores know the format.
pub(crate) fn check_format(gpu: &dyn Gpu, format: Format) -> Result<(), GpuError> {
    let least = match format {
        Format::F32 | Format::F16 => OLDEST,
        Format::Tf32 | Format::Bf16 => AMPERE,
    };
    let found = gpu.capability();
    if found >= least {
        return Ok(());
    }
    let name = gpu.name();
    Err(GpuError::Unsupported(format!(
        "{name} has compute capability {found}, and precision `{format}` needs {least}"
    )))
}

fn check_heads(shape: Shape) -> Result<(), GpuError> {
    let width = shape.hidden / shape.heads;
    if width <= HEAD_WIDTH_MAX {
        return Ok(());
    }
    Err(GpuError::Unsupported(format!(
        "the model has heads of {width} values, and {HEAD_WIDTH_MAX} are the most"
    )))
}

fn linear(
    upload: &mut Upload<'_>,
    weights: &LinearWeights,
    (from, to): (usize, usize),
    format: Format,
) -> Result<Linear, GpuError> {
    assert_eq!(weights.weights.len(), from * to, "weights");
    assert_eq!(weights.bias.len(), to, "bias");
    Ok(Linear {
        weights: upload.matrix(&weights.weights, from, format)?,
        bias: upload.floats(&weights.bias)?,
        from,
        to,
    })
}

fn norm(upload: &mut Upload<'_>, weights: &NormWeights, width: usize) -> Result<Norm, GpuError> {
    assert_eq!(weights.scale.len(), width, "scale");
    assert_eq!(weights.shift.len(), width, "shift");
    Ok(Norm {
        scale: upload.floats(&weights.scale)?,
        shift: upload.floats(&weights.shift)?,
    })
}
