//! The settings of an export: where spans are sent, and as what.

use std::fmt;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Where spans are sent, and what is sent with them. `Debug` shows no value of a header.
#[derive(Debug, Clone)]
pub struct ExportSettings {
    /// The absolute `http` or `https` URL that batches are posted to, such as
    /// `http://collector:4318/v1/traces`.
    pub endpoint: String,
    /// Headers of every post, such as one with an API key. Empty: only those that HTTP needs.
    pub headers: Headers,
    /// Name of the service: the resource attribute `service.name` of every span.
    pub service: String,
    /// Name of this process: the resource attribute `service.instance.id` of every span.
    pub instance: String,
    /// Version of the program: the resource attribute `service.version` of every span.
    pub version: String,
    /// Longest single post, connecting included; a longer one is broken off and counts as failed.
    pub timeout: Duration,
}

/// Names and values of headers. The values are confidential, so `Debug` shows the names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl Headers {
    /// The headers as HTTP has them.
    ///
    /// # Errors
    /// [`ExportError::Header`] with the name of the first that HTTP does not allow.
    pub(crate) fn map(&self) -> Result<HeaderMap, ExportError> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.0 {
            let bad = || ExportError::Header(name.clone());
            let header = HeaderName::try_from(name).map_err(|_| bad())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            map.append(header, value);
        }
        Ok(map)
    }
}

/// Why an export cannot be started. No secret is in it.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The endpoint is not an absolute `http` or `https` URL.
    #[error("the endpoint of traces is not an http or https URL")]
    Endpoint,
    /// The header with this name has a name or a value that HTTP does not allow.
    #[error("header {0:?} of traces is not valid")]
    Header(String),
    /// No HTTP client can be made; the text says why.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}
