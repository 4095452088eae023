//! Sends the handlers' spans to the endpoint of the configuration.

use triad_runtime::traces::{Engines, Traces};

use crate::config::Config;
use crate::reader::ConfigError;
use crate::traces::TraceConfig;

/// When the spans of traces are sent to their endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// A task that runs beside the handlers sends the spans, usually within a second. For long-running
    /// processes.
    Beside,
    /// Spans are sent only when the process flushes them. For functions, whose sandbox is frozen between two
    /// invocations.
    Flushed,
}

/// Sets in `config` that handlers which are made from it send their spans to its endpoint
/// ([`Config::traces`]). If it has no endpoint, they send none. `engines` are the names of bus and store in
/// the spans. Call it before the handlers are made and, for [`Sending::Beside`], within a Tokio runtime.
///
/// # Errors
/// [`ConfigError`] if the endpoint or a header cannot be used, no HTTP client can be made, or the program was
/// built without the feature `traces`. No secret is in it.
///
/// # Panics
/// With [`Sending::Beside`] and an endpoint, outside of a Tokio runtime.
pub fn export_traces(
    config: &mut Config,
    engines: Engines,
    sending: Sending,
) -> Result<(), ConfigError> {
    let instance = &config.settings.instance;
    config.settings.traces = traces_to(config.traces.as_ref(), instance, engines, sending)?;
    Ok(())
}

/// The names of bus and store in the spans of a deployment with this configuration: Kafka, and its table of
/// DynamoDB.
#[cfg(feature = "aws")]
#[must_use]
pub fn deployed_engines(config: &Config) -> Engines {
    let tables = triad_dynamodb::Tables::with_prefix(&config.kafka.prefix);
    Engines::DEPLOYED.with_records(&tables.order_state)
}

/// Makes the sink for the handlers' spans: the endpoint in `config`. With `None` the spans are dropped. `instance` is
/// the name of this process in the spans, `engines` are the names of bus and store there. For [`Sending::Beside`],
/// call it within a Tokio runtime.
///
/// # Errors
/// [`ConfigError`] if the endpoint or a header cannot be used, no HTTP client can be made, or the program was built
/// without the feature `traces`. No secret is in it.
///
/// # Panics
/// With [`Sending::Beside`] and an endpoint, outside of a Tokio runtime.
pub fn traces_to(
    config: Option<&TraceConfig>,
    instance: &str,
    engines: Engines,
    sending: Sending,
) -> Result<Traces, ConfigError> {
    let Some(config) = config else {
        return Ok(Traces::default());
    };
    sent(config, instance, engines, sending)
}

#[cfg(feature = "traces")]
fn sent(
    config: &TraceConfig,
    instance: &str,
    engines: Engines,
    sending: Sending,
) -> Result<Traces, ConfigError> {
    use triad_telemetry::{ExportError, ExportSettings, Exporter, Headers};

    let exporter = Exporter::new(&ExportSettings {
        endpoint: config.endpoint.clone(),
        headers: Headers(config.headers.clone()),
        service: config.service.clone(),
        instance: instance.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        timeout: config.timeout,
    });
    let named = |e: ExportError| {
        let name = match e {
            ExportError::Header(_) => "OTEL_EXPORTER_OTLP_HEADERS",
            ExportError::Endpoint | ExportError::Client(_) => "OTEL_EXPORTER_OTLP_ENDPOINT",
        };
        ConfigError(vec![format!("{name}: {e}")])
    };
    let exporter = exporter.map_err(named)?;
    if sending == Sending::Beside {
        exporter.start();
    }
    Ok(Traces::to(exporter, config.sampling, engines))
}

#[cfg(not(feature = "traces"))]
fn sent(
    _config: &TraceConfig,
    _instance: &str,
    _engines: Engines,
    _sending: Sending,
) -> Result<Traces, ConfigError> {
    Err(ConfigError(vec![
        "OTEL_EXPORTER_OTLP_ENDPOINT: this program was built without traces; build it with --features traces, or unset it".to_owned(),
    ]))
}
