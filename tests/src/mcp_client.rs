//! A client of `triad mcp` that finds the cause of a problem by a fixed strategy, using only the tools' answers.

use serde_json::{Value, json};

use crate::mcp::Mcp;

/// The cause of a problem, with the details that are needed to solve it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Culprit {
    /// An operator has stopped calls to a downstream.
    Stopped {
        /// The downstream that was stopped.
        downstream: String,
        /// The operator's name.
        by: String,
    },
    /// An operator has paused a step.
    StepPaused {
        /// The step, as `WORKFLOW/STEP`.
        step: String,
        /// The operator's name.
        by: String,
    },
    /// Calls to a service fail.
    Service {
        /// The downstream.
        downstream: String,
        /// The code of the failure.
        code: String,
    },
    /// A compensation fails.
    Compensation {
        /// The step that is not compensated.
        step: String,
        /// Its downstream.
        downstream: String,
    },
    /// An effect is in doubt.
    InDoubt {
        /// The step.
        step: String,
        /// The downstream whose service can tell whether the effect happened.
        downstream: String,
    },
    /// A definition refers to a field that an order lacks.
    Definition {
        /// The step, as `WORKFLOW/STEP`.
        step: String,
    },
    /// A record cannot be handled.
    Record {
        /// The cause in the dead letter.
        cause: String,
        /// The topic of the record.
        topic: String,
        /// The order's id, if the record has one.
        order: Option<String>,
    },
}

/// Finds the cause of a problem; `None` if there is none. `talk` counts the tool calls.
///
/// # Panics
/// If a tool fails.
pub async fn find(talk: &mut Mcp) -> Option<Culprit> {
    let seen = call_tool(talk, "get_overview", json!({})).await;
    // Reported first, because a stopped downstream causes other symptoms.
    let held: Vec<&Value> = list(&seen["downstreams"])
        .iter()
        .filter(|one| is_held(one))
        .collect();
    if let Some(culprit) = held.iter().find_map(|one| by_hand(one)) {
        return Some(culprit);
    }
    if let Some(cause) = list(&seen["causes"]["causes"]).first() {
        let order = json!({"id": cause["example"]});
        let order = call_tool(talk, "get_order", order).await;
        return Some(of_order(talk, &order).await);
    }
    if let Some(held) = held.first() {
        return Some(behind(talk, held).await);
    }
    if seen["orders"]["Compensated"].as_u64() > Some(0) {
        let compensated = json!({"state": "Compensated", "limit": 1});
        let found = call_tool(talk, "list_orders", compensated).await;
        if let Some(order) = list(&found["orders"]).first() {
            let order = json!({"id": order["order_id"]});
            let order = call_tool(talk, "get_order", order).await;
            return Some(of_order(talk, &order).await);
        }
    }
    if seen["under_way"]["orders"] != 0 {
        let under_way = json!({"state": "Processing", "limit": 5});
        let found = call_tool(talk, "list_orders", under_way).await;
        for order in list(&found["orders"]).iter().take(2) {
            let order = json!({"id": order["order_id"]});
            let order = call_tool(talk, "get_order", order).await;
            if let Some(step) = failing(&order) {
                return Some(service(talk, &order, step).await);
            }
        }
    }
    let letters = call_tool(talk, "list_dead_letters", json!({"not_replayed": true})).await;
    let newest = list(&letters["letters"]).last()?;
    let (topic, partition, offset) = (&newest["topic"], &newest["partition"], &newest["offset"]);
    let place = json!({"topic": topic, "partition": partition, "offset": offset});
    let letter = call_tool(talk, "get_dead_letter", place).await;
    Some(record(&letter))
}

async fn call_tool(talk: &mut Mcp, tool: &str, arguments: Value) -> Value {
    talk.call(tool, arguments).await.expect("the tool answers")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Whether a downstream is not called freely.
fn is_held(downstream: &Value) -> bool {
    let record = &downstream["record"];
    record["breaker"]["state"] != "closed"
        || !record["forced"].is_null()
        || !list(&record["paused"]).is_empty()
}

/// The cause for a held downstream, if an operator's act holds it.
fn by_hand(held: &Value) -> Option<Culprit> {
    let record = &held["record"];
    if record["forced"]["to"] == "open" {
        return Some(Culprit::Stopped {
            downstream: text(&held["downstream"]),
            by: text(&record["forced"]["by"]),
        });
    }
    let paused = list(&record["paused"]).first()?;
    Some(Culprit::StepPaused {
        step: format!("{}/{}", text(&paused["workflow"]), text(&paused["step"])),
        by: text(&paused["by"]),
    })
}

/// The cause for an order that has stopped for an operator.
async fn of_order(talk: &mut Mcp, order: &Value) -> Culprit {
    let failure = &order["failure"];
    let step = text(&failure["step"]);
    if order["state"] == "CompensationFailed" {
        let mut steps = list(&order["steps"]).iter();
        let stuck = steps.rfind(|s| s["state"] == "not-compensated");
        let step = stuck.map_or(step, |s| text(&s["step"]));
        let downstream = agent(talk, order, &step).await;
        return Culprit::Compensation { step, downstream };
    }
    match failure["kind"].as_str() {
        Some("definition") => Culprit::Definition {
            step: format!("{}/{step}", pinned(order).0),
        },
        Some("ambiguous") => Culprit::InDoubt {
            downstream: agent(talk, order, &step).await,
            step,
        },
        _ => Culprit::Service {
            downstream: agent(talk, order, &step).await,
            code: text(&failure["code"]),
        },
    }
}

/// The cause of an open circuit breaker: the failure of an order that waits for it.
async fn behind(talk: &mut Mcp, held: &Value) -> Culprit {
    let waiting = json!({"state": "Processing", "limit": 1});
    let found = call_tool(talk, "list_orders", waiting).await;
    let mut code = None;
    if let Some(order) = list(&found["orders"]).first() {
        let order = json!({"id": order["order_id"]});
        let order = call_tool(talk, "get_order", order).await;
        let mut met = list(&order["timeline"]).iter();
        code = met.find_map(|line| code_of(line["what"].as_str()?));
    }
    Culprit::Service {
        downstream: text(&held["downstream"]),
        code: code.unwrap_or_else(|| "breaker-open".to_owned()),
    }
}

/// The code in a line of the timeline about a service's failure.
fn code_of(line: &str) -> Option<String> {
    let kinds = ["transient/", "timed-out/", "permanent/"];
    let at = kinds.iter().find_map(|kind| line.find(kind))?;
    let fingerprint = line[at..].split([':', ' ']).next()?;
    let code = fingerprint.rsplit('/').next()?;
    (code != "breaker-open").then(|| code.to_owned())
}

/// The step that has failed in an order.
fn failing(order: &Value) -> Option<&Value> {
    list(&order["steps"])
        .iter()
        .find(|step| !step["error"].is_null())
}

async fn service(talk: &mut Mcp, order: &Value, step: &Value) -> Culprit {
    Culprit::Service {
        downstream: agent(talk, order, &text(&step["step"])).await,
        code: text(&step["error"]["code"]),
    }
}

/// The workflow and version of an order.
fn pinned(order: &Value) -> (&str, &str) {
    let named = order["workflow"].as_str().and_then(|w| w.split_once('@'));
    named.expect("an order has a workflow and its version")
}

/// The downstream of a step, by the order's definition.
async fn agent(talk: &mut Mcp, order: &Value, step: &str) -> String {
    let (workflow, version) = pinned(order);
    let which = json!({"name": workflow, "version": version});
    let found = call_tool(talk, "get_workflow", which).await;
    let mut steps = list(&found["definition"]["steps"]).iter();
    let declared = steps.find(|one| one["id"] == *step);
    declared.map_or_else(String::new, |one| text(&one["agent"]))
}

fn record(letter: &Value) -> Culprit {
    let value = letter["value"].as_str().unwrap_or_default();
    let value: Value = serde_json::from_str(value).unwrap_or_default();
    let id = letter["id"].as_str().unwrap_or_default();
    Culprit::Record {
        cause: text(&letter["cause"]),
        topic: text(&id.split('/').next().unwrap_or_default().into()),
        order: value["order_id"].as_str().map(str::to_owned),
    }
}
