//! An HTTP call as the service receives it, and the accepted forms of its answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use triad_core::{Direction, IdempotencyKey, OrderId};
use triad_http::{HttpService, HttpSettings};
use triad_runtime::{Call, Fault, RemoteService};
use triad_workflow::{Millis, StepId};

/// Serves one call whose body is `{}`: sends `answer`, then `more` repeatedly while the client reads. Returns the
/// address, and when joined the request and the number of bytes sent.
fn answering(answer: String, more: &'static [u8]) -> (SocketAddr, JoinHandle<(String, usize)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let call = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a call");
        let mut seen = Vec::new();
        let mut next = [0; 1024];
        while !seen.ends_with(b"{}") {
            let read = stream.read(&mut next).expect("the call");
            seen.extend_from_slice(&next[..read]);
        }
        let mut written = 0;
        let mut rest = answer.as_bytes();
        while stream.write_all(rest).is_ok() {
            written += rest.len();
            rest = more;
            if rest.is_empty() || written > 64 << 20 {
                break;
            }
        }
        (String::from_utf8(seen).expect("text"), written)
    });
    (address, call)
}

async fn call(address: SocketAddr, compensates: Option<&IdempotencyKey>) -> Result<Value, Fault> {
    let settings = HttpSettings {
        base_url: format!("http://{address}/bank"),
        call_timeout: Duration::from_secs(30),
        headers: vec![("x-api-key".to_owned(), "secret".to_owned())],
        statuses: std::collections::BTreeMap::new(),
    };
    let service = HttpService::new(&settings).expect("it is a URL");
    let call = Call {
        order_id: &OrderId::new("o-7").expect("an id"),
        step: &StepId::new("pay").expect("a step"),
        direction: match compensates {
            None => Direction::Forward,
            Some(_) => Direction::Compensate,
        },
        idempotency_key: &IdempotencyKey("o-7/pay/key".to_owned()),
        compensates,
        action: "take",
        input: &json!({}),
        time_left: Millis(30_000),
        attempt: 3,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    };
    service.call(call).await
}

const EMPTY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[tokio::test]
async fn a_call_says_under_which_key_it_is_made_and_of_which_order_step_and_attempt() {
    let compensated = IdempotencyKey("o-7/pay/forward".to_owned());
    for (compensates, direction) in [(None, "forward"), (Some(&compensated), "compensate")] {
        let (address, asked) = answering(EMPTY.to_owned(), b"");
        assert_eq!(call(address, compensates).await, Ok(Value::Null));
        let (asked, _) = asked.join().expect("it has answered");
        let mut lines = asked.split("\r\n");
        assert_eq!(lines.next(), Some("POST /bank/take HTTP/1.1"));
        let headers: Vec<&str> = lines.collect();
        for header in [
            "content-type: application/json",
            "idempotency-key: o-7/pay/key",
            "triad-order: o-7",
            "triad-step: pay",
            &format!("triad-direction: {direction}"),
            "triad-attempt: 3",
            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "x-api-key: secret",
        ] {
            assert!(headers.contains(&header), "{header} in {asked}");
        }
        let compensates = headers.contains(&"triad-compensates: o-7/pay/forward");
        assert_eq!(compensates, direction == "compensate", "{asked}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_may_stand_for_an_effect() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = elsewhere.local_addr().expect("it is bound");
    let answer =
        format!("HTTP/1.1 307 Moved\r\nlocation: http://{to}/\r\ncontent-length: 0\r\n\r\n");
    let (address, asked) = answering(answer, b"");
    let answer = call(address, None).await;
    asked.join().expect("it has answered");
    let Err(Fault::Transient {
        code,
        maybe_applied: true,
        ..
    }) = answer
    else {
        panic!("{answer:?}");
    };
    assert_eq!(code, "http-307");
    elsewhere.set_nonblocking(true).expect("it can be asked");
    assert!(elsewhere.accept().is_err(), "nobody has called there");
}

#[tokio::test]
async fn of_an_answer_no_more_is_read_than_its_bound() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n\"".to_owned();
    let (address, asked) = answering(head, &[b'x'; 4096]);
    let answer = call(address, None).await;
    let Err(Fault::Transient {
        code,
        maybe_applied: true,
        ..
    }) = answer
    else {
        panic!("{answer:?}");
    };
    assert_eq!(code, "answer-too-long");
    // The client closes the connection on this runtime's thread, so the join must not block it.
    let ended = tokio::task::spawn_blocking(|| asked.join()).await;
    let (_, written) = ended
        .expect("no panic")
        .expect("it ends when nobody reads any more");
    assert!(written < 64 << 20, "{written} bytes were taken");
}

#[tokio::test]
async fn of_an_answer_in_no_form_of_the_contract_the_beginning_is_kept_and_no_secret() {
    let page = "<html>\r\n <h1>Not \u{1b}[2J possible</h1>\n the key was secret </html>";
    let kept = "<html> <h1>Not \u{1b}[2J possible</h1> the key was (hidden) </html>";
    let long = "x".repeat(20_000);
    for (status, body, words, begins) in [
        (
            "422 Unprocessable Entity",
            page,
            "422 Unprocessable Entity",
            kept,
        ),
        (
            "422 Unprocessable Entity",
            &*long,
            "422 Unprocessable Entity",
            &long[..500],
        ),
        (
            "500 Internal Server Error",
            "{\"detail\": \"no room\"}",
            "500 Internal Server Error",
            "{\"detail\": \"no room\"}",
        ),
        ("200 OK", page, "expected value at line 1 column 1", kept),
    ] {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let (address, asked) = answering(head + body, b"");
        let answer = call(address, None).await;
        asked.join().expect("it has answered");
        let (Err(Fault::Permanent { message, .. }) | Err(Fault::Transient { message, .. })) =
            answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!(message, format!("{words}; the answer begins: {begins}"));
    }
}

#[tokio::test]
async fn how_long_a_busy_service_asks_to_be_left_alone_is_told_and_its_429_is_no_doubt() {
    for (status, doubt) in [("429 Too Many Requests", false), ("503 Busy", true)] {
        let answer = format!("HTTP/1.1 {status}\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n");
        let (address, asked) = answering(answer, b"");
        let answer = call(address, None).await;
        asked.join().expect("it has answered");
        let Err(Fault::Transient {
            retry_after,
            maybe_applied,
            ..
        }) = answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!((retry_after, maybe_applied), (Some(Millis(7_000)), doubt));
    }
}

/// Started by the test below in an environment that names a proxy.
#[tokio::test]
#[ignore = "run by a_proxy_of_the_environment_is_not_asked"]
async fn a_service_of_this_machine_answers() {
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    let (address, _) = answering(ok.to_owned(), b"");
    assert_eq!(call(address, None).await, Ok(json!({})));
}

#[test]
fn a_proxy_of_the_environment_is_not_asked() {
    let me = std::env::current_exe().expect("this test");
    let ran = std::process::Command::new(me)
        .args(["--exact", "a_service_of_this_machine_answers", "--ignored"])
        // Nothing listens at the proxy's address, so a call through it would fail.
        .envs(["HTTP_PROXY", "http_proxy", "ALL_PROXY"].map(|name| (name, "http://127.0.0.1:1")))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}
