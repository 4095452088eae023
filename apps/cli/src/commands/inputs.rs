//! `triad get --inputs`: an order's details, its steps' calls to their services, and each call as a curl command.

use serde_json::Value;
use triad_core::{Direction, IdempotencyKey, Order};
use triad_http::contract_headers;
use triad_operator::address::in_path;
use triad_operator::timeline::attempt;
use triad_runtime::Call;
use triad_workflow::service::{Body, CallDefinition, CallForm, CallRequest, Method};
use triad_workflow::{Millis, StepId};

use crate::output::quoted;

/// The inputs in lines for people. `inputs` is the form of [`triad_operator::inputs::Inputs`].
pub fn lines(order: &Order, inputs: &Value) -> Vec<String> {
    let mut lines = vec!["Details".to_owned(), pretty(&inputs["details"])];
    let calls = || inputs["calls"].as_array().into_iter().flatten();
    for record in &order.steps {
        let step = record.step.as_str();
        lines.push(String::new());
        lines.push(format!("Step {step}"));
        for call in calls().filter(|call| call["step"] == step) {
            let text = |name: &str| call[name].as_str().unwrap_or_default();
            lines.push(format!(
                "  {}: {}/{}, key {}",
                name(text("direction")),
                text("agent"),
                text("action"),
                text("idempotency_key"),
            ));
            match call["why"].as_str() {
                Some(why) => lines.push(format!("    no input now: {why}")),
                None => {
                    let number = attempt(&record.state).unwrap_or(0).max(1);
                    let shown = curl(order, &record.step, call, number);
                    lines.push(indented(&shown.unwrap_or_else(|why| format!("# {why}"))));
                }
            }
        }
        let output = &inputs["outputs"][step];
        if inputs["outputs"].get(step).is_some() {
            lines.push("  output".to_owned());
            lines.push(indented(&pretty(output)));
        }
    }
    lines
}

fn name(direction: &str) -> &str {
    match direction {
        "forward" => "action",
        "compensate" => "compensation",
        other => other,
    }
}

/// The call as a curl command. The service's address and secrets belong to the agent's settings and stand as
/// variables.
fn curl(order: &Order, step: &StepId, call: &Value, attempt: u32) -> Result<String, String> {
    let text = |name: &str| call[name].as_str().unwrap_or_default();
    let unread = |e: serde_json::Error| format!("the call cannot be read: {e}");
    let direction: Direction = serde_json::from_value(call["direction"].clone()).map_err(unread)?;
    let form: Option<CallDefinition> =
        serde_json::from_value(call["form"].clone()).map_err(unread)?;
    let key = IdempotencyKey(text("idempotency_key").to_owned());
    let compensates = call["compensates"].as_str();
    let compensates = compensates.map(|key| IdempotencyKey(key.to_owned()));
    let input = &call["input"];
    let made = Call {
        order_id: &order.id,
        step,
        direction,
        idempotency_key: &key,
        compensates: compensates.as_ref(),
        action: text("action"),
        input,
        form: form.as_ref(),
        repeats: false,
        callback: None,
        location: None,
        time_left: Millis(0),
        attempt,
        traceparent: None,
    };
    let address = format!("{}_URL", text("agent").to_uppercase().replace('-', "_"));
    let mut headers: Vec<(String, String)> = contract_headers(&made)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let default = (Method::Post, format!("/{}", in_path(text("action"))));
    let (method, path, body) = match described(form.as_ref(), input, &key) {
        None => (default.0, default.1, Some(input.to_string())),
        Some(Err(why)) => return Err(format!("there is no request: {why}")),
        Some(Ok(request)) => {
            let mut path = request.path.unwrap_or(default.1);
            if !request.query.is_empty() {
                let mut query = form_urlencoded::Serializer::new(String::new());
                query.extend_pairs(&request.query);
                path = format!("{path}?{}", query.finish());
            }
            headers.splice(0..0, request.headers);
            let (kind, body) = match request.body {
                Body::None => (None, None),
                Body::Json(value) => (Some("application/json"), Some(value.to_string())),
                Body::Text(text) => (Some("text/plain; charset=utf-8"), Some(text)),
                Body::Form(pairs) => {
                    let mut form = form_urlencoded::Serializer::new(String::new());
                    form.extend_pairs(&pairs);
                    let kind = "application/x-www-form-urlencoded";
                    (Some(kind), Some(form.finish()))
                }
            };
            let kind = kind.map(|kind| ("content-type".to_owned(), kind.to_owned()));
            headers.splice(0..0, kind);
            (request.method, path, body)
        }
    };
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%".contains(&b);
    let url = match path.bytes().all(is_plain) {
        true => format!("\"${address}{path}\""),
        false => format!("\"${address}\"{}", quoted(&path)),
    };
    let mut shown = format!("curl -sS -X {} {url}", method.as_str());
    for (header, value) in headers {
        shown.push_str(&format!(
            " \\\n  -H {}",
            quoted(&format!("{header}: {value}"))
        ));
    }
    if let Some(body) = body {
        // `-d @x` would send a file.
        let option = if body.starts_with('@') {
            "--data-raw"
        } else {
            "-d"
        };
        shown.push_str(&format!(" \\\n  {option} {}", quoted(&body)));
    }
    Ok(shown)
}

/// The request that the description of a service makes of an input; `None` if there is no description.
fn described(
    form: Option<&CallDefinition>,
    input: &Value,
    key: &IdempotencyKey,
) -> Option<Result<CallRequest, String>> {
    let form = match CallForm::compile(form?) {
        Ok(form) => form,
        Err(why) => return Some(Err(why.to_string())),
    };
    let made = form.request(input, &key.0, &Value::Null);
    Some(made.map_err(|why| why.to_string()))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}
