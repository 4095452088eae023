//! Warnings about compensations whose input has no value if the step has no output.

use serde_json::{Value, json};
use triad_workflow::{Limits, Problem, Workflow};

fn warnings(step: &Value, input: &Value) -> Vec<Problem> {
    let mut one = json!({"id": "a", "agent": "x", "action": "go",
        "compensation": {"action": "compensate", "input": input}});
    for (field, value) in step.as_object().unwrap() {
        one[field] = value.clone();
    }
    let definition = json!({"workflow": "w", "steps": [one]});
    let definition = serde_json::from_value(definition).unwrap();
    let workflow = Workflow::compile(definition, &Limits::published());
    workflow.expect("a sound definition").warnings()
}

/// The number of warnings about one expression.
fn about(expression: &str) -> usize {
    warnings(&json!({}), &json!({"v": format!("${{{expression}}}")})).len()
}

#[test]
fn reading_inside_an_output_that_may_be_missing_is_warned_of() {
    for expression in [
        "output.reference",
        "output.a.b.c",
        "output[\"reference\"]",
        "output[0]",
        "output.reference + \"-compensation\"",
        "[output.reference]",
        "{\"r\": output.reference}",
        "output.items.map(i, i.sku)",
        "size(output.items)",
        "output + 1",
        "output.contains(\"x\")",
        // Null is not a map: `has` of a field of null is an error, not false.
        "has(output.reference)",
        "has(output.reference) ? output.reference : \"none\"",
    ] {
        assert_eq!(about(expression), 1, "{expression}");
    }
}

#[test]
fn a_warning_names_the_step_the_expression_and_a_way_out() {
    let found = warnings(&json!({}), &json!("${output.reference}"));
    let [problem] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(problem.step.as_deref(), Some("a"));
    let way_out = "write `output == null ? null : output.reference`";
    assert!(problem.reason.contains(way_out), "{}", problem.reason);
    assert_eq!(
        about("output == null ? null : output.reference"),
        0,
        "it is one"
    );
}

#[test]
fn what_has_a_value_without_an_output_is_not() {
    for expression in [
        "output",
        "output == null",
        "output == null ? \"unknown\" : output.reference",
        "output != null && output.done",
        "output == null || output.done",
        "[output]",
        "{\"was\": output, \"amount\": details.amount}",
        "details.amount",
        "order.id",
        "1 / 0",
    ] {
        assert_eq!(about(expression), 0, "{expression}");
    }
}

#[test]
fn text_around_it_makes_no_difference() {
    let found = warnings(
        &json!({}),
        &json!("compensation of ${output} for ${order.id}"),
    );
    assert_eq!(found, []);
    let found = warnings(&json!({}), &json!("compensation of ${output.reference}"));
    assert_eq!(found.len(), 1);
}

#[test]
fn details_may_be_anything() {
    for (expression, warned) in [
        ("details.prefix + output.reference", 1),
        ("details.known ? output.reference : \"none\"", 1),
        ("details.known && output.done", 1),
        ("details.items.map(i, i.sku == output.sku)", 1),
        ("details.items.exists(i, i == output)", 0),
        ("details.rows[output]", 1),
        ("output[details.at]", 1),
        ("details.amount > output", 1),
        ("details.amount == output", 0),
        ("output in details.seen", 0),
        ("details.text.startsWith(output)", 1),
        ("output == null && details.known", 0),
        (
            "output != null ? details.prefix + output.reference : details.prefix",
            0,
        ),
        (
            "(output == null ? [] : output.items).map(i, i.sku == details.sku)",
            0,
        ),
        ("output == null && details.known || output.done", 1),
        ("output == null || details.known && output.done", 0),
        ("details.known || output == null", 0),
    ] {
        assert_eq!(about(expression), warned, "{expression}");
    }
}

#[test]
fn a_name_of_a_macro_is_not_the_output() {
    assert_eq!(about("details.items.map(output, output.sku)"), 0);
    assert_eq!(about("output.items.map(output, output.sku)"), 1);
}

#[test]
fn each_expression_is_warned_of() {
    let input = json!({"a": "${output.a}", "b": ["${output}", "x ${output.b} ${output.c}"]});
    assert_eq!(warnings(&json!({}), &input).len(), 3);
}

#[test]
fn a_step_that_is_compensated_only_with_its_output_is_not_warned_of() {
    let input = json!("${output.reference}");
    let once = json!({"at_most_once": true});
    assert_eq!(warnings(&once, &input), []);
    let probed = json!({"probe": {"action": "ask"}});
    let found = warnings(&probed, &input);
    assert!(found[0].reason.contains("probe has no output"), "{found:?}");
}

#[test]
fn a_step_with_nothing_to_compensate_is_not_warned_of() {
    let definition = json!({"workflow": "w", "steps": [
        {"id": "a", "agent": "x", "action": "go", "compensation": "none"},
        {"id": "p", "agent": "x", "action": "go", "point_of_no_return": true}]});
    let definition = serde_json::from_value(definition).unwrap();
    let workflow = Workflow::compile(definition, &Limits::published()).unwrap();
    assert_eq!(workflow.warnings(), []);
}

#[test]
fn what_is_warned_of_fails_and_what_is_not_does_not() {
    use triad_workflow::{Expression, Scope};
    for (expression, has_value) in [
        ("output.reference", false),
        ("output == null ? null : output.reference", true),
        ("output", true),
        ("has(output.reference)", false),
    ] {
        let scope = Scope::new(&Value::Null, &json!({}), [], None);
        let computed = Expression::compile(expression).unwrap().evaluate(&scope);
        assert_eq!(computed.is_ok(), has_value, "{expression}: {computed:?}");
    }
}
