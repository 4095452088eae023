//! Errors that a consumer reports, with their positions.

use rdkafka::error::RDKafkaErrorCode;

/// A place in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// An error that a consumer reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failed {
    pub(crate) code: RDKafkaErrorCode,
    /// librdkafka's text.
    pub(crate) reason: String,
    /// Whether the client cannot be used any more.
    pub(crate) is_fatal: bool,
    /// The position, if the error is about one.
    pub(crate) place: Option<RecordPosition>,
}
