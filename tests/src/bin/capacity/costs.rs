//! What requests cost, as it is measured on one machine. Times in microseconds.

/// A cost that has a part for each request or call and a part for each document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    pub(crate) fixed_us: f64,
    pub(crate) document_us: f64,
}

/// What the parts of a cluster cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    /// A call of an executor.
    pub(crate) call: Cost,
    /// A gateway's CPU time for a request and its reply.
    pub(crate) gateway: Cost,
    /// What a request waits for without using an executor or a gateway: threads that wake up, the kernel, and the network.
    pub(crate) rest_us: f64,
    /// Documents of a call.
    pub(crate) batch: usize,
    /// Bytes of a document and its vector, as a gateway sends them to a client.
    pub(crate) document_bytes: f64,
}

impl Cost {
    /// The line through measured costs of different numbers of documents that has the smallest squares of relative errors.
    pub(crate) fn fit(measured: &[(f64, f64)]) -> Self {
        let [mut n, mut x, mut xx, mut y, mut xy] = [0.0; 5];
        for (documents, us) in measured {
            let weight = 1.0 / (us * us);
            n += weight;
            x += weight * documents;
            xx += weight * documents * documents;
            y += weight * us;
            xy += weight * documents * us;
        }
        let slope = n.mul_add(xy, -x * y) / n.mul_add(xx, -x * x);
        let slope = slope.max(0.0);
        Self {
            fixed_us: ((y - slope * x) / n).max(0.0),
            document_us: slope,
        }
    }

    pub(crate) fn us(self, documents: f64) -> f64 {
        self.document_us.mul_add(documents, self.fixed_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let line = Cost {
            fixed_us: 300.0,
            document_us: 25.0,
        };
        let fitted = Cost::fit(&[1.0, 8.0, 32.0].map(|documents| (documents, line.us(documents))));
        assert!((fitted.fixed_us - 300.0).abs() < 1e-6, "{fitted:?}");
        assert!((fitted.document_us - 25.0).abs() < 1e-6, "{fitted:?}");
    }
}
