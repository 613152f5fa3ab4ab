//! Creates resolvers for the name servers of the system, or for a given one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
    ServerOrderingStrategy,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::parse_resolv_conf;
use tokio::sync::Mutex;

/// The file with the system's name servers and search domains.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Maximum time to wait for an answer of a name server. The system's five seconds would leave no time for the next name server.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Maximum number of queries to a name server before the lookup fails. Failed lookups are repeated later in any case.
const ATTEMPTS: usize = 2;

/// The name servers that answer lookups.
#[derive(Debug)]
pub(super) enum NameServers {
    /// The name servers in [`RESOLV_CONF`]. A lookup reads the file again, and parses it if it has changed.
    OfSystem(Mutex<Option<Configured>>),
    /// A single name server with this address.
    Named(SocketAddr, Mutex<Option<Arc<TokioResolver>>>),
}

/// A resolver, and the text of the configuration from which it was created.
#[derive(Debug)]
pub(super) struct Configured {
    text: Vec<u8>,
    resolver: Arc<TokioResolver>,
}

impl NameServers {
    /// The name server at this address, or those of the system if `at` is `None`.
    pub(super) fn new(at: Option<SocketAddr>) -> Self {
        match at {
            Some(at) => Self::Named(at, Mutex::default()),
            None => Self::OfSystem(Mutex::default()),
        }
    }

    /// Returns a resolver for these name servers.
    pub(super) async fn resolver(&self) -> Result<Arc<TokioResolver>, NetError> {
        match self {
            Self::Named(at, made) => {
                let mut made = made.lock().await;
                if let Some(made) = &*made {
                    return Ok(made.clone());
                }
                let resolver = resolver(named(*at), ResolverOpts::default())?;
                Ok(made.insert(resolver).clone())
            }
            Self::OfSystem(made) => {
                let text = tokio::fs::read(RESOLV_CONF).await?;
                let mut made = made.lock().await;
                if let Some(made) = made.as_ref().filter(|it| it.text == text) {
                    return Ok(made.resolver.clone());
                }
                let (config, options) = parse_resolv_conf(&text)?;
                let resolver = resolver(config, options)?;
                Ok(made.insert(Configured { text, resolver }).resolver.clone())
            }
        }
    }
}

fn named(at: SocketAddr) -> ResolverConfig {
    let mut connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    connections.iter_mut().for_each(|it| it.port = at.port());
    let server = NameServerConfig::new(at.ip(), true, connections.into());
    ResolverConfig::from_parts(None, Vec::new(), vec![server])
}

fn resolver(
    config: ResolverConfig,
    mut options: ResolverOpts,
) -> Result<Arc<TokioResolver>, NetError> {
    options.timeout = options.timeout.min(ANSWER_MAX);
    options.attempts = options.attempts.min(ATTEMPTS);
    // Lookups are repeated only when an answer has expired, so a cache would have no effect.
    options.cache_size = 0;
    // Targets of SRV records are names in the DNS.
    options.use_hosts_file = ResolveHosts::Never;
    // Like the system's resolver: the first name server may know names that the others do not.
    options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
    // Allows larger answers over UDP.
    options.edns0 = true;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    Ok(Arc::new(builder.build()?))
}
