//! Every check of a definition: one bad file for each problem, with what the author is told.
#![cfg(feature = "load")]

use std::collections::BTreeSet;

use triad_workflow::check::{MAX_CALLS, MAX_STEPS, MAX_THRESHOLD};
use triad_workflow::{Limits, Millis, load};

const FILE: &str = "flows/w.yaml";

fn limits() -> Limits {
    let agents = ["shop", "bank"].map(str::to_owned);
    Limits {
        agents: Some(BTreeSet::from(agents)),
        skew: Millis(500),
    }
}

/// What is said about a file.
fn told(text: &str) -> Vec<String> {
    match load::from_yaml(FILE, text, &limits()) {
        Ok(_) => Vec::new(),
        Err(e) => e
            .problems
            .iter()
            .map(|p| format!("{}: {p}", e.file))
            .collect(),
    }
}

/// One step, with more lines of its own.
fn one(more: &str) -> String {
    format!("workflow: w\nsteps:\n  - {{id: a, agent: shop, action: go, compensation: none{more}}}")
}

/// Exactly one problem, naming the file, the step and the reason.
#[track_caller]
fn refused(text: &str, step: Option<&str>, reason: &str) {
    let told = told(text);
    assert_eq!(told.len(), 1, "{told:#?}");
    let place = match step {
        Some(step) => format!("{FILE}: step {step}: "),
        None => format!("{FILE}: "),
    };
    assert!(told[0].starts_with(&place), "{}", told[0]);
    assert!(told[0].contains(reason), "{}", told[0]);
}

#[test]
fn a_sound_file_is_taken() {
    assert_eq!(told(&one("")), Vec::<String>::new());
}

#[test]
fn what_is_not_yaml_is_refused() {
    refused("steps: [", None, "is not YAML");
}

#[test]
fn a_misspelt_field_is_refused_by_name() {
    refused(&one(", retires: 3"), Some("a"), "retires");
}

#[test]
fn a_missing_field_is_refused_by_name() {
    let text = "workflow: w\nsteps: [{id: a, agent: shop, compensation: none}]";
    refused(text, Some("a"), "action");
}

#[test]
fn a_bad_duration_is_refused() {
    refused(
        &one(", complete_within: soon"),
        Some("a"),
        "complete_within",
    );
}

#[test]
fn a_bad_workflow_name_is_refused() {
    let text = one("").replace("workflow: w", "workflow: W W");
    refused(&text, None, "workflow: ");
}

#[test]
fn a_workflow_without_steps_is_refused() {
    refused("workflow: w\nsteps: []", None, "at least one step");
}

#[test]
fn too_many_steps_are_refused() {
    let step = |n| {
        format!(
            "  - {{id: s{n}, agent: shop, action: go, compensation: none, retry: {{calls: 1}}}}\n"
        )
    };
    let steps: String = (0..=MAX_STEPS).map(step).collect();
    refused(
        &format!("workflow: w\nsteps:\n{steps}"),
        None,
        "are allowed",
    );
}

#[test]
fn a_bad_step_name_is_refused() {
    refused(&one("").replace("id: a", "id: A"), Some("A"), "id: ");
}

#[test]
fn two_steps_of_one_name_are_refused() {
    let text = one("") + "\n  - {id: a, agent: shop, action: go, compensation: none}";
    refused(&text, Some("a"), "same id");
}

#[test]
fn a_bad_action_is_refused() {
    refused(
        &one("").replace("action: go", "action: go/../x"),
        Some("a"),
        "action",
    );
}

#[test]
fn a_bad_action_of_a_compensation_is_refused() {
    let text = one("").replace("compensation: none", "compensation: {action: 'a b'}");
    refused(&text, Some("a"), "action");
}

#[test]
fn a_bad_agent_name_is_refused() {
    refused(&one("").replace("shop", "Shop"), Some("a"), "agent: ");
}

#[test]
fn an_unknown_agent_is_refused_with_those_that_exist() {
    refused(&one("").replace("shop", "shpo"), Some("a"), "bank, shop");
}

#[test]
fn an_unknown_agent_of_a_compensation_is_refused() {
    let text = one("").replace(
        "compensation: none",
        "compensation: {agent: nobody, action: undo}",
    );
    refused(&text, Some("a"), "unknown agent \"nobody\"");
}

#[test]
fn a_step_after_a_missing_step_is_refused() {
    refused(&one(", after: [zz]"), Some("a"), "no step \"zz\"");
}

#[test]
fn a_circle_is_refused_with_its_steps() {
    let text = one(", after: [b]") + "\n  - {id: b, agent: shop, action: go, compensation: none}";
    refused(&text, None, "circle: a, b");
}

#[test]
fn a_step_that_comes_after_itself_is_refused() {
    refused(&one(", after: [a]"), None, "circle: a");
}

#[test]
fn a_missing_undo_before_the_point_of_no_return_is_refused() {
    let text = "workflow: w\nsteps:\n  - {id: a, agent: shop, action: go}\n  - {id: p, agent: shop, action: go, point_of_no_return: true}";
    refused(text, Some("a"), "has no compensation");
}

#[test]
fn a_missing_undo_where_there_is_no_such_point_is_refused_too() {
    refused(
        "workflow: w\nsteps: [{id: a, agent: shop, action: go}]",
        Some("a"),
        "has no compensation",
    );
}

#[test]
fn a_second_point_of_no_return_is_refused() {
    let text = "workflow: w\nsteps:\n  - {id: p, agent: shop, action: go, point_of_no_return: true}\n  - {id: q, agent: shop, action: go, point_of_no_return: true}";
    refused(text, Some("q"), "step p is the point of no return already");
}

#[test]
fn a_step_beside_the_point_of_no_return_is_refused() {
    let text =
        one("") + "\n  - {id: p, agent: shop, action: go, after: [], point_of_no_return: true}";
    refused(&text, Some("a"), "runs beside");
}

#[test]
fn compensating_from_the_point_of_no_return_on_is_refused() {
    let text = "workflow: w\nsteps:\n  - {id: p, agent: shop, action: go, point_of_no_return: true, supervisor: {threshold: 1, then: compensate}}";
    refused(text, Some("p"), "then: error");
}

#[test]
fn a_compensation_that_would_never_run_is_refused() {
    let text = "workflow: w\nsteps:\n  - {id: p, agent: shop, action: go, point_of_no_return: true, compensation: {action: undo}}";
    refused(text, Some("p"), "would never run");
}

#[test]
fn a_deadline_that_cannot_fit_the_clocks_is_refused() {
    refused(&one(", complete_within: 1s"), Some("a"), "cannot fit");
}

#[test]
fn a_deadline_that_the_steps_may_pass_in_one_attempt_each_is_refused() {
    let text = r#"
workflow: w
complete_within: TIME
steps:
  - {id: a, agent: shop, action: go, complete_within: 20s, compensation: none}
  - {id: b, agent: shop, action: go, complete_within: 30s, after: [], compensation: none}
  - {id: c, agent: shop, action: go, complete_within: 5s, after: [a, b], compensation: none}
"#;
    let bad = text.replace("TIME", "34s");
    refused(
        &bad,
        None,
        "complete_within 34s cannot hold: the steps may take 35s",
    );
    assert_eq!(told(&text.replace("TIME", "35s")), Vec::<String>::new());
}

#[test]
fn a_retry_at_once_with_a_delay_is_refused() {
    let text = one(", supervisor: {threshold: 1, delay: 1s, retry_at_once: true}");
    refused(&text, Some("a"), "exclude one another");
    let text = one(", supervisor: {threshold: 1, retry_at_once: true}");
    assert_eq!(told(&text), Vec::<String>::new());
}

#[test]
fn a_bad_default_is_refused_too() {
    let text = one("").replace("steps:", "defaults: {retry: {calls: 0}}\nsteps:");
    refused(&text, None, "retry.calls is 0");
}

#[test]
fn a_compensations_deadline_that_cannot_fit_is_refused() {
    let text = one("").replace(
        "compensation: none",
        "compensation: {action: undo, complete_within: 900ms}",
    );
    refused(&text, Some("a"), "cannot fit");
}

#[test]
fn no_calls_and_too_many_calls_are_refused() {
    refused(&one(", retry: {calls: 0}"), Some("a"), "retry.calls is 0");
    let many = format!(", retry: {{calls: {}}}", MAX_CALLS + 1);
    refused(&one(&many), Some("a"), "retry.calls is 101");
}

#[test]
fn a_total_below_the_calls_of_one_attempt_is_refused() {
    let text = one(", retry: {calls: 3, total: 2}");
    refused(&text, Some("a"), "retry.total is below retry.calls");
    assert_eq!(told(&one(", retry: {calls: 3, total: 3}")), [""; 0]);
    let undo = one("").replace(
        "compensation: none",
        "compensation: {action: undo, retry: {calls: 3, total: 2}}",
    );
    refused(&undo, Some("a"), "retry.total is below retry.calls");
}

#[test]
fn a_step_that_stops_for_an_operator_and_asks_the_service_is_refused() {
    let text = one(", at_most_once: true, probe: {action: ask}");
    refused(&text, Some("a"), "declare one of the two");
}

#[test]
fn several_calls_of_an_attempt_that_may_not_be_repeated_are_refused() {
    for rule in ["at_most_once: true", "probe: {action: ask}"] {
        let text = one(&format!(", {rule}, retry: {{calls: 2}}"));
        refused(&text, Some("a"), "write retry.calls: 1");
        let by_default =
            one(&format!(", {rule}")).replace("steps:", "defaults: {retry: {calls: 2}}\nsteps:");
        assert_eq!(told(&by_default), [""; 0], "a default gives way");
    }
}

#[test]
fn a_total_that_leaves_no_call_for_the_probe_is_refused() {
    let text = one(", probe: {action: ask}, retry: {calls: 1, total: 1}");
    refused(&text, Some("a"), "leaves no call to ask");
    let by_default = one(", probe: {action: ask}")
        .replace("steps:", "defaults: {retry: {calls: 1, total: 1}}\nsteps:");
    refused(&by_default, Some("a"), "leaves no call to ask");
    let enough = one(", probe: {action: ask}, retry: {calls: 1, total: 2}");
    assert_eq!(told(&enough), [""; 0]);
}

#[test]
fn a_bad_action_of_a_probe_is_refused() {
    refused(&one(", probe: {action: 'a b'}"), Some("a"), "action");
}

#[test]
fn a_probes_deadline_that_cannot_fit_is_refused() {
    let text = one(", probe: {action: ask, complete_within: 900ms}");
    refused(&text, Some("a"), "cannot fit");
}

#[test]
fn a_misspelt_field_of_a_probe_is_refused_by_name() {
    refused(&one(", probe: {actoin: ask}"), Some("a"), "actoin");
}

#[test]
fn a_first_wait_above_the_longest_is_refused() {
    let text = one(", retry: {calls: 2, initial: 2s, max: 1s}");
    refused(&text, Some("a"), "above retry.max");
}

#[test]
fn a_first_wait_that_does_not_fit_the_deadline_is_refused() {
    let text = one(", complete_within: 5s, retry: {calls: 2, initial: 5s}");
    refused(&text, Some("a"), "cannot fit in complete_within");
}

#[test]
fn thresholds_above_the_bound_are_refused() {
    let above = MAX_THRESHOLD + 1;
    refused(
        &one(&format!(", supervisor: {{threshold: {above}}}")),
        Some("a"),
        "threshold is above",
    );
    let waits = format!(", supervisor: {{threshold: 1, wait: {{delay: 1h, times: {above}}}}}");
    refused(&one(&waits), Some("a"), "supervisor.wait.times is above");
    let undo = one("").replace(
        "compensation: none",
        &format!("compensation: {{action: undo, threshold: {above}}}"),
    );
    refused(&undo, Some("a"), "threshold is above");
}

#[test]
fn more_calls_than_an_order_may_cause_are_refused() {
    let text = one(", retry: {calls: 100}, supervisor: {threshold: 100}");
    refused(&text, None, "10100 calls");
}

#[test]
fn expressions_that_do_not_compile_are_refused_with_their_place() {
    refused(&one(", when: 'details.x >'"), Some("a"), "when: ");
    refused(&one(", input: {n: '${1 +}'}"), Some("a"), "input: ");
    let text = one("").replace(
        "compensation: none",
        "compensation: {action: undo, input: '${oops}'}",
    );
    refused(&text, Some("a"), "compensation.input: ");
}

#[test]
fn reading_a_step_that_does_not_exist_is_refused() {
    refused(
        &one(", input: '${steps.zz}'"),
        Some("a"),
        "there is no such step",
    );
}

#[test]
fn reading_a_step_that_need_not_have_completed_is_refused() {
    let text = one("")
        + "\n  - {id: b, agent: shop, action: go, compensation: none, after: [], input: '${steps.a}'}";
    refused(&text, Some("b"), "add it to after");
}

#[test]
fn a_condition_reading_a_later_step_is_refused() {
    let text =
        one(", when: 'steps.b.ok'") + "\n  - {id: b, agent: shop, action: go, compensation: none}";
    refused(&text, Some("a"), "add it to after");
}

#[test]
fn a_compensation_reading_its_own_step_is_told_of_output() {
    let text = one("").replace(
        "compensation: none",
        "compensation: {action: undo, input: '${steps.a}'}",
    );
    refused(&text, Some("a"), "as `output`");
}

#[test]
fn a_compensation_reading_a_step_it_does_not_come_after_is_refused() {
    let text = one("").replace(
        "compensation: none",
        "compensation: {action: undo, input: '${steps.b}'}",
    ) + "\n  - {id: b, agent: shop, action: go, compensation: none}";
    refused(&text, Some("a"), "does not come after");
}

#[test]
fn a_file_beyond_the_bound_is_refused_unread() {
    let text = "#".repeat(load::MAX_FILE_BYTES + 1);
    refused(&text, None, "larger than");
}

#[test]
fn all_problems_of_a_file_are_told_at_once() {
    let text = "workflow: W\nsteps:\n  - {id: a, agent: nobody, action: go}\n  - {id: b, agent: shop, action: 'x y', after: [zz], compensation: none, retry: {calls: 0}}";
    let shown = load::from_yaml(FILE, text, &limits())
        .unwrap_err()
        .to_string();
    let told = told(text);
    assert_eq!(shown, told.join("\n"), "each on its line");
    assert_eq!(told.len(), 6, "{told:#?}");
    assert!(told.iter().all(|t| t.starts_with(FILE)));
}
