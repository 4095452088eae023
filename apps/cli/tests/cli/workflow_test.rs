//! `triad test` evaluates a workflow for an order, without a running installation.

use serde_json::{Value, json};
use triad_tests::cli::{Ran, triad};
use triad_tests::orders::Files;

const SHOP: &str = "workflow: shop
details_schema: { required: [customer] }
steps:
  - id: reserve
    agent: stock
    action: reserve
    input: { item: \"${details.item}\", of: \"${order.id}\" }
    compensation: { action: release, input: { of: \"${output.reference}\" } }
  - id: wrap
    agent: stock
    action: wrap
    when: details.gift
    input: { note: \"for ${details.customer}\" }
    compensation: none
  - id: charge
    agent: payment
    action: charge
    input: { for: \"${steps.reserve.reference}\", twice: \"${steps.reserve.price * 2}\", paper: \"${steps.wrap}\" }
    compensation: none
";

async fn tried(order: &Value, more: &[&str]) -> Ran {
    let files = Files::new();
    let (shop, order) = (
        files.write("shop.yaml", SHOP),
        files.write("order.json", &order.to_string()),
    );
    let mut args = vec!["test", "--json", &shop, &order];
    args.extend(more);
    triad(&args, &[], b"").await
}

fn details() -> Value {
    json!({"customer": "VINET", "item": 7, "gift": true})
}

#[tokio::test]
async fn every_input_is_computed_from_the_outputs_that_are_given() {
    let order = json!({"order_id": "A-1", "workflow": "shop", "details": details()});
    let output = r#"reserve={"reference": "r-1", "price": 4}"#;
    let ran = tried(&order, &["--output", output]).await.good();
    let [reserve, wrap, charge] = &ran.json_lines()[..] else {
        panic!("a line for each step: {ran:?}");
    };
    assert_eq!(reserve["input"], json!({"item": 7, "of": "A-1"}));
    assert_eq!(reserve["compensation_input"], json!({"of": "r-1"}));
    assert_eq!(
        (&wrap["when"], &wrap["input"]),
        (&json!(true), &json!({"note": "for VINET"}))
    );
    assert_eq!(charge["input"]["for"], "r-1");
    assert_eq!(charge["input"]["twice"], 8);
    assert_eq!(charge["input_has_placeholders_of"], json!(["wrap"]));
    assert_eq!(wrap["output"], "<output of wrap>");
    assert_eq!(reserve["output_is_placeholder"], false);
}

#[tokio::test]
async fn what_depends_on_an_output_that_is_not_given_is_named_and_no_error() {
    let ran = tried(&details(), &[]).await.good();
    let lines = ran.json_lines();
    assert_eq!(
        lines[0]["compensation_input"]["of"],
        "<reference of reserve>"
    );
    assert_eq!(
        lines[2]["input_needs_output_of"],
        json!(["reserve", "wrap"])
    );
    assert_eq!(lines[2]["input"], Value::Null);
    let mut plain = details();
    plain["gift"] = json!(false);
    let lines = tried(&plain, &[]).await.good().json_lines();
    assert_eq!(lines[1]["skipped"], true);
}

#[tokio::test]
async fn what_has_no_value_is_told_with_its_place_and_what_does_not_fit_is_rejected() {
    let ran = tried(&json!({"customer": "VINET", "gift": 3}), &[])
        .await
        .ended(1);
    let lines = ran.json_lines();
    let error = &lines[0]["input_error"];
    assert_eq!(
        (&error["line"], &error["column"]),
        (&json!(7), &json!(23)),
        "{error}"
    );
    assert!(
        error["reason"].as_str().unwrap().contains("details.item"),
        "{error}"
    );
    assert_eq!(lines[1]["when_error"]["line"], 12);
    let ran = tried(&json!({"item": 7, "gift": false}), &[])
        .await
        .ended(1);
    let first = &ran.json_lines()[0];
    assert_eq!(first["cause"], "details-do-not-fit");
    assert!(
        first["reason"]
            .as_str()
            .unwrap()
            .contains("has no field \"customer\""),
        "{first}"
    );
}

#[tokio::test]
async fn files_that_are_wrong_end_with_2_and_say_why() {
    let ran = tried(&details(), &["--output", "reserv=1"]).await.ended(2);
    assert!(ran.err.contains("did you mean `reserve`?"), "{}", ran.err);
    let ran = tried(&details(), &["--output", "reserve={"]).await.ended(2);
    assert!(ran.err.contains("is not JSON"), "{}", ran.err);
    let other = json!({"order_id": "A-1", "workflow": "other"});
    let ran = tried(&other, &[]).await.ended(2);
    assert!(ran.err.contains("asks for workflow other"), "{}", ran.err);
    let wrong = json!({"order_id": 7, "workflow": "shop"});
    let ran = tried(&wrong, &[]).await.ended(2);
    assert!(
        ran.err.contains("wrong-field: \"order_id\" is a number"),
        "{}",
        ran.err
    );
    let ran = triad(&["test", "/no/such.yaml", "-"], &[], b"{}")
        .await
        .ended(2);
    assert!(
        ran.err.contains("/no/such.yaml: there is no such file"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn of_a_for_each_the_list_and_the_details_of_the_first_child_order_are_shown() {
    let files = Files::new();
    let workflow = "workflow: parts
steps:
  - id: ship
    for_each: { in: details.lines, as: line, tolerate: 1 }
    run: { workflow: parcel, details: { sku: \"${line.sku}\", at: \"${index}\" } }
";
    let workflow = files.write("parts.yaml", workflow);
    let ran = triad(&["validate", &workflow], &[], b"").await.good();
    let said = "ship: an order of parcel for each element of details.lines, at most 10 at once, tolerates 1";
    assert!(ran.out.contains(said), "{}", ran.out);
    let tried = async |details: Value| {
        let order = files.write("order.json", &details.to_string());
        triad(&["test", "--json", &workflow, &order], &[], b"").await
    };
    let ran = tried(json!({"lines": [{"sku": "a"}, {"sku": "b"}]}))
        .await
        .good();
    let ship = &ran.json_lines()[0];
    assert_eq!(ship["for_each"], json!([{"sku": "a"}, {"sku": "b"}]));
    assert_eq!(ship["details_of_the_first"], json!({"sku": "a", "at": 0}));
    assert_eq!(ship["runs"], "orders of parcel");
    let ran = tried(json!({"lines": {"sku": "a"}})).await.ended(1);
    let error = &ran.json_lines()[0]["for_each_error"];
    assert!(
        error["reason"].to_string().contains("has to be a list"),
        "{error}"
    );
}
