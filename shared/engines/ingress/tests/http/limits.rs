//! Limits on the number, length and duration of requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Request};
use tokio::io::AsyncWriteExt;
use triad_console::{Answer, Answers, Body, Caller, Keys};
use triad_core::submission::MAX_SUBMISSION_BYTES;
use triad_operator::operations::Operations;

use crate::common::client::{parse, raw, read};
use crate::common::{Made, WITHIN, World, order};

/// An order whose JSON has exactly this many bytes.
fn of_bytes(id: &str, bytes: usize) -> Vec<u8> {
    let empty = format!(r#"{{"order_id":"{id}","workflow":"w","details":{{"x":""}}}}"#);
    let fill = "x".repeat(bytes - empty.len());
    empty
        .replace(r#""x":"""#, &format!(r#""x":"{fill}""#))
        .into_bytes()
}

#[tokio::test]
async fn an_order_has_256_kib_at_most_however_its_length_is_told() {
    let world = World::start().await;
    let largest = of_bytes("1", MAX_SUBMISSION_BYTES);
    assert_eq!(world.client.post_bytes(&largest).await.status, 201);
    for bytes in [
        MAX_SUBMISSION_BYTES + 1,
        2 * MAX_SUBMISSION_BYTES,
        4 * 1024 * 1024,
    ] {
        let said = world.client.post_bytes(&of_bytes("2", bytes)).await;
        assert_eq!(said.is(), (413, "too-large".into()), "{bytes}");
    }
    for (bytes, status) in [(MAX_SUBMISSION_BYTES, 201), (MAX_SUBMISSION_BYTES + 1, 413)] {
        let mut request = b"POST /v1/orders HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
            content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
        let order = of_bytes("3", bytes);
        for part in order.chunks(10_000) {
            request.extend(format!("{:x}\r\n", part.len()).into_bytes());
            request.extend(part);
            request.extend(b"\r\n");
        }
        request.extend(b"0\r\n\r\n");
        let said = raw(world.client.address, &request).await.unwrap();
        assert_eq!(said.status, status);
    }
    // A request whose declared length exceeds the limit is refused before its body is read.
    let huge = b"POST /v1/orders HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
        content-type: application/json\r\ncontent-length: 1000000000000000\r\n\r\n{";
    assert_eq!(raw(world.client.address, huge).await.unwrap().status, 413);
}

#[tokio::test]
async fn who_sends_slowly_is_left() {
    let mut made = Made::default();
    made.settings.limits.header_within = Duration::from_millis(50);
    made.settings.limits.body_within = Duration::from_millis(50);
    let world = World::with(made).await;
    for head in [&b""[..], b"GET /healthz HTTP/1.1\r\nhost: x"] {
        let said = raw(world.client.address, head).await;
        assert!(said.is_none(), "{said:?}");
    }
    let half = b"POST /v1/orders HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
        content-type: application/json\r\ncontent-length: 100\r\n\r\n{\"order_id\"";
    let said = raw(world.client.address, half).await.unwrap();
    assert_eq!(said.is(), (408, "body-timeout".into()));
    // A connection that stays idle after one request is closed, too.
    let once = raw(
        world.client.address,
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
    )
    .await;
    assert_eq!(once.unwrap().status, 200);
}

#[tokio::test]
async fn a_connection_beyond_the_bound_waits_for_its_turn() {
    let mut made = Made::default();
    made.settings.limits.connections = 1;
    let world = World::with(made).await;
    world.submit("7").await;
    let mut first = world.client.connect().await;
    let waits =
        b"GET /v1/orders/7?wait=60s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    first.write_all(waits).await.unwrap();
    world.waiting(1).await;
    let client = world.client.clone();
    let mut second = tokio::spawn(async move { client.send("GET", "/healthz", &[], b"").await });
    // The server has one place for a connection, which is taken; otherwise the answer would come at once.
    let early = tokio::time::timeout(Duration::from_millis(50), &mut second).await;
    assert!(early.is_err(), "{early:?}");
    world.finish("7").await;
    assert_eq!(read(&mut first).await.unwrap().status, 200);
    assert_eq!(second.await.unwrap().status, 200);
}

#[tokio::test]
async fn who_does_not_read_is_left() {
    let mut made = Made::default();
    made.settings.limits.connections = 1;
    made.settings.limits.body_within = Duration::from_millis(50);
    let world = World::with(made).await;
    let mut deaf = world.client.connect().await;
    // The answers are larger than the operating system's buffers of a connection.
    let requests = "GET /v1/openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1_000);
    deaf.write_all(requests.as_bytes()).await.unwrap();
    // The server answers again when it has closed that connection, which took its only place.
    assert_eq!(world.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn bodies_share_a_bounded_memory() {
    let mut made = Made::default();
    made.settings.limits.body_bytes = 100 * 1024;
    let world = World::with(made).await;
    let mut half = world.client.connect().await;
    let begun = b"POST /v1/orders HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
        content-type: application/json\r\ncontent-length: 99000\r\n\r\n";
    half.write_all(begun).await.unwrap();
    let large = of_bytes("1", 99_000);
    assert_eq!(world.client.post_bytes(&large).await.status, 201);
    // The server allocates memory for bytes received, not for the declared length.
    half.write_all(&[b' '; 60_000]).await.unwrap();
    let said = async {
        loop {
            let said = world.client.post_bytes(&large).await;
            if said.status == 429 {
                return said;
            }
        }
    };
    let said = tokio::time::timeout(WITHIN, said)
        .await
        .expect("the memory is taken");
    assert_eq!(said.code(), "queue-full");
    assert_eq!(world.submit("small").await.status, 201);
    drop(half);
    let given_back = async {
        while world.client.post_bytes(&large).await.status == 429 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WITHIN, given_back)
        .await
        .expect("it is given back");
}

/// An authenticator that accepts everybody as an operator.
#[derive(Debug)]
struct Operators;

impl Answers for Operators {
    fn is_ours(&self, path: &str) -> bool {
        path == "/console/"
    }

    fn answer(&self, _: Request<Bytes>, _: Arc<dyn Keys>) -> BoxFuture<'_, Answer> {
        std::future::ready(Answer::new(Body::empty())).boxed()
    }

    fn caller(&self, _: &HeaderMap, _: &dyn Keys) -> Result<Caller, Box<Answer>> {
        Err(Box::new(Answer::new(Body::empty())))
    }

    fn knows(&self, _: &HeaderMap, _: &dyn Keys) -> bool {
        true
    }

    fn operations(&self) -> &Arc<dyn Operations> {
        panic!("no request of this test asks for one")
    }

    fn stop(&self) {}
}

#[tokio::test]
async fn bodies_of_operators_take_no_memory_of_orders() {
    let mut made = Made::default();
    made.settings.limits.body_bytes = 100 * 1024;
    made.settings.limits.operator_body_bytes = 100 * 1024;
    made.settings.operators = Some(Arc::new(Operators));
    let world = World::with(made).await;
    let mut half = world.client.connect().await;
    let begun = b"POST /console/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99000\r\n\r\n";
    half.write_all(begun).await.unwrap();
    half.write_all(&[b' '; 98_000]).await.unwrap();
    let request = "POST /console/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 50000\r\n\r\n";
    let mut request = request.as_bytes().to_vec();
    request.extend_from_slice(&[b' '; 50_000]);
    let full = async {
        while raw(world.client.address, &request)
            .await
            .is_none_or(|said| said.status != 429)
        {}
    };
    tokio::time::timeout(WITHIN, full)
        .await
        .expect("the memory of operators is taken");
    let said = world.client.post_bytes(&of_bytes("1", 99_000)).await;
    assert_eq!(said.status, 201);
}

#[tokio::test]
async fn the_root_leads_to_the_pages_of_operators() {
    let mut made = Made::default();
    made.settings.operators = Some(Arc::new(Operators));
    let world = World::with(made).await;
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let said = raw(world.client.address, request).await.expect("an answer");
    assert_eq!(
        (said.status, said.header("location")),
        (303, Some("/console/"))
    );
}

#[tokio::test]
async fn an_order_takes_its_memory_until_it_is_stored() {
    let mut made = Made::default();
    made.settings.limits.body_bytes = 100 * 1024;
    let world = World::with(made).await;
    world.heard.open(false);
    let (client, large) = (world.client.clone(), of_bytes("1", 99_000));
    let first = tokio::spawn(async move { client.post_bytes(&large).await });
    world.until_stored("1").await;
    let second = world.client.post_bytes(&of_bytes("2", 99_000)).await;
    assert_eq!(second.is(), (429, "queue-full".into()));
    world.heard.open(true);
    assert_eq!(first.await.unwrap().status, 201);
}

#[tokio::test]
async fn headers_are_bounded_in_bytes_and_number() {
    let world = World::start().await;
    let long = format!(
        "GET /healthz HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n",
        "x".repeat(40_000)
    );
    assert_eq!(
        raw(world.client.address, long.as_bytes())
            .await
            .unwrap()
            .status,
        431
    );
    let many: String = (0..101).map(|n| format!("h{n}: x\r\n")).collect();
    let many = format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{many}\r\n");
    assert_eq!(
        raw(world.client.address, many.as_bytes())
            .await
            .unwrap()
            .status,
        431
    );
    let path = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(70_000));
    let said = raw(world.client.address, path.as_bytes()).await;
    assert!(said.is_none_or(|said| (400..=431).contains(&said.status)));
    assert_eq!(world.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn many_requests_go_over_one_connection() {
    let world = World::start().await;
    let mut stream = world.client.connect().await;
    let mut requests = String::new();
    for n in 0..10 {
        let body = order(&format!("o{n}")).to_string();
        let close = if n == 9 { "connection: close\r\n" } else { "" };
        requests += &format!(
            "POST /v1/orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             {close}content-length: {}\r\n\r\n{body}",
            body.len()
        );
    }
    stream.write_all(requests.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let reads = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut bytes);
    tokio::time::timeout(WITHIN, reads).await.unwrap().unwrap();
    assert_eq!(parse(&bytes).unwrap().status, 201);
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text.matches("HTTP/1.1 201 Created").count(), 10);
}
