//! Steps that run other orders, and steps that do something for each element of a list: what is taken, and what it
//! becomes.
#![cfg(feature = "load")]

use std::collections::BTreeSet;

use serde_json::json;
use triad_workflow::{Above, Limits, Millis, Run, StepKind, Template, Workflow, hash, load};

use super::run_refused::refused;

/// A workflow with a step before and what is given after it, which begins in line 4.
pub(super) fn text(steps: &str) -> String {
    format!(
        "workflow: w\nsteps:\n  - {{id: a, agent: shop, action: go, compensation: none}}\n{steps}\n"
    )
}

pub(super) fn workflow(steps: &str) -> Result<Workflow, Vec<String>> {
    let read = load::from_yaml("w.yaml", &text(steps), &Limits::published());
    read.map_err(|e| e.lines().collect())
}

fn sound(steps: &str) -> Workflow {
    workflow(steps).unwrap_or_else(|told| panic!("{steps}: {told:#?}"))
}

fn run(workflow: &Workflow) -> &Run {
    workflow.steps[1].run().expect("a step that runs orders")
}

pub(super) const ACTION: &str = "agent: carrier, action: book, compensation: none";

/// A step that has two steps for each line, the second of which is given.
pub(super) fn group(second: &str) -> String {
    format!(
        "  - id: ship
    for_each:
      in: details.lines
      as: line
      steps:
        - {{id: reserve, agent: stock, action: reserve, input: {{sku: \"${{line.sku}}\"}}, compensation: {{action: release}}}}
        - {second}"
    )
}

#[test]
fn a_step_runs_one_child_order() {
    let workflow = sound(
        "  - {id: ship, run: {workflow: ship-line, details: {sku: \"${details.sku}\"}, within: 2h}}",
    );
    let (step, run) = (&workflow.steps[1], run(&workflow));
    assert_eq!(
        (
            run.own.workflow.as_str(),
            run.own.version.as_ref(),
            run.within
        ),
        ("ship-line", None, Some(Millis(7_200_000)))
    );
    assert!(run.each.is_none() && run.is_compensated && step.can_be_compensated());
    assert!(step.compensation.is_none() && workflow.parts.is_empty());
    assert_eq!(
        (step.then, step.expressions().count()),
        (Above::Compensate, 1)
    );

    let kept =
        sound("  - {id: ship, run: {workflow: x}, compensation: none, supervisor: {then: error}}");
    assert!(!self::run(&kept).is_compensated);
    assert_eq!(kept.steps[1].then, Above::Error);
    assert!(
        matches!(&self::run(&kept).own.details, Template::Constant(value) if *value == json!({}))
    );

    let pivot = sound(
        "  - {id: ship, run: {workflow: x}, point_of_no_return: true}\n  - {id: b, run: {workflow: x}}",
    );
    for step in &pivot.steps[1..] {
        assert!(!step.run().expect("a run").is_compensated);
        assert_eq!(step.then, Above::Error);
    }
}

#[test]
fn a_step_runs_a_child_order_for_each_element() {
    let workflow = sound(
        "  - id: ship
    for_each: {in: \"${details.lines}\", as: line, at_once: 3, tolerate: 2}
    run: {workflow: ship-line, details: {sku: \"${line.sku}\", n: \"${index + 1}\"}}
  - {id: tell, agent: mail, action: send, input: {b: \"${steps.ship[0].booking}\"}, compensation: none}",
    );
    let run = run(&workflow);
    let each = run.each.as_ref().expect("a list");
    assert_eq!(
        (each.item.as_str(), each.at_once, each.tolerate),
        ("line", 3, 2)
    );
    assert_eq!(
        (run.own.workflow.as_str(), &run.own.version),
        ("ship-line", &None)
    );
    assert!(workflow.parts.is_empty());
    let sources: Vec<&str> = workflow.steps[1]
        .expressions()
        .map(|e| e.source())
        .collect();
    assert_eq!(sources, ["details.lines", "index + 1", "line.sku"]);
}

#[test]
fn an_action_for_each_element_is_a_workflow_of_its_own() {
    let workflow = sound(
        "  - id: ship
    for_each: {in: details.lines, as: line, within: 1h, with: {customer: \"${details.customer}\"}}
    agent: carrier
    action: book
    when: details.ship
    after: []
    input: {sku: \"${line.sku}\", to: \"${customer.address}\", n: \"${index + 1}\"}
    supervisor: {failure_threshold: 7, then: error}
    compensation: {action: cancel, input: {booking: \"${output}\"}}
agents:
  carrier: {actions: {book: {path: /b}}}
  shop: {actions: {go: {path: /g}}}
defaults: {attempt_timeout: 9s}",
    );
    let part = &workflow.parts[0];
    let outer = workflow
        .steps
        .iter()
        .find(|s| s.id.as_str() == "ship")
        .expect("it is there");
    let run = outer.run().expect("it runs orders");
    assert_eq!(part.name.as_str(), "w.ship");
    assert_eq!(
        (&run.own.workflow, &run.own.version),
        (&part.name, &Some(part.hash.clone()))
    );
    assert_eq!(
        (run.within, run.is_compensated),
        (Some(Millis(3_600_000)), true)
    );
    assert_eq!(outer.then, Above::Error);
    assert!(outer.when.is_some() && outer.after.is_empty() && outer.compensation.is_none());
    let Template::Object(details) = &run.own.details else {
        panic!("{:?}", run.own.details)
    };
    let details: Vec<_> = details.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(details, ["customer", "index", "line"]);

    assert_eq!(part.variables, ["line", "index", "customer"]);
    let step = &part.steps[0];
    let call = step.call().expect("a call");
    assert_eq!(
        (call.agent.as_str(), call.attempt_timeout),
        ("carrier", Millis(9_000))
    );
    assert_eq!(call.policy.failure_threshold, 7);
    assert!(step.when.is_none() && step.compensation.is_some() && !step.is_pivot);
    let agents: Vec<_> = part.definition.agents.keys().collect();
    assert_eq!(agents, ["carrier"]);
    assert_eq!(part.calls.len(), 2, "it and its compensation");
}

#[test]
fn the_short_form_is_the_list_alone_and_the_same_definition() {
    let short = sound(&format!(
        "  - {{id: ship, for_each: details.lines, {ACTION}}}"
    ));
    let long = sound(&format!(
        "  - {{id: ship, for_each: {{in: details.lines}}, {ACTION}}}"
    ));
    assert_eq!(short.hash, long.hash);
    let each = run(&short).each.as_ref().expect("a list");
    assert_eq!(
        (each.item.as_str(), each.at_once, each.tolerate),
        ("item", 10, 0)
    );
}

#[test]
fn each_way_to_do_a_steps_work_is_a_workflow_that_is_asked_what_the_step_says() {
    let workflow = sound(
        r#"  - id: ship
    agent: express
    action: book
    input: {to: "${details.to}", of: "${steps.a.x}"}
    attempt_timeout: 9s
    probe: {action: look}
    supervisor: {failure_threshold: 2, then: error, by_code: {busy: {delay: 1m}, fraud: {then: compensate}}}
    compensation: {action: cancel, input: {to: "${input.to}", booking: "${output}"}}
    on_failure:
      - {agent: road, unless: [fraud]}
      - {agent: post, action: send, input: {place: "${details.to}"}, compensation: none, supervisor: {failure_threshold: 0}}"#,
    );
    let [own, road, post] = &workflow.parts[..] else {
        panic!("{:?}", workflow.parts)
    };
    let names = [own, road, post].map(|part| part.name.as_str());
    assert_eq!(names, ["w.ship.way-1", "w.ship.way-2", "w.ship.way-3"]);
    let calls = [own, road, post].map(|part| part.steps[0].kind.to_string());
    assert_eq!(calls, ["express/book", "road/book", "post/send"]);
    for (part, threshold) in [(own, 2), (road, 2), (post, 0)] {
        let step = &part.steps[0];
        let policy = step.call().expect("a call").policy;
        assert_eq!(
            (policy.failure_threshold, step.then),
            (threshold, Above::Compensate)
        );
        // What is published is read again.
        let published = hash::canonical_json(&part.definition);
        let again = Workflow::from_published(&published).expect("it is sound");
        assert_eq!(again.hash, part.hash);
    }
    let repeats = [own, road].map(|part| part.steps[0].is_safe_to_repeat());
    assert_eq!(repeats, [false, true], "the probe is that of the first way");
    assert_eq!(
        own.steps[0].policy_after("busy").map(|p| p.delay),
        Some(Millis(60_000))
    );
    let back = road.steps[0].compensation.as_ref().expect("as the step's");
    assert_eq!(back.agent.as_str(), "road");
    assert!(post.steps[0].compensation.is_none());

    let step = &workflow.steps[1];
    let run = step.run().expect("it runs orders");
    assert_eq!(
        step.kind.to_string(),
        "express/book, else road/book, else post/send"
    );
    assert_eq!(
        (step.then, step.then_after("fraud")),
        (Above::Error, Above::Compensate)
    );
    assert!(run.is_compensated && step.compensation.is_none());
    let after = [(0, "busy"), (0, "fraud"), (1, "fraud"), (2, "busy")];
    let tried = after.map(|(way, code)| run.has_way_after(way, code));
    assert_eq!(tried, [true, false, true, false]);
    assert_eq!(run.way(9).workflow, post.name);
    let agents: BTreeSet<&str> = workflow.definition.agents_in_use().collect();
    assert_eq!(agents, BTreeSet::from(["shop", "express", "road", "post"]));
    let none =
        sound("  - {id: b, agent: x, action: go, compensation: none, on_failure: [{agent: y}]}");
    assert!(!self::run(&none).is_compensated);
}

#[test]
fn ways_that_begin_at_once_take_what_they_do_not_say_from_the_step() {
    let workflow = sound(
        r#"  - id: ship
    action: book
    input: {to: "${details.to}"}
    compensation: none
    first_of:
      - {agent: express, at_most_once: true}
      - {agent: road, action: send, input: {of: "${steps.a.x}"}, compensation: {action: cancel}}
      - {wait: {until: "${input.to.by}"}}
      - {await: {event: taken, key: "${input.to.id}", within: 1h}}"#,
    );
    let names: Vec<&str> = workflow
        .parts
        .iter()
        .map(|part| part.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "w.ship.way-1",
            "w.ship.way-2",
            "w.ship.way-3",
            "w.ship.way-4"
        ]
    );
    let [express, road, ..] = &workflow.parts[..] else {
        panic!("{:?}", workflow.parts)
    };
    assert!(express.steps[0].compensation.is_none() && !express.steps[0].is_safe_to_repeat());
    let back = road.steps[0].compensation.as_ref().expect("its own");
    assert_eq!(back.agent.as_str(), "road");
    for part in &workflow.parts {
        let published = hash::canonical_json(&part.definition);
        let again = Workflow::from_published(&published).expect("it is sound");
        assert_eq!(again.hash, part.hash);
    }
    // What follows a failure is the step's, also of a way that waits.
    let stops = "  - {id: b, agent: x, action: go, compensation: none, first_of: [{}, {await: {event: e, within: 1h}}]}\ndefaults: {supervisor: {then: error}}";
    let thens = sound(stops)
        .parts
        .iter()
        .map(|part| part.steps[0].then)
        .collect::<Vec<_>>();
    assert_eq!(thens, [Above::Compensate, Above::Compensate]);
    let (step, run) = (&workflow.steps[1], run(&workflow));
    assert_eq!(
        step.kind.to_string(),
        "the first of express/book, road/send, a wait until a moment, a wait for taken"
    );
    assert_eq!(
        (run.at_once(), run.tolerated(), run.has_way_after(0, "x")),
        (4, 3, false)
    );
    // Those that were let go have to end, although there is nothing to compensate.
    assert!(run.is_race && run.is_compensated);
    let agents: BTreeSet<&str> = workflow.definition.agents_in_use().collect();
    assert_eq!(agents, BTreeSet::from(["shop", "express", "road"]));
}

#[test]
fn the_work_for_an_element_may_have_other_ways_too() {
    let workflow = sound(
        r#"  - id: ship
    for_each: {in: details.lines, as: line}
    agent: express
    action: book
    input: {sku: "${line.sku}", n: "${index}"}
    compensation: {action: cancel}
    on_failure: [{agent: road}]"#,
    );
    let part = &workflow.parts[0];
    assert_eq!((part.name.as_str(), part.parts.len()), ("w.ship", 2));
    assert_eq!(part.parts[1].name.as_str(), "w.ship.ship.way-2");
    let all: Vec<_> = workflow
        .with_parts()
        .iter()
        .map(|w| w.name.as_str())
        .collect();
    assert_eq!(
        all,
        ["w.ship.ship.way-1", "w.ship.ship.way-2", "w.ship", "w"]
    );
    let published = hash::canonical_json(&part.definition);
    let again = Workflow::from_published(&published).expect("it is sound");
    assert_eq!(again.parts[1].hash, part.parts[1].hash);
    let grouped = group(
        "{id: book, agent: x, action: go, input: \"${line.sku}\", compensation: none, on_failure: [{agent: y}]}",
    );
    assert_eq!(sound(&grouped).with_parts().len(), 4);
}

#[test]
fn several_steps_for_each_element_see_one_another() {
    let workflow = sound(&group(
        "{id: book, agent: carrier, action: book, input: {r: \"${steps.reserve}\"}, compensation: none}",
    ));
    let part = &workflow.parts[0];
    let ids: Vec<_> = part.steps.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["reserve", "book"]);
    assert_eq!(part.steps[1].after, [0]);
    let agents: BTreeSet<&str> = workflow.definition.agents_in_use().collect();
    assert_eq!(agents, BTreeSet::from(["shop", "stock", "carrier"]));
    let inner = sound(&group(
        "{id: book, run: {workflow: book-line, details: {sku: \"${line.sku}\"}}}",
    ));
    assert!(inner.parts[0].steps[1].run().is_some());
    let kept = sound(&format!(
        "{}\n    compensation: none",
        group("{id: b, wait: {for: 1h}}")
    ));
    assert!(!run(&kept).is_compensated);
}

#[test]
fn from_the_point_of_no_return_on_an_element_needs_no_compensation() {
    for step in [
        "for_each: details.lines, agent: carrier, action: book",
        "for_each: {in: details.lines, steps: [{id: b, agent: carrier, action: book}]}",
    ] {
        let workflow = sound(&format!(
            "  - {{id: ship, {step}, point_of_no_return: true}}"
        ));
        assert!(workflow.steps[1].is_pivot && !run(&workflow).is_compensated);
        assert!(workflow.parts[0].pivot().is_none());
        assert!(workflow.parts[0].steps[0].compensation.is_none());
        let told = self::workflow(&format!("  - {{id: ship, {step}}}")).expect_err("it needs one");
        assert!(
            told.len() == 1 && told[0].contains("has no compensation"),
            "{told:?}"
        );
    }
}

#[test]
fn a_published_workflow_makes_the_same_parts_and_a_part_is_read_back() {
    let workflow = sound(&format!(
        "  - {{id: ship, for_each: details.lines, {ACTION}}}"
    ));
    let again =
        Workflow::from_published(&hash::canonical_json(&workflow.definition)).expect("sound");
    let part = &again.parts[0];
    assert_eq!(part.hash, workflow.parts[0].hash);
    let read = Workflow::from_published(&hash::canonical_json(&part.definition)).expect("sound");
    assert_eq!((&read.name, &read.hash), (&part.name, &part.hash));
    assert_eq!(read.variables, ["item", "index"]);
    // Orders of stored versions name it.
    assert_eq!(part.hash.as_str(), "37c85c754d17ed19");
}

#[test]
fn variables_are_values_of_the_details() {
    let workflow = sound(
        "  - {id: b, agent: x, action: go, when: to.ok, input: {c: \"${to.city}\", d: \"${details.d}\"}, compensation: none}
variables: [to, other]
output: {c: \"${to.city}\", b: \"${steps.b == null ? null : steps.b.x}\"}
details_schema: {type: object, properties: {to: {type: object, properties: {ok: {type: boolean}, city: {type: string}}}}}",
    );
    assert_eq!(workflow.variables, ["to", "other"]);
    let step = &workflow.steps[1];
    let reads: Vec<String> = step
        .expressions()
        .flat_map(|e| e.reads())
        .map(|way| way.join("."))
        .collect();
    assert_eq!(reads, ["details.to.city", "details.d", "details.to.ok"]);
    let scope = workflow.scope(
        &json!({}),
        &json!({"to": {"city": "Reims"}}),
        [("b", &json!({"x": 1}))],
        None,
    );
    let output = workflow.output.as_ref().expect("one");
    assert_eq!(
        output.render(&scope).expect("a value"),
        json!({"c": "Reims", "b": 1})
    );
    let other = triad_workflow::Expression::compile("other");
    assert!(other.is_err(), "it is a variable of that workflow alone");
}

#[test]
fn agents_of_the_work_for_an_element_have_to_exist_and_are_described_beside_the_file() {
    let written = text(&group(
        "{id: book, agent: carrier, action: book, compensation: {agent: clerk, action: reverse}}",
    ));
    let agents = ["shop", "stock", "clerk"].map(str::to_owned);
    let limits = Limits {
        agents: Some(agents.into()),
        ..Limits::published()
    };
    let told = load::from_yaml("w.yaml", &written, &limits).expect_err("there is no carrier");
    let told: Vec<String> = told.lines().collect();
    assert!(
        told.len() == 1
            && told[0].starts_with(
                "w.yaml:10:29: step ship: for_each.steps[1].agent: unknown agent \"carrier\""
            ),
        "{told:?}"
    );
    let mut asked = Vec::new();
    let workflow = load::with_services("w.yaml", &written, &Limits::published(), &mut |name| {
        asked.push(name.to_owned());
        let text = "actions: {book: {path: /v1}}".to_owned();
        Ok((name == "carrier").then(|| ("agents/carrier.yaml".to_owned(), text)))
    });
    assert_eq!(asked, ["carrier", "clerk", "shop", "stock"]);
    assert_eq!(workflow.expect("sound").parts[0].calls.len(), 1);
}

#[test]
fn the_input_for_an_element_is_typed_and_its_compensation_is_warned_of() {
    let agents = "agents: {carrier: {actions: {book: {types: {input: {sku: string, n: string}}}}}}";
    let step = "  - {id: ship, for_each: details.l, agent: carrier, action: book, input: {sku: \"${item}\", n: \"${index}\"}, compensation: none}";
    refused(
        &format!("{step}\n{agents}"),
        "4:97",
        "input.n: is a number, and carrier book takes a text",
    );
    let workflow = sound(
        "  - {id: ship, for_each: details.l, agent: x, action: go, compensation: {action: no, input: {a: \"${output.a}\"}}}",
    );
    let warnings = workflow.warnings();
    assert_eq!(warnings.len(), 1);
    assert_eq!(
        (warnings[0].step.as_deref(), warnings[0].path.as_str()),
        (Some("ship"), "compensation.input")
    );
}

#[test]
fn the_line_items_of_an_order_are_booked_one_by_one() {
    let text = "workflow: parts
steps:
  - id: ship
    for_each: details.lines
    agent: carrier
    action: book
    input: { sku: \"${item.sku}\", quantity: \"${item.quantity}\" }
    compensation: { action: cancel, input: { booking: \"${output}\" } }
";
    let workflow = load::from_yaml("wanted.yaml", text, &Limits::published()).expect("sound");
    assert!(matches!(workflow.steps[0].kind, StepKind::Run(_)));
    assert_eq!(workflow.parts[0].name.as_str(), "parts.ship");
}
