//! What is run in a world: workflows, orders, and records that nobody can take.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use triad_core::{Context, Timing, WorkflowRef};
use triad_workflow::{Limits, Millis, Workflow};

use crate::rng::Rng;

/// Spans of every world: short, so that much happens in little virtual time.
pub(crate) const TIMING: Timing = Timing {
    skew: Millis(500),
    announce_within: Millis(15_000),
    confirm_within: Millis(8_000),
};

/// The agents, each a service of its own.
pub(crate) const AGENTS: [&str; 2] = ["stock", "bank"];

const DEFINITIONS: [&str; 5] = [
    r#"{"workflow": "line",
      "defaults": {"complete_within": "4s", "retry": {"calls": 3, "initial": "50ms", "max": "500ms"}, "supervisor": {"threshold": 2, "delay": "1s"}},
      "steps": [
        {"id": "reserve", "agent": "stock", "action": "reserve", "input": {"item": "${details.item}"},
         "compensation": {"action": "release", "input": {"of": "${output}"}}},
        {"id": "charge", "agent": "bank", "action": "charge", "input": {"for": "${steps.reserve.reference}"},
         "compensation": {"action": "refund", "threshold": 3}},
        {"id": "ship", "agent": "stock", "action": "ship", "compensation": {"action": "recall"}}]}"#,
    r#"{"workflow": "fork",
      "defaults": {"complete_within": "3s", "retry": {"calls": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"threshold": 1}},
      "steps": [
        {"id": "p", "agent": "stock", "action": "p", "after": [], "complete_within": "6s", "compensation": {"action": "undo-p"}},
        {"id": "q", "agent": "bank", "action": "q", "after": [], "compensation": {"action": "undo-q", "agent": "bank"}},
        {"id": "r", "agent": "bank", "action": "r", "after": [], "compensation": "none"},
        {"id": "join", "agent": "stock", "action": "join", "after": ["p", "q"],
         "input": {"p": "${steps.p.reference}", "q": "${steps.q.reference}"}, "compensation": {"action": "undo-join"}}]}"#,
    r#"{"workflow": "choice",
      "defaults": {"complete_within": "4s", "retry": {"calls": 2}, "supervisor": {"threshold": 1, "delay": "500ms"}},
      "steps": [
        {"id": "check", "agent": "bank", "action": "check", "compensation": "none"},
        {"id": "gift", "agent": "stock", "action": "gift", "when": "details.gift", "compensation": {"action": "ungift"}},
        {"id": "pay", "agent": "bank", "action": "pay", "input": {"sum": "${details.sum + 1}"}, "compensation": {"action": "repay"}}]}"#,
    r#"{"workflow": "pivot",
      "defaults": {"complete_within": "3s", "retry": {"calls": 2, "initial": "20ms", "max": "100ms"}, "supervisor": {"threshold": 1}},
      "steps": [
        {"id": "hold", "agent": "stock", "action": "hold", "compensation": {"action": "free"}},
        {"id": "sell", "agent": "bank", "action": "sell", "point_of_no_return": true},
        {"id": "send", "agent": "stock", "action": "send",
         "supervisor": {"threshold": 1, "wait": {"delay": "10s", "times": 2}}}]}"#,
    r#"{"workflow": "brittle",
      "defaults": {"complete_within": "2s", "retry": {"calls": 1}, "supervisor": {"threshold": 0, "then": "error"}},
      "steps": [
        {"id": "one", "agent": "stock", "action": "one", "compensation": {"action": "undo-one"}},
        {"id": "two", "agent": "bank", "action": "two", "compensation": "none"}]}"#,
];

static WORKFLOWS: LazyLock<Vec<Arc<Workflow>>> = LazyLock::new(|| {
    let compiled = DEFINITIONS.iter().map(|json| {
        let definition = serde_json::from_str(json).expect("a definition");
        let limits = Limits {
            agents: Some(AGENTS.iter().map(|a| (*a).to_owned()).collect()),
            skew: TIMING.skew,
        };
        Arc::new(Workflow::compile(definition, &limits).expect("a sound definition"))
    });
    compiled.collect()
});

/// All workflows.
pub(crate) fn workflows() -> &'static [Arc<Workflow>] {
    &WORKFLOWS
}

/// The workflow that an order is pinned to.
pub(crate) fn compiled(wanted: &WorkflowRef) -> Option<Arc<Workflow>> {
    let found = WORKFLOWS.iter().find(|w| w.hash == wanted.hash);
    found.cloned()
}

/// A context for what needs no details.
pub(crate) fn context(workflow: &Workflow) -> Context<'_> {
    Context {
        workflow,
        details: &Value::Null,
        timing: TIMING,
    }
}

/// One order, as its application sends it.
#[derive(Debug, Clone)]
pub(crate) struct NewOrder {
    pub id: String,
    pub high: bool,
    pub value: Vec<u8>,
    /// The same id with other content, sent after it.
    pub conflict: Option<Vec<u8>>,
    pub repeats: u32,
}

/// The orders of a seed.
pub(crate) fn orders(rng: &mut Rng, count: usize) -> Vec<NewOrder> {
    let order = |rng: &mut Rng, n: usize| {
        let id = format!("o{n}");
        let workflow = rng.pick(workflows()).name.to_string();
        let mut details = json!({"item": n, "gift": rng.chance(500), "sum": 7});
        if rng.chance(60) {
            details["sum"] = json!("seven");
        }
        if rng.chance(40) {
            details["item"] = Value::Null;
        }
        let mut body = json!({"order_id": id, "workflow": workflow, "details": details});
        if rng.chance(200) {
            body["reply_topic"] = json!("reply.app");
        }
        let conflict = rng.chance(80).then(|| {
            let mut other = body.clone();
            other["details"]["item"] = json!("another");
            other.to_string().into_bytes()
        });
        NewOrder {
            id,
            high: rng.chance(150),
            value: body.to_string().into_bytes(),
            conflict,
            repeats: u32::try_from(rng.below(10) / 8).unwrap_or(0),
        }
    };
    (0..count).map(|n| order(rng, n)).collect()
}

/// Orders of three steps in a line and nothing else, for the speed figure.
pub(crate) fn plain_orders(count: usize) -> Vec<NewOrder> {
    let order = |n: usize| {
        let id = format!("o{n}");
        let body = json!({"order_id": id, "workflow": "line", "details": {"item": n}});
        NewOrder {
            id,
            high: false,
            value: body.to_string().into_bytes(),
            conflict: None,
            repeats: 0,
        }
    };
    (0..count).map(order).collect()
}

/// A record that cannot be taken: topic, value, what it is counted as.
pub(crate) fn poison(rng: &mut Rng) -> (&'static str, Vec<u8>, &'static str) {
    let deep = || "[".repeat(500).into_bytes();
    match rng.below(8) {
        0 => ("orders", b"{oops".to_vec(), "input: poison order"),
        1 => ("orders", vec![0xff, 0xfe, b'{'], "input: poison order"),
        2 => ("orders", Vec::new(), "input: poison order"),
        3 => ("orders", deep(), "input: poison order"),
        4 => (
            "orders",
            br#"{"order_id": "nobody", "workflow": "no-such"}"#.to_vec(),
            "input: poison order",
        ),
        5 => (
            "scheduler",
            br#"{"type": "bogus"}"#.to_vec(),
            "input: poison scheduler message",
        ),
        6 => ("scheduler", Vec::new(), "input: poison scheduler message"),
        _ => ("agent.stock", b"\xc3\x28".to_vec(), "input: poison request"),
    }
}

/// How long everything that is in flight may take once the faults have stopped: the bound of
/// guarantee G9.
///
/// Every attempt of every step may have to be waited for, retried after its longest delay and
/// announced twice; each of these is noticed by a sweep within `look`.
pub(crate) fn bound_ms(look: u64) -> u64 {
    let of = |w: &Workflow| -> u64 {
        let noticed = look + TIMING.skew.0 * 2 + TIMING.announce_within.0;
        let steps = w.steps.iter().map(|s| {
            let delay = s
                .policy
                .max_delay
                .0
                .max(s.policy.wait.map_or(0, |(d, _)| d.0));
            let forward =
                u64::from(s.policy.max_attempts()) * (s.complete_within.0 + delay + noticed);
            let undo = s.compensation.as_ref().map_or(0, |c| {
                u64::from(c.threshold + 1) * (c.complete_within.0 + c.delay.1.0 + noticed)
            });
            forward + undo
        });
        let confirmed = TIMING.confirm_within.0 + look;
        steps.sum::<u64>() + 2 * noticed + confirmed
    };
    workflows().iter().map(|w| of(w)).max().unwrap_or(0)
}
