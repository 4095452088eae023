//! A stopping server answers the requests under way, within its time limit.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::common::client::read;
use crate::common::{Made, World, order, until};

#[tokio::test]
async fn an_order_under_way_is_answered_and_nothing_more_is_taken() {
    let mut world = World::start().await;
    world.heard.open(false);
    let client = world.client.clone();
    let asked = tokio::spawn(async move { client.post("/v1/orders", &order("7")).await });
    let mut idle = world.client.connect().await;
    world.until_stored("7").await;
    let heard = world.heard.clone();
    let address = world.client.address;
    let opens = tokio::spawn(async move {
        // Waits until the server no longer listens; one order is still being submitted.
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        heard.open(true);
    });
    world.stop().await;
    opens.await.unwrap();
    assert_eq!(asked.await.unwrap().status, 201);
    assert!(
        read(&mut idle).await.is_none(),
        "an idle connection is closed"
    );
}

#[tokio::test]
async fn who_waits_for_an_end_is_told_how_the_order_stands() {
    let mut world = World::start().await;
    let client = world.client.clone();
    let asked = tokio::spawn(async move { client.post("/v1/orders?wait=60s", &order("7")).await });
    world.waiting(1).await;
    until("it is announced", || world.heard.topics().len() == 2).await;
    world.stop().await;
    let said = asked.await.unwrap();
    assert_eq!(
        (said.status, &said.json()["order"]["state"]),
        (202, &json!("Pending"))
    );
}

#[tokio::test]
async fn what_takes_too_long_is_broken_off() {
    let mut made = Made::default();
    made.settings.limits.stop_within = Duration::from_millis(50);
    let mut world = World::with(made).await;
    world.heard.open(false);
    let mut asked = world.client.connect().await;
    let body = order("7").to_string();
    let request = format!(
        "POST /v1/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    asked.write_all(request.as_bytes()).await.unwrap();
    world.until_stored("7").await;
    world.stop().await;
    assert!(read(&mut asked).await.is_none());
    // The order is stored, so that a second submission is answered as a repetition.
    assert!(world.stored("7").await.is_some());
}

#[tokio::test]
async fn a_server_that_is_dropped_ends() {
    let mut world = World::start().await;
    let mut idle = world.client.connect().await;
    assert_eq!(world.get("/healthz").await.status, 200);
    drop(world.server.take());
    assert!(read(&mut idle).await.is_none());
}
