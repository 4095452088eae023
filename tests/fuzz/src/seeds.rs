//! Valid inputs for each target, from the project's golden files and examples.

use serde_json::json;

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|t| t.as_bytes().to_vec()).collect()
}

fn lines(text: &str) -> Vec<Vec<u8>> {
    text.lines().map(|l| l.as_bytes().to_vec()).collect()
}

/// Submitted orders.
#[must_use]
pub fn submissions() -> Vec<Vec<u8>> {
    lines(include_str!("../../../examples/orders/sample.jsonl"))
}

/// Messages to the Scheduler, to agents, to applications and to operators.
#[must_use]
pub fn messages() -> Vec<Vec<u8>> {
    let reply = |outcome| {
        json!({
            "type": "reply", "order_id": "1", "step": "charge", "direction": "forward",
            "attempt": 1, "complete_by": 5_000, "calls": 2, "outcome": outcome,
        })
    };
    let failure = json!({"kind": "transient", "code": "503", "message": "busy"});
    let all = [
        json!({
            "type": "accepted", "order_id": "1", "workflow": "w@0123456789abcdef",
            "submitted_at": 1, "due": 60_000, "details": {"n": 1}, "priority": "high",
        }),
        json!({"type": "wake", "order_id": "1"}),
        reply(json!({"result": "succeeded", "output": {"reference": 1}})),
        reply(json!({"result": "failed", "failure": failure, "maybe_applied": true})),
        reply(
            json!({"result": "deferred", "failure": failure, "maybe_applied": false,
            "until": 9_000}),
        ),
        json!({
            "order_id": "1", "step": "charge", "direction": "compensate", "attempt": 2,
            "complete_by": 5_000, "attempt_timeout_ms": 1_000, "allowance": 3, "backoff_initial_ms": 5,
            "backoff_max_ms": 50,
            "idempotency_key": "1/charge/compensate", "compensates": "1/charge/forward", "action": "refund",
            "input": {"amount": 1.5}, "agent": "payment", "workflow": "w",
        }),
        json!({"order_id": "1", "sequence": 3, "status": "retrying", "cause": failure, "at": 7}),
        json!({"alert_id": "1/Error/7", "kind": "order-error", "order_id": "1",
            "cause": "it failed", "at": 7}),
    ];
    all.iter().map(|m| m.to_string().into_bytes()).collect()
}

/// Events of Lambda's event source mappings.
#[must_use]
pub fn events() -> Vec<Vec<u8>> {
    texts(&[
        include_str!("../../../shared/adapters/lambda/tests/golden/msk.event.json"),
        include_str!("../../../shared/adapters/lambda/tests/golden/self-managed.event.json"),
        include_str!("../../../shared/adapters/lambda/tests/golden/odd.event.json"),
        include_str!("../../../shared/adapters/lambda/tests/golden/malformed.event.json"),
    ])
}

/// Events of a Lambda function URL.
#[must_use]
pub fn requests() -> Vec<Vec<u8>> {
    let event = |method: &str, body: &str, is_base64_encoded: bool| {
        json!({
            "version": "2.0", "routeKey": "$default", "rawPath": "/console/orders/a%2Fb",
            "rawQueryString": "state=Error&id=%C3%A9", "cookies": ["triad-console=x", "a=b"],
            "headers": {"host": "h.lambda-url.eu-west-1.on.aws", "accept": "text/html,*/*"},
            "requestContext": {"http": {"method": method, "path": "/console/orders/a/b",
                "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"}, "timeEpoch": 1},
            "body": body, "isBase64Encoded": is_base64_encoded,
        })
    };
    let all = [event("GET", "", false), event("POST", "d29yZD14", true)];
    all.iter().map(|e| e.to_string().into_bytes()).collect()
}

/// Dead letters: the value, then a line for each header.
#[must_use]
pub fn letters() -> Vec<Vec<u8>> {
    texts(&[
        "{}\nce_type=triad.dead-letter\ntriad-topic=orders\ntriad-partition=1\ntriad-offset=7\
         \ntriad-cause=not-an-order\ntriad-cause-message=it is not\nce_time=2026-01-01T00:00:00Z",
        "\nce_type=triad.dead-letter.replayed\ntriad-topic=orders\ntriad-partition=1\
         \ntriad-offset=7\ntriad-by=ann\ntriad-why=fixed",
    ])
}

/// Process records in DynamoDB's JSON.
#[must_use]
pub fn records() -> Vec<Vec<u8>> {
    texts(&[include_str!(
        "../../../shared/adapters/dynamodb/tests/golden/order-state.json"
    )])
}

/// Workflow files.
#[must_use]
pub fn definitions() -> Vec<Vec<u8>> {
    texts(&[
        include_str!("../../../examples/workflows/order-fulfilment.yaml"),
        include_str!("../../../examples/workflows/three-steps.yaml"),
    ])
}

/// CEL expressions.
#[must_use]
pub fn expressions() -> Vec<Vec<u8>> {
    texts(&[
        "details.freight > 0.0 && details.name != \"\"",
        "steps[\"a\"].ref",
        "details.lines.map(l, l.quantity * 2).filter(q, q > 1)",
        "order.priority == \"high\" ? [1, 2] : {\"a\": 3u, \"b\": 0x1F}",
        "size(details.name) + int(details.freight) % 7 - -3",
        "has(details.none) || details.lines.exists(l, l.quantity in [1, 2, 3])",
        "timestamp(\"2026-01-01T00:00:00Z\") + duration(\"1h\")",
        "details.map(name, name) + {\"b\": 1, \"a\": 2, 3: 4}.map(k, k)",
        "{\"1\": details, 1: order}",
        "details * order.id[0]",
    ])
}

/// Inputs of steps.
#[must_use]
pub fn templates() -> Vec<Vec<u8>> {
    texts(&[
        r#"{"customer": "${details.name}", "n": ["${details.freight}", 1, null, true]}"#,
        r#""order ${order.id} of ${details.lines[0].quantity} pieces""#,
        r#"{"deep": {"deeper": [{"x": "${steps[\"a\"].ref}"}]}}"#,
    ])
}

/// Answers of services: status, headers, an empty line and a body.
#[must_use]
pub fn answers() -> Vec<Vec<u8>> {
    let mut all = texts(&[
        "200\ncontent-type: application/json\n\n{\"id\": \"ch_1\", \"ok\": true, \"card\": {\"last4\": \"4242\"}}",
        "200\ncontent-type: application/json\n\n{\"ok\": false, \"error\": {\"code\": \"declined\"}}",
        "201\ncontent-type: text/html\n\n<html>OK</html>",
        "200\n\n\u{feff}{\"id\": 12345678901234567890123, \"n\": 1.10}",
        "204\n\n",
        "1200\ncontent-type: application/json\n\n{\"id\": \"ch_",
        "409\nretry-after: 7.5\n\n",
        "429\nretry-after: Wed, 21 Oct 2026 07:28:00 GMT\ndate: x\n\nslow",
        "302\nlocation: /elsewhere\n\n",
        "402\n\n{\"error\": {\"code\": \"card_declined\", \"message\": \"no\"}}",
        "503\n\n<html>down",
        "200\ncontent-type: application/xml; charset=iso-8859-1\n\n<a>caf\u{e9}</a>",
    ]);
    let mut packed = b"200\ncontent-encoding: gzip\ncontent-type: application/json\n\n".to_vec();
    // gzip of {"id":1}, with a stored block.
    packed.extend_from_slice(&[
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 8, 0, 0xf7, 0xff, b'{', b'"', b'i', b'd', b'"',
        b':', b'1', b'}', 0xc5, 0xf8, 0x5d, 0x44, 8, 0, 0, 0,
    ]);
    all.push(packed);
    all
}
