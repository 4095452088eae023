//! Exports metrics: on an endpoint for Prometheus, or as log lines in CloudWatch's embedded metric format.
//! [`triad_runtime::metric`] defines the metrics.

pub mod emf;
#[cfg(feature = "prometheus")]
pub mod prometheus;
