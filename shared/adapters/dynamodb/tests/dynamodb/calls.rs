//! Consistency of reads, page limits, and the number of calls that create an order.

use std::sync::Arc;

use serde_json::{Value, json};
use triad_core::{Accepted, Order, Priority, Timestamp, WorkflowRef};
use triad_runtime::ports::OperatorStore;
use triad_runtime::{ControlStore, Created, DefinitionStore, NewOrder, StateStore};
use triad_workflow::{Limits, Workflow};

use crate::support::{Asked, Service, Sleeps, ids};

/// A service that finds nothing: it answers each read with an empty result.
fn empty() -> Service {
    Service::new(|_, (operation, _)| match operation.as_str() {
        "BatchGetItem" => json!({"Responses": {}, "UnprocessedKeys": {}}),
        "Scan" | "Query" => json!({"Items": [], "Count": 0, "ScannedCount": 0}),
        _ => json!({}),
    })
}

/// For each call, whether it requested a consistent read.
fn consistent(asked: &[Asked]) -> Vec<bool> {
    let of = |(operation, request): &Asked| {
        let read = match operation.as_str() {
            "BatchGetItem" => {
                let tables = request["RequestItems"].as_object().expect("tables");
                tables.values().next().expect("one table").clone()
            }
            _ => request.clone(),
        };
        read["ConsistentRead"].as_bool().unwrap_or(false)
    };
    asked.iter().map(of).collect()
}

fn pinned() -> WorkflowRef {
    "w@0123456789abcdef".parse().expect("a definition's name")
}

#[tokio::test]
async fn what_is_decided_on_is_read_consistently() {
    let service = empty();
    let store = service.store(Sleeps::default()).await;
    let _ = store.load(ids(["a"])).await;
    let _ = store.load(ids(["a", "b"])).await;
    let _ = store.current(pinned().name).await;
    let _ = store.definition(pinned()).await;
    let _ = store.read("ledger/a".to_owned(), true).await;
    let _ = store.versions().await;
    assert_eq!(consistent(&service.asked()), [true; 6]);
}

#[tokio::test]
async fn what_may_be_old_is_read_at_half_the_price() {
    let service = empty();
    let store = service.store(Sleeps::default()).await;
    let _ = store.load_eventually(ids(["a"])).await;
    let _ = store.load_eventually(ids(["a", "b"])).await;
    let _ = store.read("breaker/a".to_owned(), false).await;
    assert_eq!(consistent(&service.asked()), [false; 3]);
}

#[tokio::test]
async fn details_that_a_young_replica_does_not_have_are_asked_for_again_in_full() {
    let service = empty();
    let store = service.store(Sleeps::default()).await;
    assert_eq!(store.details(ids(["a", "b"])).await, [Ok(None), Ok(None)]);
    assert_eq!(consistent(&service.asked()), [false, true]);
}

#[tokio::test]
async fn the_present_version_is_not_published_again() {
    let service = Service::new(|_, (operation, _)| match operation.as_str() {
        "GetItem" => json!({"Item": {"Hash": {"S": pinned().hash.as_str()}}}),
        _ => json!({}),
    });
    let store = service.store(Sleeps::default()).await;
    let content = || "{}".to_owned();
    let other = "w@fedcba9876543210".parse().expect("a definition's name");
    assert_eq!(store.publish(pinned(), content()).await, Ok(()));
    assert_eq!(store.publish(other, content()).await, Ok(()));
    let asked = service.asked();
    let operations: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(operations, ["GetItem", "GetItem", "TransactWriteItems"]);
}

#[tokio::test]
async fn every_page_of_the_versions_is_read() {
    let hashes = ["1111111111111111", "2222222222222222", "3333333333333333"];
    let service = Service::new(move |call, (_, request)| {
        let start = &request["ExclusiveStartKey"]["Version"]["S"];
        let before = hashes.iter().position(|hash| start == *hash);
        assert_eq!(before.map_or(0, |at| at + 1), call - 1, "page after page");
        let item = json!({"Name": {"S": "w"}, "Version": {"S": hashes[call - 1]},
            "PublishedAt": {"N": call.to_string()}});
        let key = json!({"Name": {"S": "w"}, "Version": {"S": hashes[call - 1]}});
        match call < hashes.len() {
            true => json!({"Items": [item], "LastEvaluatedKey": key}),
            false => json!({"Items": [item]}),
        }
    });
    let store = service.store(Sleeps::default()).await;
    let versions = store.versions().await.expect("they can be read");
    let found: Vec<&str> = versions
        .iter()
        .map(|v| v.definition.hash.as_str())
        .collect();
    assert_eq!(found, hashes);
}

/// A new order of the smallest size.
fn new_order() -> NewOrder {
    let definition = json!({"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none"}]});
    let definition = serde_json::from_value(definition).expect("a definition");
    let workflow = Workflow::compile(definition, &Limits::published()).expect("it is sound");
    let accepted = Accepted {
        order_id: ids(["a"]).remove(0),
        workflow: WorkflowRef {
            name: workflow.name.clone(),
            hash: workflow.hash.clone(),
        },
        priority: Priority::Normal,
        reply_topic: None,
        traceparent: None,
        submitted_at: Timestamp(1),
        due: Timestamp(2),
        start_at: None,
        deadline: None,
        search: Vec::new(),
        parent: None,
        details: Value::Null,
    };
    NewOrder {
        order: Order::new(&accepted, &workflow, accepted.due),
        details: Arc::new(Value::Null),
        digest: "d".to_owned(),
        messages: Vec::new(),
    }
}

#[tokio::test]
async fn an_order_is_created_by_one_call_with_a_condition_on_details_and_record() {
    let service = empty();
    let store = service.store(Sleeps::default()).await;
    assert_eq!(
        store.create(vec![new_order()]).await,
        [Ok(Created::Created)]
    );
    let asked = service.asked();
    let [(operation, request)] = &asked[..] else {
        panic!("one call: {asked:?}");
    };
    assert_eq!(operation, "TransactWriteItems");
    let puts = request["TransactItems"].as_array().expect("its items");
    let of = |put: &Value| {
        let put = &put["Put"];
        let text = |name: &str| put[name].as_str().unwrap_or_default().to_owned();
        [text("TableName"), text("ConditionExpression")]
    };
    let condition = "attribute_not_exists(OrderID)";
    let puts: Vec<_> = puts.iter().map(of).collect();
    assert_eq!(puts, [["orders", condition], ["order-state", condition]]);
}
