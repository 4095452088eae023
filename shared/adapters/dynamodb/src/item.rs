//! Process records as items: the [stored form](triad_core::stored) in DynamoDB's own values.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::de::DeserializeOwned;
use triad_core::stored::{self, NotScalar, Scalar};
use triad_core::{Order, Timestamp};
use triad_runtime::StoreError;
use triad_runtime::ports::Unreadable;
use triad_workflow::Millis;

use crate::tables::attr;

/// An item as AWS's SDK has it: its attributes by name.
pub type Item = HashMap<String, AttributeValue>;

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(crate) fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// A record as an item. `retention` is how long a finished record is kept.
pub(crate) fn encode(order: &Order, token: u64, retention: Millis) -> Item {
    let attributes = stored::encode(order, token, retention);
    let items = attributes.into_iter().map(|(name, value)| {
        let value = match value {
            Scalar::Text(value) => text(value),
            Scalar::Number(value) => number(value),
            Scalar::Null => AttributeValue::Null(true),
        };
        (name.to_owned(), value)
    });
    items.collect()
}

/// Reads an item of the table of process records.
///
/// # Errors
/// [`StoreError::Item`], with the name of the first attribute that is missing or cannot be read.
pub fn decode(item: &Item) -> Result<Order, StoreError> {
    let order = stored::decode(|name| match item.get(name) {
        None => Ok(None),
        Some(AttributeValue::S(value)) => Ok(Some(Scalar::Text(value.clone()))),
        Some(AttributeValue::N(value)) => match value.parse() {
            Ok(number) => Ok(Some(Scalar::Number(number))),
            Err(e) => Err(NotScalar(e.to_string())),
        },
        Some(AttributeValue::Null(_)) => Ok(Some(Scalar::Null)),
        Some(_) => Err(NotScalar("is neither text nor a number".to_owned())),
    });
    order.map_err(|e| StoreError::Item(e.to_string()))
}

/// Decodes items, and collects those that cannot be read.
pub(crate) fn readable<'a, T>(
    items: impl Iterator<Item = &'a Item>,
    read: impl Fn(&Item) -> Result<T, StoreError>,
) -> (Vec<T>, Vec<Unreadable>) {
    let (mut sound, mut unreadable) = (Vec::new(), Vec::new());
    for item in items {
        match read(item) {
            Ok(read) => sound.push(read),
            Err(why) => unreadable.push(Unreadable {
                order_id: optional_string(item, attr::ORDER_ID).unwrap_or_default(),
                why: why.to_string(),
            }),
        }
    }
    (sound, unreadable)
}

/// The token of the last write of an item.
pub(crate) fn token(item: &Item) -> Option<u64> {
    optional_integer(item, attr::WRITE_TOKEN).ok().flatten()
}

/// Whether an item has expired, although it is not deleted yet.
pub(crate) fn is_expired(item: &Item, now: Timestamp) -> bool {
    matches!(optional_integer(item, attr::EXPIRES_AT), Ok(Some(at)) if at <= now.0 / 1000)
}

fn bad(name: &str, why: impl std::fmt::Display) -> StoreError {
    StoreError::Item(format!("attribute {name} of a stored record: {why}"))
}

pub(crate) fn string(item: &Item, name: &str) -> Result<String, StoreError> {
    optional_string(item, name).ok_or_else(|| bad(name, "is not text"))
}

pub(crate) fn optional_string(item: &Item, name: &str) -> Option<String> {
    item.get(name).and_then(|v| v.as_s().ok()).cloned()
}

pub(crate) fn integer(item: &Item, name: &str) -> Result<u64, StoreError> {
    optional_integer(item, name)?.ok_or_else(|| bad(name, "is missing"))
}

pub(crate) fn optional_integer(item: &Item, name: &str) -> Result<Option<u64>, StoreError> {
    match item.get(name) {
        None | Some(AttributeValue::Null(_)) => Ok(None),
        Some(AttributeValue::N(n)) => n.parse().map(Some).map_err(|e| bad(name, e)),
        Some(_) => Err(bad(name, "is not a number")),
    }
}

fn parse<T: DeserializeOwned>(json: &str, name: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|e| bad(name, e))
}

pub(crate) fn optional_json<T: DeserializeOwned>(
    item: &Item,
    name: &str,
) -> Result<Option<T>, StoreError> {
    optional_string(item, name)
        .map(|json| parse(&json, name))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use triad_core::order::{Dropped, Hold, Incident, IncidentKind, OperatorAct};
    use triad_core::outbox::{Emission, Outbox, Writer};
    use triad_core::received::KeptEvent;
    use triad_core::{Applied, Direction, Doubt, Leg, Out, StepRecord, StepState, Work};
    use triad_core::{Attempt, Failure, FailureKind};
    use triad_core::{ClaimId, OrderId, Priority, ProcessState, Version};

    /// A record with a value in every attribute.
    fn full() -> Order {
        let cause = Failure::new(FailureKind::Permanent, "out-of-stock", "none left");
        let act = OperatorAct::new("ann", "asked for");
        let record = |step: &str, state| StepRecord {
            state,
            action: Leg {
                failures: 1,
                calls: 2,
                made: 5,
                unreported: 1,
                before: 4,
                earlier: 4,
            },
            compensation: Leg {
                failures: 2,
                calls: 3,
                made: 3,
                unreported: 0,
                before: 1,
                earlier: 0,
            },
            key: 1,
            in_doubt: Some(Doubt::default()),
            input: Some(json!({"amount": 7})),
            error: Some(cause.clone()),
            ..StepRecord::new(triad_workflow::StepId::new(step).unwrap())
        };
        Order {
            id: OrderId::new("10248").unwrap(),
            version: Version(7),
            workflow: "order-fulfilment@0123456789abcdef".parse().unwrap(),
            priority: Priority::High,
            reply_topic: Some("reply.shop".into()),
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
            submitted_at: Timestamp(1_000),
            search: ["customer=ALFKI", "invoice=10248"]
                .map(|key| key.parse().unwrap())
                .to_vec(),
            state: ProcessState::Compensating {
                locked_by: Some(ClaimId("c-1".into())),
                complete_by: Timestamp(9_000),
                cause: cause.clone(),
            },
            steps: vec![
                record(
                    "reserve",
                    StepState::Compensating {
                        work: Work::Out(Out {
                            direction: Direction::Compensate,
                            attempt: Attempt(1),
                            started: Timestamp(4_000),
                            complete_by: Timestamp(9_000),
                            deferred_since: Some(Timestamp(3_000)),
                            unheard_since: None,
                        }),
                        applied: Applied {
                            position: Some(0),
                            output: json!({"reference": "r-1"}).into(),
                        },
                    },
                ),
                record(
                    "charge",
                    StepState::Refused {
                        attempt: Attempt(1),
                    },
                ),
            ],
            sequence: 3,
            outbox: Outbox {
                writer: Writer::Scheduler,
                dedup_key: Some("forward/charge/1".into()),
                entries: vec![Emission::Wake],
            },
            due: Some(Timestamp(6_000)),
            incidents: vec![
                Incident::new(IncidentKind::CompensationBegan, Timestamp(4_000)).of(&cause),
                Incident {
                    act: Some(act.clone()),
                    ..Incident::new(IncidentKind::Paused, Timestamp(4_500))
                },
            ],
            dropped: Some(Dropped {
                lines: 3,
                latest: Timestamp(1_500),
            }),
            run: 1,
            set_aside: None,
            start_at: Some(Timestamp(1_500)),
            deadline: Some(Timestamp(3_500)),
            late_since: Some(Timestamp(3_800)),
            paused: Some(Hold {
                at: Timestamp(4_500),
                act: act.clone(),
            }),
            events: vec![KeptEvent {
                event: "paid".into(),
                id: "e-1".into(),
                at: Timestamp(2_000),
                step: None,
                by: None,
                data: Some(json!({"amount": 9.80})),
            }],
            amendment: Some(json!({"to": {"city": "Lyon"}, "gift": null, "sum": 9.80})),
            parent: None,
            campaign: None,
            closed: Some(Hold {
                at: Timestamp(4_600),
                act,
            }),
        }
    }

    /// Items in DynamoDB's own JSON, for the golden file.
    fn to_json(item: &Item) -> Value {
        let fields = item.iter().map(|(name, value)| {
            let json = match value {
                AttributeValue::S(s) => json!({"S": s}),
                AttributeValue::N(n) => json!({"N": n}),
                AttributeValue::Null(_) => json!({"NULL": true}),
                other => panic!("{name} is {other:?}"),
            };
            (name.clone(), json)
        });
        Value::Object(fields.collect())
    }

    fn from_json(json: &Value) -> Item {
        let fields = json.as_object().unwrap().iter().map(|(name, value)| {
            let value = if let Some(s) = value["S"].as_str() {
                text(s)
            } else if let Some(n) = value["N"].as_str() {
                number(n)
            } else {
                AttributeValue::Null(true)
            };
            (name.clone(), value)
        });
        fields.collect()
    }

    const GOLDEN: &str = include_str!("../tests/golden/order-state.json");

    #[test]
    fn a_record_is_stored_as_the_golden_item() {
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
        assert_eq!(to_json(&encode(&full(), 42, Millis(0))), golden);
    }

    #[test]
    #[ignore = "writes the golden file"]
    fn write_golden_file() {
        let text = serde_json::to_string_pretty(&to_json(&encode(&full(), 42, Millis(0)))).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/order-state.json");
        std::fs::write(path, text + "\n").unwrap();
    }

    #[test]
    fn the_golden_item_decodes() {
        let golden: Value = serde_json::from_str(GOLDEN).unwrap();
        assert_eq!(decode(&from_json(&golden)).unwrap(), full());
    }

    #[test]
    fn a_record_knows_the_campaign_that_acted_on_it_last() {
        let order = Order {
            campaign: Some("c-00c0ffee00c0ffee".parse().unwrap()),
            ..full()
        };
        assert_eq!(decode(&encode(&order, 42, Millis(0))).unwrap(), order);
    }

    #[test]
    fn an_attribute_that_cannot_be_read_is_named() {
        let mut item = encode(&full(), 42, Millis(0));
        item.insert("Steps".into(), text("{"));
        let error = decode(&item).unwrap_err().to_string();
        assert!(error.contains("Steps"), "{error}");
        item.remove("Steps");
        assert!(decode(&item).is_err());
    }
}
