//! Symmetric positive definite systems.

/// Cholesky decomposition: lower triangle L of a matrix A = L Lᵀ, row by row.
pub struct Cholesky {
    size: usize,
    lower: Vec<f64>,
}

impl Cholesky {
    /// Decomposes the matrix whose entries `of` gives for row >= column; `None` if it is not positive definite.
    pub fn new(size: usize, of: impl Fn(usize, usize) -> f64) -> Option<Cholesky> {
        let mut lower = vec![0.0; size * size];
        for row in 0..size {
            for column in 0..=row {
                let (above, this) = (&lower[column * size..][..column], &lower[row * size..][..column]);
                let rest = of(row, column) - dot(above, this);
                lower[row * size + column] = if row > column {
                    rest / lower[column * size + column]
                } else if rest > 0.0 {
                    rest.sqrt()
                } else {
                    return None;
                };
            }
        }
        Some(Cholesky { size, lower })
    }

    /// Solves L v = `right` (forward substitution).
    pub fn half(&self, right: &[f64]) -> Vec<f64> {
        let mut solved: Vec<f64> = Vec::with_capacity(self.size);
        for (row, right) in right.iter().enumerate() {
            let known = dot(&self.lower[row * self.size..][..row], &solved);
            solved.push((right - known) / self.lower[row * self.size + row]);
        }
        solved
    }

    /// Solves A v = `right`.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut solved = self.half(right);
        for row in (0..self.size).rev() {
            solved[row] /= self.lower[row * self.size + row];
            for column in 0..row {
                solved[column] -= self.lower[row * self.size + column] * solved[row];
            }
        }
        solved
    }

    /// Logarithm of the determinant of A.
    pub fn ln_determinant(&self) -> f64 {
        (0..self.size).map(|row| 2.0 * self.lower[row * (self.size + 1)].ln()).sum()
    }
}

/// Dot product of two rows.
pub fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}
