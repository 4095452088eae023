//! The workflows that are walked over: each in two versions, between which orders can be moved.

use triad_workflow::Workflow;

use crate::support::{FORK, LINE, compile};

/// Two steps that may not be repeated side by side, between one that can be compensated and a join
/// whose calls are counted.
const DIAMOND: &str = r#"{"workflow": "diamond",
  "defaults": {"complete_within": "10s", "supervisor": {"threshold": 1, "park": "20m", "retry_at_once": true}},
  "steps": [
    {"id": "a", "agent": "x", "action": "go", "compensation": {"action": "undo", "input": "${output}"}},
    {"id": "once", "agent": "y", "action": "go", "after": ["a"], "at_most_once": true, "compensation": {"action": "undo"}},
    {"id": "pay", "agent": "z", "action": "go", "after": ["a"], "input": {"sum": "${details.amount}"}, "retry": {"calls": 1, "total": 9},
     "probe": {"action": "ask", "complete_within": "5s"}, "compensation": {"action": "undo"}},
    {"id": "join", "agent": "x", "action": "go", "after": ["once", "pay"], "retry": {"calls": 2, "total": 5},
     "compensation": {"action": "undo", "threshold": 0}}]}"#;

/// The same with nothing to compensate, and an end in Error.
const LOOSE: &str = r#"{"workflow": "loose",
  "defaults": {"complete_within": "10s", "supervisor": {"threshold": 1, "delay": "5s", "wait": {"delay": "1h", "times": 1}}},
  "steps": [
    {"id": "once", "agent": "y", "action": "go", "after": [], "at_most_once": true, "compensation": "none"},
    {"id": "pay", "agent": "z", "action": "go", "after": [], "probe": {"action": "ask"}, "compensation": "none"},
    {"id": "gift", "agent": "x", "action": "go", "after": ["pay"], "when": "details.amount > 100", "compensation": "none"},
    {"id": "last", "agent": "x", "action": "go", "after": ["once", "gift"], "compensation": {"action": "undo"},
     "supervisor": {"threshold": 0, "then": "error"}}]}"#;

/// A point of no return between what is compensated and what is only retried.
const PIVOT: &str = r#"{"workflow": "pivot", "progress": true,
  "defaults": {"complete_within": "10s", "retry": {"calls": 2}, "supervisor": {"threshold": 1, "park": "10m"}},
  "steps": [
    {"id": "a", "agent": "x", "action": "go", "after": [], "compensation": {"action": "undo"}},
    {"id": "b", "agent": "y", "action": "go", "after": [], "compensation": {"action": "undo", "threshold": 2}},
    {"id": "pivot", "agent": "z", "action": "go", "after": ["a", "b"], "probe": {"action": "ask"}, "retry": {"calls": 1}, "point_of_no_return": true},
    {"id": "y", "agent": "x", "action": "go", "after": ["pivot"]},
    {"id": "z", "agent": "x", "action": "go", "after": ["pivot"], "at_most_once": true, "retry": {"calls": 1}}]}"#;

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
