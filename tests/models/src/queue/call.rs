//! A call that is only a number.

use std::time::Instant;

use super::batcher::QueuedRequest;
use crate::sdk::BatchMetric;

#[derive(Debug)]
pub(crate) struct Call {
    number: usize,
    is_weighed: bool,
}

/// How a call shares batches.
pub(crate) struct Rule(BatchMetric);

impl Call {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            is_weighed: false,
        }
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn is_weighed(&self) -> bool {
        self.is_weighed
    }

    pub(crate) fn weighed(self) -> Self {
        Self {
            is_weighed: true,
            ..self
        }
    }

    pub(crate) fn leave_queue(&mut self, _asked: Instant) {}
}

impl QueuedRequest for Call {
    fn rule(&self) -> Rule {
        Rule(match self.number % 2 {
            0 => BatchMetric::Documents,
            _ => BatchMetric::Custom,
        })
    }
}

impl Rule {
    pub(crate) fn metric(&self) -> BatchMetric {
        self.0
    }
}
