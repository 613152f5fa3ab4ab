//! Executes instructions on the tile registers of a thread.

/// Number of tiles in palette 1, rows of a tile, and bytes of a row.
const TILES: usize = 8;
const ROWS: usize = 16;
const ROW_BYTES: usize = 64;

/// Pairs of bf16 in a row.
const PAIRS: usize = ROW_BYTES / 4;

/// The first values of all pairs of a row, and the second values.
type PairRow = [[f32; PAIRS]; 2];

/// Size of a tile configuration.
pub(crate) const CONFIGURATION_BYTES: usize = 64;

/// Offsets of the row lengths and of the row counts in a configuration, of sixteen tiles each.
const LENGTHS: usize = 16;
const COUNTS: usize = 48;

/// The tile registers of a thread. They are not configured at first.
#[derive(Debug, Clone)]
pub(crate) struct Tiles {
    is_configured: bool,
    tiles: [TileRegister; TILES],
}

#[derive(Debug, Clone, Copy)]
struct TileRegister {
    rows: usize,
    /// Bytes of a row.
    length: usize,
    bytes: [[u8; ROW_BYTES]; ROWS],
}

/// A violation of the rules of Intel's manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TileFault {
    NotConfigured,
    BadConfiguration,
    /// The tiles of a product are not distinct, or their shapes do not match.
    Mismatch,
    /// The tile has no rows in the configuration.
    NoSuchTile,
}

impl TileFault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::NotConfigured => "the tiles are not configured",
            Self::BadConfiguration => "the configuration is not one of palette 1",
            Self::Mismatch => "the tiles of a product do not match",
            Self::NoSuchTile => "the configuration has no such tile",
        }
    }
}

impl TileRegister {
    const NONE: Self = Self {
        rows: 0,
        length: 0,
        bytes: [[0; ROW_BYTES]; ROWS],
    };

    /// A row of bf16 as 32-bit floats. Subnormal numbers count as zero.
    fn pairs(&self, row: usize) -> PairRow {
        let half = |half: usize| {
            std::array::from_fn(|pair| {
                let bytes = &self.bytes[row][4 * pair + 2 * half..];
                flush_subnormal(f32::from_le_bytes([0, 0, bytes[0], bytes[1]]))
            })
        };
        [half(0), half(1)]
    }

    fn add(&mut self, row: usize, column: usize, added: f32) {
        let sum = flush_subnormal(f32::from_le_bytes(self.four_bytes(row, column))) + added;
        self.bytes[row][4 * column..][..4].copy_from_slice(&flush_subnormal(sum).to_le_bytes());
    }

    fn four_bytes(&self, row: usize, column: usize) -> [u8; 4] {
        let bytes = &self.bytes[row][4 * column..];
        [bytes[0], bytes[1], bytes[2], bytes[3]]
    }
}

impl Tiles {
    pub(crate) const NEW: Self = Self {
        is_configured: false,
        tiles: [TileRegister::NONE; TILES],
    };

    pub(crate) fn configure(&mut self, bytes: &[u8; CONFIGURATION_BYTES]) -> Result<(), TileFault> {
        let [palette, start_row, reserved @ ..] = bytes;
        if *palette == 0 {
            self.release();
            return Ok(());
        }
        let of = |tile: usize| {
            let length = &bytes[LENGTHS + 2 * tile..];
            (
                usize::from(bytes[COUNTS + tile]),
                usize::from(u16::from_le_bytes([length[0], length[1]])),
            )
        };
        let is_reserved_clear = reserved[..LENGTHS - 2].iter().all(|byte| *byte == 0)
            && (TILES..16).all(|tile| of(tile) == (0, 0));
        let is_valid = |(rows, length): (usize, usize)| {
            rows <= ROWS && length <= ROW_BYTES && (rows == 0) == (length == 0)
        };
        let are_valid = (0..TILES).all(|tile| is_valid(of(tile)));
        if *palette != 1 || *start_row != 0 || !is_reserved_clear || !are_valid {
            return Err(TileFault::BadConfiguration);
        }
        for (number, tile) in self.tiles.iter_mut().enumerate() {
            let (rows, length) = of(number);
            *tile = TileRegister {
                rows,
                length,
                ..TileRegister::NONE
            };
        }
        self.is_configured = true;
        Ok(())
    }

    pub(crate) fn configuration(&self) -> [u8; CONFIGURATION_BYTES] {
        let mut bytes = [0; CONFIGURATION_BYTES];
        if !self.is_configured {
            return bytes;
        }
        bytes[0] = 1;
        for (number, tile) in self.tiles.iter().enumerate() {
            bytes[LENGTHS + 2 * number] = tile.length as u8;
            bytes[COUNTS + number] = tile.rows as u8;
        }
        bytes
    }

    pub(crate) fn release(&mut self) {
        self.is_configured = false;
    }

    pub(crate) fn zero(&mut self, number: usize) -> Result<(), TileFault> {
        self.tile(number)?.bytes = TileRegister::NONE.bytes;
        Ok(())
    }

    /// The configured rows of a tile, with their configured length. The rest of a tile is zero.
    pub(crate) fn rows(
        &mut self,
        number: usize,
    ) -> Result<impl Iterator<Item = &mut [u8]>, TileFault> {
        let tile = self.tile(number)?;
        let (rows, length) = (tile.rows, tile.length);
        Ok(tile.bytes[..rows]
            .iter_mut()
            .map(move |row| &mut row[..length]))
    }

    /// `tdpbf16ps`: adds the products of pairs. The products of first values and those of second values are summed separately,
    /// and added to the previous sums at the end. The manual uses fused multiply-adds; the product of two bf16 numbers is
    /// exact in 32 bits, so separate operations give the same result unless the product overflows or underflows.
    pub(crate) fn multiply_bf16(
        &mut self,
        sums: usize,
        a: usize,
        b: usize,
    ) -> Result<(), TileFault> {
        let (left, right, out) = self.factors(sums, a, b)?;
        let columns = out.length / 4;
        // Not on the heap, because this runs in a signal handler.
        let mut rows = [[[0.0; PAIRS]; 2]; ROWS];
        let rows = &mut rows[..right.rows];
        for (row, pairs) in rows.iter_mut().enumerate() {
            *pairs = right.pairs(row);
        }
        for row in 0..out.rows {
            let left = left.pairs(row);
            let mut added: PairRow = [[0.0; PAIRS]; 2];
            for (pair, right) in rows.iter().enumerate() {
                for half in 0..2 {
                    let a = left[half][pair];
                    for (sum, b) in added[half].iter_mut().zip(right[half]) {
                        *sum = flush_subnormal(a * b + *sum);
                    }
                }
            }
            for (column, (first, second)) in added[0].iter().zip(added[1]).enumerate().take(columns)
            {
                out.add(row, column, flush_subnormal(first + second));
            }
        }
        Ok(())
    }

    /// `tdpbusd`: adds the products of four unsigned and four signed integers. Sums wrap around.
    pub(crate) fn multiply_int8(
        &mut self,
        sums: usize,
        a: usize,
        b: usize,
    ) -> Result<(), TileFault> {
        let (left, right, out) = self.factors(sums, a, b)?;
        for row in 0..out.rows {
            for column in 0..out.length / 4 {
                let mut sum = i32::from_le_bytes(out.four_bytes(row, column));
                for step in 0..right.rows {
                    let pairs = left
                        .four_bytes(row, step)
                        .into_iter()
                        .zip(right.four_bytes(step, column));
                    for (a, b) in pairs {
                        sum = sum.wrapping_add(i32::from(a) * i32::from(b as i8));
                    }
                }
                out.bytes[row][4 * column..][..4].copy_from_slice(&sum.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Copies of both factors, and the tile of sums, if they match.
    fn factors(
        &mut self,
        sums: usize,
        a: usize,
        b: usize,
    ) -> Result<(TileRegister, TileRegister, &mut TileRegister), TileFault> {
        let (left, right) = (*self.tile(a)?, *self.tile(b)?);
        let out = self.tile(sums)?;
        let has_whole_words = [&*out, &left, &right]
            .iter()
            .all(|tile| tile.length.is_multiple_of(4));
        let shapes_match = left.rows == out.rows
            && left.length == 4 * right.rows
            && right.length == out.length
            && a != b
            && a != sums
            && b != sums;
        if !has_whole_words || !shapes_match {
            return Err(TileFault::Mismatch);
        }
        Ok((left, right, out))
    }

    fn tile(&mut self, number: usize) -> Result<&mut TileRegister, TileFault> {
        if !self.is_configured {
            return Err(TileFault::NotConfigured);
        }
        let tile = self.tiles.get_mut(number).ok_or(TileFault::NoSuchTile)?;
        if tile.rows == 0 {
            return Err(TileFault::NoSuchTile);
        }
        Ok(tile)
    }
}

/// Replaces subnormal numbers by zero. AMX does so with inputs and results.
fn flush_subnormal(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE {
        0.0
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of three rows and four columns, and steps of two pairs.
    fn configuration() -> [u8; CONFIGURATION_BYTES] {
        let mut bytes = [0; CONFIGURATION_BYTES];
        bytes[0] = 1;
        for (tile, (rows, length)) in [(3, 16), (3, 8), (2, 16)].into_iter().enumerate() {
            bytes[LENGTHS + 2 * tile] = length;
            bytes[COUNTS + tile] = rows;
        }
        bytes
    }

    fn configured() -> Tiles {
        let mut tiles = Tiles::NEW;
        tiles.configure(&configuration()).unwrap();
        tiles
    }

    fn fill(tiles: &mut Tiles, tile: usize, bits: impl Fn(usize, usize) -> u16) {
        for (row, bytes) in tiles.rows(tile).unwrap().enumerate() {
            for (column, bytes) in bytes.chunks_exact_mut(2).enumerate() {
                bytes.copy_from_slice(&bits(row, column).to_le_bytes());
            }
        }
    }

    fn bf16(value: f32) -> u16 {
        (value.to_bits() >> 16) as u16
    }

    fn sums(tiles: &mut Tiles) -> Vec<Vec<f32>> {
        let row = |row: &mut [u8]| {
            let values = row.as_chunks::<4>().0.iter();
            values.map(|bytes| f32::from_le_bytes(*bytes)).collect()
        };
        tiles.rows(0).unwrap().map(row).collect()
    }

    #[test]
    fn pairs_are_multiplied_and_added_to_the_sums() {
        let mut tiles = configured();
        let left = |row: usize, column: usize| (row * 4 + column + 1) as f32;
        let right = |row: usize, column: usize| (row * 8 + column) as f32 - 5.0;
        fill(&mut tiles, 1, |row, column| bf16(left(row, column)));
        fill(&mut tiles, 2, |row, column| bf16(right(row, column)));
        let expected = |row: usize, column: usize| -> f32 {
            let product = |k: usize| left(row, k) * right(k / 2, 2 * column + k % 2);
            (0..4).map(product).sum()
        };
        for times in 1..3 {
            tiles.multiply_bf16(0, 1, 2).unwrap();
            for (row, actual) in sums(&mut tiles).iter().enumerate() {
                for (column, actual) in actual.iter().enumerate() {
                    assert_eq!(
                        *actual,
                        times as f32 * expected(row, column),
                        "{row}, {column}"
                    );
                }
            }
        }
    }

    #[test]
    fn unsigned_and_signed_integers_are_multiplied_and_added_to_the_sums() {
        let mut tiles = configured();
        let left = |row: usize, column: usize| (row * 90 + column * 17) as u8;
        let right = |row: usize, column: usize| (row * 77 + column * 31) as u8 as i8;
        for (row, bytes) in tiles.rows(1).unwrap().enumerate() {
            for (column, byte) in bytes.iter_mut().enumerate() {
                *byte = left(row, column);
            }
        }
        for (row, bytes) in tiles.rows(2).unwrap().enumerate() {
            for (column, byte) in bytes.iter_mut().enumerate() {
                *byte = right(row, column) as u8;
            }
        }
        let expected = |row: usize, column: usize| -> i32 {
            let product =
                |k: usize| i32::from(left(row, k)) * i32::from(right(k / 4, 4 * column + k % 4));
            (0..8).map(product).sum()
        };
        for times in 1..3 {
            tiles.multiply_int8(0, 1, 2).unwrap();
            for (row, bytes) in tiles.rows(0).unwrap().enumerate() {
                for (column, bytes) in bytes.as_chunks::<4>().0.iter().enumerate() {
                    let actual = i32::from_le_bytes(*bytes);
                    assert_eq!(actual, times * expected(row, column), "{row}, {column}");
                }
            }
        }
    }

    #[test]
    fn subnormal_numbers_count_as_zero() {
        let mut tiles = configured();
        fill(&mut tiles, 1, |_, _| 0x0001);
        fill(&mut tiles, 2, |_, _| bf16(1e30));
        tiles.multiply_bf16(0, 1, 2).unwrap();
        assert_eq!(sums(&mut tiles), vec![vec![0.0; 4]; 3]);
        fill(&mut tiles, 1, |_, _| bf16(1e-30));
        fill(&mut tiles, 2, |_, _| bf16(1e-12));
        tiles.multiply_bf16(0, 1, 2).unwrap();
        assert_eq!(sums(&mut tiles), vec![vec![0.0; 4]; 3]);
    }

    #[test]
    fn tiles_that_do_not_match_are_refused() {
        let mut tiles = configured();
        for (sums, a, b) in [(0, 2, 1), (1, 0, 2), (0, 1, 1), (1, 1, 2)] {
            let refused = tiles.multiply_bf16(sums, a, b);
            assert_eq!(refused, Err(TileFault::Mismatch), "{sums}, {a}, {b}");
        }
        assert_eq!(tiles.multiply_bf16(0, 1, 5), Err(TileFault::NoSuchTile));
        assert_eq!(tiles.zero(7), Err(TileFault::NoSuchTile));
        tiles.release();
        assert_eq!(tiles.multiply_bf16(0, 1, 2), Err(TileFault::NotConfigured));
    }

    #[test]
    fn a_configuration_can_be_stored_and_an_invalid_one_is_refused() {
        assert_eq!(configured().configuration(), configuration());
        assert_eq!(Tiles::NEW.configuration(), [0; CONFIGURATION_BYTES]);
        for (offset, byte) in [(0, 2), (1, 1), (5, 1), (16, 65), (48, 17), (48, 0), (56, 1)] {
            let mut bytes = configuration();
            bytes[offset] = byte;
            let refused = Tiles::NEW.clone().configure(&bytes);
            assert_eq!(refused, Err(TileFault::BadConfiguration), "byte {offset}");
        }
    }

    #[test]
    fn loading_a_configuration_clears_all_tiles() {
        let mut tiles = configured();
        fill(&mut tiles, 2, |_, _| 0xffff);
        tiles.configure(&configuration()).unwrap();
        assert!(tiles.rows(2).unwrap().flatten().all(|byte| *byte == 0));
    }
}
