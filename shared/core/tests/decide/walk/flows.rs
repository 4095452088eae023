//! The workflows that are walked over: each in two versions, between which orders can be moved.

use triad_workflow::Workflow;

use crate::support::{FORK, LINE, compile};

/// Two steps that may not be repeated side by side, between one that can be compensated and a join
/// whose calls are counted.
const DIAMOND: &str = r#"{"workflow": "diamond",
  "defaults": {"attempt_timeout": "10s", "supervisor": {"failure_threshold": 1, "defer_for": "20m", "retry_at_once": true}},
  "steps": [
    {"id": "a", "agent": "x", "action": "go", "compensation": {"action": "compensate", "input": "${output}"}},
    {"id": "once", "agent": "y", "action": "go", "after": ["a"], "at_most_once": true, "compensation": {"action": "compensate"}},
    {"id": "pay", "agent": "z", "action": "go", "after": ["a"], "input": {"sum": "${details.amount}"}, "retry": {"calls_per_attempt": 1, "calls_per_run": 9},
     "probe": {"action": "ask", "attempt_timeout": "5s"}, "compensation": {"action": "compensate"}},
    {"id": "join", "agent": "x", "action": "go", "after": ["once", "pay"], "retry": {"calls_per_attempt": 2, "calls_per_run": 5},
     "compensation": {"action": "compensate", "failure_threshold": 0}}]}"#;

/// The same with nothing to compensate, and an end in Error.
const LOOSE: &str = r#"{"workflow": "loose",
  "defaults": {"attempt_timeout": "10s", "supervisor": {"failure_threshold": 1, "delay": "5s", "wait": {"delay": "1h", "attempts": 1}}},
  "steps": [
    {"id": "once", "agent": "y", "action": "go", "after": [], "at_most_once": true, "compensation": "none"},
    {"id": "pay", "agent": "z", "action": "go", "after": [], "probe": {"action": "ask"}, "compensation": "none"},
    {"id": "gift", "agent": "x", "action": "go", "after": ["pay"], "when": "details.amount > 100", "compensation": "none"},
    {"id": "last", "agent": "x", "action": "go", "after": ["once", "gift"], "compensation": {"action": "compensate"},
     "supervisor": {"failure_threshold": 0, "then": "error"}}]}"#;

/// A point of no return between what is compensated and what is only retried.
const PIVOT: &str = r#"{"workflow": "pivot", "progress": true,
  "defaults": {"attempt_timeout": "10s", "retry": {"calls_per_attempt": 2}, "supervisor": {"failure_threshold": 1, "defer_for": "10m"}},
  "steps": [
    {"id": "a", "agent": "x", "action": "go", "after": [], "compensation": {"action": "compensate"}},
    {"id": "b", "agent": "y", "action": "go", "after": [], "compensation": {"action": "compensate", "failure_threshold": 2}},
    {"id": "pivot", "agent": "z", "action": "go", "after": ["a", "b"], "probe": {"action": "ask"}, "retry": {"calls_per_attempt": 1}, "point_of_no_return": true},
    {"id": "y", "agent": "x", "action": "go", "after": ["pivot"]},
    {"id": "z", "agent": "x", "action": "go", "after": ["pivot"], "at_most_once": true, "retry": {"calls_per_attempt": 1}}]}"#;

/// Each workflow in its two versions.
pub fn all() -> Vec<[Workflow; 2]> {
    // The other version has a step more at the end.
    [LINE, FORK, DIAMOND, LOOSE, PIVOT]
        .map(|text| {
            let more = if text == PIVOT {
                r#"{"id": "more", "agent": "x", "action": "go"}]}"#
            } else {
                r#"{"id": "more", "agent": "x", "action": "go", "compensation": "none"}]}"#
            };
            let longer = format!("{}, {more}", text.trim_end().strip_suffix("]}").unwrap());
            [compile(text), compile(&longer)]
        })
        .into_iter()
        .collect()
}
