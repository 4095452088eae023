//! Spans of orders' traces, exported by OTLP over HTTP.
//!
//! Owns the queue of spans, their form on the wire, and how long they are tried. Handlers put spans into
//! the queue and go on; a task sends them in batches. An endpoint that is away or slow costs spans, and
//! nothing else: what has no room in the queue is counted and dropped.
//!
//! Architecture invariant: this crate alone knows OpenTelemetry's wire format, and it knows nothing of
//! orders.

mod export;
mod queue;
mod settings;
mod wire;

pub use export::Exporter;
pub use settings::{ExportError, ExportSettings, Headers};
