//! `triad get --inputs`: an order's details, its steps' calls to their services, and each call as a curl command.

use triad_core::inspect::ServiceCall;
use triad_core::{Direction, Order};
use triad_http::contract_headers;
use triad_operator::address::in_path;
use triad_operator::inputs::Inputs;
use triad_operator::timeline::attempt;
use triad_runtime::Call;
use triad_workflow::service::{Body, CallForm, CallRequest, Method};
use triad_workflow::{Millis, StepId};

use crate::output::quoted;

/// The inputs in lines for people.
pub fn lines(order: &Order, inputs: &Inputs) -> Vec<String> {
    let mut lines = vec!["Details".to_owned(), pretty(&inputs.details)];
    for (step, record) in inputs.steps.iter().zip(&order.steps) {
        lines.push(String::new());
        lines.push(format!("Step {}", step.step));
        for call in &step.calls {
            lines.push(format!(
                "  {}: {}/{}, key {}",
                name(call.direction),
                call.agent,
                call.action,
                call.idempotency_key.0
            ));
            match &call.input {
                Err(why) => lines.push(format!("    no input now: {why}")),
                Ok(_) => {
                    let number = attempt(&record.state).unwrap_or(0).max(1);
                    lines.push(indented(&curl(order, &step.step, call, number)));
                }
            }
        }
        if let Some(output) = &step.output {
            lines.push("  output".to_owned());
            lines.push(indented(&pretty(output)));
        }
    }
    lines
}

fn name(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "action",
        Direction::Probe => "probe",
        Direction::Compensate => "compensation",
    }
}

/// The call as a curl command. The service's address and secrets belong to the agent's settings and stand as
/// variables.
fn curl(order: &Order, step: &StepId, call: &ServiceCall, attempt: u32) -> String {
    let Ok(input) = &call.input else {
        return String::new();
    };
    let made = Call {
        order_id: &order.id,
        step,
        direction: call.direction,
        idempotency_key: &call.idempotency_key,
        compensates: call.compensates.as_ref(),
        action: &call.action,
        input,
        form: call.form.as_deref(),
        repeats: false,
        time_left: Millis(0),
        attempt,
        traceparent: None,
    };
    let address = format!(
        "{}_URL",
        call.agent.as_str().to_uppercase().replace('-', "_")
    );
    let mut headers: Vec<(String, String)> = contract_headers(&made)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let default = (Method::Post, format!("/{}", in_path(&call.action)));
    let (method, path, body) = match described(call, input) {
        None => (default.0, default.1, Some(input.to_string())),
        Some(Err(why)) => return format!("# there is no request: {why}"),
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
    let mut text = format!("curl -sS -X {} {url}", method.as_str());
    for (header, value) in headers {
        text.push_str(&format!(
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
        text.push_str(&format!(" \\\n  {option} {}", quoted(&body)));
    }
    text
}

/// The request that the description of a service makes of an input; `None` if there is no description.
fn described(call: &ServiceCall, input: &serde_json::Value) -> Option<Result<CallRequest, String>> {
    let form = CallForm::compile(call.form.as_deref()?);
    let form = match form {
        Ok(form) => form,
        Err(why) => return Some(Err(why.to_string())),
    };
    let made = form.request(input, &call.idempotency_key.0);
    Some(made.map_err(|why| why.to_string()))
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}")
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}
