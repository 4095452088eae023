//! Search keys: the rules for their declarations, and the keys of an order.
#![cfg(feature = "load")]

use serde_json::{Value, json};
use triad_workflow::search::MAX_VALUE_BYTES;
use triad_workflow::{Limits, SearchKey, Workflow, load};

const STEPS: &str = "steps: [{id: a, agent: shop, action: go, compensation: none}]";

fn read(search: &str) -> Result<Workflow, Vec<String>> {
    let text = format!("workflow: w\nsearch: {search}\n{STEPS}");
    let read = load::from_yaml("w.yaml", &text, &Limits::published());
    read.map_err(|e| e.problems.iter().map(ToString::to_string).collect())
}

/// The keys of an order with these details, if the search key `k` is declared with this expression.
fn keys(expression: &str, details: &Value) -> Vec<String> {
    let declared = json!({"k": format!("${{{expression}}}")}).to_string();
    let workflow = read(&declared).expect("a sound file");
    let keys = workflow.search.of(details);
    keys.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn refused(search: &str, reason: &str) {
    let told = read(search).expect_err("it is refused");
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains(reason), "{}", told[0]);
}

#[test]
fn an_order_has_the_declared_keys_by_name() {
    let declared = r#"{ invoice: "${details.invoice}", customer: "${details.customerID}" }"#;
    let workflow = read(declared).expect("a sound file");
    let names: Vec<&str> = workflow.search.names().map(|n| n.as_str()).collect();
    assert_eq!(names, ["customer", "invoice"]);
    let keys = workflow
        .search
        .of(&json!({"customerID": "ALFKI", "invoice": 10248}));
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    assert_eq!(keys, ["customer=ALFKI", "invoice=10248"]);
}

#[test]
fn numbers_and_truth_values_are_found_as_json_writes_them() {
    let details = json!({"n": 10248, "f": 32.5, "e": 1e15, "b": true, "s": " A=b "});
    for (of, key) in [
        ("details.n", "k=10248"),
        ("details.f", "k=32.5"),
        ("details.e", "k=1000000000000000.0"),
        ("details.b", "k=true"),
        ("details.s", "k= A=b "),
        ("details.s + \"/\" + string(details.n)", "k= A=b /10248"),
    ] {
        assert_eq!(keys(of, &details), [key], "{of}");
    }
}

#[test]
fn an_order_without_a_value_that_can_be_one_has_no_key() {
    let details = json!({"null": null, "empty": "", "list": [1], "object": {"a": 1},
        "long": "x".repeat(MAX_VALUE_BYTES + 1), "longest": "x".repeat(MAX_VALUE_BYTES)});
    for of in ["null", "empty", "list", "object", "long", "missing"] {
        let none: [&str; 0] = [];
        assert_eq!(keys(&format!("details[\"{of}\"]"), &details), none, "{of}");
    }
    assert_eq!(keys("details.longest", &details).len(), 1);
}

#[test]
fn a_key_without_a_value_takes_nothing_from_the_other_one() {
    let declared = r#"{ a: "${details.a}", b: "${details.b}" }"#;
    let workflow = read(declared).expect("a sound file");
    let keys = workflow.search.of(&json!({"b": "B"}));
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0].to_string(), "b=B");
}

#[test]
fn more_than_two_keys_are_refused() {
    let three = r#"{ a: "${details.a}", b: "${details.b}", c: "${details.c}" }"#;
    refused(three, "3 search keys; 2 are allowed");
}

#[test]
fn a_bad_name_is_refused() {
    refused(r#"{ customerID: "${details.a}" }"#, "is not a valid name");
}

#[test]
fn what_is_not_one_expression_is_refused_with_what_to_write() {
    refused("{ k: details.a }", "write `${details.a}`");
    refused(
        r#"{ k: "${details.a}/${details.b}" }"#,
        "is not one expression",
    );
    refused("{ k: always the same }", "is not one expression");
    refused(r#"{ k: "${details.a" }"#, "close it with `}`");
    refused(r#"{ k: "${detials.a}" }"#, "did you mean `details`?");
    refused("{ k: 7 }", "is 7, and has to be a text");
    refused("customer", "has to be a mapping");
}

#[test]
fn what_is_not_in_the_details_is_refused() {
    refused(r#"{ k: "${order.id}" }"#, "reads `order`");
    refused(r#"{ k: "${steps.a.reference}" }"#, "reads `steps`");
    refused(r#"{ k: "${output}" }"#, "reads `output`");
}

#[test]
fn what_can_never_be_a_value_is_refused() {
    refused(r#"{ k: "${[details.a]}" }"#, "and `[details.a]` is a list");
    refused(r#"{ k: "${details}" }"#, "is a mapping");
    refused(
        r#"{ k: "${details.a.strip()}" }"#,
        "there is no function `strip`",
    );
}

#[test]
fn a_field_that_the_schema_of_the_details_does_not_have_is_refused() {
    let text = format!(
        "workflow: w
details_schema: {{type: object, additionalProperties: false, properties: {{customer: {{type: string}}}}}}
search: {{ k: \"${{details.custmer}}\" }}
{STEPS}"
    );
    let told = load::from_yaml("w.yaml", &text, &Limits::published()).expect_err("it is refused");
    assert!(
        told.to_string().contains("did you mean `customer`?"),
        "{told}"
    );
}

#[test]
fn a_key_is_read_from_its_text_and_written_back() {
    for text in ["customer=ALFKI", "customer=a=b", "k= ", "k=\n\u{10FFFF}"] {
        let key: SearchKey = text.parse().expect("a search key");
        assert_eq!(key.to_string(), text);
    }
    let long = format!("k={}", "x".repeat(MAX_VALUE_BYTES + 1));
    for text in ["", "customer", "=ALFKI", "customer=", "Customer=x", &long] {
        assert!(text.parse::<SearchKey>().is_err(), "{text}");
    }
}
