//! The other side of a gateway: streams requests to it and gives the replies back.

use std::pin::Pin;
use std::time::{Duration, Instant};

use flow_core::{Deadline, Failure};
use flow_proto::Envelope;
use flow_proto::jina::jina_discover_endpoints_rpc_client::JinaDiscoverEndpointsRpcClient;
use flow_proto::jina::jina_gateway_dry_run_rpc_client::JinaGatewayDryRunRpcClient;
use flow_proto::jina::jina_rpc_client::JinaRpcClient;
use flow_proto::jina::jina_single_data_request_rpc_client::JinaSingleDataRequestRpcClient;
use flow_proto::jina::{EndpointsProto, StatusProto};
use futures_util::{Stream, StreamExt};
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::limits::Limits;
use crate::replica::{endpoint, within};
use crate::status::to_failure;

/// A connection to a gateway or an executor. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    limits: Limits,
}

/// No connection could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The text is not a URL that we can use.
    #[error("`{url}` is not an address: write `grpc://host:port`")]
    Url {
        /// What was given.
        url: String,
    },
    /// An encrypted connection was asked for.
    #[error("`{url}` asks for TLS, which flow does not support yet; use `grpc://`")]
    Tls {
        /// What was given.
        url: String,
    },
    /// Nobody answers there.
    #[error("cannot connect to `{url}`; is the flow up?")]
    Connect {
        /// What was given.
        url: String,
        /// Why.
        source: tonic::transport::Error,
    },
}

/// Replies as they come.
pub type Replies = Pin<Box<dyn Stream<Item = Result<Envelope, Failure>> + Send>>;

/// How a stream of requests is to be answered.
#[derive(Debug, Clone, Default)]
pub struct PostOptions {
    /// Requests that may be under way; none: as the gateway says.
    pub prefetch: Option<usize>,
    /// Replies come in the order of the requests, rather than as they are done.
    pub results_in_order: bool,
    /// How long the whole stream may take.
    pub timeout: Option<Duration>,
    /// How messages to the gateway are compressed.
    pub compression: Option<Compression>,
}

/// How messages are made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// gzip.
    Gzip,
    /// zlib's deflate.
    Deflate,
}

impl Client {
    /// Connects to `grpc://host:port`.
    ///
    /// # Errors
    ///
    /// If the URL is not one, or nobody answers.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        let endpoint = endpoint(&http_uri(url)?).map_err(|_| ConnectError::Url {
            url: url.to_owned(),
        })?;
        let channel = endpoint
            .connect()
            .await
            .map_err(|source| ConnectError::Connect {
                url: url.to_owned(),
                source,
            })?;
        Ok(Self {
            channel,
            limits: Limits::default(),
        })
    }

    /// Streams requests and gives their replies, each once. `requests` is asked for the next one only
    /// when the gateway has room for it.
    ///
    /// # Errors
    ///
    /// If the stream cannot be opened; an item is an error if the stream ends before all replies came.
    pub async fn post(
        &self,
        options: &PostOptions,
        requests: impl Stream<Item = Envelope> + Send + 'static,
    ) -> Result<Replies, Failure> {
        let mut client = JinaRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        if let Some(compression) = options.compression {
            client = client.send_compressed(encoding(compression));
        }
        let request = with_options(Request::new(requests), options);
        let replies = client
            .call(request)
            .await
            .map_err(|status| to_failure(&status))?;
        let replies = replies.into_inner();
        Ok(Box::pin(replies.map(|reply| {
            reply.map_err(|status: Status| to_failure(&status))
        })))
    }

    /// One request, one reply.
    ///
    /// # Errors
    ///
    /// If there is no reply. A reply that tells of a failure is a reply.
    pub async fn single(&self, request: Envelope, deadline: Deadline) -> Result<Envelope, Failure> {
        let mut client = JinaSingleDataRequestRpcClient::new(self.channel.clone())
            .max_decoding_message_size(self.limits.message_len_max)
            .max_encoding_message_size(self.limits.message_len_max);
        let request = with_deadline(Request::new(request), deadline);
        Ok(within(deadline, client.process_single_data(request))
            .await?
            .into_inner())
    }

    /// Sends an empty request through the gateway's whole graph.
    ///
    /// # Errors
    ///
    /// If the gateway cannot be reached. A graph that does not work is a status that says so.
    pub async fn dry_run(&self, deadline: Deadline) -> Result<StatusProto, Failure> {
        let mut client = JinaGatewayDryRunRpcClient::new(self.channel.clone());
        let request = with_deadline(Request::new(()), deadline);
        Ok(within(deadline, client.dry_run(request))
            .await?
            .into_inner())
    }

    /// The endpoints that the gateway's executors offer, or the executor.
    ///
    /// # Errors
    ///
    /// If it cannot be reached, or does not tell, as stock gateways of the first flavour.
    pub async fn endpoints(&self, deadline: Deadline) -> Result<EndpointsProto, Failure> {
        let mut client = JinaDiscoverEndpointsRpcClient::new(self.channel.clone());
        let request = with_deadline(Request::new(()), deadline);
        Ok(within(deadline, client.endpoint_discovery(request))
            .await?
            .into_inner())
    }

    /// Whether the process says that it is serving.
    ///
    /// # Errors
    ///
    /// If it cannot be reached, or has no health service.
    pub async fn is_serving(&self, deadline: Deadline) -> Result<bool, Failure> {
        use tonic_health::pb::health_check_response::ServingStatus;
        use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

        let mut client = HealthClient::new(self.channel.clone());
        let request = with_deadline(Request::new(HealthCheckRequest::default()), deadline);
        let reply = within(deadline, client.check(request)).await?;
        Ok(reply.into_inner().status() == ServingStatus::Serving)
    }
}

fn http_uri(url: &str) -> Result<String, ConnectError> {
    let rest = match url.split_once("://") {
        None => url,
        Some(("grpc" | "http", rest)) => rest,
        Some(("grpcs" | "https", _)) => {
            return Err(ConnectError::Tls {
                url: url.to_owned(),
            });
        }
        Some(_) => {
            return Err(ConnectError::Url {
                url: url.to_owned(),
            });
        }
    };
    let authority = rest.trim_end_matches('/');
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port {
        Ok(format!("http://{authority}"))
    } else {
        Err(ConnectError::Url {
            url: url.to_owned(),
        })
    }
}

fn encoding(compression: Compression) -> CompressionEncoding {
    match compression {
        Compression::Gzip => CompressionEncoding::Gzip,
        Compression::Deflate => CompressionEncoding::Deflate,
    }
}

fn with_options<T>(mut request: Request<T>, options: &PostOptions) -> Request<T> {
    let metadata = request.metadata_mut();
    if options.results_in_order {
        metadata.insert("__results_in_order__", MetadataValue::from_static("true"));
    }
    if let Some(prefetch) = options.prefetch {
        metadata.insert("__prefetch__", MetadataValue::from(prefetch as u64));
    }
    if let Some(timeout) = options.timeout {
        request.set_timeout(timeout);
    }
    request
}

fn with_deadline<T>(mut request: Request<T>, deadline: Deadline) -> Request<T> {
    if let Some(left) = deadline.remaining(Instant::now()) {
        request.set_timeout(left);
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_in_several_ways() {
        for url in ["grpc://127.0.0.1:5", "127.0.0.1:5", "http://127.0.0.1:5/"] {
            assert_eq!(http_uri(url).unwrap(), "http://127.0.0.1:5");
        }
        assert_eq!(http_uri("grpc://[::1]:5").unwrap(), "http://[::1]:5");
    }

    #[test]
    fn what_is_no_address_is_told_how_to_write_one() {
        let check = |url: &str, expected: &str| {
            assert_eq!(http_uri(url).unwrap_err().to_string(), expected);
        };
        check(
            "grpc://host",
            "`grpc://host` is not an address: write `grpc://host:port`",
        );
        check(
            "ftp://host:1",
            "`ftp://host:1` is not an address: write `grpc://host:port`",
        );
        let tls = "`grpcs://h:1` asks for TLS, which flow does not support yet; use `grpc://`";
        check("grpcs://h:1", tls);
    }
}
