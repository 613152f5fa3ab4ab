//! A model's weights in the memory of a device.

use std::sync::Arc;

use crate::error::MIN_CAPABILITY;
use crate::gpu::{Capability, Gpu, GpuError};
use crate::kernel::GpuPrecision;
use crate::launcher::{Activation, HEAD_SIZE_MAX};
use crate::memory::{CudaStream, DeviceBuffer, StagingBuffer};
use crate::upload::Uploader;

/// The first generation whose tensor cores support bf16 and TF32.
const AMPERE: Capability = Capability { major: 8, minor: 0 };

/// A model's dimensions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelShape {
    /// Values of a hidden state.
    pub hidden_size: usize,
    /// Values of the intermediate state of a layer's MLP.
    pub intermediate_size: usize,
    /// Number of attention heads. It divides `hidden_size`.
    pub heads: usize,
    /// Maximum tokens of a text.
    pub max_tokens: usize,
    /// Token types with position embeddings of their own: 2 if the model tells the texts of a pair apart, else 1.
    pub token_types: usize,
    /// Number of token ids.
    pub vocab_size: usize,
    /// Added to the variance in layer norms.
    pub epsilon: f32,
    /// Activation of intermediate states.
    pub activation: Activation,
}

impl ModelShape {
    /// The row of the first position embedding for tokens of type 1.
    pub(crate) fn second_position_row(&self) -> usize {
        (self.token_types - 1) * self.max_tokens
    }
}

/// The weights of a layer norm.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerNormWeights {
    /// Factor of each normalized value.
    pub scale: Vec<f32>,
    /// Added to each scaled value.
    pub shift: Vec<f32>,
}

/// The weights of a linear layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearWeights {
    /// A row-major matrix of `outputs × inputs`.
    pub weights: Vec<f32>,
    /// One value per output.
    pub bias: Vec<f32>,
}

/// The weights of the embeddings, and those that all layers share.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingWeights {
    /// The word embeddings: `vocab_size × hidden_size`.
    pub words: Vec<f32>,
    /// The position embeddings, with the token type embedding added, for each token type: `token_types × max_tokens ×
    /// hidden_size`.
    pub positions: Vec<f32>,
    /// The layer norm of their sum.
    pub norm: LayerNormWeights,
    /// The relative position bias, if the model has one: for each head, a value for each distance from a query to a key,
    /// from `1 - max_tokens` to `max_tokens - 1`.
    pub position_bias: Option<Vec<f32>>,
}

/// The weights of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerWeights {
    /// All queries, then all keys, then all values: `hidden_size` to `3 · hidden_size`.
    pub qkv: LinearWeights,
    /// From the attention context: `hidden_size` to `hidden_size`.
    pub attention_output: LinearWeights,
    /// After the first residual connection.
    pub attention_norm: LayerNormWeights,
    /// To intermediate states: `hidden_size` to `intermediate_size`.
    pub mlp_up: LinearWeights,
    /// From intermediate states: `intermediate_size` to `hidden_size`.
    pub mlp_down: LinearWeights,
    /// After the second residual connection.
    pub mlp_norm: LayerNormWeights,
}

/// A model in a device's memory. Any number of streams may use it.
#[derive(Debug)]
pub(crate) struct DeviceModel {
    pub(crate) gpu: Arc<dyn Gpu>,
    pub(crate) shape: ModelShape,
    pub(crate) precision: GpuPrecision,
    pub(crate) words: DeviceBuffer,
    pub(crate) positions: DeviceBuffer,
    pub(crate) norm: DeviceLayerNorm,
    pub(crate) position_bias: Option<DeviceBuffer>,
    pub(crate) layers: Vec<DeviceLayer>,
}

#[derive(Debug)]
pub(crate) struct DeviceLayer {
    pub(crate) qkv: DeviceLinear,
    pub(crate) attention_output: DeviceLinear,
    pub(crate) attention_norm: DeviceLayerNorm,
    pub(crate) mlp_up: DeviceLinear,
    pub(crate) mlp_down: DeviceLinear,
    pub(crate) mlp_norm: DeviceLayerNorm,
}

#[derive(Debug)]
pub(crate) struct DeviceLinear {
    pub(crate) weights: DeviceBuffer,
    pub(crate) bias: DeviceBuffer,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

#[derive(Debug)]
pub(crate) struct DeviceLayerNorm {
    pub(crate) scale: DeviceBuffer,
    pub(crate) shift: DeviceBuffer,
}

/// Uploads a model part by part, so that the host need not hold all weights at once.
#[derive(Debug)]
pub struct ModelLoader {
    // First, so that it is synchronized before the memory is freed from which it copies.
    stream: CudaStream,
    staging: StagingBuffer,
    model: DeviceModel,
}

impl ModelLoader {
    /// Uploads the embeddings.
    ///
    /// # Errors
    ///
    /// If the device fails, has too little memory, or does not support the model or the precision.
    ///
    /// # Panics
    ///
    /// If the weights do not have the shape of the model.
    pub fn new(
        gpu: &Arc<dyn Gpu>,
        shape: ModelShape,
        precision: GpuPrecision,
        embeddings: &EmbeddingWeights,
    ) -> Result<Self, GpuError> {
        check_precision(&**gpu, precision)?;
        check_head_size(shape)?;
        let hidden = shape.hidden_size;
        assert_eq!(
            embeddings.words.len(),
            shape.vocab_size * hidden,
            "word embeddings"
        );
        assert_eq!(
            embeddings.positions.len(),
            shape.token_types * shape.max_tokens * hidden,
            "position embeddings"
        );
        let stream = CudaStream::new(gpu)?;
        let mut staging = StagingBuffer::default();
        let mut uploader = Uploader {
            stream: &stream,
            staging: &mut staging,
        };
        let position_bias = embeddings.position_bias.as_ref().map(|bias| {
            let distances = 2 * shape.max_tokens - 1;
            assert_eq!(bias.len(), shape.heads * distances, "position bias");
            uploader.floats(bias)
        });
        let model = DeviceModel {
            position_bias: position_bias.transpose()?,
            words: uploader.matrix(&embeddings.words, hidden, precision)?,
            positions: uploader.floats(&embeddings.positions)?,
            norm: layer_norm(&mut uploader, &embeddings.norm, hidden)?,
            gpu: Arc::clone(gpu),
            shape,
            precision,
            layers: Vec::new(),
        };
        Ok(Self {
            stream,
            staging,
            model,
        })
    }

    /// Uploads the next layer.
    ///
    /// # Errors
    ///
    /// If the device fails or has too little memory.
    ///
    /// # Panics
    ///
    /// If the weights do not have the shape of the model.
    pub fn layer(&mut self, weights: &LayerWeights) -> Result<(), GpuError> {
        let (shape, precision) = (self.model.shape, self.model.precision);
        let (hidden, intermediate) = (shape.hidden_size, shape.intermediate_size);
        let mut uploader = Uploader {
            stream: &self.stream,
            staging: &mut self.staging,
        };
        let mut linear =
            |weights, inputs, outputs| linear(&mut uploader, weights, (inputs, outputs), precision);
        let qkv = linear(&weights.qkv, hidden, 3 * hidden)?;
        let attention_output = linear(&weights.attention_output, hidden, hidden)?;
        let mlp_up = linear(&weights.mlp_up, hidden, intermediate)?;
        let mlp_down = linear(&weights.mlp_down, intermediate, hidden)?;
        self.model.layers.push(DeviceLayer {
            qkv,
            attention_output,
            attention_norm: layer_norm(&mut uploader, &weights.attention_norm, hidden)?,
            mlp_up,
            mlp_down,
            mlp_norm: layer_norm(&mut uploader, &weights.mlp_norm, hidden)?,
        });
        Ok(())
    }

    /// The model, with the layers uploaded so far.
    pub(crate) fn finish(self) -> DeviceModel {
        self.model
    }
}

impl DeviceModel {
    /// Size of all weights in bytes.
    pub(crate) fn weight_bytes(&self) -> usize {
        let layers = self.layers.iter().map(DeviceLayer::bytes).sum::<usize>();
        let position_bias = self.position_bias.as_ref().map_or(0, DeviceBuffer::bytes);
        let embeddings = self.words.bytes() + self.positions.bytes() + self.norm.bytes();
        embeddings + position_bias + layers
    }
}

impl DeviceLayer {
    fn bytes(&self) -> usize {
        let linear = [
            &self.qkv,
            &self.attention_output,
            &self.mlp_up,
            &self.mlp_down,
        ];
        let linear = linear.map(|layer| layer.weights.bytes() + layer.bias.bytes());
        linear.iter().sum::<usize>() + self.attention_norm.bytes() + self.mlp_norm.bytes()
    }
}

impl DeviceLayerNorm {
    fn bytes(&self) -> usize {
        self.scale.bytes() + self.shift.bytes()
    }
}

/// Checks that the device's tensor cores support a precision.
pub(crate) fn check_precision(gpu: &dyn Gpu, precision: GpuPrecision) -> Result<(), GpuError> {
    let min = match precision {
        GpuPrecision::F32 | GpuPrecision::F16 => MIN_CAPABILITY,
        GpuPrecision::Tf32 | GpuPrecision::Bf16 => AMPERE,
    };
    let found = gpu.capability();
    if found >= min {
        return Ok(());
    }
    let name = gpu.name();
    Err(GpuError::Unsupported(format!(
        "{name} has compute capability {found}, and precision `{precision}` needs {min}"
    )))
}

fn check_head_size(shape: ModelShape) -> Result<(), GpuError> {
    let head_size = shape.hidden_size / shape.heads;
    if head_size <= HEAD_SIZE_MAX {
        return Ok(());
    }
    Err(GpuError::Unsupported(format!(
        "the model has attention heads of {head_size} values, and at most {HEAD_SIZE_MAX} are supported"
    )))
}

fn linear(
    uploader: &mut Uploader<'_>,
    weights: &LinearWeights,
    (inputs, outputs): (usize, usize),
    precision: GpuPrecision,
) -> Result<DeviceLinear, GpuError> {
    assert_eq!(weights.weights.len(), inputs * outputs, "weights");
    assert_eq!(weights.bias.len(), outputs, "bias");
    Ok(DeviceLinear {
        weights: uploader.matrix(&weights.weights, inputs, precision)?,
        bias: uploader.floats(&weights.bias)?,
        inputs,
        outputs,
    })
}

fn layer_norm(
    uploader: &mut Uploader<'_>,
    weights: &LayerNormWeights,
    width: usize,
) -> Result<DeviceLayerNorm, GpuError> {
    assert_eq!(weights.scale.len(), width, "scale");
    assert_eq!(weights.shift.len(), width, "shift");
    Ok(DeviceLayerNorm {
        scale: uploader.floats(&weights.scale)?,
        shift: uploader.floats(&weights.shift)?,
    })
}
