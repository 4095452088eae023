//! Hostile requests are answered or their connection is closed, and the next client is served.

use crate::common::World;
use crate::common::client::raw;

#[tokio::test]
async fn bodies_that_are_no_orders_are_refused() {
    let world = World::start().await;
    let deep = "[".repeat(100_000);
    let nested = format!(
        r#"{{"order_id":"1","workflow":"w","details":{}1{}}}"#,
        r#"{"a":"#.repeat(200),
        "}".repeat(200)
    );
    for (body, code) in [
        (&b"\xff\xfe{}"[..], "not-utf8"),
        (
            b"{\"order_id\":\"\xc3\x28\",\"workflow\":\"w\"}",
            "not-utf8",
        ),
        (b"\0", "not-json"),
        (b"NaN", "not-json"),
        (b"\xef\xbb\xbfNaN", "not-json"),
        (deep.as_bytes(), "not-json"),
        (nested.as_bytes(), "not-json"),
        (br#"{"order_id":"\ud800","workflow":"w"}"#, "not-json"),
        (
            br#"{"order_id":"1","order_id":"2","workflow":"w"}"#,
            "not-an-order",
        ),
        (br#"{"order_id":"1","workflow":"w"}{}"#, "not-json"),
    ] {
        let said = world.client.post_bytes(body).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]);
        assert_eq!(said.is(), (400, code.into()), "{shown}");
        assert!(said.body.len() < 2_000, "what is told of it is bounded");
    }
    let said = world
        .client
        .post_bytes(br#"{"order_id":"a\u0000b","workflow":"w"}"#)
        .await;
    assert_eq!(said.is(), (422, "order-id".into()));
    assert_eq!(world.submit("7").await.status, 201);
}

#[tokio::test]
async fn paths_that_are_tricks_are_no_orders() {
    let world = World::start().await;
    world.submit("7").await;
    for (path, status) in [
        ("/v1/orders/%2e%2e", 404),
        ("/v1/orders/..%2f7", 400),
        ("/v1/orders/7%00", 400),
        ("/v1/orders/%0d%0aset-cookie:x", 400),
        ("/v1/orders/%ff", 400),
        ("/v1/orders/%c0%af", 400),
        ("/v1/orders/%", 400),
        ("/v1/orders/%4", 400),
        ("/v1/orders/%25%30%30", 404),
        ("/v1/orders/../orders/7", 404),
        ("/v1/orders//7", 404),
        ("/v1/orders/7/", 404),
        ("/v1/orders/7?wait=%F0%9F%92%A9", 400),
    ] {
        assert_eq!(world.get(path).await.status, status, "{path}");
    }
    let long = format!("/v1/orders/{}", "7".repeat(129));
    assert_eq!(world.get(&long).await.is(), (400, "bad-order-id".into()));
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_the_next_one_served() {
    let world = World::start().await;
    for request in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
          content-length: 5\r\ncontent-length: 6\r\n\r\n{}",
        b"POST /v1/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
          content-length: -1\r\n\r\n{}",
        b"POST /v1/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
          transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"POST /v1/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
          transfer-encoding: gzip, identity\r\n\r\n{}",
    ] {
        let said = raw(world.client.address, request).await;
        let shown = String::from_utf8_lossy(request);
        assert!(said.is_none_or(|said| said.status == 400), "{shown}");
    }
    assert_eq!(world.submit("7").await.status, 201);
}
