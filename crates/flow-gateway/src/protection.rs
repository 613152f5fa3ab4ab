//! The protection of a gateway's ports: TLS, API keys and tokens. Changed files are loaded again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flow_net::tls::{ServerTls, TlsListener};
use flow_net::{GrpcService, Listener};

use crate::auth::{AcceptedCredentials, Guarded, KeysFor, Open};
use crate::config::{Config, GatewayBindError};
use crate::metrics::GatewayMetrics;

/// How often the files of certificates and keys are looked at: a revoked key is refused as soon.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What protects the ports of a gateway. Clones are the same protection.
#[derive(Debug, Clone)]
pub(crate) struct Protection {
    tls: Option<Arc<ServerTls>>,
    credentials: Option<Arc<AcceptedCredentials>>,
    is_health_open: bool,
}

impl Protection {
    /// Reads the files. The use of keys is counted, if the gateway is monitored.
    pub(crate) fn load(
        config: &Config,
        metrics: Option<&GatewayMetrics>,
    ) -> Result<Self, GatewayBindError> {
        let tls = config.tls.clone().map(ServerTls::load).transpose()?;
        let (keys, jwt) = (config.api_keys.as_ref(), config.jwt.as_ref());
        let credentials = match keys.is_some() || jwt.is_some() {
            true => Some(Arc::new(AcceptedCredentials::load(keys, jwt, metrics)?)),
            false => None,
        };
        let is_health_closed =
            keys.is_some_and(|keys| keys.for_health) || jwt.is_some_and(|jwt| jwt.for_health);
        Ok(Self {
            tls: tls.map(Arc::new),
            credentials,
            is_health_open: !is_health_closed,
        })
    }

    /// A listener whose connections are encrypted, if the gateway has a certificate.
    pub(crate) fn listener(&self, listener: Listener) -> TlsListener {
        TlsListener::new(listener, self.tls.clone())
    }

    /// Which requests need an API key.
    pub(crate) fn keys_for(&self) -> KeysFor {
        match (&self.credentials, self.is_health_open) {
            (None, _) => KeysFor::Nothing,
            (Some(_), true) => KeysFor::AllButHealth,
            (Some(_), false) => KeysFor::Everything,
        }
    }

    /// A service that lets in only requests whose key allows them, if the gateway has keys. The page of its console, if it
    /// has one, needs no key.
    pub(crate) fn guard(&self, service: GrpcService, has_console: bool) -> Guarded {
        let open = Open {
            health: self.is_health_open,
            page: has_console,
        };
        Guarded::new(service, self.credentials.clone(), open)
    }

    /// Loads files again when they change, until the future is dropped.
    pub(crate) async fn follow_files(self) -> Infallible {
        let certificate = async {
            match &self.tls {
                Some(tls) => tls.follow_files(LOOK_EVERY).await,
                None => std::future::pending().await,
            }
        };
        let credentials = async {
            match &self.credentials {
                Some(credentials) => credentials.follow(LOOK_EVERY).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            never = certificate => never,
            never = credentials => never,
        }
    }
}
