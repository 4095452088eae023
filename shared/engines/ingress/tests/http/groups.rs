//! Orders of concurrent requests are submitted in groups of limited size.

use serde_json::json;

use crate::common::{Made, World, order};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_written_together_and_beyond_the_bound_it_is_429() {
    let mut made = Made::default();
    made.settings.limits.orders = 64;
    let world = World::with(made).await;
    // Nothing is acknowledged: the first groups wait for the bus, and the later orders wait for the groups.
    world.heard.open(false);
    let before = world.sqlite.counted().writes;
    let asked: Vec<_> = (0..64)
        .map(|n| {
            let client = world.client.clone();
            let order = order(&format!("o{n}"));
            tokio::spawn(async move { client.post("/v1/orders", &order).await })
        })
        .collect();
    world.full().await;
    let said = world.submit("late").await;
    assert_eq!(said.is(), (429, "queue-full".into()));
    assert_eq!(said.header("retry-after"), Some("1"));
    world.heard.open(true);
    for asked in asked {
        assert_eq!(asked.await.unwrap().status, 201);
    }
    let groups = world.sqlite.counted().writes - before;
    assert!(groups <= 6, "64 orders in {groups} writes");
    assert!(world.stored("late").await.is_none());
    assert_eq!(world.submit("late").await.status, 201);
}

#[tokio::test]
async fn one_id_in_one_group_is_taken_once() {
    let mut made = Made::default();
    made.settings.limits.orders = 64;
    let world = World::with(made).await;
    // Each of the four concurrent groups has one order and waits for the bus.
    world.heard.open(false);
    let mut held = Vec::new();
    for n in 0..4 {
        let id = format!("held-{n}");
        let (client, order) = (world.client.clone(), order(&id));
        held.push(tokio::spawn(async move {
            client.post("/v1/orders", &order).await
        }));
        world.until_stored(&id).await;
    }
    let asked: Vec<_> = (0..60)
        .map(|n| {
            let client = world.client.clone();
            let mut order = order("7");
            order["details"] = json!({"n": n % 2});
            tokio::spawn(async move { client.post("/v1/orders", &order).await.status })
        })
        .collect();
    world.full().await;
    world.heard.open(true);
    let mut counts = std::collections::BTreeMap::new();
    for asked in asked {
        *counts.entry(asked.await.unwrap()).or_insert(0) += 1;
    }
    assert_eq!(counts, [(200, 29), (201, 1), (409, 30)].into());
    for held in held {
        assert_eq!(held.await.unwrap().status, 201);
    }
}
