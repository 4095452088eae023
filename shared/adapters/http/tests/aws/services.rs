//! Functions, queues and topics in place of an HTTP service: the requests that AWS gets, and the meaning of its
//! answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use triad_http::{Destination, HttpService, HttpSettings};
use triad_runtime::Fault;

use crate::account::{Answer, Aws, REGION, Signed};
use crate::{call, call_probing, settings};

const TOPIC: &str = "arn:aws:sns:us-east-2:111122223333:paid";
const QUEUE: &str = "https://sqs.eu-west-3.amazonaws.com/111122223333/paid";

fn agent(aws: &Aws, destination: Destination) -> HttpService {
    let settings = HttpSettings {
        destination,
        ..settings(String::new(), aws.account())
    };
    HttpService::new(&settings).expect("the settings are sound")
}

/// An answer without headers.
fn plain(status: u16, body: &str) -> Answer {
    (status, Vec::new(), body.to_owned())
}

fn failed(body: &str) -> Answer {
    let headers = vec![("x-amz-function-error", "Unhandled")];
    (200, headers, body.to_owned())
}

/// The client context that a function gets.
fn custom(seen: &Signed) -> Value {
    let context = STANDARD.decode(seen.header("x-amz-client-context"));
    let context: Value = serde_json::from_slice(&context.expect("base64")).expect("JSON");
    context["custom"].clone()
}

#[tokio::test]
async fn a_function_gets_the_input_as_its_event_and_the_rest_beside_it() {
    let aws = Aws::start(|_: &Signed| plain(200, r#"{"id": "ch_7", "more": 1}"#)).await;
    let agent = agent(&aws, Destination::Lambda("charge:live".to_owned()));
    let output = call(&agent, None).await;
    assert_eq!(output, Ok(json!({"id": "ch_7", "more": 1})));
    let seen = aws.seen().pop().expect("a call");
    assert_eq!(seen.path, "/2015-03-31/functions/charge%3Alive/invocations");
    assert_eq!(
        (seen.service.as_str(), seen.region.as_str()),
        ("lambda", REGION)
    );
    assert_eq!(
        seen.body, r#"{"amount":20}"#,
        "an existing function needs no change"
    );
    let custom = custom(&seen);
    for (name, value) in [
        ("idempotency-key", "7/pay/forward"),
        ("triad-order", "7"),
        ("triad-step", "pay"),
        ("triad-direction", "forward"),
        ("triad-action", "pay"),
        ("triad-attempt", "1"),
    ] {
        assert_eq!(custom[name], value, "{name} in {custom}");
    }
    assert!(custom["triad-deadline"].is_string(), "{custom}");

    let form = json!({"key": {"field": "request_id"}, "action": {
        "content": {"cents": "${input.amount * 100}"}, "headers": {"x-shop": "7"}, "keep": ["id"]
    }});
    let output = call(&agent, Some(&form)).await;
    assert_eq!(output, Ok(json!({"id": "ch_7"})));
    let seen = aws.seen().pop().expect("a call");
    let event: Value = serde_json::from_str(&seen.body).expect("JSON");
    assert_eq!(event, json!({"cents": 2000, "request_id": "7/pay/forward"}));
    let custom = self::custom(&seen);
    assert_eq!(custom["x-shop"], "7");
    assert!(
        custom["idempotency-key"].is_null(),
        "it is in its field alone"
    );
}

#[tokio::test]
async fn an_error_of_a_function_is_in_doubt_unless_a_row_says_what_it_means() {
    let body = r#"{"errorType": "CardDeclined", "errorMessage": "no funds", "stackTrace": ["a"]}"#;
    let aws = Aws::start(move |_: &Signed| failed(body)).await;
    let agent = agent(&aws, Destination::Lambda("charge".to_owned()));
    let Err(Fault::Transient {
        code,
        message,
        maybe_applied: true,
        ..
    }) = call(&agent, None).await
    else {
        panic!("it may have had its effect");
    };
    assert_eq!(code, "CardDeclined");
    assert!(message.starts_with("no funds (POST http://"), "{message}");
    let form = json!({"action": {"answers": [
        {"when": "body.errorType == 'CardDeclined'", "means": "refused"}
    ]}});
    let refused = Fault::Permanent {
        code: "CardDeclined".to_owned(),
        message: "no funds".to_owned(),
    };
    assert_eq!(call(&agent, Some(&form)).await, Err(refused.clone()));
    let form = json!({"action": {"fails_when": "body.errorType == 'CardDeclined'"}});
    assert_eq!(call(&agent, Some(&form)).await, Err(refused));
    let form = json!({"action": {"answers": [
        {"when": "headers['x-amz-function-error'] == 'Unhandled'", "means": "may-pass", "code": "own"}
    ]}});
    let fault = call(&agent, Some(&form)).await.expect_err("it may pass");
    assert_eq!(fault.code(), "own");

    for (body, code) in [
        (
            r#"{"errorMessage": "Task timed out after 3.00 seconds"}"#,
            "function-error",
        ),
        (r#"{"errorType": "Shop::Error <x>"}"#, "Shop::Error--x-"),
        ("not JSON", "function-error"),
    ] {
        let aws = Aws::start(move |_: &Signed| failed(body)).await;
        let agent = self::agent(&aws, Destination::Lambda("charge".to_owned()));
        let fault = call(&agent, None).await.expect_err("an error");
        assert_eq!(fault.code(), code, "{fault:?}");
    }
}

/// A fault in the form of the tables below.
fn kind(fault: &Fault) -> &'static str {
    match fault {
        Fault::Transient {
            maybe_applied: true,
            ..
        } => "in doubt",
        Fault::Transient { .. } => "may pass",
        Fault::CallerRefused {
            maybe_applied: false,
            ..
        } => "caller",
        Fault::Permanent { .. } => "refused",
        _ => "other",
    }
}

#[tokio::test]
async fn an_error_of_aws_is_no_error_of_the_work() {
    let lambda = || Destination::Lambda("charge".to_owned());
    let sqs = || Destination::Sqs(QUEUE.to_owned());
    let sns = || Destination::Sns(TOPIC.to_owned());
    let xml = |code: &str| {
        format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>no &lt;way&gt;</Message></Error></ErrorResponse>"
        )
    };
    let named = |status, name: &'static str| {
        let headers = vec![("x-amzn-errortype", name)];
        (status, headers, r#"{"message": "no <way>"}"#.to_owned())
    };
    let json = |status, name: &str| {
        let body = json!({"__type": format!("com.amazonaws.sqs#{name}"), "message": "no <way>"});
        plain(status, &body.to_string())
    };
    for (to, answer, wanted, code) in [
        (
            lambda(),
            named(429, "TooManyRequestsException"),
            "may pass",
            "TooManyRequestsException",
        ),
        (
            lambda(),
            named(403, "AccessDeniedException"),
            "caller",
            "AccessDeniedException",
        ),
        (
            lambda(),
            named(404, "ResourceNotFoundException:http://x"),
            "caller",
            "ResourceNotFoundException",
        ),
        (
            lambda(),
            named(409, "ResourceConflictException"),
            "may pass",
            "ResourceConflictException",
        ),
        (
            lambda(),
            named(413, "RequestTooLargeException"),
            "refused",
            "RequestTooLargeException",
        ),
        (
            lambda(),
            named(500, "ServiceException"),
            "in doubt",
            "ServiceException",
        ),
        (lambda(), plain(503, ""), "in doubt", "http-503"),
        (
            sqs(),
            json(400, "QueueDoesNotExist"),
            "caller",
            "QueueDoesNotExist",
        ),
        (
            sqs(),
            json(400, "RequestThrottled"),
            "may pass",
            "RequestThrottled",
        ),
        (
            sqs(),
            json(400, "InvalidMessageContents"),
            "refused",
            "InvalidMessageContents",
        ),
        (
            sns(),
            plain(403, &xml("AuthorizationError")),
            "caller",
            "AuthorizationError",
        ),
        (sns(), plain(404, &xml("NotFound")), "caller", "NotFound"),
        (
            sns(),
            plain(400, &xml("KMSThrottling")),
            "may pass",
            "KMSThrottling",
        ),
        (
            sns(),
            plain(500, &xml("InternalError")),
            "in doubt",
            "InternalError",
        ),
    ] {
        let aws = Aws::start(move |_: &Signed| answer.clone()).await;
        let fault = call(&agent(&aws, to), None).await.expect_err(code);
        assert_eq!((kind(&fault), fault.code()), (wanted, code), "{fault:?}");
        let said = format!("{fault:?}");
        assert!(code == "http-503" || said.contains("no <way>"), "{said}");
    }
}

#[tokio::test]
async fn a_queue_gets_one_message_whose_attributes_say_what_it_is_for() {
    let answer = r#"{"MessageId": "m-7", "MD5OfMessageBody": "x", "SequenceNumber": "18"}"#;
    let aws = Aws::start(move |_: &Signed| plain(200, answer)).await;
    for (name, ids) in [("paid", false), ("paid.fifo", true)] {
        let url = format!("https://sqs.eu-west-3.amazonaws.com/111122223333/{name}");
        let agent = agent(&aws, Destination::Sqs(url.clone()));
        let output = call(&agent, None).await;
        assert_eq!(
            output,
            Ok(json!({"message_id": "m-7", "sequence_number": "18"}))
        );
        let seen = aws.seen().pop().expect("a call");
        assert_eq!(seen.header("x-amz-target"), "AmazonSQS.SendMessage");
        assert_eq!(
            (seen.service.as_str(), seen.region.as_str()),
            ("sqs", "eu-west-3")
        );
        let body: Value = serde_json::from_str(&seen.body).expect("JSON");
        assert_eq!(body["QueueUrl"], url);
        assert_eq!(body["MessageBody"], r#"{"amount":20}"#);
        let attributes = body["MessageAttributes"].as_object().expect("an object");
        assert!(attributes.len() <= 10, "{attributes:?}");
        let text = |value: &str| json!({"DataType": "String", "StringValue": value});
        assert_eq!(attributes["idempotency-key"], text("7/pay/forward"));
        assert_eq!(attributes["triad-order"], text("7"));
        assert_eq!(attributes["triad-step"], text("pay"));
        let wanted = match ids {
            true => (json!("7"), json!("7/pay/forward")),
            false => (Value::Null, Value::Null),
        };
        let found = (
            body["MessageGroupId"].clone(),
            body["MessageDeduplicationId"].clone(),
        );
        assert_eq!(found, wanted);
    }
    let form = json!({"action": {"content": "${input.amount}", "body": "text", "keep": {"id": "${body.message_id}"}}});
    let agent = agent(&aws, Destination::Sqs(QUEUE.to_owned()));
    assert_eq!(call(&agent, Some(&form)).await, Ok(json!({"id": "m-7"})));
    let seen = aws.seen().pop().expect("a call");
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    assert_eq!(body["MessageBody"], "20");
}

#[tokio::test]
async fn a_topic_gets_the_same() {
    let answer = "<PublishResponse><PublishResult><MessageId>m-8</MessageId></PublishResult></PublishResponse>";
    let aws = Aws::start(move |_: &Signed| plain(200, answer)).await;
    let agent = agent(&aws, Destination::Sns(format!("{TOPIC}.fifo")));
    assert_eq!(call(&agent, None).await, Ok(json!({"message_id": "m-8"})));
    let seen = aws.seen().pop().expect("a call");
    assert_eq!(
        (seen.service.as_str(), seen.region.as_str()),
        ("sns", "us-east-2")
    );
    for part in [
        "Action=Publish&Version=2010-03-31&TopicArn=arn%3Aaws%3Asns%3Aus-east-2%3A111122223333%3Apaid.fifo&",
        "&Message=%7B%22amount%22%3A20%7D&",
        "&MessageAttributes.entry.1.Name=idempotency-key&MessageAttributes.entry.1.Value.DataType=String&MessageAttributes.entry.1.Value.StringValue=7%2Fpay%2Fforward&",
        "&MessageGroupId=7&MessageDeduplicationId=7%2Fpay%2Fforward",
    ] {
        assert!(seen.body.contains(part), "{part} in {}", seen.body);
    }
}

#[tokio::test]
async fn what_aws_does_not_take_is_not_sent() {
    let aws = Aws::start(|_: &Signed| plain(200, "{}")).await;
    let function = agent(&aws, Destination::Lambda("charge".to_owned()));
    let queue = agent(&aws, Destination::Sqs(QUEUE.to_owned()));
    let many: serde_json::Map<String, Value> =
        (0..6).map(|n| (format!("x-{n}"), json!("x"))).collect();
    for (agent, form, wanted, said) in [
        (
            &function,
            json!({"path": "/v1/charges"}),
            "caller",
            "a path or a query",
        ),
        (
            &function,
            json!({"headers": {"x-long": "x".repeat(2_000) + "${input.amount}"}}),
            "sent",
            "",
        ),
        (&queue, json!({"headers": many}), "refused", "12 attributes"),
        (
            &queue,
            json!({"query": {"a": "1"}}),
            "caller",
            "a path or a query",
        ),
    ] {
        let form = json!({"action": form});
        let before = aws.seen().len();
        match call(agent, Some(&form)).await {
            Ok(_) => assert_eq!(wanted, "sent"),
            Err(fault) => {
                assert_eq!(kind(&fault), wanted, "{fault:?}");
                assert!(format!("{fault:?}").contains(said), "{fault:?}");
                assert_eq!(aws.seen().len(), before);
            }
        }
    }
    let fault = call_probing(&queue).await.expect_err("it has no answer");
    assert_eq!((kind(&fault), fault.code()), ("refused", "no-probe"));
}

#[test]
fn settings_of_http_alone_are_named() {
    let settings = HttpSettings {
        destination: Destination::Lambda("charge".to_owned()),
        headers: vec![("x-key".to_owned(), "hidden".to_owned())],
        ..settings(String::new(), triad_http::AwsAccount::default())
    };
    let error = HttpService::new(&settings).expect_err("it has headers");
    let error = error.to_string();
    assert!(
        error.starts_with("headers: is only for base_url"),
        "{error}"
    );
    let settings = HttpSettings {
        headers: Vec::new(),
        ..settings
    };
    let error = HttpService::new(&settings).expect_err("there is no account");
    assert!(
        error.to_string().starts_with("lambda: needs AWS"),
        "{error}"
    );
}
