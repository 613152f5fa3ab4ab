//! What a back end multiplies at once: some rows of states by one panel of weights.

/// Columns of a panel: two AVX-512 registers, four of AVX2, eight of NEON, two of AMX's tiles.
pub const PANEL: usize = 32;

/// Most rows that any back end takes at once.
pub(crate) const ROWS_MAX: usize = 32;

/// `c = a · b + bias` for a few rows.
///
/// `k` counts steps: values of a row of `a` for 32-bit floats, pairs of values for bf16. A row of `b` is
/// one step: [`PANEL`] values, or as many pairs. Its second half begins `b_half` after the first: right behind
/// it, or behind the first halves of all rows, where the back end has its weights packed so.
pub(crate) struct Tile<'a, T> {
    pub(crate) rows: usize,
    pub(crate) k: usize,
    pub(crate) a: &'a [T],
    pub(crate) a_stride: usize,
    pub(crate) b: &'a [T],
    pub(crate) b_stride: usize,
    pub(crate) b_half: usize,
    pub(crate) c: &'a mut [f32],
    pub(crate) c_stride: usize,
    pub(crate) bias: &'a [f32; PANEL],
}

/// A back end's function for tiles.
///
/// # Safety
///
/// The machine has the function's instructions, and [`Tile::check`] has passed with its number of rows.
pub(crate) type TileFn<T> = unsafe fn(&mut Tile<'_, T>);

/// No bias.
pub(crate) const NO_BIAS: [f32; PANEL] = [0.0; PANEL];

impl<T> Tile<'_, T> {
    /// Checks that all that will be read and written is there. `step` is how many values of a row are one
    /// step.
    ///
    /// # Panics
    ///
    /// If it is not.
    #[inline]
    pub(crate) fn check(&self, step: usize, rows_max: usize) {
        assert!(self.rows >= 1 && self.rows <= rows_max, "rows of a tile");
        let last = self.rows - 1;
        assert!(self.a.len() >= last * self.a_stride + self.k * step, "a");
        let half = PANEL / 2 * step;
        assert!(self.b_half >= half, "halves of b");
        let length = |k: usize| (k - 1) * self.b_stride + self.b_half + half;
        assert!(self.k == 0 || self.b.len() >= length(self.k), "b");
        assert!(self.c.len() >= last * self.c_stride + PANEL, "c");
    }
}
