//! Secrets of Secrets Manager, and signed calls.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use triad_http::{Auth, HttpService, SecretRef};
use triad_runtime::Fault;

use crate::account::{Answer, Aws, REGION, Signed};
use crate::{call, settings};

/// A secret that is not JSON.
const TEXT: &str = "hidden";
const ARN: &str = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:pay-AbCdEf";

/// A service that accepts one bearer token, and the `Authorization` headers of its calls.
struct Pay {
    good: Mutex<String>,
    shown: Mutex<Vec<String>>,
}

async fn pay(State(pay): State<Arc<Pay>>, headers: HeaderMap) -> StatusCode {
    let shown = headers["authorization"].to_str().expect("text").to_owned();
    let is_good = shown == format!("Bearer {}", pay.good.lock().unwrap());
    pay.shown.lock().unwrap().push(shown);
    match is_good {
        true => StatusCode::OK,
        false => StatusCode::UNAUTHORIZED,
    }
}

async fn service() -> (String, Arc<Pay>) {
    let state = Arc::new(Pay {
        good: Mutex::new("first".to_owned()),
        shown: Mutex::default(),
    });
    let router = Router::new()
        .route("/pay", post(pay))
        .with_state(state.clone());
    let address = triad_tests::http::serve(router).await;
    (format!("http://{address}"), state)
}

/// An answer of Secrets Manager.
fn managed(status: u16, body: Value) -> Answer {
    let form = vec![("content-type", "application/x-amz-json-1.1")];
    (status, form, body.to_string())
}

fn agent(url: String, aws: &Aws, field: Option<&str>) -> HttpService {
    let mut settings = settings(url, aws.account());
    settings.auth = Some(Auth::Bearer(SecretRef::Managed {
        secret: ARN.to_owned(),
        field: field.map(str::to_owned),
    }));
    HttpService::new(&settings).expect("the settings are sound")
}

#[tokio::test]
async fn a_secret_by_arn_is_read_once_and_anew_when_the_service_refuses_it() {
    let (url, pay) = service().await;
    let text = Arc::new(Mutex::new(
        r#"{"user": "shop", "token": "first"}"#.to_owned(),
    ));
    let secret = text.clone();
    let aws = Aws::start(move |asked: &Signed| {
        let body: Value = serde_json::from_str(&asked.body).expect("JSON");
        assert_eq!(body["SecretId"], ARN);
        assert_eq!(
            asked.header("x-amz-target"),
            "secretsmanager.GetSecretValue"
        );
        managed(
            200,
            json!({"ARN": ARN, "SecretString": *secret.lock().unwrap()}),
        )
    })
    .await;
    let agent = agent(url, &aws, Some("token"));
    assert_eq!(aws.seen().len(), 0, "it is read when it is needed");
    let many = (0..8).map(|_| call(&agent, None));
    for answer in futures::future::join_all(many).await {
        answer.expect("an answer");
    }
    let seen = aws.seen();
    assert_eq!(seen.len(), 1, "one call reads it, and the others wait");
    let asked = (seen[0].service.as_str(), seen[0].region.as_str());
    assert_eq!(asked, ("secretsmanager", "eu-central-1"), "that of the ARN");

    *text.lock().unwrap() = r#"{"user": "shop", "token": "second"}"#.to_owned();
    *pay.good.lock().unwrap() = "second".to_owned();
    // The secret is read at most once a second, so the first calls may be refused. Bounded by the test's timeout.
    let mut refused = 0;
    while let Err(fault) = call(&agent, None).await {
        assert!(matches!(fault, Fault::CallerRefused { .. }), "{fault:?}");
        assert!(!format!("{fault:?} {agent:?}").contains("first"));
        refused += 1;
    }
    assert!(refused >= 1, "until then the old one counts");
    assert_eq!(aws.seen().len(), 2);
    let shown = pay.shown.lock().unwrap().clone();
    assert_eq!(shown.last().map(String::as_str), Some("Bearer second"));
}

#[tokio::test]
async fn while_a_secret_cannot_be_read_the_last_one_counts() {
    let (url, pay) = service().await;
    let is_away = Arc::new(AtomicBool::new(false));
    let away = is_away.clone();
    let aws = Aws::start(move |_: &Signed| match away.load(Ordering::SeqCst) {
        false => managed(200, json!({"SecretString": " first\n"})),
        true => managed(400, json!({"__type": "AccessDeniedException"})),
    })
    .await;
    let agent = agent(url, &aws, None);
    call(&agent, None).await.expect("an answer");
    is_away.store(true, Ordering::SeqCst);
    *pay.good.lock().unwrap() = "second".to_owned();
    while aws.seen().len() < 2 {
        call(&agent, None).await.expect_err("it is refused");
    }
    *pay.good.lock().unwrap() = "first".to_owned();
    call(&agent, None).await.expect("an answer");
}

#[tokio::test]
async fn without_its_secret_no_call_is_made_and_the_failure_names_it() {
    let (url, pay) = service().await;
    for (answer, field, is_refusal, said) in [
        (
            managed(
                400,
                json!({"__type": "AccessDeniedException", "message": "not allowed"}),
            ),
            None,
            true,
            "AccessDeniedException: not allowed",
        ),
        (
            managed(400, json!({"__type": "ThrottlingException"})),
            None,
            false,
            "ThrottlingException",
        ),
        (
            managed(200, json!({"SecretString": "{\"other\": \"hidden\"}"})),
            Some("token"),
            true,
            "its JSON has no text \"token\"",
        ),
        (
            managed(200, json!({"SecretString": TEXT})),
            Some("token"),
            true,
            "its JSON has no text \"token\"",
        ),
        (managed(200, json!({})), None, true, "it has no text"),
        (
            managed(200, json!({"SecretString": " "})),
            None,
            true,
            "it is empty",
        ),
    ] {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = reads.clone();
        let aws = Aws::start(move |_: &Signed| {
            counted.fetch_add(1, Ordering::SeqCst);
            answer.clone()
        })
        .await;
        let agent = agent(url.clone(), &aws, field);
        let fault = call(&agent, None).await.expect_err("no secret");
        let refused = matches!(
            fault,
            Fault::CallerRefused {
                maybe_applied: false,
                ..
            }
        );
        let may_pass = matches!(
            fault,
            Fault::Transient {
                maybe_applied: false,
                ..
            }
        );
        assert_eq!((refused, may_pass), (is_refusal, !is_refusal), "{fault:?}");
        let text = format!("{fault:?}").replace("\\\"", "\"");
        assert!(text.contains(ARN) && text.contains(said), "{text}");
        assert!(!text.contains("hidden"), "{text}");
        assert_eq!(fault.code(), "no-secret");
    }
    assert_eq!(
        pay.shown.lock().unwrap().len(),
        0,
        "the service is not called"
    );
}

#[tokio::test]
async fn a_call_is_signed_with_the_credentials_of_the_role() {
    let aws = Aws::start(|_: &Signed| (200, Vec::new(), "{\"id\": 7}".to_owned())).await;
    let mut settings = settings(format!("http://{}/prod", aws.address), aws.account());
    settings.headers = vec![("x-shop".to_owned(), "7".to_owned())];
    for (region, wanted) in [(None, REGION), (Some("us-east-2"), "us-east-2")] {
        settings.auth = Some(Auth::Sigv4 {
            service: "execute-api".to_owned(),
            region: region.map(str::to_owned),
        });
        let agent = HttpService::new(&settings).expect("the settings are sound");
        let answer = call(&agent, None).await.expect("an answer");
        assert_eq!(answer, json!({"id": 7}));
        let seen = aws.seen().pop().expect("a call");
        assert_eq!(seen.path, "/prod/pay");
        assert_eq!(seen.body, r#"{"amount":20}"#);
        assert_eq!(
            (seen.service.as_str(), seen.region.as_str()),
            ("execute-api", wanted)
        );
    }
    // The signature covers path and query in the encoding in which they are sent.
    let form = json!({"action": {
        "method": "GET", "path": "/cards/${input.card}/of",
        "query": {"q": "${input.text}", "a": "1"}, "keep": ["id"]
    }});
    let agent = HttpService::new(&settings).expect("the settings are sound");
    let input = json!({"card": "a/b c:ü", "text": "x&y + z=~"});
    let answer = crate::call_with(&agent, Some(&form), &input).await;
    assert_eq!(answer, Ok(json!({"id": 7})));
    let seen = aws.seen().pop().expect("a call");
    assert_eq!(seen.path, "/prod/cards/a%2Fb%20c%3A%C3%BC/of");
    assert!(seen.query.contains("x%26y%20%2B%20z"), "{}", seen.query);
}

#[test]
fn without_an_account_the_setting_is_named() {
    let mut settings = settings(
        "http://127.0.0.1:1".to_owned(),
        triad_http::AwsAccount::default(),
    );
    settings.auth = Some(Auth::Sigv4 {
        service: "lambda".to_owned(),
        region: None,
    });
    let error = HttpService::new(&settings).expect_err("there is none");
    assert!(
        error.to_string().starts_with("auth: sigv4: needs AWS"),
        "{error}"
    );
}
