//! Logs: JSON lines where machines read them, plain text where people do.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Starts logging to standard error. `filter` is in tracing's own form, for example
/// `info,triad_runtime=debug`; a bad one falls back to `info`.
pub fn start(form: Form, filter: Option<&str>) {
    let filter = filter
        .and_then(|f| EnvFilter::try_new(f).ok())
        .unwrap_or_else(|| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = match form {
        Form::Json => builder.json().try_init(),
        Form::Text => builder
            .with_timer(time::uptime())
            .with_target(false)
            .try_init(),
    };
    if let Err(e) = started {
        eprintln!("logging was started already: {e}");
    }
}
