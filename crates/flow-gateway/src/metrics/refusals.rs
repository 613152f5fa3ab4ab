//! Requests that the gateway refuses by itself, before any executor sees them.

use flow_core::Code;
use flow_metrics::{Counter, Description, Registry};

use super::runtime::RUNTIME;

/// Why a request was refused. Where a key of a file sets the limit, the reason has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// As many requests are in progress as the gateway may have.
    InFlightMax,
    /// The deadline of a request passed while it waited to be admitted.
    Deadline,
    /// It had no API key.
    NoKey,
    /// Its API key is unknown, or was revoked.
    UnknownKey,
    /// Its API key has expired.
    ExpiredKey,
    /// Its API key does not allow the path or the endpoint.
    Forbidden,
    /// Its API key allows no more requests in this second.
    RequestsPerSecond,
    /// Its API key allows no more documents on this day.
    DocumentsPerDay,
    /// Models have read as many tokens for its API key as it allows on this day.
    TokensPerDay,
    /// Its token of an identity provider is not valid.
    InvalidToken,
    /// Its token cannot be checked, because the keys of the identity provider were never read.
    IdentityProvider,
}

/// How many requests were refused, by reason.
#[derive(Debug, Default)]
pub(super) struct Refusals([Counter; RefusalReason::ALL.len()]);

impl RefusalReason {
    const ALL: [Self; 11] = [
        Self::InFlightMax,
        Self::Deadline,
        Self::NoKey,
        Self::UnknownKey,
        Self::ExpiredKey,
        Self::Forbidden,
        Self::RequestsPerSecond,
        Self::DocumentsPerDay,
        Self::TokensPerDay,
        Self::InvalidToken,
        Self::IdentityProvider,
    ];

    /// The code of the failure that the client gets.
    pub(crate) fn code(self) -> Code {
        match self {
            Self::InFlightMax
            | Self::RequestsPerSecond
            | Self::DocumentsPerDay
            | Self::TokensPerDay => Code::Overloaded,
            Self::Deadline => Code::DeadlineExceeded,
            Self::NoKey | Self::UnknownKey | Self::ExpiredKey | Self::InvalidToken => {
                Code::Unauthenticated
            }
            Self::IdentityProvider => Code::Unavailable,
            Self::Forbidden => Code::Forbidden,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::InFlightMax => "in_flight_max",
            Self::Deadline => "deadline",
            Self::NoKey => "no_key",
            Self::UnknownKey => "unknown_key",
            Self::ExpiredKey => "expired_key",
            Self::Forbidden => "forbidden",
            Self::RequestsPerSecond => "requests_per_second",
            Self::DocumentsPerDay => "documents_per_day",
            Self::TokensPerDay => "tokens_per_day",
            Self::InvalidToken => "invalid_token",
            Self::IdentityProvider => "identity_provider",
        }
    }
}

impl Refusals {
    pub(super) fn new(registry: &Registry) -> Self {
        let refusals = Self::default();
        for (reason, counter) in RefusalReason::ALL.into_iter().zip(&refusals.0) {
            let description = Description {
                name: "flow_requests_refused_total",
                help: "Requests that the gateway refused before any executor saw them, by reason.",
            };
            let labels = [("reason", reason.as_str()), ("runtime_name", RUNTIME)];
            registry.register(description, &labels, counter.clone());
        }
        refusals
    }

    pub(super) fn count(&self, reason: RefusalReason) {
        self.0[reason as usize].add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_by_itself() {
        let registry = Registry::new();
        let refusals = Refusals::new(&registry);
        for (times, reason) in RefusalReason::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| refusals.count(reason));
        }
        let text = registry.text();
        for (times, reason) in RefusalReason::ALL.into_iter().enumerate() {
            let reason = reason.as_str();
            let line = format!(
                "flow_requests_refused_total{{reason=\"{reason}\",runtime_name=\"{RUNTIME}\"}} {times}\n"
            );
            assert!(text.contains(&line), "{text}");
        }
    }
}
