//! Every check of a definition: for each problem an invalid file and the message to its author.
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

/// The problems of a file, as messages.
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

/// A file with one step that has these additional lines.
fn one(more: &str) -> String {
    format!("workflow: w\nsteps:\n  - {{id: a, agent: shop, action: go, compensation: none{more}}}")
}

/// Checks that there is exactly one problem, and that it names the file, the step and the reason.
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
    refused("steps: [", None, "close it with `]`");
}

#[test]
fn a_number_that_would_be_altered_is_refused_where_it_stands() {
    for (written, read) in [
        ("01234", "1234"),
        ("+4917012345678", "4917012345678"),
        ("1.10", "1.1"),
        ("1.", "1.0"),
        ("1e3", "1000.0"),
        ("0x1F", "31"),
        ("123456789012345678901234567890", "1.2345678901234568e+29"),
        ("0.1234567890123456789", "0.12345678901234568"),
    ] {
        let text = one(&format!(", input: {{all: [{written}]}}"));
        let problems = load::from_yaml(FILE, &text, &limits())
            .expect_err(written)
            .problems;
        let [problem] = &problems[..] else {
            panic!("{written}: {problems:?}")
        };
        let said = problem.to_string();
        assert!(
            said.contains(&format!("{written} would be read as the number {read}")),
            "{said}"
        );
        assert!(
            problem
                .hint
                .as_deref()
                .is_some_and(|hint| hint.contains("put it in quotes"))
        );
        let place = problem.place.as_ref().map(|at| (at.line, at.column));
        assert_eq!(place, Some((3, 72)), "{written}");
    }
    let sound = [
        "'01234'",
        "\"1.10\"",
        "1.5",
        "-3",
        "0",
        "18446744073709551615",
        "0.0",
        "v1.10",
        "1.2.3",
        "2026-01-01",
        "10s",
    ];
    for written in sound {
        let text = one(&format!(", input: {{all: [{written}]}}"));
        assert_eq!(told(&text), Vec::<String>::new(), "{written}");
    }
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
        &one(", attempt_timeout: soon"),
        Some("a"),
        "attempt_timeout",
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
            "  - {{id: s{n}, agent: shop, action: go, compensation: none, retry: {{calls_per_attempt: 1}}}}\n"
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
        "compensation: {agent: nobody, action: compensate}",
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
fn a_missing_compensation_before_the_point_of_no_return_is_refused() {
    let text = "workflow: w\nsteps:\n  - {id: a, agent: shop, action: go}\n  - {id: p, agent: shop, action: go, point_of_no_return: true}";
    refused(text, Some("a"), "has no compensation");
}

#[test]
fn a_missing_compensation_where_there_is_no_such_point_is_refused_too() {
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
    let text = "workflow: w\nsteps:\n  - {id: p, agent: shop, action: go, point_of_no_return: true, supervisor: {failure_threshold: 1, then: compensate}}";
    refused(text, Some("p"), "then: error");
}

#[test]
fn a_compensation_that_would_never_run_is_refused() {
    let text = "workflow: w\nsteps:\n  - {id: p, agent: shop, action: go, point_of_no_return: true, compensation: {action: compensate}}";
    refused(text, Some("p"), "would never run");
}

#[test]
fn a_deadline_that_cannot_fit_the_clocks_is_refused() {
    refused(&one(", attempt_timeout: 1s"), Some("a"), "cannot fit");
}

#[test]
fn a_deadline_that_the_steps_may_pass_in_one_attempt_each_is_refused() {
    let text = r#"
workflow: w
order_timeout: TIME
steps:
  - {id: a, agent: shop, action: go, attempt_timeout: 20s, compensation: none}
  - {id: b, agent: shop, action: go, attempt_timeout: 30s, after: [], compensation: none}
  - {id: c, agent: shop, action: go, attempt_timeout: 5s, after: [a, b], compensation: none}
"#;
    let bad = text.replace("TIME", "34s");
    refused(
        &bad,
        None,
        "order_timeout: 34s cannot hold: the steps may take 35s",
    );
    assert_eq!(told(&text.replace("TIME", "35s")), Vec::<String>::new());
}

#[test]
fn a_retry_at_once_with_a_delay_is_refused() {
    let text = one(", supervisor: {failure_threshold: 1, delay: 1s, retry_at_once: true}");
    refused(&text, Some("a"), "exclude one another");
    let text = one(", supervisor: {failure_threshold: 1, retry_at_once: true}");
    assert_eq!(told(&text), Vec::<String>::new());
}

#[test]
fn a_bad_default_is_refused_too() {
    let text = one("").replace(
        "steps:",
        "defaults: {retry: {calls_per_attempt: 0}}\nsteps:",
    );
    refused(&text, None, "retry.calls_per_attempt: is 0");
}

#[test]
fn a_compensations_deadline_that_cannot_fit_is_refused() {
    let text = one("").replace(
        "compensation: none",
        "compensation: {action: compensate, attempt_timeout: 900ms}",
    );
    refused(&text, Some("a"), "cannot fit");
}

#[test]
fn no_calls_and_too_many_calls_are_refused() {
    refused(
        &one(", retry: {calls_per_attempt: 0}"),
        Some("a"),
        "retry.calls_per_attempt: is 0",
    );
    let many = format!(", retry: {{calls_per_attempt: {}}}", MAX_CALLS + 1);
    refused(&one(&many), Some("a"), "retry.calls_per_attempt: is 101");
}

#[test]
fn a_total_below_the_calls_of_one_attempt_is_refused() {
    let text = one(", retry: {calls_per_attempt: 3, calls_per_run: 2}");
    refused(&text, Some("a"), "below retry.calls_per_attempt");
    assert_eq!(
        told(&one(", retry: {calls_per_attempt: 3, calls_per_run: 3}")),
        [""; 0]
    );
    let compensation = one("").replace(
        "compensation: none",
        "compensation: {action: compensate, retry: {calls_per_attempt: 3, calls_per_run: 2}}",
    );
    refused(&compensation, Some("a"), "below retry.calls_per_attempt");
}

#[test]
fn a_step_that_stops_for_an_operator_and_asks_the_service_is_refused() {
    let text = one(", at_most_once: true, probe: {action: ask}");
    refused(&text, Some("a"), "declare one of the two");
}

#[test]
fn several_calls_of_an_attempt_that_may_not_be_repeated_are_refused() {
    for rule in ["at_most_once: true", "probe: {action: ask}"] {
        let text = one(&format!(", {rule}, retry: {{calls_per_attempt: 2}}"));
        refused(&text, Some("a"), "write retry.calls_per_attempt: 1");
        let by_default = one(&format!(", {rule}")).replace(
            "steps:",
            "defaults: {retry: {calls_per_attempt: 2}}\nsteps:",
        );
        assert_eq!(told(&by_default), [""; 0], "a default gives way");
    }
}

#[test]
fn a_total_that_leaves_no_call_for_the_probe_is_refused() {
    let text = one(", probe: {action: ask}, retry: {calls_per_attempt: 1, calls_per_run: 1}");
    refused(&text, Some("a"), "leaves no call to ask");
    let by_default = one(", probe: {action: ask}").replace(
        "steps:",
        "defaults: {retry: {calls_per_attempt: 1, calls_per_run: 1}}\nsteps:",
    );
    refused(&by_default, Some("a"), "leaves no call to ask");
    let enough = one(", probe: {action: ask}, retry: {calls_per_attempt: 1, calls_per_run: 2}");
    assert_eq!(told(&enough), [""; 0]);
}

#[test]
fn a_bad_action_of_a_probe_is_refused() {
    refused(&one(", probe: {action: 'a b'}"), Some("a"), "action");
}

#[test]
fn a_probes_deadline_that_cannot_fit_is_refused() {
    let text = one(", probe: {action: ask, attempt_timeout: 900ms}");
    refused(&text, Some("a"), "cannot fit");
}

#[test]
fn a_misspelt_field_of_a_probe_is_refused_by_name() {
    refused(&one(", probe: {actoin: ask}"), Some("a"), "actoin");
}

#[test]
fn a_first_wait_above_the_longest_is_refused() {
    let text = one(", retry: {calls_per_attempt: 2, initial: 2s, max: 1s}");
    refused(&text, Some("a"), "above retry.max");
}

#[test]
fn a_first_wait_that_does_not_fit_the_deadline_is_refused() {
    let text = one(", attempt_timeout: 5s, retry: {calls_per_attempt: 2, initial: 5s}");
    refused(&text, Some("a"), "cannot fit in attempt_timeout");
}

#[test]
fn thresholds_above_the_bound_are_refused() {
    let above = MAX_THRESHOLD + 1;
    refused(
        &one(&format!(", supervisor: {{failure_threshold: {above}}}")),
        Some("a"),
        "failure_threshold: is 101, above 100",
    );
    let waits =
        format!(", supervisor: {{failure_threshold: 1, wait: {{delay: 1h, attempts: {above}}}}}");
    refused(
        &one(&waits),
        Some("a"),
        "supervisor.wait.attempts: is 101, above",
    );
    let compensation = one("").replace(
        "compensation: none",
        &format!("compensation: {{action: compensate, failure_threshold: {above}}}"),
    );
    refused(
        &compensation,
        Some("a"),
        "failure_threshold: is 101, above 100",
    );
}

#[test]
fn more_calls_than_an_order_may_cause_are_refused() {
    let text = one(", retry: {calls_per_attempt: 100}, supervisor: {failure_threshold: 100}");
    refused(&text, None, "10100 calls");
}

#[test]
fn expressions_that_do_not_compile_are_refused_with_their_place() {
    refused(&one(", when: 'details.x >'"), Some("a"), "when: ");
    refused(&one(", input: {n: '${1 +}'}"), Some("a"), "input.n: ");
    let text = one("").replace(
        "compensation: none",
        "compensation: {action: compensate, input: '${oops}'}",
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
        "compensation: {action: compensate, input: '${steps.a}'}",
    );
    refused(&text, Some("a"), "as `output`");
}

#[test]
fn a_compensation_reading_a_step_it_does_not_come_after_is_refused() {
    let text = one("").replace(
        "compensation: none",
        "compensation: {action: compensate, input: '${steps.b}'}",
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
    let text = "workflow: W\nsteps:\n  - {id: a, agent: nobody, action: go}\n  - {id: b, agent: shop, action: 'x y', after: [zz], compensation: none, retry: {calls_per_attempt: 0}}";
    let told = told(text);
    assert_eq!(told.len(), 6, "{told:#?}");
    assert!(told.iter().all(|t| t.starts_with(FILE)));
}

/// The problems with their positions, as `LINE:COLUMN: message`.
fn placed(text: &str) -> Vec<String> {
    let error = load::from_yaml(FILE, text, &limits()).expect_err("it is not sound");
    let start = format!("{FILE}:");
    let cut = |line: String| line.strip_prefix(&start).map(str::to_owned).unwrap_or(line);
    error.lines().map(cut).collect()
}

#[test]
fn each_problem_has_its_line_and_column() {
    let text = "workflow: w
steps:
  - id: a
    agent: shop
    action: go
    compensation: none
    supervisor:
      failure_treshold: 3
  - id: b
    agent: shpo
    action: go
    compensation: none
    when: details.x >
    input:
      n: \"to ${details.city} and ${steps.c.x}\"
    after: [a, zz]
";
    assert_eq!(
        placed(text),
        [
            "8:7: step a: supervisor.failure_treshold: unknown key, did you mean `failure_threshold`?",
            "10:12: step b: agent: unknown agent \"shpo\"; configured are: bank, shop, did you mean `shop`?",
            "13:11: step b: when: `details.x >` is not an expression: it ends too early",
            "15:42: step b: input.n: reads the output of \"c\", and there is no such step",
            "16:16: step b: after[1]: there is no step \"zz\"",
        ]
    );
}

#[test]
fn a_line_shows_what_is_meant() {
    let error = load::from_yaml(FILE, "workflow: w\nstps: []", &limits()).expect_err("misspelt");
    assert_eq!(
        error.to_string(),
        "flows/w.yaml:2:1: stps: unknown key, did you mean `steps`?\n    2 | stps: []\n      | ^^^^"
    );
}

#[test]
fn a_key_that_stands_twice_is_told_with_the_first_and_hides_nothing() {
    let text = one("") + "\n    \n";
    let text = text.replace("compensation: none", "agent: bank, action: b, when: oops");
    let told = placed(&text);
    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(
        told[0].starts_with("3:5: step a: has no compensation"),
        "{told:#?}"
    );
    assert!(
        told[1].contains("3:38: step a: agent: this key stands twice; first in line 3"),
        "{told:#?}"
    );
    assert!(
        told[2].contains("action: this key stands twice"),
        "{told:#?}"
    );
    assert!(told[3].contains("unknown variable `oops`"), "{told:#?}");
}

#[test]
fn what_cannot_be_used_hides_nothing_else_and_makes_nothing_up() {
    let text = "workflow: w
steps:
  - {agent: shop, action: go, compensation: none, retry: 3, when: 1, input: '${steps.later.x}'}
  - charge
  - {id: c, agent: shop, action: go, compensation: {actoin: compensation}, attempt_timeout: 30, input: '${1 +}'}
  - {id: d, agnt: bank, action: go, compensation: nothing, at_most_once: yes, after: [c, 7]}
";
    let told = placed(text);
    let starts = [
        "3:5: step number 1: `id` is missing",
        "3:58: step number 1: retry: is 3, and has to be a mapping",
        "3:67: step number 1: when: is 1, and has to be a text; put it in quotes",
        "4:5: step number 2: is \"charge\", and has to be a mapping",
        "5:53: step c: compensation.actoin: unknown key, did you mean `action`?",
        "5:93: step c: attempt_timeout: is 30, and has to be a duration; say of what: `30ms`",
        "5:107: step c: input: `1 +` is not an expression",
        "6:13: step d: agnt: unknown key, did you mean `agent`?",
        "6:51: step d: compensation: is \"nothing\", and cannot be used; write `none`, or a mapping with `action`",
        "6:74: step d: at_most_once: is \"yes\", and has to be true or false; write `true`",
        "6:90: step d: after[1]: is 7, and has to be a text",
    ];
    assert_eq!(told.len(), starts.len(), "{told:#?}");
    for (told, start) in told.iter().zip(starts) {
        assert!(told.starts_with(start), "{told}\n{start}");
    }
}

#[test]
fn what_is_no_yaml_is_told_in_plain_words() {
    let sound = one("");
    for (text, told) in [
        ("", "1:1: the file says nothing"),
        ("# nothing\n", "1:1: the file says nothing"),
        ("- a\n- b\n", "1:1: the file is a list, and no workflow"),
        ("workflow", "1:1: the file is a text, and no workflow"),
        (
            "workflow: w\nsteps:\n\t- id: a\n",
            "3:1: a tab stands where the line is indented",
        ),
        ("workflow: \"w\nsteps: []\n", "its quote is not closed"),
        ("workflow: 'w", "a quote that is never closed"),
        ("workflow: w\nsteps: {a: 1\n", "has no `}`"),
        (
            "workflow: w\nsteps:\n  - a: [b\n    c: d\n",
            "3:8: a list that begins with `[` has no `]`",
        ),
        (
            "workflow: w\nsteps:\n  - id: a\n\tagent: b\n",
            "4:1: a tab stands where the line is indented",
        ),
        ("workflow: w: x\n", "1:12: a `:` stands where no key can be"),
        (
            "workflow: w\n steps: []\n",
            "2:7: a `:` stands where no key can be",
        ),
        (
            "workflow: w\nsteps: *s\n",
            "2:8: an alias (`*name`) names an anchor",
        ),
        ("workflow: @w\n", "1:11: a text cannot begin like this"),
        (
            "workflow: w\nsteps: [.nan]\n",
            "2:9: this is no number that JSON has",
        ),
        ("workflow: w\nsteps: ]\n", "2:8: a bracket is closed"),
        ("workflow: \"a\\qb\"\n", "a backslash in double quotes"),
        (
            "workflow: 'a' b\n",
            "1:15: something stands behind the closing quote",
        ),
        (
            "workflow: \u{1}w\n",
            "1:11: the character U+0001 cannot stand",
        ),
    ] {
        let found = placed(text);
        assert_eq!(found.len(), 1, "{text:?}: {found:#?}");
        assert!(found[0].contains(told), "{text:?}: {}", found[0]);
    }
    let two = format!("{sound}\n---\n{sound}");
    let found = placed(&two);
    assert!(
        found[0].starts_with("4:1: a second document begins here"),
        "{found:?}"
    );
    let levels: String = (1..9)
        .map(|n| {
            format!(
                "l{n}: &l{n} [{}]\n",
                vec![format!("*l{}", n - 1); 12].join(", ")
            )
        })
        .collect();
    let found = placed(&format!("l0: &l0 [x, x]\n{levels}{sound}"));
    assert!(found[0].contains("its aliases"), "{found:?}");
    let deep = format!("workflow: w\nsteps: {}", "[".repeat(100_000));
    let found = placed(&deep);
    assert!(
        found[0].contains("nested") || found[0].contains("has no `]`"),
        "{found:?}"
    );
}

#[test]
fn problems_are_given_to_programs_whole() {
    let error = load::from_yaml(FILE, &one(", retires: 3"), &limits()).expect_err("misspelt");
    let json: Vec<_> = error.json().collect();
    assert_eq!(
        json,
        [serde_json::json!({
            "file": FILE, "line": 3, "column": 58, "step": "a", "path": "retires",
            "reason": "unknown key",
            "hint": "there are action, after, agent, at_most_once, attempt_timeout, await, compensation, finishes_later, first_of, for_each, id, input, on_failure, point_of_no_return, probe, retry, run, supervisor, wait, when",
        })]
    );
}

/// For every change of a value in a valid file: whatever passes the form's checks, the model can read. So no author
/// sees an error of the model.
#[test]
fn what_the_form_takes_the_model_takes() {
    let sound = serde_json::json!({
        "workflow": "w", "order_timeout": "1h", "progress": true,
        "defaults": {"attempt_timeout": "5s", "retry": {"calls_per_attempt": 2, "max": "1s"},
            "supervisor": {"failure_threshold": 1, "wait": {"delay": "1m", "attempts": 1}, "then": "error"}},
        "steps": [{"id": "a", "agent": "shop", "action": "go", "after": [], "when": "true",
            "probe": {"action": "ask"}, "input": {"x": 1},
            "compensation": {"action": "compensate", "agent": "bank", "failure_threshold": 2, "retry": {"calls_per_attempt": 1}}}],
    });
    let mut places = vec![String::new()];
    paths(&sound, "", &mut places);
    assert!(places.len() > 30, "{places:?}");
    for place in places {
        for value in [
            serde_json::json!(null),
            serde_json::json!(true),
            serde_json::json!(7),
            serde_json::json!(-7),
            serde_json::json!(1e12),
            serde_json::json!("x"),
            serde_json::json!("none"),
            serde_json::json!("5s"),
            serde_json::json!([1]),
            serde_json::json!([null, "a"]),
            serde_json::json!({}),
            serde_json::json!({"action": 1}),
        ] {
            let mut changed = sound.clone();
            *changed.pointer_mut(&place).expect("a place") = value.clone();
            for told in told(&changed.to_string()) {
                assert!(!told.contains("as a workflow"), "{place} = {value}: {told}");
            }
        }
    }
}

fn paths(value: &serde_json::Value, at: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &serde_json::Value)> = match value {
        serde_json::Value::Object(map) => {
            map.iter().map(|(k, v)| (format!("{at}/{k}"), v)).collect()
        }
        serde_json::Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(n, v)| (format!("{at}/{n}"), v))
            .collect(),
        _ => Vec::new(),
    };
    for (path, value) in inner {
        paths(value, &path, found);
        found.push(path);
    }
}

#[test]
fn a_step_without_its_dash_is_told_of_once() {
    let text = "workflow: w\nsteps:\n  - id: a\n    agent: shop\n    action: go\n    compensation: none\n    id: b\n    agent: bank\n    action: go\n    compensation: none\n";
    let told = placed(text);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(
        told[0].starts_with("7:5: step a: id: this key stands twice: a step begins here"),
        "{told:#?}"
    );
}
