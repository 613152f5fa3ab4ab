//! The credentials that a gateway accepts: API keys, and tokens of an identity provider.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use flow_spec::Jwt;
use futures_util::future::BoxFuture;

use super::ApiKeys;
use super::bad_token::BadToken;
use super::jwt::{self, Tokens};
use super::key_ring::{Key, KeyRing};
use super::refusal::Refusal;
use super::refusal_log::RefusalLog;
use crate::config::GatewayBindError;
use crate::metrics::{GatewayMetrics, RefusalReason};

/// The keys and the tokens that a gateway accepts: one kind, or both.
#[derive(Debug)]
pub(crate) struct AcceptedCredentials {
    keys: Option<KeyRing>,
    tokens: Option<Tokens>,
    metrics: Option<GatewayMetrics>,
    pub(super) log: RefusalLog,
}

impl AcceptedCredentials {
    /// Reads the files. What is sent with keys and tokens is counted, if the gateway is monitored.
    pub(crate) fn load(
        keys: Option<&ApiKeys>,
        jwt: Option<&Jwt>,
        metrics: Option<&GatewayMetrics>,
    ) -> Result<Self, GatewayBindError> {
        let keys = keys.map(|keys| KeyRing::load(keys.file.clone(), metrics.cloned()));
        let tokens = jwt.map(|jwt| Tokens::load(jwt, metrics));
        Ok(Self {
            keys: keys.transpose()?,
            tokens: tokens.transpose()?,
            metrics: metrics.cloned(),
            log: RefusalLog::default(),
        })
    }

    /// What a key or a token allows.
    pub(super) fn find(&self, text: &str) -> Result<Arc<Key>, Refusal> {
        match (&self.tokens, &self.keys) {
            (Some(tokens), _) if jwt::is_token(text) => tokens.check(text).map(Arc::new),
            (_, Some(keys)) => keys.find(text).ok_or(Refusal::UnknownKey),
            (_, None) => Err(Refusal::BadToken(BadToken::Unreadable)),
        }
    }

    /// Asks the identity provider for the keys that a refused token needs, if it may have them by now.
    pub(super) fn ask_provider(&self, refusal: &Refusal) -> Option<BoxFuture<'static, ()>> {
        match refusal {
            Refusal::NoProviderKeys | Refusal::BadToken(BadToken::UnknownKey) => {
                self.tokens.as_ref()?.ask_provider()
            }
            _ => None,
        }
    }

    /// Counts a request that was refused because of its key or its token.
    pub(super) fn count_refusal(&self, reason: RefusalReason) {
        self.metrics.iter().for_each(|it| it.refuse(reason));
    }

    /// Follows changes of the keys, until the future is dropped.
    pub(crate) async fn follow(&self, look_every: Duration) -> Infallible {
        let keys = async {
            match &self.keys {
                Some(keys) => keys.follow_file(look_every).await,
                None => pending().await,
            }
        };
        let tokens = async {
            match &self.tokens {
                Some(tokens) => tokens.follow(look_every).await,
                None => pending().await,
            }
        };
        tokio::select! {
            never = keys => never,
            never = tokens => never,
        }
    }
}
