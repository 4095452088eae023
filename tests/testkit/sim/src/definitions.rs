//! The workflows of every world, and later versions of them that are published while orders run.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use foldhash::fast::FixedState;
use triad_core::{Context, Timing, WorkflowRef};
use triad_workflow::hash::canonical_json;
use triad_workflow::model::Definition;
use triad_workflow::{DefinitionHash, Limits, Millis, Workflow};

/// Time limits of every world: short, so that many events happen in little virtual time.
pub(crate) const TIMING: Timing = Timing {
    skew: Millis(500),
    queue_within: Millis(10_000),
    hear_within: Millis(2_000),
    announce_within: Millis(15_000),
    confirm_within: Millis(8_000),
};

/// The agents, each with its own service. All services but [`ONCE`] recognise a repeated key.
pub(crate) const AGENTS: [&str; 3] = ["stock", "bank", "mail"];

/// The service that applies an effect for every call, even if it has seen the key before.
pub(crate) const ONCE: &str = "mail";

/// The first versions of the workflows whose steps call services alone.
const CALLING: [&str; 13] = [
    r#"{"workflow": "line", "search": {"item": "${details.item}"},
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 3, "initial": "50ms", "max": "500ms"}, "supervisor": {"failure_threshold": 2, "delay": "1s"}},
      "steps": [
        {"id": "reserve", "agent": "stock", "action": "reserve", "input": {"item": "${details.item}"},
         "compensation": {"action": "release", "input": {"of": "${output}"}}},
        {"id": "charge", "agent": "bank", "action": "charge", "input": {"for": "${steps.reserve.reference}"},
         "compensation": {"action": "refund", "failure_threshold": 3}},
        {"id": "ship", "agent": "stock", "action": "ship", "compensation": {"action": "recall"}}]}"#,
    r#"{"workflow": "fork",
      "defaults": {"attempt_timeout": "3s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 1}},
      "steps": [
        {"id": "p", "agent": "stock", "action": "p", "after": [], "attempt_timeout": "6s", "compensation": {"action": "compensate-p"}},
        {"id": "q", "agent": "bank", "action": "q", "after": [], "compensation": {"action": "compensate-q", "agent": "bank"}},
        {"id": "r", "agent": "bank", "action": "r", "after": [], "compensation": "none"},
        {"id": "join", "agent": "stock", "action": "join", "after": ["p", "q"],
         "input": {"p": "${steps.p.reference}", "q": "${steps.q.reference}"}, "compensation": {"action": "compensate-join"}}]}"#,
    r#"{"workflow": "unlike",
      "defaults": {"attempt_timeout": "3s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 2}},
      "steps": [
        {"id": "slow", "agent": "stock", "action": "slow", "after": [],
         "supervisor": {"failure_threshold": 2, "delay": "40s", "max_delay": "1m"}, "compensation": {"action": "unslow"}},
        {"id": "quick", "agent": "bank", "action": "quick", "after": [], "compensation": {"action": "unquick"}},
        {"id": "next", "agent": "bank", "action": "next", "after": ["quick"], "compensation": {"action": "unnext"}},
        {"id": "last", "agent": "stock", "action": "last", "after": ["slow", "next"], "compensation": {"action": "unlast"}}]}"#,
    r#"{"workflow": "choice", "search": {"gift": "${details.gift}", "note": "${details.note}"},
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1, "delay": "500ms"}},
      "steps": [
        {"id": "check", "agent": "bank", "action": "check", "compensation": "none"},
        {"id": "gift", "agent": "stock", "action": "gift", "when": "details.gift", "compensation": {"action": "ungift"}},
        {"id": "pay", "agent": "bank", "action": "pay", "input": {"sum": "${details.sum + 1}"}, "compensation": {"action": "repay"}}]}"#,
    r#"{"workflow": "pivot",
      "defaults": {"attempt_timeout": "3s", "retry": {"calls_per_attempt": 2, "initial": "20ms", "max": "100ms"}, "supervisor": {"failure_threshold": 1}},
      "steps": [
        {"id": "hold", "agent": "stock", "action": "hold", "compensation": {"action": "free"}},
        {"id": "sell", "agent": "bank", "action": "sell", "point_of_no_return": true},
        {"id": "send", "agent": "stock", "action": "send",
         "supervisor": {"failure_threshold": 1, "wait": {"delay": "10s", "attempts": 2}}}]}"#,
    r#"{"workflow": "brittle",
      "defaults": {"attempt_timeout": "2s", "retry": {"calls_per_attempt": 1}, "supervisor": {"failure_threshold": 0, "then": "error"}},
      "steps": [
        {"id": "one", "agent": "stock", "action": "one", "compensation": {"action": "compensate-one"}},
        {"id": "two", "agent": "bank", "action": "two", "compensation": "none"}]}"#,
    r#"{"workflow": "letter",
      "defaults": {"attempt_timeout": "4s", "supervisor": {"failure_threshold": 1, "delay": "500ms"}},
      "steps": [
        {"id": "frame", "agent": "stock", "action": "frame", "retry": {"calls_per_attempt": 2}, "compensation": {"action": "unframe"}},
        {"id": "write", "agent": "mail", "action": "write", "at_most_once": true, "input": {"item": "${details.item}"},
         "compensation": {"action": "recall"}},
        {"id": "bill", "agent": "bank", "action": "bill", "retry": {"calls_per_attempt": 2}, "compensation": {"action": "credit"}}]}"#,
    r#"{"workflow": "parcel",
      "defaults": {"attempt_timeout": "4s", "supervisor": {"failure_threshold": 2, "delay": "500ms"}},
      "steps": [
        {"id": "pack", "agent": "stock", "action": "pack", "retry": {"calls_per_attempt": 2}, "compensation": {"action": "unpack"}},
        {"id": "post", "agent": "mail", "action": "post", "probe": {"action": "was-posted", "attempt_timeout": "3s"},
         "compensation": {"action": "intercept"}},
        {"id": "toll", "agent": "bank", "action": "toll", "after": ["pack"], "retry": {"calls_per_attempt": 1}, "compensation": "none"}]}"#,
    r#"{"workflow": "metered", "search": {"item": "${details.item}", "sum": "${details.sum}"},
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "calls_per_run": 3, "initial": "50ms", "max": "300ms"},
        "supervisor": {"failure_threshold": 3, "delay": "300ms", "defer_for": "6s"}},
      "steps": [
        {"id": "dial", "agent": "bank", "action": "dial", "compensation": {"action": "hang-up"}},
        {"id": "talk", "agent": "stock", "action": "talk", "compensation": {"action": "forget", "retry": {"calls_per_attempt": 2, "calls_per_run": 2}}}]}"#,
    r#"{"workflow": "shelf", "search": {"note": "${details.note}"},
      "details_schema": {"type": "object", "additionalProperties": false, "required": ["item", "sum"],
        "properties": {"item": {}, "gift": {"type": "boolean"}, "sum": {"type": "integer"}, "note": {"maxLength": 50}}},
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 2}},
      "steps": [
        {"id": "count", "agent": "stock", "action": "count", "compensation": "none"},
        {"id": "fill", "agent": "stock", "action": "fill", "compensation": {"action": "empty"}}]}"#,
    r#"{"workflow": "dated", "order_timeout": "50s", "progress": true,
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 2, "retry_at_once": true}},
      "steps": [
        {"id": "book", "agent": "stock", "action": "book", "compensation": {"action": "unbook"}},
        {"id": "card", "agent": "mail", "action": "card", "at_most_once": true, "compensation": {"action": "recall-card"}},
        {"id": "fee", "agent": "bank", "action": "fee", "compensation": {"action": "waive"}}]}"#,
    r#"{"workflow": "ticket", "order_timeout": "40s", "progress": true,
      "defaults": {"attempt_timeout": "3s", "retry": {"calls_per_attempt": 1}, "supervisor": {"failure_threshold": 3, "retry_at_once": true}},
      "steps": [
        {"id": "seat", "agent": "stock", "action": "seat", "compensation": {"action": "unseat"}},
        {"id": "pay-for", "agent": "bank", "action": "pay-for", "point_of_no_return": true},
        {"id": "print", "agent": "stock", "action": "print", "supervisor": {"failure_threshold": 2, "delay": "1s"}}]}"#,
    r#"{"workflow": "twins-of_64-0123456789-abcdefghijklmnopqrstuvwxyz_abcdefghijklmn",
      "defaults": {"attempt_timeout": "4s", "supervisor": {"failure_threshold": 1}},
      "steps": [
        {"id": "l", "agent": "mail", "action": "left", "after": [], "at_most_once": true, "compensation": {"action": "unleft"}},
        {"id": "right-of_64-0123456789-abcdefghijklmnopqrstuvwxyz_abcdefghijklmn", "agent": "mail", "action": "right", "after": [], "at_most_once": true, "compensation": {"action": "unright"}}]}"#,
];

/// The first versions of the workflows of which a step waits for a moment, for events or for work that its service
/// finishes later.
const WAITING: [&str; 3] = [
    r#"{"workflow": "sale", "progress": true,
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 2}},
      "steps": [
        {"id": "put-by", "agent": "stock", "action": "put-by", "compensation": {"action": "put-back"}},
        {"id": "cool", "wait": {"for": "2s"}},
        {"id": "paid", "await": {"event": "paid", "match": "event.sum == details.sum", "key": "${order.id}", "within": "20s",
         "decision": {"by": ["ann"], "remind": "6s", "escalate": {"after": "9s", "to": ["bob"]}, "form": {"required": ["sum"]}}}},
        {"id": "book", "agent": "bank", "action": "book", "input": {"payment": "${steps.paid.payment}"}, "compensation": {"action": "unbook"}}]}"#,
    r#"{"workflow": "lease",
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 1}},
      "steps": [
        {"id": "draw-up", "agent": "stock", "action": "draw-up", "after": [], "compensation": {"action": "tear-up"}},
        {"id": "agreed", "after": [], "await": {"all_of": [{"event": "paid"}, {"event": "signed"}], "within": "15s", "otherwise": "error"}},
        {"id": "any", "after": ["draw-up"], "await": {"first_of": [{"event": "paid"}, {"event": "signed"}], "fails_when": "event.data.sum == 8",
         "within": "12s", "otherwise": "continue"}},
        {"id": "hand-over", "agent": "bank", "action": "hand-over", "after": ["agreed", "any"], "compensation": "none"}]}"#,
    r#"{"workflow": "freight", "progress": true,
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 2}},
      "steps": [
        {"id": "book", "agent": "stock", "action": "book", "compensation": {"action": "unbook", "input": {"of": "${output}"}},
         "finishes_later": {"within": "20s", "fails_when": "event.state == 'failed'",
           "poll": {"action": "look", "input": {"job": "${output.job}"}, "every": "1s", "max": "4s"}}},
        {"id": "insure", "agent": "bank", "action": "insure", "input": {"of": "${steps.book.reference}"}, "compensation": {"action": "uninsure"},
         "finishes_later": {"within": "25s", "heartbeat": "8s", "fails_when": "event.state == 'failed'"}},
        {"id": "send", "agent": "stock", "action": "send", "compensation": "none"}]}"#,
];

/// The first versions of the workflows of which a step runs orders of others.
const RUNNING: [&str; 3] = [
    r#"{"workflow": "batch", "order_timeout": "90s", "progress": true,
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 1}},
      "steps": [
        {"id": "open", "agent": "stock", "action": "open", "compensation": {"action": "shut"}},
        {"id": "lay", "for_each": {"in": "details.gift ? ['a', 'b', 'c'] : ['a']", "as": "what", "at_once": 2},
         "agent": "bank", "action": "lay", "input": {"what": "${what}"}, "compensation": {"action": "lift"}},
        {"id": "seal", "agent": "stock", "action": "seal", "input": {"of": "${steps.lay}", "sum": "${details.sum + 1}"}, "compensation": {"action": "unseal"}}]}"#,
    r#"{"workflow": "group",
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 1}},
      "steps": [
        {"id": "quote", "after": [], "action": "quote", "input": {"sum": "${details.sum}"}, "compensation": {"action": "unquote", "input": {"of": "${output}"}},
         "first_of": [{"agent": "bank"}, {"agent": "stock", "attempt_timeout": "6s"}, {"wait": {"for": "2s"}}]},
        {"id": "plan", "after": [], "for_each": {"in": "['x', 'y']", "at_once": 2, "tolerate": 1},
         "run": {"workflow": "choice", "details": {"item": "${item}", "gift": "${details.gift}", "sum": "${details.sum}"}}},
        {"id": "file", "agent": "bank", "action": "file", "input": {"plan": "${steps.plan[0]}"},
         "supervisor": {"failure_threshold": 1, "by_code": {"internal": {"failure_threshold": 2, "delay": "1s"}}},
         "compensation": {"action": "unfile", "input": {"of": "${output}", "plan": "${input.plan}"}},
         "on_failure": [{"agent": "stock", "action": "store", "unless": ["expression"]}]},
        {"id": "deal", "run": {"workflow": "pivot"}, "when": "details.gift"}]}"#,
    r#"{"workflow": "bid", "order_timeout": "30s",
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 1}},
      "steps": [
        {"id": "ask", "action": "ask", "input": {"item": "${details.item}"}, "compensation": {"action": "unask", "input": {"of": "${output}"}},
         "first_of": [{"agent": "bank"}, {"agent": "stock"}]},
        {"id": "accept", "agent": "stock", "action": "accept", "input": "${steps.ask}", "compensation": {"action": "unaccept"}},
        {"id": "rest", "wait": {"until": "${details.gift ? order.submitted_at : 'no moment of ' + order.id}"}}]}"#,
];

/// Later versions that may be published.
const LATER: [&str; 10] = [
    r#"{"workflow": "batch", "order_timeout": "2m", "progress": true,
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 1}},
      "steps": [
        {"id": "open", "agent": "stock", "action": "open", "compensation": {"action": "shut"}},
        {"id": "lay", "for_each": {"in": "details.gift ? ['a', 'b'] : ['a', 'b', 'c', 'd']", "as": "what", "at_once": 3},
         "agent": "bank", "action": "lay", "input": {"what": "${what}", "more": true}, "compensation": {"action": "lift"}},
        {"id": "seal", "agent": "stock", "action": "seal", "compensation": {"action": "unseal"}}]}"#,
    r#"{"workflow": "freight", "progress": true,
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 2}},
      "steps": [
        {"id": "book", "agent": "stock", "action": "book", "compensation": {"action": "unbook", "input": {"of": "${output}"}},
         "finishes_later": {"within": "30s", "fails_when": "event.state == 'failed'"}},
        {"id": "insure", "agent": "bank", "action": "insure", "input": {"of": "${steps.book.reference}"}, "compensation": {"action": "uninsure"},
         "finishes_later": {"within": "20s", "fails_when": "event.state == 'failed'", "poll": {"action": "look", "every": "2s"}}},
        {"id": "send", "agent": "stock", "action": "send", "compensation": "none"}]}"#,
    r#"{"workflow": "sale", "progress": true,
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 2}},
      "steps": [
        {"id": "put-by", "agent": "stock", "action": "put-by", "compensation": {"action": "put-back"}},
        {"id": "cool", "wait": {"for": "1s"}},
        {"id": "paid", "await": {"event": "paid", "match": "event.sum == details.sum", "within": "30s"}},
        {"id": "book", "agent": "bank", "action": "book", "input": {"payment": "${steps.paid.payment}"}, "compensation": {"action": "unbook"}},
        {"id": "rest", "wait": {"until": "${order.submitted_at}"}}]}"#,
    r#"{"workflow": "line", "search": {"gift": "${details.gift}", "item": "${details.item}"},
      "defaults": {"attempt_timeout": "5s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "500ms"}, "supervisor": {"failure_threshold": 2, "delay": "1s"}},
      "steps": [
        {"id": "reserve", "agent": "stock", "action": "reserve", "input": {"item": "${details.item}"},
         "compensation": {"action": "release", "input": {"of": "${output}"}}},
        {"id": "charge", "agent": "bank", "action": "charge", "input": {"for": "${steps.reserve.reference}"},
         "compensation": {"action": "refund", "failure_threshold": 3}},
        {"id": "ship", "agent": "stock", "action": "ship", "compensation": {"action": "recall"}},
        {"id": "thank", "agent": "bank", "action": "thank", "compensation": "none"}]}"#,
    r#"{"workflow": "fork",
      "defaults": {"attempt_timeout": "3s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 2}},
      "steps": [
        {"id": "p", "agent": "stock", "action": "p", "after": [], "attempt_timeout": "6s", "compensation": {"action": "compensate-p"}},
        {"id": "q", "agent": "bank", "action": "q", "after": ["p"], "compensation": {"action": "compensate-q", "agent": "bank"}},
        {"id": "r", "agent": "bank", "action": "r", "after": [], "compensation": "none"},
        {"id": "join", "agent": "stock", "action": "join", "after": ["p", "q", "r"],
         "input": {"p": "${steps.p.reference}", "q": "${steps.q.reference}"}, "compensation": {"action": "compensate-join"}}]}"#,
    r#"{"workflow": "pivot",
      "defaults": {"attempt_timeout": "3s", "retry": {"calls_per_attempt": 2, "initial": "20ms", "max": "100ms"}, "supervisor": {"failure_threshold": 1}},
      "steps": [
        {"id": "hold", "agent": "stock", "action": "hold", "compensation": {"action": "free"}},
        {"id": "sell", "agent": "bank", "action": "sell", "compensation": {"action": "buy-back"}},
        {"id": "send", "agent": "stock", "action": "send", "point_of_no_return": true}]}"#,
    r#"{"workflow": "letter",
      "defaults": {"attempt_timeout": "4s", "supervisor": {"failure_threshold": 1, "delay": "500ms"}},
      "steps": [
        {"id": "frame", "agent": "stock", "action": "frame", "retry": {"calls_per_attempt": 2}, "compensation": {"action": "unframe"}},
        {"id": "write", "agent": "mail", "action": "write", "probe": {"action": "was-written"}, "input": {"item": "${details.item}"},
         "compensation": {"action": "recall"}},
        {"id": "bill", "agent": "bank", "action": "bill", "retry": {"calls_per_attempt": 2}, "compensation": {"action": "credit"}}]}"#,
    r#"{"workflow": "metered",
      "defaults": {"attempt_timeout": "4s", "retry": {"calls_per_attempt": 3, "calls_per_run": 4, "initial": "50ms", "max": "300ms"},
        "supervisor": {"failure_threshold": 3, "delay": "300ms", "defer_for": "6s"}},
      "steps": [
        {"id": "dial", "agent": "bank", "action": "dial", "compensation": {"action": "hang-up"}},
        {"id": "talk", "agent": "stock", "action": "talk", "compensation": {"action": "forget", "retry": {"calls_per_attempt": 2, "calls_per_run": 2}}}]}"#,
    r#"{"workflow": "unlike",
      "defaults": {"attempt_timeout": "3s", "retry": {"calls_per_attempt": 2, "initial": "50ms", "max": "300ms"}, "supervisor": {"failure_threshold": 2}},
      "steps": [
        {"id": "slow", "agent": "stock", "action": "slow", "after": [], "compensation": {"action": "unslow"}},
        {"id": "quick", "agent": "stock", "action": "quick", "after": [], "compensation": {"action": "unquick"}},
        {"id": "next", "agent": "bank", "action": "next", "after": ["quick"], "compensation": {"action": "unnext"}},
        {"id": "last", "agent": "stock", "action": "last", "after": ["slow", "next"], "compensation": {"action": "unlast"}}]}"#,
    r#"{"workflow": "brittle",
      "defaults": {"attempt_timeout": "2s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1, "then": "error"}},
      "steps": [
        {"id": "one", "agent": "stock", "action": "one", "compensation": {"action": "compensate-one"}},
        {"id": "two", "agent": "bank", "action": "two", "compensation": "none"}]}"#,
];

fn compile(definition: Definition) -> Arc<Workflow> {
    let limits = Limits {
        agents: Some(AGENTS.iter().map(|a| (*a).to_owned()).collect()),
        skew: TIMING.skew,
    };
    // A part of another workflow has a name that its author could not give.
    let read = match definition.workflow.contains('.') {
        true => Workflow::from_published(&canonical_json(&definition)),
        false => Workflow::compile(definition, &limits),
    };
    Arc::new(read.expect("a sound definition"))
}

fn compile_all(texts: &[&str]) -> Vec<Arc<Workflow>> {
    let read = |json: &&str| serde_json::from_str(json).expect("a definition");
    texts.iter().map(read).map(compile).collect()
}

static WORKFLOWS: LazyLock<Vec<Arc<Workflow>>> = LazyLock::new(|| {
    let all = CALLING.iter().chain(&WAITING).chain(&RUNNING);
    compile_all(&all.copied().collect::<Vec<_>>())
});
static NEWER: LazyLock<Vec<Arc<Workflow>>> = LazyLock::new(|| compile_all(&LATER));

/// All workflows in their first version.
pub(crate) fn workflows() -> &'static [Arc<Workflow>] {
    &WORKFLOWS
}

/// Those of the first version whose steps call services alone.
pub(crate) fn calling() -> &'static [Arc<Workflow>] {
    &WORKFLOWS[..CALLING.len()]
}

/// The later versions.
pub(crate) fn newer() -> &'static [Arc<Workflow>] {
    &NEWER
}

/// Every version of every workflow, including the later ones.
pub(crate) fn versions() -> impl Iterator<Item = &'static Arc<Workflow>> {
    workflows().iter().chain(newer())
}

/// The workflow version of an order.
pub(crate) fn compiled(wanted: &WorkflowRef) -> Option<Arc<Workflow>> {
    static BY_HASH: LazyLock<HashMap<DefinitionHash, Arc<Workflow>, FixedState>> =
        LazyLock::new(|| {
            let parts = versions()
                .flat_map(|w| &w.parts)
                .flat_map(Workflow::with_parts);
            let parts = parts.map(|part| part.definition.clone()).map(compile);
            let all = versions().cloned().chain(parts);
            all.map(|w| (w.hash.clone(), w)).collect()
        });
    BY_HASH.get(&wanted.hash).cloned()
}

/// The name and hash of a version.
pub(crate) fn identity(workflow: &Workflow) -> WorkflowRef {
    WorkflowRef {
        name: workflow.name.clone(),
        hash: workflow.hash.clone(),
    }
}

/// A context for decisions that need no details.
pub(crate) fn context(workflow: &Workflow) -> Context<'_> {
    Context {
        workflow,
        details: None,
        timing: TIMING,
    }
}

/// Longest time of an order, in milliseconds, from when it is stored until all its messages are sent.
///
/// Each attempt of each step may be delayed, deferred once, retried after its longest delay, and woken twice; a sweep
/// notices each of these within `look` milliseconds.
pub(crate) fn order_ms(workflow: &Workflow, look: u64) -> u64 {
    let noticed = look + TIMING.skew.0 * 2 + TIMING.announce_within.0;
    let deferred = triad_core::downstream::HELD_RECHECK.0 + look;
    let steps = workflow.steps.iter().map(|s| {
        let forward = s.call().map_or(s.longest_try().0 + noticed, |call| {
            let delays = s.policies().map(|policy| {
                let waits = policy.wait.map_or(0, |(d, _)| d.0);
                policy.max_delay.0.max(waits)
            });
            let delay = delays.max().unwrap_or(0);
            u64::from(s.max_attempts()) * (2 * call.attempt_timeout.0 + delay + noticed + deferred)
        });
        let compensation = s.compensation.as_ref().map_or(0, |c| {
            u64::from(c.policy.max_attempts())
                * (c.attempt_timeout.0 + c.policy.max_delay.0 + noticed + deferred)
        });
        forward + compensation
    });
    let confirmed = TIMING.confirm_within.0 + look;
    steps.sum::<u64>() + 2 * noticed + confirmed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workflows_of_all_worlds_have_expressions_that_can_work() {
        for workflow in versions() {
            let found = triad_workflow::load::type_problems(&workflow.definition);
            assert_eq!(found, [], "{}", workflow.name);
        }
    }
}
