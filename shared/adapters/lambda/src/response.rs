//! The partial batch response of a Kafka event source mapping.
//!
//! Source of the rules: AWS Lambda Developer Guide, "Configuring partial batch response" for Amazon MSK and
//! self-managed Apache Kafka. Lambda resumes a partition at its batch item failure, so the first failed record and
//! every later one of that partition are reported. An empty list is a success. An empty or null answer would be one,
//! too, so a failure must always be in an answer.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// How Lambda interprets an answer. It must be the same as the event source mapping's setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BatchMode {
    /// The mapping has `ReportBatchItemFailures`: the answer names the records to retry.
    #[default]
    PartialResponses,
    /// The mapping does not have it: Lambda ignores the answer, so one failed record must fail the
    /// whole invocation.
    WholeBatch,
}

/// Where a record was read from. Ids are ordered by topic, partition and offset.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId {
    /// Name of the topic.
    pub topic: String,
    /// Partition within the topic, from 0.
    pub partition: i32,
    /// Offset within the partition, from 0.
    pub offset: i64,
}

/// The answer to a batch, in Lambda's JSON form: `{"batchItemFailures": [...]}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BatchResponse {
    /// The records to retry; empty when all succeeded, and never left out.
    #[serde(rename = "batchItemFailures")]
    pub batch_item_failures: Vec<BatchItemFailure>,
}

/// One record to retry. Lambda delivers its partition again from the first such record on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchItemFailure {
    /// The place of the record to retry.
    #[serde(rename = "itemIdentifier")]
    pub item_identifier: ItemIdentifier,
}

/// The place of a record, in the form that the event source mapping reads: `{"partition":
/// "topic-N", "offset": n}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemIdentifier {
    /// Topic and partition as `topic-N`, such as `orders-0`.
    pub partition: String,
    /// Offset within the partition, from 0.
    pub offset: i64,
}

impl BatchResponse {
    /// The answer for the batch `records`, of which `failed` have failed.
    ///
    /// It names, in the order of the batch, the first failed record of each partition (the one with
    /// the lowest offset) and every record of that partition with a higher offset. With nothing in
    /// `failed` it is empty, which means success.
    ///
    /// ```
    /// use triad_lambda::{BatchResponse, RecordId};
    /// let at = |offset| RecordId { topic: "orders".into(), partition: 0, offset };
    /// let batch = [at(7), at(8), at(9)];
    /// let answer = BatchResponse::of(&batch, &[at(8)]);
    /// let offsets: Vec<i64> =
    ///     answer.batch_item_failures.iter().map(|f| f.item_identifier.offset).collect();
    /// assert_eq!(offsets, [8, 9]);
    /// ```
    pub fn of<'a>(records: &'a [RecordId], failed: impl IntoIterator<Item = &'a RecordId>) -> Self {
        let mut first_failed: HashMap<(&str, i32), i64> = HashMap::new();
        for record in failed {
            first_failed
                .entry((&record.topic, record.partition))
                .and_modify(|offset| *offset = record.offset.min(*offset))
                .or_insert(record.offset);
        }
        let to_retry = records.iter().filter(|record| {
            first_failed
                .get(&(&*record.topic, record.partition))
                .is_some_and(|first| record.offset >= *first)
        });
        Self {
            batch_item_failures: to_retry.map(BatchItemFailure::from).collect(),
        }
    }
}

impl From<&RecordId> for BatchItemFailure {
    fn from(record: &RecordId) -> Self {
        Self {
            item_identifier: ItemIdentifier {
                partition: format!("{}-{}", record.topic, record.partition),
                offset: record.offset,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(topic: &str, partition: i32, offset: i64) -> RecordId {
        RecordId {
            topic: topic.to_owned(),
            partition,
            offset,
        }
    }

    #[test]
    fn success_is_an_empty_list_and_not_an_empty_answer() {
        let answer = BatchResponse::of(&[at("orders", 0, 1)], &[]);
        let json = serde_json::to_string(&answer).unwrap();
        assert_eq!(json, r#"{"batchItemFailures":[]}"#);
    }

    #[test]
    fn the_first_failed_record_and_every_later_one_of_its_partition_are_reported() {
        let batch = [
            at("orders", 0, 1),
            at("orders", 0, 2),
            at("orders", 0, 3),
            at("orders", 1, 1),
            at("orders-0", 0, 1),
        ];
        let failed = [at("orders", 0, 3), at("orders", 0, 2)];
        let answer = BatchResponse::of(&batch, &failed);
        let expected: Vec<BatchItemFailure> = batch[1..3].iter().map(Into::into).collect();
        assert_eq!(answer.batch_item_failures, expected);
        assert_eq!(expected[0].item_identifier.partition, "orders-0");
    }

    #[test]
    fn partitions_of_equal_number_but_other_topic_are_apart() {
        let batch = [at("a", 0, 1), at("b", 0, 1)];
        let answer = BatchResponse::of(&batch, &batch[1..]);
        assert_eq!(answer.batch_item_failures, [(&batch[1]).into()]);
    }
}
