//! The unit of work of a kernel: a few rows of states times one panel of weights.

/// Columns of a panel: two AVX-512 registers, four of AVX2, eight of NEON, two of AMX's tiles.
pub const PANEL: usize = 32;

/// Maximum rows of a tile, over all instruction sets.
pub(crate) const ROWS_MAX: usize = 32;

/// Computes `c = a · b + bias` for a few rows.
///
/// `k` counts steps: values of a row of `a` for 32-bit floats, pairs of values for bf16. A row of `b` is one step:
/// [`PANEL`] values, or as many pairs.
pub(crate) struct Tile<'a, T> {
    /// Number of rows of `a` and `c`.
    pub(crate) rows: usize,
    /// Number of steps.
    pub(crate) k: usize,
    /// States: `rows` rows of `k` steps.
    pub(crate) a: &'a [T],
    /// Values from one row of `a` to the next.
    pub(crate) a_stride: usize,
    /// Weights: `k` rows of one panel.
    pub(crate) b: &'a [T],
    /// Values from one row of `b` to the next.
    pub(crate) b_stride: usize,
    /// Values from the first half of a row of `b` to its second half. The halves are adjacent, or the first halves of
    /// all rows come before all second halves, as the kernel packs its weights.
    pub(crate) b_half: usize,
    /// Sums: `rows` rows of one panel.
    pub(crate) c: &'a mut [f32],
    /// Values from one row of `c` to the next.
    pub(crate) c_stride: usize,
    /// The initial value of each column of `c`.
    pub(crate) bias: &'a [f32; PANEL],
    /// Which part of the weights behind `b` the kernel should prefetch, if any: the number of tiles before this one that read
    /// the same weights.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "only AMX kernels read it")
    )]
    pub(crate) ahead: Option<usize>,
}

/// A kernel that computes a tile.
///
/// # Safety
///
/// The machine must have the kernel's instructions, and [`Tile::check`] must have passed for its number of rows.
pub(crate) type TileFn<T> = unsafe fn(&mut Tile<'_, T>);

/// A kernel that computes the tiles of the same rows with several panels, which lie one behind the other. A panel has at most
/// as many steps as the kernel multiplies at once. Sums begin with zeros.
///
/// # Safety
///
/// As for [`TileFn`], for each panel. There must be at least one panel and one step.
pub(crate) type PanelsFn = unsafe fn(&mut Tile<'_, u16>, usize);

/// A bias of zeros.
pub(crate) static NO_BIAS: Zeros = Zeros([0.0; PANEL]);

/// Zeros that begin at a cache line.
#[repr(C, align(64))]
pub(crate) struct Zeros(pub(crate) [f32; PANEL]);

/// Sums of a tile that are not stored in place, which begin at a cache line.
#[repr(C, align(64))]
pub(crate) struct TileSums(pub(crate) [f32; ROWS_MAX * PANEL]);

impl TileSums {
    pub(crate) const ZEROS: Self = Self([0.0; ROWS_MAX * PANEL]);
}

impl<T> Tile<'_, T> {
    /// Checks that everything that a kernel reads and writes lies within the slices. `step` is the number of values
    /// in a step.
    ///
    /// # Panics
    ///
    /// If something does not.
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
