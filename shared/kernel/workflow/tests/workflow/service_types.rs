//! Types of what services take and answer: inputs of steps and expressions are checked against them.

use triad_workflow::load::{self, LoadError};
use triad_workflow::{Limits, Workflow, hash};

const PAYMENT: &str = "\
actions:
  charge:
    path: /v1/charges
    keep: [id, card]
    types:
      input: { amount: number, currency: string, lines: [{ sku: string }], note?: string }
      body: { id: string, card: { last4: string }, paid?: boolean }
  refund:
    path: /v1/charges/${input.charge}/refunds
    body: form
    content: { amount: '${input.amount}' }
    types:
      input: { charge: string, amount: integer, '*': any }
";

fn load(step: &str) -> Result<Workflow, LoadError> {
    let text = format!(
        "workflow: pay\nsteps:\n  - id: charge\n    agent: payment\n    action: charge\n{step}"
    );
    let describe = &mut |_: &str| Ok(Some(("payment.yaml".to_owned(), PAYMENT.to_owned())));
    load::with_services("pay.yaml", &text, &Limits::published(), describe)
}

const INPUT: &str =
    "    input: { amount: 7, currency: EUR, lines: \"${details.lines}\", note: null }\n";
const REFUND: &str = "    compensation: { action: refund, input: { charge: \"${output.id}\", amount: \"7\", x: 1 } }\n";

#[test]
fn what_fits_is_sound_and_types_are_no_part_of_what_is_published() {
    let workflow = load(&format!("{INPUT}{REFUND}")).expect("it is sound");
    let stored = hash::canonical_json(&workflow.definition);
    assert!(!stored.contains("last4"), "{stored}");
    let without = PAYMENT.split("    types:").next().expect("a part");
    assert!(
        stored.contains("/v1/charges/${input.charge}/refunds"),
        "{without}"
    );
}

#[test]
fn unknown_and_missing_fields_are_reported_with_their_place() {
    for (input, compensation, wanted) in [
        (
            INPUT.replace("amount", "amuont"),
            REFUND.to_owned(),
            "pay.yaml:6:14: step charge: input.amuont: payment charge has no field `amuont`, did you mean `amount`?",
        ),
        (
            INPUT.replace("amount: 7, ", ""),
            REFUND.to_owned(),
            "pay.yaml:6:5: step charge: input: payment charge needs `amount` too",
        ),
        (
            String::new(),
            REFUND.to_owned(),
            "payment charge needs `amount`, `currency`, `lines` too",
        ),
        (
            INPUT.replace('7', "\"${string(7)}\""),
            REFUND.to_owned(),
            "step charge: input.amount: is a text, and payment charge takes a number",
        ),
        (
            INPUT.replace("\"${details.lines}\"", "[{ skew: 1 }]"),
            REFUND.to_owned(),
            "input.lines[0].skew: payment charge has no field `skew`",
        ),
        (
            INPUT.replace("\"${details.lines}\"", "[{ sku: 1 }]"),
            REFUND.to_owned(),
            "input.lines[0].sku: is a number, and payment charge takes a text",
        ),
        (
            INPUT.replace("\"${details.lines}\"", "\"${[{'skew': 1}]}\""),
            REFUND.to_owned(),
            "input.lines: payment charge has no field `skew`",
        ),
        (
            INPUT.to_owned(),
            REFUND.replace("output.id", "output.idd"),
            "`output` has no field `idd`, did you mean `id`?",
        ),
        (
            INPUT.to_owned(),
            REFUND.replace("output.id", "output.card.last"),
            "`output.card` has no field `last`",
        ),
        (
            INPUT.to_owned(),
            REFUND.replace("output.id", "output.paid"),
            "`output` has no field `paid`",
        ),
        (
            INPUT.to_owned(),
            REFUND.replace("charge: \"${output.id}\", ", ""),
            "compensation.input: payment refund needs `charge` too",
        ),
    ] {
        let error = load(&format!("{input}{compensation}")).expect_err(wanted);
        let lines: Vec<String> = error.lines().collect();
        assert!(
            lines.iter().any(|line| line.contains(wanted)),
            "{wanted}: {lines:#?}"
        );
    }
}

#[test]
fn a_description_is_held_against_its_own_types() {
    for (from, to, wanted) in [
        (
            "keep: [id, card]",
            "keep: [idd]",
            "keep[0]: `types.body` has no field `idd`, did you mean `id`?",
        ),
        (
            "keep: [id, card]",
            "keep: { a: '${body.crad}' }",
            "keep.a: `body` has no field `crad`, did you mean `card`?",
        ),
        (
            "keep: [id, card]",
            "fails_when: body.card.state == 'x'",
            "fails_when: `body.card` has no field `state`",
        ),
        (
            "keep: [id, card]",
            "fails_when: body.id",
            "fails_when: has to be true or false, and is a text",
        ),
        (
            "keep: [id, card]",
            "answers: [{ when: 'status + 1', means: refused }]",
            "answers[0].when: has to be true or false, and is a whole number",
        ),
        (
            "${input.charge}",
            "${input.amount.x}",
            "actions.refund.path: `input.amount` is a number, and has no field `x`",
        ),
        (
            "id: string",
            "id: text",
            "types.body.id: \"text\" is not a type",
        ),
        ("id: string", "id: strng", "did you mean `string`?"),
        (
            "[{ sku: string }]",
            "[]",
            "types.input.lines: a list with 0 types",
        ),
        (
            "id: string",
            "id: null",
            "types.body.id: null is not a type",
        ),
    ] {
        let text = PAYMENT.replace(from, to);
        let error = load::service_from_yaml("payment.yaml", &text).expect_err(wanted);
        let lines: Vec<String> = error.lines().collect();
        assert!(
            lines.iter().any(|line| line.contains(wanted)),
            "{wanted}: {lines:#?}"
        );
    }
}
