//! The spans of what a command does to orders, told where the environment says.

use std::sync::OnceLock;

use triad_bootstrap::{ConfigError, Sending, TraceConfig, environment, instance_name, traces_to};
use triad_runtime::traces::{Engines, Traces};
use triad_workflow::Millis;

use crate::store::Store;

/// Longest wait for the spans of a command at its end.
const LAST_SPANS: Millis = Millis(2_000);

/// Where this process tells its spans.
static TOLD: OnceLock<Traces> = OnceLock::new();

/// Where a command over this store tells its spans: to the endpoint of OpenTelemetry's variables, or to
/// nobody.
///
/// # Errors
/// [`ConfigError`] if one of them is wrong.
pub fn of_environment(store: &Store, sending: Sending) -> Result<Traces, ConfigError> {
    let engines = match store {
        #[cfg(feature = "aws")]
        Store::Dynamo(store) => Engines::DEPLOYED.with_records(&store.tables().order_state),
        Store::Sqlite(_) => Engines::ONE_MACHINE,
    };
    let config = TraceConfig::read(&environment)?;
    let traces = traces_to(config.as_ref(), &instance_name(), engines, sending)?;
    Ok(TOLD.get_or_init(|| traces).clone())
}

/// Sends what was told, at the end of a command.
pub async fn flush() {
    if let Some(traces) = TOLD.get() {
        traces.flush(LAST_SPANS).await;
    }
}
