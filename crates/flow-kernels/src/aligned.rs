//! Buffers that begin at a cache line.
//!
//! Tile and vector registers have the size of a cache line. Where a buffer begins within a line, each load reads two lines,
//! which halves the speed of products with AMX.

use std::ops::{Deref, DerefMut};

/// A cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; Line::BYTES]);

impl Line {
    const BYTES: usize = 64;
}

/// A number for which all bytes are valid, so that a buffer can consist of bytes.
pub(crate) trait PlainNumber: Copy {}

impl PlainNumber for f32 {}
impl PlainNumber for u16 {}
impl PlainNumber for u8 {}
impl PlainNumber for i8 {}

/// A growable buffer of numbers that begins at a cache line.
#[derive(Debug, Clone)]
pub(crate) struct AlignedVec<T> {
    lines: Vec<Line>,
    /// Number of values.
    len: usize,
    value: std::marker::PhantomData<T>,
}

impl<T> Default for AlignedVec<T> {
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            len: 0,
            value: std::marker::PhantomData,
        }
    }
}

impl<T: PlainNumber> AlignedVec<T> {
    /// Creates a buffer of `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let mut values = Self::default();
        values.set_len(len);
        values
    }

    /// Changes the number of values. New ones are zeros, or what they were when the buffer was longer.
    pub(crate) fn set_len(&mut self, len: usize) {
        let lines = (len * size_of::<T>()).div_ceil(Line::BYTES);
        if lines > self.lines.len() {
            self.lines.resize(lines, Line([0; Line::BYTES]));
        }
        self.len = len;
    }

    /// Makes the buffer at least `len` values long.
    pub(crate) fn grow(&mut self, len: usize) {
        self.set_len(self.len.max(len));
    }
}

impl<T: PlainNumber> Deref for AlignedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `set_len` has allocated lines for `len` values, all bytes of which are initialized and valid, and a line is
        // aligned for every number.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl<T: PlainNumber> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_begin_at_a_cache_line_and_stay_when_the_buffer_grows() {
        let mut values = AlignedVec::<u16>::zeros(33);
        values[32] = 7;
        values.grow(1000);
        assert!(values.as_ptr().cast::<Line>().is_aligned());
        assert_eq!((values.len(), values[32], values[999]), (1000, 7, 0));
        values.grow(10);
        assert_eq!(values.len(), 1000);
    }

    #[test]
    fn an_empty_buffer_has_no_values() {
        assert!(AlignedVec::<f32>::default().is_empty());
        assert!(AlignedVec::<i8>::zeros(0).is_empty());
    }
}
