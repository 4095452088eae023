//! Spans of a command's acts on orders, sent to the collector that the environment names.

use std::sync::OnceLock;

use triad_bootstrap::{ConfigError, Sending, TraceConfig, environment, instance_name, traces_to};
use triad_runtime::traces::{Engines, Traces};
use triad_workflow::Millis;

use crate::store::{Engine, Store};

/// Longest wait for the spans at the end of a command.
const LAST_SPANS: Millis = Millis(2_000);

/// The traces of this process.
static TOLD: OnceLock<Traces> = OnceLock::new();

/// The traces of a command over this store: sent to the endpoint of OpenTelemetry's variables, or not at all.
///
/// # Errors
/// [`ConfigError`] if one of the variables is wrong.
pub fn of_environment(store: &Store, sending: Sending) -> Result<Traces, ConfigError> {
    let engines = match &store.engine {
        #[cfg(feature = "aws")]
        Engine::Dynamo(store) => Engines::DEPLOYED.with_records(&store.tables().order_state),
        Engine::Sqlite(_) => Engines::ONE_MACHINE,
    };
    let config = TraceConfig::read(&environment)?;
    let traces = traces_to(config.as_ref(), &instance_name(), engines, sending)?;
    Ok(TOLD.get_or_init(|| traces).clone())
}

/// Sends the remaining spans, at the end of a command.
pub async fn flush() {
    if let Some(traces) = TOLD.get() {
        traces.flush(LAST_SPANS).await;
    }
}
