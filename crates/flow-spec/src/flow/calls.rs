//! How a node is called.

use std::time::Duration;

use flow_core::Secret;
use flow_core::query::Query;
use serde::{Deserialize, Serialize};

use super::entry::EntryChecker;
use super::options::{is_set, or_default, value};
use super::tls::CallTls;
use crate::diagnostics::{Diagnostics, Problem};
use crate::values::{Compression, Hedge, Polling, Retries};

/// How a node is called, wherever it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Maximum time of one call; `None` leaves it to the request's own deadline.
    pub timeout: Option<Duration>,
    /// How often a call that failed is tried again.
    pub retries: Retries,
    /// A request may run twice without harm, so one that was lost with its replica is tried again.
    pub idempotent: bool,
    /// How long a replica that is new, or that came back, gets fewer requests than the others; zero disables slow start.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub slow_start: Duration,
    /// Delay after which a request is also sent to another replica; `None` disables hedging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedge: Option<Hedge>,
    /// gRPC metadata of each call, in this order.
    #[serde(serialize_with = "Secret::serialize_revealed")]
    pub metadata: Secret<Vec<(String, String)>>,
    /// Which shards receive a request, if there are several.
    pub polling: Polling,
    /// Several inputs of the node, or replies of its shards, are merged into one array of documents; otherwise
    /// they stay separate.
    pub reduce: bool,
    /// Condition on the documents that go to the node; `None` selects all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Query>,
    /// How requests are compressed; `None` if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// TLS of the calls; `None` if they are not encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<CallTls>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            timeout: None,
            retries: Retries::Default,
            idempotent: false,
            slow_start: Duration::ZERO,
            hedge: None,
            metadata: Secret::default(),
            polling: Polling::default(),
            reduce: true,
            when: None,
            compression: None,
            tls: None,
        }
    }
}

impl EntryChecker<'_> {
    /// What the gateway says about its calls wins over what `with` says about everything.
    pub(super) fn calls(&self) -> Calls {
        let options = &self.effective.options;
        let (own, gateway) = (&self.entry.inherited.options, &self.spec.gateway.options);
        let timeout = [
            &own.timeout_send,
            &gateway.timeout_send,
            &options.timeout_send,
        ];
        let retries = [&own.retries, &gateway.retries, &options.retries];
        let compression = [&own.compression, &gateway.compression, &options.compression];
        Calls {
            timeout: timeout.into_iter().find_map(value).flatten(),
            retries: retries.into_iter().find_map(value).unwrap_or_default(),
            idempotent: is_set(&options.idempotent),
            slow_start: value(&options.slow_start).flatten().unwrap_or_default(),
            hedge: value(&options.hedge),
            metadata: or_default(&options.grpc_metadata),
            polling: or_default(&options.polling),
            reduce: !is_set(&options.no_reduce),
            when: value(&options.when).flatten(),
            compression: compression.into_iter().find_map(value).flatten(),
            tls: None,
        }
    }

    /// A hedged request runs twice, and only the executor's author knows whether that does harm.
    pub(super) fn check_hedge(&self, diagnostics: &mut Diagnostics) {
        let options = &self.effective.options;
        if let Some(hedge) = options
            .hedge
            .as_ref()
            .filter(|_| !is_set(&options.idempotent))
        {
            let message =
                "`hedge` lets a request run at two replicas, and the executor is not `idempotent`";
            let remedy = "say `idempotent: true` if that does no harm, or remove `hedge`";
            diagnostics.problem(Problem::new(&hedge.span, message).remedy(remedy));
        }
    }
}
