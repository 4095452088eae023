//! Logs: JSON lines for machines, plain text for people.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::{MakeWriter, time};
use tracing_subscriber::prelude::*;

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One JSON object a line, for machines.
    Json,
    /// Plain text for people, with the time since the start.
    Text,
}

/// Starts logging to standard error. `filter` is a level, with other levels for single targets if wanted, such as
/// `info,triad_runtime=debug`. `None`, and an invalid filter, mean `info`. If logging has been started before, it is
/// unchanged, and a line on standard error says so.
pub fn start(form: Form, filter: Option<&str>) {
    if let Err(e) = lines(form, filter, std::io::stderr).try_init() {
        eprintln!("logging was started already: {e}");
    }
}

/// Makes the log that [`start`] starts, but with its lines written to `to`, and does not start it. `form`
/// and `filter` mean the same as there. In [`Form::Json`] the lines have the form that the metric filters of
/// `infra/` look for.
pub fn lines<W>(
    form: Form,
    filter: Option<&str>,
    to: W,
) -> impl tracing::Subscriber + Send + Sync + 'static
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // Not `EnvFilter`: it adds only regular expressions, and these add 0.1 MB to a function's zip.
    let filter = filter
        .and_then(|text| text.parse::<Targets>().ok())
        .unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let layer = tracing_subscriber::fmt::layer().with_writer(to);
    let layer = match form {
        Form::Json => layer.json().boxed(),
        Form::Text => layer.with_timer(time::uptime()).with_target(false).boxed(),
    };
    tracing_subscriber::registry().with(layer.with_filter(filter))
}
