//! What a consumer reports that is no record, and where.

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
    /// librdkafka's words.
    pub(crate) reason: String,
    /// The client cannot be used any more.
    pub(crate) is_fatal: bool,
    /// Where, if it is about a place.
    pub(crate) place: Option<RecordPosition>,
}
