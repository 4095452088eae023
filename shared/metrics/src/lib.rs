//! Where metrics go: to an endpoint that Prometheus reads, or into log lines in CloudWatch's embedded
//! metric format. What is measured stands in [`triad_runtime::metric`].

pub mod emf;
#[cfg(feature = "prometheus")]
pub mod prometheus;
