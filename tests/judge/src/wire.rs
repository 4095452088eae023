//! Translates requests and answers of the DynamoDB API into operations on objects.
//!
//! Source: the API reference, AwsJson 1.0. A request may be several operations: in a batch of reads each key is read
//! separately. A transaction is one operation on its order.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::history::{Answer, Cell, ClientOperation, Condition, ConditionHeld, Put};
use super::item::{item, scalar};
use super::recorder::Begun;

/// A recorded request: its operations, and where to find the answer of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    kind: Kind,
    begun: Vec<(Begun, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Get,
    Batch,
    Put,
    Transaction,
    Other,
}

/// What came back for a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StoreAnswer<'a> {
    /// An HTTP answer: status and body.
    Answer(u16, &'a [u8]),
    /// The request could not be sent: no process listens.
    NotSent,
    /// The request was sent, and no answer came.
    Nothing,
}

/// The kind of item in a recorded table, and the table's key attribute.
fn place(table: &str) -> Option<(Cell, &'static str)> {
    match table {
        "orders" => Some((Cell::Details, "OrderID")),
        "order-state" => Some((Cell::Record, "OrderID")),
        "control" => Some((Cell::Control, "Key")),
        _ => None,
    }
}

/// The kind of item, the object's name, and the key, of a key or item in this table.
fn object(table: &str, key: &Value) -> Option<(Cell, String, String)> {
    let (cell, name) = place(table)?;
    let id = key[name]["S"].as_str()?.to_owned();
    let object = match cell {
        Cell::Control => format!("control/{id}"),
        Cell::Details | Cell::Record => format!("order/{id}"),
    };
    Some((cell, object, id))
}

/// Parses a request; `action` is the last part of its `x-amz-target`. `None` if it is not recorded.
#[must_use]
pub fn request(action: &str, body: &[u8]) -> Option<Request> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let table = body["TableName"].as_str().unwrap_or_default();
    let one = |kind, begun| Request {
        kind,
        begun: vec![begun],
    };
    match action {
        "GetItem" => {
            let is_consistent = body["ConsistentRead"] == true;
            let (cell, object, id) = object(table, &body["Key"]).filter(|_| is_consistent)?;
            let asked = ClientOperation::Read(cell);
            Some(one(Kind::Get, (Begun { object, asked }, id)))
        }
        "BatchGetItem" => {
            let begun: Vec<_> = batch(&body["RequestItems"]).collect();
            (!begun.is_empty()).then_some(Request {
                kind: Kind::Batch,
                begun,
            })
        }
        "PutItem" => {
            let (object, id, put) = put(&body)?;
            let asked = ClientOperation::Put {
                puts: vec![put],
                token: None,
            };
            Some(one(Kind::Put, (Begun { object, asked }, id)))
        }
        "TransactWriteItems" => transaction(&body).map(|begun| one(Kind::Transaction, begun)),
        "UpdateItem" | "DeleteItem" => {
            let (_, object, id) = object(table, &body["Key"])?;
            let asked = ClientOperation::Other(action.to_owned());
            Some(one(Kind::Other, (Begun { object, asked }, id)))
        }
        _ => None,
    }
}

fn batch(items: &Value) -> impl Iterator<Item = (Begun, String)> {
    let tables = items.as_object().into_iter().flatten();
    let consistent = tables.filter(|(_, asked)| asked["ConsistentRead"] == true);
    consistent.flat_map(|(table, asked)| {
        let keys = asked["Keys"].as_array().into_iter().flatten();
        keys.filter_map(move |key| {
            let (cell, object, id) = object(table, key)?;
            let asked = ClientOperation::Read(cell);
            Some((Begun { object, asked }, id))
        })
    })
}

fn put(json: &Value) -> Option<(String, String, Put)> {
    let table = json["TableName"].as_str()?;
    let (cell, object, id) = object(table, &json["Item"])?;
    let put = Put {
        cell,
        item: item(&json["Item"]),
        condition: json["ConditionExpression"].as_str().map(|text| Condition {
            text: text.to_owned(),
            names: strings(&json["ExpressionAttributeNames"]),
            values: entries(&json["ExpressionAttributeValues"])
                .filter_map(|(name, value)| Some((name.clone(), scalar(value)?)))
                .collect(),
        }),
    };
    Some((object, id, put))
}

/// A transaction whose puts concern one order; `None` for any other, which cannot be judged.
fn transaction(body: &Value) -> Option<(Begun, String)> {
    let actions = body["TransactItems"].as_array()?;
    let puts: Vec<_> = actions.iter().filter_map(|a| put(&a["Put"])).collect();
    let (object, id, _) = puts.first()?.clone();
    let is_known = puts.len() == actions.len() && puts.iter().all(|(o, ..)| *o == object);
    let asked = if is_known {
        ClientOperation::Put {
            puts: puts.into_iter().map(|(.., put)| put).collect(),
            token: body["ClientRequestToken"].as_str().map(str::to_owned),
        }
    } else {
        ClientOperation::Other("a transaction of another form".into())
    };
    Some((Begun { object, asked }, id))
}

fn entries(json: &Value) -> impl Iterator<Item = (&String, &Value)> {
    json.as_object().into_iter().flat_map(Map::iter)
}

fn strings(json: &Value) -> BTreeMap<String, String> {
    let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    entries(json).filter_map(text).collect()
}

impl Request {
    /// The operations, each with its answer.
    #[must_use]
    pub fn answered(self, told: StoreAnswer<'_>) -> Vec<(Begun, Answer)> {
        let kind = self.kind;
        let (status, body) = match told {
            StoreAnswer::Answer(status, body) => (status, serde_json::from_slice(body)),
            StoreAnswer::NotSent => return self.all(&Answer::Failed("not sent".into())),
            StoreAnswer::Nothing => return self.all(&Answer::Unknown),
        };
        // The body is unreadable, or the service had a fault: the operation may have taken effect.
        let Ok(body) = body else {
            return self.all(&Answer::Unknown);
        };
        if status >= 500 {
            return self.all(&Answer::Unknown);
        }
        if status != 200 {
            return self.all(&refused(&body));
        }
        let begun = self.begun.into_iter();
        begun
            .map(|(begun, id)| {
                let answer = match kind {
                    Kind::Get => Answer::Found(body.get("Item").map(item)),
                    Kind::Batch => of_batch(&begun, &id, &body),
                    Kind::Put | Kind::Transaction | Kind::Other => Answer::Done,
                };
                (begun, answer)
            })
            .collect()
    }

    fn all(self, answer: &Answer) -> Vec<(Begun, Answer)> {
        let begun = self.begun.into_iter();
        begun.map(|(begun, _)| (begun, answer.clone())).collect()
    }
}

/// The meaning of an answer with status 4xx: a condition was false, or the operation failed for a reason that does
/// not concern the object.
fn refused(body: &Value) -> Answer {
    let name = body["__type"].as_str().unwrap_or("unknown");
    let name = name.rsplit('#').next().unwrap_or(name);
    let no = |told: &Value| ConditionHeld::No(told.get("Item").map(item));
    match name {
        "ConditionalCheckFailedException" => Answer::Refused(vec![no(body)]),
        "TransactionCanceledException" => {
            let reasons = body["CancellationReasons"].as_array();
            let held = reasons.into_iter().flatten().map(|reason| {
                match reason["Code"].as_str().unwrap_or("None") {
                    "None" => Some(ConditionHeld::Yes),
                    "ConditionalCheckFailed" => Some(no(reason)),
                    _ => None,
                }
            });
            let held: Option<Vec<ConditionHeld>> = held.collect();
            held.filter(|h| !h.is_empty())
                .map_or(Answer::Failed(name.to_owned()), Answer::Refused)
        }
        _ => Answer::Failed(name.to_owned()),
    }
}

/// The item of one key in the answer to a batch; an unprocessed key was not read.
fn of_batch(begun: &Begun, id: &str, body: &Value) -> Answer {
    let is_it = |table: &str, json: &Value| {
        object(table, json).is_some_and(|(cell, _, found)| {
            found == id && begun.asked == ClientOperation::Read(cell)
        })
    };
    let left = entries(&body["UnprocessedKeys"]).any(|(table, asked)| {
        let keys = asked["Keys"].as_array().into_iter().flatten();
        keys.into_iter().any(|key| is_it(table, key))
    });
    if left {
        return Answer::Failed("unprocessed".into());
    }
    let found = entries(&body["Responses"]).find_map(|(table, items)| {
        let mut items = items.as_array().into_iter().flatten();
        items.find(|json| is_it(table, json))
    });
    Answer::Found(found.map(item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bytes(json: &Value) -> Vec<u8> {
        json.to_string().into_bytes()
    }

    #[test]
    fn a_batch_is_a_read_of_each_key_and_says_which_were_not_read() {
        let key = |id: &str| json!({"OrderID": {"S": id}});
        let asked = json!({"RequestItems": {"order-state": {"ConsistentRead": true,
            "Keys": [key("a"), key("b"), key("c")]}}});
        let request = request("BatchGetItem", &bytes(&asked)).unwrap();
        let answer = json!({
            "Responses": {"order-state": [{"OrderID": {"S": "a"}, "Version": {"N": "3"}}]},
            "UnprocessedKeys": {"order-state": {"Keys": [key("c")]}}});
        let all = request.answered(StoreAnswer::Answer(200, &bytes(&answer)));
        let answers: Vec<&Answer> = all.iter().map(|(_, answer)| answer).collect();
        assert_eq!(all[0].0.object, "order/a");
        assert!(matches!(answers[0], Answer::Found(Some(_))));
        assert_eq!(answers[1], &Answer::Found(None));
        assert!(matches!(answers[2], Answer::Failed(_)));
    }

    #[test]
    fn an_eventually_consistent_read_is_not_recorded() {
        let asked = json!({"TableName": "order-state", "Key": {"OrderID": {"S": "a"}}});
        assert_eq!(request("GetItem", &bytes(&asked)), None);
    }

    #[test]
    fn a_write_is_done_refused_failed_or_nobody_knows() {
        let asked = json!({"TableName": "order-state", "Item": {"OrderID": {"S": "a"}},
            "ConditionExpression": "Version = :v",
            "ExpressionAttributeValues": {":v": {"N": "1"}}});
        let request = request("PutItem", &bytes(&asked)).unwrap();
        let answer = |told| request.clone().answered(told).remove(0).1;
        let refusal = |name: &str| bytes(&json!({"__type": format!("com.amazonaws#{name}")}));
        assert_eq!(answer(StoreAnswer::Answer(200, b"{}")), Answer::Done);
        let condition = refusal("ConditionalCheckFailedException");
        let held = vec![ConditionHeld::No(None)];
        assert_eq!(
            answer(StoreAnswer::Answer(400, &condition)),
            Answer::Refused(held)
        );
        let denied = refusal("AccessDeniedException");
        assert!(matches!(
            answer(StoreAnswer::Answer(400, &denied)),
            Answer::Failed(_)
        ));
        assert!(matches!(answer(StoreAnswer::NotSent), Answer::Failed(_)));
        for told in [
            StoreAnswer::Nothing,
            StoreAnswer::Answer(500, b"{}"),
            StoreAnswer::Answer(200, b"<"),
        ] {
            assert_eq!(answer(told), Answer::Unknown);
        }
    }

    #[test]
    fn a_transaction_that_met_a_conflict_says_nothing_of_its_conditions() {
        let put = |table: &str| {
            json!({"Put": {"TableName": table, "Item": {"OrderID": {"S": "a"}},
            "ConditionExpression": "attribute_not_exists(OrderID)"}})
        };
        let asked = json!({"TransactItems": [put("orders"), put("order-state")],
            "ClientRequestToken": "t"});
        let request = request("TransactWriteItems", &bytes(&asked)).unwrap();
        let cancelled = |codes: [&str; 2]| {
            let reasons = codes.map(|code| json!({"Code": code}));
            let body = json!({"__type": "TransactionCanceledException",
                "CancellationReasons": reasons});
            let mut all = request
                .clone()
                .answered(StoreAnswer::Answer(400, &bytes(&body)));
            assert_eq!(all.len(), 1, "one operation on the order");
            all.remove(0).1
        };
        let both = cancelled(["None", "ConditionalCheckFailed"]);
        assert_eq!(
            both,
            Answer::Refused(vec![ConditionHeld::Yes, ConditionHeld::No(None)])
        );
        let conflict = cancelled(["TransactionConflict", "ConditionalCheckFailed"]);
        assert!(matches!(conflict, Answer::Failed(_)));
    }
}
