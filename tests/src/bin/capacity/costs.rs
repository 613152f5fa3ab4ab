//! What requests cost, as it is measured on one machine. Times in microseconds.

use crate::traffic::float;

/// A cost that has a part for each request or call and a part for each document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    pub(crate) fixed_us: f64,
    pub(crate) document_us: f64,
}

/// What the parts of a cluster cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    /// A call of an executor with one request.
    pub(crate) call: Cost,
    /// How much longer a call takes for each further request in it.
    pub(crate) request_us: f64,
    /// How much longer a call takes if the executor had nothing to do before.
    pub(crate) after_idle_us: f64,
    /// A gateway's CPU time for a request and its reply.
    pub(crate) gateway: Cost,
    /// The rest of the time of a request: threads that wake up, the kernel, and the network.
    pub(crate) overhead_us: f64,
    /// Documents of a call.
    pub(crate) batch: usize,
    /// Bytes of a document and its vector, as a gateway sends them to a client.
    pub(crate) document_bytes: f64,
}

impl Costs {
    /// The time of a call with these requests and documents.
    pub(crate) fn call_us(&self, requests: usize, documents: usize) -> f64 {
        let further = float(requests.saturating_sub(1));
        self.request_us
            .mul_add(further, self.call.us(float(documents)))
    }
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

    #[test]
    fn each_further_request_makes_a_call_longer() {
        let call = Cost {
            fixed_us: 2000.0,
            document_us: 500.0,
        };
        let costs = Costs {
            call,
            request_us: 100.0,
            after_idle_us: 0.0,
            gateway: call,
            overhead_us: 0.0,
            batch: 32,
            document_bytes: 0.0,
        };
        assert!((costs.call_us(1, 4) - 4000.0).abs() < 1e-9);
        assert!((costs.call_us(3, 4) - 4200.0).abs() < 1e-9);
    }

    #[test]
    fn a_large_request_that_is_measured_badly_does_not_hide_what_a_small_one_costs() {
        // A tenth too much for the largest, which is forty times the error of the smallest.
        let fitted = Cost::fit(&[(1.0, 100.0), (8.0, 380.0), (100.0, 4_466.0)]);
        assert!((fitted.us(1.0) / 100.0 - 1.0).abs() < 0.05, "{fitted:?}");
    }
}
