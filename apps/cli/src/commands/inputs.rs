//! `triad get --inputs`: an order's details, its steps' calls to their services, and each call as a curl command.

use triad_core::inspect::ServiceCall;
use triad_core::{Direction, Order};
use triad_http::contract_headers;
use triad_operator::address::in_path;
use triad_operator::inputs::Inputs;
use triad_operator::timeline::attempt;
use triad_runtime::Call;
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
        time_left: Millis(0),
        attempt,
        traceparent: None,
    };
    let address = format!(
        "{}_URL",
        call.agent.as_str().to_uppercase().replace('-', "_")
    );
    let mut text = format!("curl -sS -X POST \"${address}/{}\"", in_path(&call.action));
    for (header, value) in contract_headers(&made) {
        text.push_str(&format!(
            " \\\n  -H {}",
            quoted(&format!("{header}: {value}"))
        ));
    }
    text.push_str(&format!(" \\\n  -d {}", quoted(&input.to_string())));
    text
}

fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}")
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}
