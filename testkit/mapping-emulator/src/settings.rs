//! One mapping.

use std::time::Duration;

/// What a mapping is told. The names are those of the mappings' API, the limits AWS's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Most records of one invocation.
    pub batch_size: usize,
    /// Longest wait for a batch to fill.
    pub window: Duration,
    /// Whether the answer names the records to retry (`ReportBatchItemFailures`).
    pub partial: bool,
    /// Whether a batch that fails as a whole is halved (`BisectBatchOnFunctionError`).
    pub bisect: bool,
    /// Retries before a batch is given up; `None`: without end.
    pub retries: Option<u32>,
    /// Age at which a failing record is given up; `None`: never.
    pub record_age: Option<Duration>,
    /// First and longest wait between two tries.
    pub backoff: (Duration, Duration),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch_size: 100,
            window: Duration::from_millis(500),
            partial: false,
            bisect: false,
            retries: None,
            record_age: None,
            backoff: (Duration::from_millis(100), Duration::from_secs(10)),
        }
    }
}
