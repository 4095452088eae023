//! The settings of one mapping.

use std::time::Duration;

/// The settings of one mapping; in brackets their names in Lambda's API. The default has the values that are stated
/// here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Most records in one invocation (`BatchSize`), at least 1; with 0, nothing is read. Default 100.
    pub batch_size: usize,
    /// Longest time for which a batch is collected (`MaximumBatchingWindowInSeconds`). Default 500 ms.
    pub window: Duration,
    /// Whether the function's answer names the records to retry (`ReportBatchItemFailures`).
    /// Default no.
    pub partial: bool,
    /// Whether a batch that failed as a whole is split into halves (`BisectBatchOnFunctionError`). Default no.
    pub bisect: bool,
    /// How often a failed batch is tried again before it is given up (`MaximumRetryAttempts`).
    /// `None`, the default: until it succeeds.
    pub retries: Option<u32>,
    /// A batch that fails is given up once a record in it is older than this
    /// (`MaximumRecordAgeInSeconds`). `None`, the default: never.
    pub record_age: Option<Duration>,
    /// Upper bound of the first wait between two tries, and of any wait. The bound doubles with
    /// each try. Default 100 ms and 10 s.
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
