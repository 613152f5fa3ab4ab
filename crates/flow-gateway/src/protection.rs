//! What protects the ports of a gateway: TLS, and API keys. Files that change are loaded again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flow_net::tls::{ServerTls, TlsListener};
use flow_net::{GrpcService, Listener};

use crate::auth::{Guarded, KeyRing, KeysFor, Open};
use crate::config::{BindError, Config};
use crate::metrics::GatewayMetrics;

/// How often the files of certificates and keys are looked at: a revoked key is refused as soon.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What protects the ports of a gateway. Clones are the same protection.
#[derive(Debug, Clone)]
pub(crate) struct Protection {
    tls: Option<Arc<ServerTls>>,
    keys: Option<Arc<KeyRing>>,
    is_health_open: bool,
}

impl Protection {
    /// Reads the files. The use of keys is counted, if the gateway is monitored.
    pub(crate) fn load(
        config: &Config,
        metrics: Option<&GatewayMetrics>,
    ) -> Result<Self, BindError> {
        let tls = config.tls.clone().map(ServerTls::load).transpose()?;
        let keys = config.api_keys.as_ref();
        let ring = keys.map(|keys| KeyRing::load(keys.file.clone(), metrics.cloned()));
        Ok(Self {
            tls: tls.map(Arc::new),
            keys: ring.transpose()?.map(Arc::new),
            is_health_open: keys.is_none_or(|keys| !keys.for_health),
        })
    }

    /// A listener whose connections are encrypted, if the gateway has a certificate.
    pub(crate) fn listener(&self, listener: Listener) -> TlsListener {
        TlsListener::new(listener, self.tls.clone())
    }

    /// Which requests need an API key.
    pub(crate) fn keys_for(&self) -> KeysFor {
        match (&self.keys, self.is_health_open) {
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
        Guarded::new(service, self.keys.clone(), open)
    }

    /// Loads files again when they change, until the future is dropped.
    pub(crate) async fn follow_files(self) -> Infallible {
        let certificate = async {
            match &self.tls {
                Some(tls) => tls.follow_files(LOOK_EVERY).await,
                None => std::future::pending().await,
            }
        };
        let keys = async {
            match &self.keys {
                Some(keys) => keys.follow_file(LOOK_EVERY).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            never = certificate => never,
            never = keys => never,
        }
    }
}
