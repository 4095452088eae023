//! The deployed alerts function, with an SNS endpoint that refuses some messages.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::json;
use triad_reference_service::Faults;
use triad_runtime::InputRecord;
use triad_tests::engines::Engines;
use triad_tests::event_source::{failures, invoke, start_function};
use triad_tests::orders::FULFILMENT;
use triad_tests::process::binary;

type Seen = Arc<Mutex<Vec<String>>>;

async fn publish(State(seen): State<Seen>, body: String) -> (StatusCode, &'static str) {
    let refused = body.contains("refuse-me");
    seen.lock().unwrap().push(body);
    if refused {
        return (
            StatusCode::BAD_REQUEST,
            "<ErrorResponse><Error><Code>InvalidParameter</Code></Error></ErrorResponse>",
        );
    }
    let answer = "<PublishResponse><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>";
    (StatusCode::OK, answer)
}

fn alert(partition: i32, offset: i64, order: &str) -> InputRecord {
    let alert = json!({"alert_id": format!("{order}/Error/7"), "kind": "order-error",
        "order_id": order, "cause": "payment refused", "at": 7});
    InputRecord {
        topic: "alerts".into(),
        partition,
        offset,
        value: Some(alert.to_string().into_bytes()),
        ..InputRecord::default()
    }
}

#[tokio::test]
async fn each_alert_is_published_and_a_failed_one_comes_again_with_those_behind_it() {
    let seen = Seen::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sns = Router::new().fallback(publish).with_state(seen.clone());
    let server = tokio::spawn(async move { axum::serve(listener, sns).await });
    let engines = Engines::start(FULFILMENT, Faults::default()).await;
    let mut variables = engines.variables(&engines.brokers());
    variables.extend([
        (
            "TRIAD_ALERTS_SNS_TOPIC",
            "arn:aws:sns:eu-west-1:111122223333:shop-alerts".to_owned(),
        ),
        (
            "TRIAD_CONSOLE_URL",
            "https://triad.example/console/".to_owned(),
        ),
        ("AWS_ENDPOINT_URL", url),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
    ]);
    let (api, _function) = start_function(&binary("triad-alerts"), &variables);
    let batch = [
        alert(0, 5, "one"),
        alert(0, 6, "refuse-me"),
        alert(0, 7, "behind"),
        alert(1, 3, "other"),
    ];
    let answer = invoke(&api, &batch).await.unwrap();
    assert_eq!(failures(&answer), [("alerts-0".to_owned(), 6)].into());
    let seen = seen.lock().unwrap();
    for (order, published) in [("one", true), ("behind", false), ("other", true)] {
        assert_eq!(
            seen.iter()
                .any(|b| b.contains(&format!("order_id%22%3A%22{order}"))),
            published,
            "{order}"
        );
    }
    assert!(
        seen[0].contains("Subject=Triad%3A%20an%20order%20is%20in%20Error%3A%20one"),
        "{}",
        seen[0]
    );
    assert!(
        seen[0].contains("shop-alerts") && seen[0].contains("order-error"),
        "{}",
        seen[0]
    );
    let link = "https%3A%2F%2Ftriad.example%2Fconsole%2Forders%2Fone";
    assert_eq!(
        seen[0].matches(link).count(),
        2,
        "in the message and as an attribute: {}",
        seen[0]
    );
    server.abort();
}
