//! Every rule of the contract, over HTTP.

use crate::support::start;
use axum::http::Method;
use serde_json::json;
use triad_reference_service::{Config, KeyStatus};

#[tokio::test]
async fn the_same_request_takes_effect_once_and_is_answered_the_same() {
    let (service, client) = start(Config::default()).await;
    let first = client
        .forward("k", json!({"amount": 5, "currency": "EUR"}))
        .await;
    let again = client
        .forward("k", json!({"currency": "EUR", "amount": 5}))
        .await;
    assert_eq!(first.status, 200);
    assert_eq!(first.body, again.body);
    let output = first.json();
    assert!(
        output["reference"]
            .as_str()
            .unwrap()
            .starts_with("payment-")
    );
    assert_eq!(
        (&output["amount"], &output["currency"]),
        (&json!(5), &json!("EUR"))
    );
    let summary = service.summary();
    assert_eq!((summary.total.calls, summary.total.applied), (2, 1));
    assert_eq!((summary.total.replayed, summary.keys), (1, 1));
}

#[tokio::test]
async fn the_same_key_with_another_request_is_refused() {
    let (service, client) = start(Config::default()).await;
    client.forward("k", json!({"amount": 5})).await;
    let other_body = client.forward("k", json!({"amount": 6})).await;
    let as_compensation = client.compensation("k", "other").await;
    assert_eq!(other_body.code(), (422, "key_reused".to_owned()));
    assert_eq!(as_compensation.code(), (422, "key_reused".to_owned()));
    assert_eq!(service.summary().total.applied, 1);
    assert_eq!(service.summary().total.refused, 2);
}

#[tokio::test]
async fn keys_of_different_services_are_different_keys() {
    let (service, client) = start(Config::default()).await;
    let headers = [("idempotency-key", "k")];
    for path in ["/payment/charge", "/stock/reserve"] {
        assert_eq!(
            client.send(Method::POST, path, &headers, "{}").await.status,
            200
        );
    }
    assert_eq!(service.summary().total.applied, 2);
    assert_eq!(service.summary().services.len(), 2);
}

#[tokio::test]
async fn a_compensation_reverses_the_effect_once_under_whatever_key() {
    let (service, client) = start(Config::default()).await;
    client.forward("k", json!({})).await;
    let first = client.compensation("u", "k").await;
    let again = client.compensation("u", "k").await;
    let other = client.compensation("u2", "k").await;
    assert_eq!(first.json()["reversed"], true);
    assert_eq!(first.body, again.body);
    assert_eq!(other.status, 200);
    let keys = service.ledger();
    assert_eq!((keys[0].applied, keys[0].compensated), (1, 1));
    assert_eq!(keys[0].status, KeyStatus::Compensated);
    assert_eq!(service.summary().total.compensated, 1);
    assert_eq!(client.compensation("u", "k3").await.code().1, "key_reused");
    assert_eq!(client.compensation("u4", "u").await.code().1, "not_forward");
}

#[tokio::test]
async fn a_forward_call_after_its_compensation_has_no_effect() {
    let (service, client) = start(Config::default()).await;
    let early = client.compensation("u", "k").await;
    assert_eq!(early.status, 200);
    assert_eq!(early.json()["reversed"], false);
    assert_eq!(client.compensation("u", "k").await.body, early.body);
    let late = client.forward("k", json!({})).await;
    assert_eq!(late.code(), (409, "compensated".to_owned()));
    let total = service.summary().total;
    assert_eq!(
        (total.applied, total.compensated, total.tombstoned),
        (0, 0, 1)
    );

    client.forward("k2", json!({})).await;
    client.compensation("u2", "k2").await;
    let again = client.forward("k2", json!({})).await;
    assert_eq!(again.code(), (409, "compensated".to_owned()));
}

/// Method, path, headers, body and the expected status.
type Case<'a> = (Method, &'a str, Vec<(&'a str, &'a str)>, &'a str, u16);

#[tokio::test]
async fn what_is_not_a_call_is_refused_and_leaves_no_key() {
    let (service, client) = start(Config::default()).await;
    let key = ("idempotency-key", "k");
    let long = "x".repeat(600);
    let compensation = ("triad-direction", "compensate");
    let cases: [Case<'_>; 13] = [
        (Method::POST, "/a/b", vec![], "{}", 400),
        (
            Method::POST,
            "/a/b",
            vec![("idempotency-key", "")],
            "{}",
            400,
        ),
        (
            Method::POST,
            "/a/b",
            vec![("idempotency-key", &long)],
            "{}",
            400,
        ),
        (Method::POST, "/a/b", vec![key], "{", 400),
        (
            Method::POST,
            "/a/b",
            vec![key, ("triad-direction", "sideways")],
            "{}",
            400,
        ),
        (Method::POST, "/a/b", vec![key, compensation], "{}", 400),
        (
            Method::POST,
            "/a/b",
            vec![key, compensation, ("triad-compensates", "k")],
            "{}",
            400,
        ),
        (
            Method::POST,
            "/a/b",
            vec![key, ("triad-compensates", "j")],
            "{}",
            400,
        ),
        (
            Method::POST,
            "/a/b",
            vec![key, ("triad-attempt", "one")],
            "{}",
            400,
        ),
        (Method::POST, "/a", vec![key], "{}", 404),
        (Method::POST, "/_a/b", vec![key], "{}", 404),
        (Method::GET, "/a/b", vec![key], "", 405),
        (
            Method::PUT,
            "/_faults",
            vec![],
            r#"{"default":{"stall":2}}"#,
            400,
        ),
    ];
    let count = cases.len() as u64;
    for (method, path, headers, body, status) in cases {
        let answered = client.send(method, path, &headers, body.to_owned()).await;
        assert_eq!(answered.status, status, "{path} {headers:?} {body}");
        assert!(answered.json()["error"]["message"].is_string());
    }
    let big = format!("\"{}\"", "x".repeat(triad_reference_service::MAX_BODY));
    assert_eq!(
        client.send(Method::POST, "/a/b", &[key], big).await.status,
        413
    );
    assert_eq!(service.summary().invalid, count + 1);
    assert_eq!(service.summary().keys, 0);
}

#[tokio::test]
async fn a_key_that_arrives_many_times_at_once_applies_once() {
    let (service, client) = start(Config::default()).await;
    let calls = (0..64).map(|n| {
        let client = client.clone();
        async move {
            client
                .forward(&format!("k{}", n % 4), json!({"n": n % 4}))
                .await
        }
    });
    for answered in futures::future::join_all(calls).await {
        assert_eq!(answered.status, 200);
    }
    let summary = service.summary();
    assert_eq!((summary.total.applied, summary.total.replayed), (4, 60));
    assert_eq!(summary.keys_applied_twice, 0);
}

#[tokio::test]
async fn a_full_book_refuses_new_keys_but_answers_old_ones_and_compensations() {
    let (service, client) = start(Config {
        max_keys: 2,
        ..Config::default()
    })
    .await;
    client.forward("k1", json!({})).await;
    client.forward("k2", json!({})).await;
    let refused = client.forward("k3", json!({})).await;
    assert_eq!(refused.code(), (507, "ledger_full".to_owned()));
    assert_eq!(client.forward("k1", json!({})).await.status, 200);
    assert_eq!(client.compensation("u1", "k1").await.status, 200);
    assert_eq!(service.summary().full, 1);
    assert_eq!(service.summary().total.compensated, 1);
}

#[tokio::test]
async fn a_second_effect_of_a_step_under_another_key_is_noticed() {
    let (service, client) = start(Config::default()).await;
    let step = [("triad-order", "o"), ("triad-step", "pay")];
    for key in ["a", "b"] {
        let headers = [step[0], step[1], ("idempotency-key", key)];
        client
            .send(Method::POST, "/payment/charge", &headers, "{}")
            .await;
    }
    let summary = service.summary();
    assert_eq!(summary.keys_applied_twice, 0);
    assert_eq!(summary.steps_applied_twice, 1);
    assert_eq!(summary.steps_applied_twice_examples, ["payment o pay"]);
}

#[tokio::test]
async fn the_ledger_is_listed_as_json_lines() {
    let (service, client) = start(Config::default()).await;
    for n in 0..1_100 {
        client.forward(&format!("k{n}"), json!({})).await;
    }
    let listing = client.send(Method::GET, "/_ledger", &[], "").await;
    let lines: Vec<triad_reference_service::KeyView> = listing
        .body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines, service.ledger());
    assert_eq!((lines.len(), &*lines[1_099].key), (1_100, "k1099"));
    let summary = client.send(Method::GET, "/_ledger/summary", &[], "").await;
    assert_eq!(summary.json()["total"]["applied"], 1_100);
}

#[tokio::test]
async fn what_an_action_is_said_to_answer_is_answered_each_time_and_to_a_probe() {
    let said = json!({"authorisation": "A-7", "amount": 5});
    let answers = [(
        "payment".to_owned(),
        [("charge".to_owned(), said.clone())].into(),
    )];
    let (service, client) = start(Config {
        answers: triad_reference_service::PlayedAnswers(answers.into()),
        ..Config::default()
    })
    .await;
    for _ in 0..2 {
        assert_eq!(client.forward("k", json!({"amount": 9})).await.json(), said);
    }
    let headers = [("idempotency-key", "k"), ("triad-direction", "probe")];
    let probed = client
        .send(Method::POST, "/payment/charge-status", &headers, "{}")
        .await;
    assert_eq!(probed.json(), json!({"applied": true, "output": said}));
    // Other actions have their normal answers, and a refusal stays a refusal.
    assert_eq!(client.compensation("u", "k").await.json()["reversed"], true);
    let late = client.forward("k", json!({"amount": 9})).await;
    assert_eq!(late.code(), (409, "compensated".to_owned()));
    assert_eq!(service.summary().total.applied, 1);
}
