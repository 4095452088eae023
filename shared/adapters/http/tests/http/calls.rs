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
        call_timeout: Duration::from_secs(30),
        headers: vec![("x-api-key".to_owned(), "secret".to_owned())],
        ..crate::settings(format!("http://{address}/bank"))
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
        form: None,
        repeats: false,
        callback: None,
        location: None,
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
async fn a_redirect_to_elsewhere_is_not_followed_and_is_a_wrong_address() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = elsewhere.local_addr().expect("it is bound");
    for status in ["307 Moved", "302 Found", "303 See Other"] {
        let answer = format!(
            "HTTP/1.1 {status}\r\nlocation: http://{to}/x?key=hidden\r\ncontent-length: 0\r\n\r\n"
        );
        let (address, asked) = answering(answer, b"");
        let answer = call(address, None).await;
        asked.join().expect("it has answered");
        let Err(Fault::CallerRefused {
            code,
            message,
            maybe_applied: true,
        }) = answer
        else {
            panic!("{answer:?}");
        };
        assert_eq!(code, format!("http-{}", &status[..3]));
        assert!(
            message.contains(&format!("to \"http://{to}/x\": mend")),
            "{message}"
        );
        assert!(!message.contains("hidden"), "{message}");
    }
    elsewhere.set_nonblocking(true).expect("it can be asked");
    assert!(elsewhere.accept().is_err(), "nobody has called there");
}

/// Answers any number of calls: those for a path without a slash at its end with a redirect, others with the method,
/// the path and the body that came.
fn slash_service(status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut seen = Vec::new();
            let mut next = [0; 1024];
            while !seen.ends_with(b"{}") {
                match stream.read(&mut next) {
                    Ok(read) if read > 0 => seen.extend_from_slice(&next[..read]),
                    _ => break,
                }
            }
            let seen = String::from_utf8_lossy(&seen).into_owned();
            let line = seen.lines().next().unwrap_or_default().to_owned();
            let path = line.split(' ').nth(1).unwrap_or_default();
            let answer = match path.ends_with('/') {
                false => format!(
                    "HTTP/1.1 {status}\r\nlocation: {path}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                ),
                true => {
                    let body =
                        json!({"line": line, "key": seen.contains("idempotency-key: o-7/pay/key")});
                    let body = body.to_string();
                    format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    )
                }
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[tokio::test]
async fn a_redirect_for_a_slash_is_followed_with_method_body_and_key() {
    for status in ["307 Temporary Redirect", "308 Permanent Redirect"] {
        let answer = call(slash_service(status), None).await;
        let wanted = json!({"line": "POST /bank/take/ HTTP/1.1", "key": true});
        assert_eq!(answer, Ok(wanted), "{status}");
    }
    let moved = call(slash_service("301 Moved Permanently"), None).await;
    assert!(
        matches!(moved, Err(Fault::CallerRefused { .. })),
        "{moved:?}"
    );
}

#[tokio::test]
async fn of_an_answer_no_more_is_read_than_its_bound_and_the_work_is_done() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n\"".to_owned();
    let (address, asked) = answering(head, &[b'x'; 4096]);
    let answer = call(address, None).await;
    let output = answer.expect("the service has done it");
    let missing = output["_left_out"].as_str().expect("what is missing");
    assert!(missing.contains("1048576 bytes"), "{missing}");
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
    for (status, body, begins) in [
        ("422 Unprocessable Entity", page, kept),
        ("422 Unprocessable Entity", &*long, &long[..500]),
        (
            "500 Internal Server Error",
            "{\"reason\": \"no room\"}",
            "{\"reason\": \"no room\"}",
        ),
    ] {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n",
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
        assert_eq!(
            message,
            format!(
                "POST http://{address}/bank/take answered {status}, text/html; the answer begins: {begins}"
            )
        );
    }
    let (address, asked) = answering(
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{page}",
            page.len()
        ),
        b"",
    );
    assert_eq!(
        call(address, None).await,
        Ok(json!(page)),
        "the work is done"
    );
    asked.join().expect("it has answered");
}

#[tokio::test]
async fn a_service_that_is_away_is_named_with_the_systems_own_error() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let answer = call(address, None).await;
    let Err(Fault::Transient {
        code,
        message,
        maybe_applied: false,
        ..
    }) = answer
    else {
        panic!("{answer:?}");
    };
    assert_eq!(code, "connect");
    let wanted = format!("POST http://{address}/bank/take: Connection refused");
    assert!(message.starts_with(&wanted), "{message}");
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
        .args([
            "--exact",
            "calls::a_service_of_this_machine_answers",
            "--ignored",
        ])
        // Nothing listens at the proxy's address, so a call through it would fail.
        .envs(["HTTP_PROXY", "http_proxy", "ALL_PROXY"].map(|name| (name, "http://127.0.0.1:1")))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}
