//! The meaning of a function's answer for its batch.
//!
//! Source: AWS Lambda Developer Guide, "Configuring partial batch response" (success and failure conditions).

use std::collections::HashMap;

use serde_json::Value;
use triad_runtime::InputRecord;

/// The result of a batch, by the function's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All records are done.
    Success,
    /// For each of these partitions (`topic-N`) the records from this offset on must be delivered
    /// again. All others are done.
    From(HashMap<String, i64>),
    /// All records must be delivered again. The text gives the reason.
    Failure(String),
}

/// Reads the answer of a function that did not fail.
///
/// Without partial responses (`partial` is false) any answer is a success. With them, an answer without a
/// list, or with an empty one, is a success; an answer that is not JSON, or a list that names a record which
/// was not in the batch or has another form, fails all of the batch.
#[must_use]
pub fn verdict(partial: bool, records: &[InputRecord], answer: &[u8]) -> Verdict {
    if !partial {
        return Verdict::Success;
    }
    let bad =
        |what: &str| Verdict::Failure(format!("the answer is no partial batch response: {what}"));
    if answer.is_empty() {
        return Verdict::Success;
    }
    let Ok(json) = serde_json::from_slice::<Value>(answer) else {
        return bad("it is not JSON");
    };
    let items = match json.get("batchItemFailures") {
        None | Some(Value::Null) => return Verdict::Success,
        Some(Value::Array(items)) if items.is_empty() => return Verdict::Success,
        Some(Value::Array(items)) => items,
        Some(_) => return bad("batchItemFailures is no list"),
    };
    let mut from: HashMap<String, i64> = HashMap::new();
    for item in items {
        let id = &item["itemIdentifier"];
        let (Some(partition), Some(offset)) = (id["partition"].as_str(), id["offset"].as_i64())
        else {
            return bad("an itemIdentifier has no partition and offset");
        };
        let known = |r: &InputRecord| r.offset == offset && name(r) == partition;
        if !records.iter().any(known) {
            return bad("an itemIdentifier names a record that was not in the batch");
        }
        let first = from.entry(partition.to_owned()).or_insert(offset);
        *first = offset.min(*first);
    }
    Verdict::From(from)
}

/// The name of a record's partition in answers.
pub(crate) fn name(record: &InputRecord) -> String {
    format!("{}-{}", record.topic, record.partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Vec<InputRecord> {
        (5..9)
            .map(|offset| InputRecord {
                topic: "t".into(),
                offset,
                ..InputRecord::default()
            })
            .collect()
    }

    fn of(answer: &str) -> Verdict {
        verdict(true, &batch(), answer.as_bytes())
    }

    #[test]
    fn every_documented_success() {
        for answer in [
            "",
            "null",
            "{}",
            r#"{"batchItemFailures":null}"#,
            r#"{"batchItemFailures":[]}"#,
        ] {
            assert_eq!(of(answer), Verdict::Success, "{answer}");
        }
        assert_eq!(verdict(false, &batch(), b"anything"), Verdict::Success);
    }

    #[test]
    fn the_lowest_offset_of_a_partition_counts() {
        let answer = r#"{"batchItemFailures":[
            {"itemIdentifier":{"partition":"t-0","offset":8}},
            {"itemIdentifier":{"partition":"t-0","offset":6}}]}"#;
        assert_eq!(of(answer), Verdict::From([("t-0".to_owned(), 6)].into()));
    }

    #[test]
    fn every_answer_of_another_form_fails_the_whole_batch() {
        for answer in [
            "no JSON",
            r#"{"batchItemFailures":{}}"#,
            r#"{"batchItemFailures":[{}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":{"partition":"t-0"}}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":{"partition":"t-0","offset":"6"}}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":{"partition":"t-1","offset":6}}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":{"partition":"t-0","offset":9}}]}"#,
        ] {
            assert!(matches!(of(answer), Verdict::Failure(_)), "{answer}");
        }
    }
}
