//! Where the flow file says that a collector is.

/// A collector, as the flow file writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collector {
    /// The collector's host, with or without `http://` or `https://`; `None` means as the variables say, or this
    /// machine.
    pub host: Option<String>,
    /// The collector's port; `None` means as the variables say, or the protocol's default.
    pub port: Option<u16>,
}
