//! The result of an encoder.

/// The vectors of some texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// A row-major matrix of `texts × width`.
    pub(crate) values: Vec<f32>,
    pub(crate) width: usize,
    /// The number of tokens of each text.
    pub(crate) tokens: Vec<usize>,
}

impl Vectors {
    /// Vectors to be filled in.
    pub(crate) fn zeros(texts: usize, width: usize) -> Self {
        Self {
            values: vec![0.0; texts * width],
            width,
            tokens: vec![0; texts],
        }
    }

    /// The vector and the number of tokens of one text.
    pub(crate) fn entry(&mut self, text: usize) -> (&mut [f32], &mut usize) {
        let row = &mut self.values[text * self.width..][..self.width];
        (row, &mut self.tokens[text])
    }

    /// Gives a text what another one has.
    pub(crate) fn copy_within(&mut self, from: usize, to: usize) {
        if from != to {
            let row = from * self.width..(from + 1) * self.width;
            self.values.copy_within(row, to * self.width);
            self.tokens[to] = self.tokens[from];
        }
    }

    /// Number of values of a vector.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The vectors, in the order of the texts.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }

    /// The number of tokens of each text that the model read: with special tokens and the prompt, after truncation.
    #[must_use]
    pub fn tokens(&self) -> &[usize] {
        &self.tokens
    }
}
