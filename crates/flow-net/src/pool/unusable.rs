//! Addresses that names lead to and that cannot be used.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use flow_core::Chain;

use crate::replica::{BadUri, Replica};

/// Messages that are remembered. Name servers may answer with any number of bad names.
const REMEMBERED_MAX: usize = 100;

/// Logs each address that cannot be used once: lookups are repeated every few seconds.
#[derive(Debug, Default)]
pub(super) struct UnusableReplicas(Mutex<BTreeSet<String>>);

impl UnusableReplicas {
    /// Returns the replica, or logs why there is none.
    pub(super) fn leave_out(
        &self,
        name: &str,
        replica: Result<Replica, BadUri>,
    ) -> Option<Replica> {
        let message = match replica {
            Ok(replica) => return Some(replica),
            Err(error) => Chain(&error).to_string(),
        };
        if self.is_new(&message) {
            tracing::warn!(
                name,
                error = message,
                "a replica is left out, because its address cannot be used"
            );
        }
        None
    }

    fn is_new(&self, message: &str) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.len() < REMEMBERED_MAX && known.insert(message.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_reported_once_and_only_some_are_remembered() {
        let unusable = UnusableReplicas::default();
        assert!(unusable.is_new("a"));
        assert!(!unusable.is_new("a"));
        let more = (0..200).filter(|it| unusable.is_new(&it.to_string()));
        assert_eq!(more.count(), REMEMBERED_MAX - 1);
    }

    #[test]
    fn a_replica_with_a_bad_address_is_left_out() {
        let unusable = UnusableReplicas::default();
        let replica = Replica::new("http://a b:1", crate::Limits::default());
        assert!(unusable.leave_out("srv", replica).is_none());
        let known = unusable.0.lock().unwrap();
        let message = known.first().expect("it is logged with its cause");
        assert!(message.contains(": "), "{message}");
    }
}
