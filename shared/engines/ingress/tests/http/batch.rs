//! Batches of orders: one answer for each line.

use serde_json::{Value, json};

use crate::common::{Made, World, order};

#[tokio::test]
async fn each_line_has_its_answer_in_order() {
    let world = World::start().await;
    world.submit("old").await;
    let mut conflict = order("old");
    conflict["details"] = json!({});
    let lines = [
        order("a").to_string(),
        String::new(),
        order("old").to_string(),
        conflict.to_string(),
        "{".to_owned(),
        order("a").to_string() + "\r",
        json!({"order_id": "b", "workflow": "none"}).to_string(),
    ];
    let said = world.client.batch("/v1/orders", &lines.join("\n")).await;
    assert_eq!(said.status, 200);
    let answered: Vec<_> = said
        .lines()
        .iter()
        .map(|line| (line["line"].clone(), line["status"].clone()))
        .collect();
    let expected = [(1, 201), (3, 200), (4, 409), (5, 400), (6, 200), (7, 422)];
    assert_eq!(
        answered,
        expected.map(|(line, status)| (json!(line), json!(status)))
    );
    assert_eq!(said.lines()[5]["code"], "unknown-workflow");
    assert_eq!(world.heard.to("dead-letter"), []);
}

#[tokio::test]
async fn lines_of_one_order_keep_their_order_across_groups() {
    let world = World::start().await;
    let lines: Vec<String> = (0..200)
        .map(|n| {
            let mut order = order(&format!("o{}", n % 100));
            order["details"] = json!({"n": n / 100});
            order.to_string()
        })
        .collect();
    let said = world
        .client
        .batch("/v1/orders?priority=high", &lines.join("\n"))
        .await;
    let statuses: Vec<Value> = said
        .lines()
        .iter()
        .map(|line| line["status"].clone())
        .collect();
    assert_eq!(statuses[..100], vec![json!(201); 100]);
    assert_eq!(statuses[100..], vec![json!(409); 100]);
    assert_eq!(world.heard.to("scheduler.high").len(), 100);
    assert_eq!(world.heard.to("scheduler").len(), 0);
}

#[tokio::test]
async fn a_batch_is_bounded_in_bytes_and_lines_and_is_not_waited_for() {
    let mut made = Made::default();
    made.settings.limits.batch_lines = 2;
    made.settings.limits.batch_bytes = 1_000;
    let world = World::with(made).await;
    let said = world.client.batch("/v1/orders", "{}\n{}\n{}\n").await;
    assert_eq!(said.is(), (413, "too-many-lines".into()));
    assert_eq!(
        world.client.batch("/v1/orders", "{}\n{}\n").await.status,
        200
    );
    let said = world.client.batch("/v1/orders", &"x".repeat(1_001)).await;
    assert_eq!(said.is(), (413, "too-large".into()));
    assert_eq!(
        world
            .client
            .batch("/v1/orders", &"x".repeat(1_000))
            .await
            .status,
        200
    );
    let said = world.client.batch("/v1/orders", "\n \n").await;
    assert_eq!(said.is(), (400, "empty-batch".into()));
    let said = world.client.batch("/v1/orders?wait=1s", "{}").await;
    assert_eq!(said.is(), (400, "bad-query".into()));
}
