//! Expressions that compile but fail for every order are reported as problems; valid ones are not.
#![cfg(feature = "load")]

use serde_json::{Value, json};
use triad_workflow::{Expression, Limits, Scope, load};

/// A file of three steps: `first`, `gift`, which may be skipped, and `last` with the given lines.
fn file(last: &str) -> String {
    format!(
        "workflow: w
steps:
  - {{id: first, agent: shop, action: go, compensation: none}}
  - {{id: gift, agent: shop, action: wrap, compensation: none, when: details.gift}}
  - id: last
    agent: shop
    action: go
{last}
"
    )
}

/// The problems of the step `last`, without its name.
fn told(last: &str) -> Vec<String> {
    let last = match last.contains("compensation:") {
        true => last.to_owned(),
        false => format!("{last}\n    compensation: none"),
    };
    match load::from_yaml("w.yaml", &file(&last), &Limits::published()) {
        Ok(_) => Vec::new(),
        Err(e) => e.problems.iter().map(ToString::to_string).collect(),
    }
}

fn input(expression: &str) -> Vec<String> {
    told(&format!(
        "    input: {{x: {}}}",
        json!(format!("${{{expression}}}"))
    ))
}

fn when(expression: &str) -> Vec<String> {
    told(&format!("    when: {}", json!(expression)))
}

#[track_caller]
fn refused(told: &[String], reason: &str) {
    assert_eq!(told.len(), 1, "{reason}: {told:#?}");
    assert!(told[0].contains(reason), "{}", told[0]);
}

#[test]
fn what_can_never_work_is_refused_in_the_words_of_the_language() {
    for (expression, reason) in [
        (
            "concat(details.name)",
            "there is no function `concat`; there are size, contains",
        ),
        (
            "toUpper(details.name)",
            "there is no function `toUpper`, did you mean `upper`?",
        ),
        (
            "details.name.startswith(\"a\")",
            "there is no function `startswith`, did you mean `startsWith`?",
        ),
        ("details.items.len()", "there is no function `len`"),
        (
            "size()",
            "`size` takes 1 value in its brackets, and 0 are given; write for example",
        ),
        (
            "contains(details.a, \"b\")",
            "`contains` is not called like this; write for example `details.note.contains",
        ),
        ("details.items.map(order)", "`map` is not called like this"),
        (
            "size(3)",
            "`size` cannot be used here: `3` is a whole number",
        ),
        (
            "\"a\" > 3",
            "`>` cannot be used here: `\"a\"` is a text, and `3` is a whole number; write string(…)",
        ),
        (
            "order.id + 1",
            "`+` cannot be used here: `order.id` is a text",
        ),
        ("details.count / 0", "divides by zero"),
        ("details.count / 0.0", "divides by zero"),
        (
            "1.5 * \"2\"",
            "write string(…) around the number, or double(…) around the text",
        ),
        (
            "round(details.price)",
            "`round` takes 2 values in its brackets, and 1 are given; write for example `round(",
        ),
        (
            "lower(order.id)",
            "`lower` is not called like this; write for example `details.note.lower()`",
        ),
        (
            "sum(order.id)",
            "`sum` cannot be used here: `order.id` is a text; write for example `sum(",
        ),
        ("max(order.id, 1)", "`max` cannot be used here"),
        (
            "order.id.split(1)",
            "`split` cannot be used here: `order.id` is a text, and `1` is a whole number",
        ),
        (
            "round(1.5, 2) + order.id",
            "`+` cannot be used here: `round(1.5, 2)` is a number",
        ),
        (
            "coalesce(details.a)",
            "`coalesce` takes 2 values in its brackets, and 1 are given",
        ),
        (
            "coalesce(null, order.id) + 1",
            "`+` cannot be used here: `coalesce(null, order.id)` is a text",
        ),
        ("coalesce(order.number, 1)", "`order` has no field `number`"),
        (
            "order.submitted_at + duration(\"1h\")",
            "`order.submitted_at` is a text, and `duration(\"1h\")` is a duration; write duration(…) around the text",
        ),
        (
            "timestamp(order.submitted_at) > \"2026-01-01\"",
            "is a time, and `\"2026-01-01\"` is a text; write timestamp(…) around the text",
        ),
        (
            "timestamp(order.submitted_at) + 60",
            "`timestamp(order.submitted_at)` is a time, and `60` is a whole number",
        ),
        (
            "timestamp(\"yesterday\")",
            "`timestamp(\"yesterday\")` has no value for any order",
        ),
        ("now()", "there is no function `now`"),
        (
            "timestamp(order.submitted_at).getHours(1, 2)",
            "`getHours` takes 0 or 1 values in its brackets, and 2 are given",
        ),
        ("order.id == 7", "they are never equal"),
        (
            "order.priority != true",
            "they are always unequal; write true and false without quotes",
        ),
        (
            "order.number",
            "`order` has no field `number`; there are id, priority, submitted_at, workflow",
        ),
        (
            "order.workfow",
            "`order` has no field `workfow`, did you mean `workflow`?",
        ),
        ("has(order.customer)", "`order` has no field `customer`"),
        ("order[\"ids\"]", "`order` has no field `ids`"),
        (
            "order.id.first",
            "`order.id` is a text, and has no field `first`",
        ),
        ("order.id[0]", "`order.id` is a text, and has no elements"),
        ("[1, 2][\"a\"]", "a list is read by a whole number"),
        ("-order.id", "and no number"),
        (
            "!order.id",
            "what stands behind `!` has to be true or false",
        ),
        (
            "details.a && 1",
            "a side of `&&` has to be true or false, and `1` is a whole number",
        ),
        (
            "size(details.items) ? 1 : 2",
            "the condition before `?` has to be true or false, and `size(details.items)`",
        ),
        ("details + 1", "`details` is a mapping"),
        (
            "details.items.filter(i, 1)",
            "has to be true or false, and `1` is a whole number",
        ),
        ("details.items.all(i, \"x\")", "has to be true or false"),
        (
            "order.id.map(i, i)",
            "`order.id` is a text, and has no elements to go through",
        ),
        (
            "details.items.map(i, size(i.sku) + \"x\")",
            "`+` cannot be used here",
        ),
        (
            "[1, 2].map(i, i.sku)",
            "`i` is a whole number, and has no field `sku`",
        ),
        ("{\"a\": 1}.b", "has no field `b`; there are a"),
        ("1 in \"abc\"", "`in` cannot be used here"),
        ("output", "only the step's compensation has it"),
        ("output.reference", "only the step's compensation has it"),
    ] {
        refused(&input(expression), reason);
    }
}

#[test]
fn a_condition_that_can_never_be_true_or_false_is_refused() {
    refused(
        &when("1 + 1"),
        "when: has to be true or false, and `1 + 1` is a whole number",
    );
    refused(&when("order.id"), "`order.id` is a text; compare it");
    refused(&when("details.items.filter(i, i.a)"), "is a list");
    refused(&when("\"yes\""), "is a text");
    refused(&when("steps.gift"), "is null where step gift is skipped");
    refused(&when("${details.a}"), "write it without `${` and `}`");
    refused(&when("{{ details.a }}"), "no braces at all in a `when`");
    for fine in [
        "details.a",
        "true",
        "steps.first",
        "details.items.exists(i, i.a)",
        "steps.first.ok == true",
    ] {
        assert_eq!(when(fine), [""; 0], "{fine}");
    }
}

#[test]
fn what_may_work_for_some_order_is_let_through() {
    for fine in [
        "details.a + details.b",
        "details.count * 2",
        "details.count * 2.0",
        "1 + 1.5",
        "2 * 9.8 % 3 / uint(2) == 1",
        "details.items[details.count / 2]",
        "round(sum(details.items.map(i, i.price * i.count)) * 1.19, 2) + 1",
        "fixed(details.price, 2) + \" EUR\"",
        "details.name.trim().upper().split(\" \").join(\"-\").replace(\"A\", \"a\").substring(0, 40)",
        "base64_decode(details.code) + url_encode(sha256(base64(order.id)))",
        "coalesce(details.note, \"none\") + \"!\"",
        "coalesce(null, 1) + 1",
        "timestamp(order.submitted_at) + duration(\"36h\") < timestamp(details.until)",
        "timestamp(details.a) - timestamp(details.b) > duration(details.span)",
        "timestamp(order.submitted_at).format(\"%d.%m.%Y\", \"Europe/Berlin\") + \"!\"",
        "timestamp(order.submitted_at).getHours(\"Europe/Paris\") / 2 + timestamp(details.a).getMonth()",
        "min(details.a, 1.5) + max(abs(details.b), floor(2.5)) + ceil(details.c)",
        "details.a[0].b[\"c\"].d",
        "details.a == null ? 0 : details.a",
        "details.items.map(i, i.price * i.count)",
        "details.items.filter(i, i.price > 3.0).map(i, i.sku)",
        "details.items.exists_one(i, i.first)",
        "details.items.map(i, [i, 1])[0][1] + 1",
        "details.map(k, k + \"x\")",
        "details.m.map(k, details.m[k])",
        "size(details.items) > 3 && details.items[0].a",
        "has(details.a.b) ? details.a.b : \"none\"",
        "order.id + \"-\" + order.priority",
        "order.id.startsWith(\"A\") || order.workflow.contains(\"x\")",
        "string(details.n) + \"x\"",
        "int(\"7\") + 1",
        "double(details.n) / 2.0",
        "details.a in [1, 2, \"x\"]",
        "\"a\" in details",
        "order.id == details.id",
        "1 == 1.0",
        "steps.first.reference + \"x\"",
        "steps[\"first\"].items.map(i, i.a)",
        "{\"a\": details.x, \"b\": [1, \"x\"]}",
        "[1, \"x\"][details.n] == 1",
        "{\"a\": 1}[order.id]",
        "dyn(order.id) == 7",
        "type(details.a) == type(1)",
        "(details.a ? 1 : \"x\") + 1",
        "[[1], [2]].map(l, l.map(x, x + 1))",
        "[].map(x, x.a)",
    ] {
        assert_eq!(input(fine), [""; 0], "{fine}");
    }
}

#[test]
fn the_output_of_a_step_that_may_be_skipped_needs_a_guard() {
    for unguarded in [
        "steps.gift.price",
        "steps[\"gift\"].price",
        "steps.gift + 1",
        "size(steps.gift)",
        "has(steps.gift.price) ? 1 : 2",
        "details.other ? steps.gift.price : 0",
        "steps.gift == null ? steps.gift.price : 0",
        "steps.first.ok && steps.gift.ok",
        "details.items.map(i, i.n + steps.gift.n)",
        "details.gift ? 0 : steps.gift.price",
        "coalesce(steps.gift.price + 1, 0)",
        "coalesce(steps.first.price, 0) + steps.gift.price",
    ] {
        refused(
            &input(unguarded),
            "step gift is skipped where `details.gift` does not hold",
        );
    }
    for guarded in [
        "steps.gift",
        "[steps.gift]",
        "{\"a\": steps.gift}",
        "steps.gift == null",
        "details.x ? steps.gift : null",
        "steps.gift == null ? null : steps.gift.price",
        "steps.gift != null ? steps.gift.price : 0",
        "null != steps[\"gift\"] && steps.gift.ok",
        "steps.gift.ok && steps.gift != null",
        "steps.gift == null || steps.gift.ok",
        "coalesce(steps.gift.price, 0) + 1",
        "coalesce(steps.gift, steps.first).price",
        "coalesce(details.price, steps[\"gift\"].price)",
        "!(steps.gift == null) ? steps.gift.price : 0",
        "details.gift ? steps.gift.price : 0",
        "details.gift == true ? steps.gift.price : 0",
        "details.gift && details.x ? steps.gift.price : 0",
    ] {
        assert_eq!(input(guarded), [""; 0], "{guarded}");
    }
    let both = |condition: &str| {
        told(&format!(
            "    when: {condition}\n    input: {{x: \"${{steps.gift.price}}\"}}"
        ))
    };
    for same in [
        "details.gift",
        "details.gift && details.x",
        "steps.gift != null",
        "details.gift == true",
    ] {
        assert_eq!(both(same), [""; 0], "{same}");
    }
    refused(&both("details.other"), "give this step the same `when`");
    let told = told("    compensation: {action: compensate, input: {x: \"${steps.gift.price}\"}}");
    refused(&told, "compensation.input.x: step gift is skipped");
}

/// The check of guards assumes that evaluation fails for exactly the refused expressions. This runs the CEL library
/// itself.
#[test]
fn guards_are_what_the_language_makes_of_them() {
    let computed = |source: &str| {
        let scope = Scope::new(
            &json!({}),
            &json!({"gift": false}),
            [("gift", &Value::Null), ("first", &json!({"ok": true}))],
            None,
        );
        Expression::compile(source).unwrap().evaluate(&scope)
    };
    for fails in [
        "has(steps.gift.price)",
        "steps.gift.price",
        "steps.first.ok && steps.gift.ok",
    ] {
        assert!(computed(fails).is_err(), "{fails}");
    }
    assert_eq!(computed("has(steps.gift)"), Ok(json!(true)), "no guard");
    for works in [
        "steps.gift == null ? null : steps.gift.price",
        "steps.gift != null && steps.gift.ok",
        "steps.gift.ok && steps.gift != null",
        "steps.gift == null || steps.gift.ok",
        "details.gift ? steps.gift.price : 0",
    ] {
        assert!(computed(works).is_ok(), "{works}");
    }
}

#[test]
fn a_condition_that_follows_from_another_is_a_guard_too() {
    let text = "workflow: w
steps:
  - {id: a, agent: shop, action: go, compensation: none, when: details.a}
  - {id: b, agent: shop, action: go, compensation: none, when: steps.a != null && details.b}
  - {id: c, agent: shop, action: go, compensation: none, when: steps.b != null, input: '${steps.a.x}'}
";
    assert!(load::from_yaml("w.yaml", text, &Limits::published()).is_ok());
}

#[test]
fn another_template_language_is_told_of_its_place_and_of_the_way_out() {
    let told_of = |text: &str| told(&format!("    input: {{x: {}}}", json!(text)));
    refused(
        &told_of("to {{ details.city }}"),
        "input.x: `{{ details.city }}` would be sent as it stands: an expression is written `${ … }`; write `${details.city}`",
    );
    for fine in [
        "${\"{{name}}\"}",
        "${ {\"a\": {\"b\": 1}}.a.b }",
        "{ a }",
        "{{",
    ] {
        assert_eq!(told_of(fine), [""; 0], "{fine}");
    }
    refused(
        &told_of("to ${details.city"),
        "`${details.city` has `${` without its `}`",
    );
    refused(&told_of("${{ details.city }}"), "write one brace: `${ … }`");
}

#[test]
fn other_ways_to_write_an_expression_are_told_of_and_the_way_out_is_none() {
    let told_of = |text: &str| told(&format!("    input: {{x: {}}}", json!(text)));
    for (text, whole) in [
        ("to {details.city}", "{details.city}"),
        ("to { details.city }!", "{ details.city }"),
        ("to $details.city.", "$details.city"),
        ("to #{details.city}", "#{details.city}"),
        ("{order.id}", "{order.id}"),
        ("$steps.first.id, please", "$steps.first.id"),
        ("${order.id} {details[\"a\"]}", "{details[\"a\"]}"),
    ] {
        let plain = whole.trim_matches(['#', '$', '{', '}', ' ']);
        let way_out = format!("${{{}}}", json!(whole));
        refused(
            &told_of(text),
            &format!(
                "`{whole}` would be sent as it stands: an expression is written `${{ … }}`; write `${{{plain}}}`, or `{way_out}`"
            ),
        );
        assert_eq!(told_of(&way_out), [""; 0], "{whole}");
    }
    for fine in [
        "{details}",
        "$5 for details. More",
        "costs $order",
        "{\"details\": 1}",
    ] {
        assert_eq!(told_of(fine), [""; 0], "{fine}");
    }
}

#[test]
fn what_reads_nothing_and_has_no_value_is_told_of() {
    for (expression, what) in [
        (
            "int(\"abc\")",
            "`int(\"abc\")` has no value for any order: ",
        ),
        (
            "details.a + int('abc')",
            "`int(\"abc\")` has no value for any order: ",
        ),
        ("[1, 2][5]", "`[1, 2][5]` has no value for any order: "),
        (
            "details.a ? [1, 2][5] : 3",
            "`[1, 2][5]` has no value for any order: ",
        ),
    ] {
        refused(&input(expression), what);
        assert!(
            input(expression)[0].contains("; write what it is to be"),
            "{expression}"
        );
    }
    for fine in [
        "int(\"7\")",
        "[1, 2][1]",
        "10 / (0 + 5)",
        "{\"a\": 1}.a + 1",
    ] {
        assert_eq!(input(fine), [""; 0], "{fine}");
    }
    for never in ["false", "1 > 2", "!true"] {
        refused(
            &when(never),
            "never holds, so that the step is skipped for every order; compare something",
        );
    }
    assert_eq!(when("true"), [""; 0]);
}

#[test]
fn a_step_with_a_hyphen_is_written_in_brackets() {
    for (expression, step) in [
        ("steps.pay-it.id", "pay-it"),
        ("1 + steps.a-b-c.n", "a-b-c"),
    ] {
        let told = input(expression);
        let hint = format!("takes the `-` of `steps.{step}` for a minus: write steps[\"{step}\"]");
        assert!(told.iter().any(|t| t.contains(&hint)), "{told:?}");
    }
    assert!(input("first - 1")[0].contains("unknown variable `first`"));
}

#[test]
fn delays_that_shrink_are_told_of() {
    refused(
        &told("    supervisor: {failure_threshold: 3, delay: 10s, max_delay: 1s}"),
        "supervisor.max_delay: 1s is below supervisor.delay, which is 10s; raise it, or leave it out",
    );
    assert_eq!(
        told("    supervisor: {failure_threshold: 3, delay: 10s, max_delay: 10s}"),
        [""; 0]
    );
    refused(
        &told("    attempt_timeout: 5M"),
        "attempt_timeout: \"5M\" has `M`, which is months; write `m` for minutes",
    );
}

#[test]
fn a_schema_that_asks_for_nothing_or_that_nothing_fits_is_told_of() {
    let told_of = |schema: Value| {
        let text = format!(
            "{}details_schema: {schema}\n",
            file("    compensation: none")
        );
        match load::from_yaml("w.yaml", &text, &Limits::published()) {
            Ok(_) => Vec::new(),
            Err(e) => e.problems.iter().map(ToString::to_string).collect(),
        }
    };
    refused(
        &told_of(json!({"type": "string"})),
        "details_schema.type: details are always an object, so that no order fits; write `type: object`",
    );
    for (schema, place) in [
        (
            json!({"requird": ["a"]}),
            "details_schema.requird: JSON Schema has no such keyword, and would ignore it, did you mean `required`?",
        ),
        (
            json!({"properties": {"a": {"minLenght": 1}}}),
            "details_schema.properties.a.minLenght: ",
        ),
        (
            json!({"anyOf": [{"items": {"Enum": []}}]}),
            "did you mean `enum`?",
        ),
    ] {
        refused(&told_of(schema), place);
    }
    for fine in [
        json!({"type": ["object", "null"], "x-team": "shop"}),
        json!({"definitions": {"item": {}}, "$defs": {"item": {}}}),
        json!({"properties": {"requird": {"const": {"minLenght": 1}}}, "default": {"requird": 1}}),
    ] {
        assert_eq!(told_of(fine.clone()), [""; 0], "{fine}");
    }
}

#[test]
fn a_fault_is_shown_where_it_stands() {
    let text = file("    input: {x: \"to ${toUpper(details.city)}\"}\n    compensation: none");
    let error = load::from_yaml("w.yaml", &text, &Limits::published()).expect_err("no function");
    let line = text.lines().position(|l| l.contains("toUpper")).unwrap();
    let column = text.lines().nth(line).unwrap().find("toUpper").unwrap();
    let place = error.problems[0].place.as_ref().unwrap();
    assert_eq!(
        (place.line, place.column, place.width),
        (line + 1, column + 1, 8)
    );
}

#[test]
fn what_is_published_already_is_not_held_against_it() {
    let definition = json!({"workflow": "w", "steps": [{"id": "a", "agent": "x", "action": "go",
        "compensation": "none", "input": "${order.number}"}]});
    assert!(triad_workflow::Workflow::from_published(&definition.to_string()).is_ok());
    let typed = serde_json::from_value(definition).unwrap();
    assert_eq!(load::type_problems(&typed).len(), 1);
}

#[test]
fn a_schema_says_what_the_details_are() {
    let told = |expression: &str| {
        let schema = r##"{type: object, additionalProperties: false, required: [customer], properties: {
            customer: {type: string}, count: {type: integer}, gift: {type: boolean}, note: {type: [string, "null"]},
            items: {type: array, items: {$ref: "#/$defs/item"}}, any: {anyOf: [{type: string}, {type: number}]}},
            $defs: {item: {type: object, properties: {price: {type: number}}, additionalProperties: false}}}"##;
        let text = format!(
            "workflow: w\ndetails_schema: {schema}\nsteps:\n  - {{id: a, agent: x, action: go, compensation: none, input: {{x: {}}}}}",
            json!(format!("${{{expression}}}"))
        );
        match load::from_yaml("w.yaml", &text, &Limits::published()) {
            Ok(_) => Vec::new(),
            Err(e) => e.problems.iter().map(ToString::to_string).collect(),
        }
    };
    for (expression, reason) in [
        (
            "details.custmer",
            "`details` has no field `custmer`, did you mean `customer`?",
        ),
        ("details.customer * 2", "`details.customer` is a text"),
        ("details.count == \"3\"", "never equal"),
        (
            "details.items[0].prize",
            "has no field `prize`, did you mean `price`?",
        ),
        (
            "details.items.map(i, i.price + \"x\")",
            "`i.price` is a number",
        ),
        ("details.gift > 3", "`>` cannot be used here"),
        ("details.items.sku", "is a list, and has no field `sku`"),
    ] {
        refused(&told(expression), reason);
    }
    for fine in [
        "details.customer + \"x\"",
        "details.count * 2",
        "details.count / 2.0",
        "details.note == null ? \"\" : details.note",
        "details.note + \"x\"",
        "details.items.map(i, i.price * 1.19)",
        "details.any + 1",
        "details.gift ? 1 : 2",
    ] {
        assert_eq!(told(fine), [""; 0], "{fine}");
    }
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_at_its_place() {
    let text = "workflow: w
details_schema:
  $ref: https://example.com/order.json
steps:
  - {id: a, agent: x, action: go, compensation: none}
";
    let error = load::from_yaml("w.yaml", text, &Limits::published()).expect_err("remote");
    let told: Vec<String> = error.lines().collect();
    assert_eq!(told.len(), 1);
    assert!(
        told[0].starts_with("w.yaml:2:1: details_schema: refers to \"https://example.com"),
        "{told:?}"
    );
    let text = text.replace("\n  $ref: https://example.com/order.json", " [1]");
    let error = load::from_yaml("w.yaml", &text, &Limits::published()).expect_err("a list");
    assert!(
        error
            .to_string()
            .contains("details_schema: is a list, and has to be a mapping"),
        "{error}"
    );
}
