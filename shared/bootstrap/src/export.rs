//! Has handlers tell their spans to the endpoint of the configuration.

use triad_runtime::traces::{Engines, Traces};
use triad_telemetry::{ExportSettings, Exporter, Headers};

use crate::config::Config;
use crate::reader::ConfigError;
use crate::traces::TraceConfig;

/// How spans are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// By a task that runs beside the handlers.
    Beside,
    /// Only when they are flushed, as in a sandbox that is frozen between two invocations.
    Flushed,
}

/// Has the handlers of this configuration tell their spans to its endpoint; without one nothing is done.
/// To be called within a Tokio runtime, before the handlers are made.
///
/// # Errors
/// [`ConfigError`] if the endpoint or a header cannot be used. No secret is in it.
pub fn export_traces(
    config: &mut Config,
    engines: Engines,
    sending: Sending,
) -> Result<(), ConfigError> {
    let instance = &config.settings.instance;
    config.settings.traces = traces_to(config.traces.as_ref(), instance, engines, sending)?;
    Ok(())
}

/// Where spans are told for this configuration: to its endpoint, as the process of this name, or to
/// nobody. To be called within a Tokio runtime.
///
/// # Errors
/// [`ConfigError`] if the endpoint or a header cannot be used. No secret is in it.
pub fn traces_to(
    config: Option<&TraceConfig>,
    instance: &str,
    engines: Engines,
    sending: Sending,
) -> Result<Traces, ConfigError> {
    let Some(config) = config else {
        return Ok(Traces::default());
    };
    let exporter = Exporter::new(&ExportSettings {
        endpoint: config.endpoint.clone(),
        headers: Headers(config.headers.clone()),
        service: config.service.clone(),
        instance: instance.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        timeout: config.timeout,
    });
    let named = |e| ConfigError(vec![format!("OTEL_EXPORTER_OTLP_ENDPOINT: {e}")]);
    let exporter = exporter.map_err(named)?;
    if sending == Sending::Beside {
        exporter.start();
    }
    Ok(Traces::to(exporter, config.sampling, engines))
}
