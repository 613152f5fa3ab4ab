//! Triangular matrices. All matrices are square and row-major.

/// The upper triangular matrix `V` with `V · Vᵀ = matrix`, which must be symmetric and positive definite: Cholesky's
/// factorization, from the last row to the first.
pub(super) fn factor(matrix: &[f64], size: usize) -> Vec<f64> {
    let mut factor = vec![0.0; size * size];
    for column in (0..size).rev() {
        for row in (0..=column).rev() {
            let known: f64 = (column + 1..size)
                .map(|index| factor[row * size + index] * factor[column * size + index])
                .sum();
            let rest = matrix[row * size + column] - known;
            factor[row * size + column] = if row == column {
                rest.max(f64::MIN_POSITIVE).sqrt()
            } else {
                rest / factor[column * size + column]
            };
        }
    }
    factor
}

/// The inverse of an upper triangular matrix, which is upper triangular too.
pub(super) fn inverse(matrix: &[f64], size: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; size * size];
    for row in (0..size).rev() {
        let diagonal = matrix[row * size + row];
        inverse[row * size + row] = 1.0 / diagonal;
        for below in row + 1..size {
            let factor = -matrix[row * size + below] / diagonal;
            let (upper, lower) = inverse.split_at_mut(below * size);
            let row = &mut upper[row * size..][..size];
            let from = lower[..size].iter();
            row.iter_mut()
                .zip(from)
                .for_each(|(to, from)| *to += factor * from);
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 3;
    const MATRIX: [f64; 9] = [4.0, 2.0, 1.0, 2.0, 5.0, 3.0, 1.0, 3.0, 6.0];

    fn product(a: impl Fn(usize, usize) -> f64, b: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let entry = |row, column| {
            (0..SIZE)
                .map(|index| a(row, index) * b(index, column))
                .sum()
        };
        (0..SIZE * SIZE)
            .map(|index| entry(index / SIZE, index % SIZE))
            .collect()
    }

    #[track_caller]
    fn check(actual: &[f64], expected: &[f64]) {
        for (actual, expected) in actual.iter().zip(expected) {
            assert!(
                (actual - expected).abs() < 1e-12,
                "{actual}, expected {expected}"
            );
        }
    }

    #[test]
    fn a_factor_times_its_transpose_is_the_matrix() {
        let factor = factor(&MATRIX, SIZE);
        assert_eq!((factor[3], factor[6], factor[7]), (0.0, 0.0, 0.0));
        let entry = |row, column| factor[row * SIZE + column];
        check(&product(entry, |row, column| entry(column, row)), &MATRIX);
    }

    #[test]
    fn an_inverse_times_its_matrix_is_the_identity() {
        let factor = factor(&MATRIX, SIZE);
        let inverse = inverse(&factor, SIZE);
        let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        check(
            &product(
                |row, column| inverse[row * SIZE + column],
                |row, column| factor[row * SIZE + column],
            ),
            &identity,
        );
    }
}
