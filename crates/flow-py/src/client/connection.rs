//! The class `Connection`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use flow_client::{Client, ExchangeOptions, RequestTemplate};
use flow_core::{Chain, Deadline, Failure};
use flow_net::grpc::metadata::Metadata;
use flow_net::tls::{CertificateFiles, TlsOptions};
use flow_net::{ApiKey, Compression, ConnectError, ConnectOptions};
use pyo3::exceptions::{PyConnectionError, PyValueError};
use pyo3::prelude::*;
use serde_json::Value;

use super::exchange::{Exchange, call_error, document_of};
use super::streamed::DocumentStream;
use crate::runtime::wait;

/// A connection to a flow. Threads can share it.
#[pyclass(module = "flow_serve._native", frozen)]
#[derive(Debug)]
pub(crate) struct Connection(flow_net::Client);

/// Files for TLS, and an API key.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct Security {
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    server_name: Option<String>,
    api_key: Option<String>,
}

/// How requests are sent, as Python names it.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct PostOptions {
    endpoint: String,
    target: Option<String>,
    /// JSON.
    parameters: String,
    prefetch: Option<usize>,
    in_order: bool,
    /// Seconds.
    timeout: Option<f64>,
    compression: Option<String>,
    retries: u32,
    one_by_one: bool,
    metadata: Vec<(String, String)>,
}

#[pymethods]
impl Connection {
    /// Connects to a URL such as `grpc://127.0.0.1:54321`.
    #[new]
    fn new(py: Python<'_>, url: &str, security: Security) -> PyResult<Self> {
        let options = security.options()?;
        let connected = wait(py, flow_net::Client::connect_with(url, options))?;
        connected.map(Self).map_err(|error| {
            let text = Chain(&error).to_string();
            match error {
                ConnectError::Connect { .. } => PyConnectionError::new_err(text),
                _ => PyValueError::new_err(text),
            }
        })
    }

    /// Begins a post. `options` is a mapping with the fields of `PostOptions`.
    fn exchange(&self, options: PostOptions) -> PyResult<Exchange> {
        let exchange = options.exchange()?;
        let client = Client::from(self.0.clone());
        Exchange::begin(&client, options.template()?, &exchange)
    }

    /// Sends a document to an endpoint whose method is a generator. The options are those of `exchange`.
    fn stream(
        &self,
        py: Python<'_>,
        options: PostOptions,
        document: &Bound<'_, PyAny>,
    ) -> PyResult<DocumentStream> {
        let exchange = options.exchange()?;
        let (template, document) = (options.template()?, document_of(document)?);
        let client = Client::from(self.0.clone());
        let opened = client.stream(&template, &document, exchange.timeout, exchange.metadata);
        let documents = wait(py, opened)?.map_err(|failure| call_error(&failure))?;
        Ok(DocumentStream::new(documents))
    }

    /// Sends an empty request through the flow: `None`, or why it failed. `timeout` is in seconds.
    fn dry_run(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<String>> {
        let deadline = deadline(timeout)?;
        let status = wait(py, self.0.dry_run(deadline))?;
        let status = status.map_err(|failure| call_error(&failure))?;
        Ok(Failure::from_status(&status).map(|failure| failure.to_string()))
    }

    /// The endpoints of the flow.
    fn endpoints(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let answer = wait(py, self.0.endpoints(Deadline::NEVER))?;
        Ok(answer.map_err(|failure| call_error(&failure))?.endpoints)
    }
}

impl Security {
    fn options(self) -> PyResult<ConnectOptions> {
        let own = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
            (None, None) => None,
            _ => {
                let text = "`tls_certificate` and `tls_key` belong together; set both or neither";
                return Err(PyValueError::new_err(text));
            }
        };
        let api_key = self.api_key.as_deref().map(ApiKey::new).transpose();
        Ok(ConnectOptions {
            tls: TlsOptions {
                roots: self.ca,
                own,
                server_name: self.server_name,
            },
            api_key: api_key.map_err(|error| PyValueError::new_err(error.to_string()))?,
        })
    }
}

impl PostOptions {
    fn template(self) -> PyResult<RequestTemplate> {
        Ok(RequestTemplate {
            endpoint: self.endpoint,
            target: self.target,
            parameters: match serde_json::from_str(&self.parameters) {
                Ok(Value::Object(parameters)) => parameters,
                _ => return Err(PyValueError::new_err("`parameters` is not a mapping")),
            },
        })
    }

    fn exchange(&self) -> PyResult<ExchangeOptions> {
        let metadata = Metadata::parse(&self.metadata);
        Ok(ExchangeOptions {
            prefetch: self.prefetch.and_then(NonZeroUsize::new),
            in_order: self.in_order,
            timeout: self.timeout.map(seconds).transpose()?,
            compression: match self.compression.as_deref() {
                Some("gzip") => Some(Compression::Gzip),
                Some("deflate") => Some(Compression::Deflate),
                _ => None,
            },
            retries: self.retries,
            // Jina's clients send again what may have run, if they may try again.
            idempotent: self.retries > 0,
            one_by_one: self.one_by_one,
            metadata: metadata.map_err(|error| PyValueError::new_err(error.to_string()))?,
        })
    }
}

fn deadline(timeout: Option<f64>) -> PyResult<Deadline> {
    let timeout = timeout.map(seconds).transpose()?;
    Ok(Deadline::after(Instant::now(), timeout))
}

fn seconds(number: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(number).map_err(|_| {
        let text = format!("`timeout` is {number}; it is a number of seconds, at least 0");
        PyValueError::new_err(text)
    })
}
