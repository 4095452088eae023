//! Steps that run other orders, and steps that do something for each element of a list: what is refused, where, and with
//! which words.
#![cfg(feature = "load")]

use triad_workflow::{Limits, load};

use super::run::{ACTION, group, text, workflow};

/// Checks that there is exactly one problem, that it stands at this place, and that it has this text.
#[track_caller]
pub(super) fn refused(steps: &str, place: &str, part: &str) {
    let told = workflow(steps).err().unwrap_or_default();
    assert_eq!(told.len(), 1, "{steps}: {told:#?}");
    let begins = format!("w.yaml:{place}: ");
    assert!(
        told[0].starts_with(&begins) && told[0].contains(part),
        "{}",
        told[0]
    );
}

/// The rows of a table: what is written, the place of its one problem, and a part of its text.
fn rows(table: &str) -> impl Iterator<Item = [&str; 3]> {
    let rows = table.lines().map(str::trim).filter(|row| !row.is_empty());
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        cells.try_into().expect("three cells")
    })
}

#[test]
fn variables_and_outputs_that_cannot_be_are_refused() {
    for [top, place, part] in rows(
        r#"
        variables: [order] | 5:13 | `order` is another variable
        variables: [index] | 5:13 | `index` is another variable
        variables: [a, a] | 5:16 | a is there already
        variables: [true_, 2a] | 5:20 | cannot be the name of a variable
        variables: [in] | 5:13 | a word of expressions
        variables: to | 5:12 | has to be a list
        output: "${steps.c}" | 5:18 | there is no such step
        output: "${detials.c}" | 5:12 | did you mean `details`
        output: "${output.c}" | 5:12 | `output` is the step's own output
        output: "${details.c" | 5:10 | without its `}`
        output: "${steps.b.x}" | 5:12 | step b is skipped
        "#,
    ) {
        let step = "  - {id: b, agent: x, action: go, when: details.x, compensation: none}";
        refused(&format!("{step}\n{top}"), place, part);
    }
    refused(
        "  - {id: b, agent: x, action: go, input: \"${n.a}\", compensation: none}\nvariables: [n]\ndetails_schema: {properties: {n: {type: number}}}",
        "4:45",
        "`n` is a number, and has no field `a`",
    );
}

#[test]
fn what_a_step_that_runs_orders_cannot_have_is_refused() {
    for [step, place, part] in rows(
        r#"
        run: {workflow: x}, agent: shop, action: go | 4:33 | a step that runs orders cannot have `agent`, `action`
        run: {workflow: x}, input: {a: 1} | 4:33 | cannot have `input`
        run: {workflow: x}, at_most_once: true | 4:33 | cannot have `at_most_once`
        run: {workflow: x}, finishes_later: {within: 1h} | 4:33 | cannot have `finishes_later`
        run: {workflow: x}, wait: {for: 3d} | 4:33 | cannot have `wait`
        run: {workflow: x}, supervisor: {failure_threshold: 1} | 4:33 | can have `then` alone
        run: {workflow: x}, compensation: {action: back} | 4:33 | as their own workflow says
        run: {workflow: w.x} | 4:29 | is not a valid name
        run: {workflow: x, details: 7} | 4:41 | have to be a mapping
        run: {workflow: x, details: "a ${details.b}"} | 4:41 | have to be a mapping
        run: {workflow: x, details: {a: "${detials.b}"}} | 4:48 | did you mean `details`
        run: {workflow: x, within: 0s} | 4:40 | leaves no time
        run: {workflow: x, within: 400d} | 4:40 | is longer than 366 days
        run: {details: {}} | 4:13 | `workflow` is missing; say which workflow
        run: x | 4:18 | has to be a mapping
        run: {workflow: x, input: {}} | 4:32 | unknown key
        for_each: details.l, run: {workflow: x}, agent: y | 4:54 | cannot have `agent`
        for_each: {in: details.l, with: {a: 1}, within: 1h}, run: {workflow: x} | 4:39 | a `for_each` beside `run` cannot have `with`, `within`
        for_each: {in: details.l, steps: [{id: c, wait: {for: 1h}}]}, run: {workflow: x} | 4:39 | cannot have `steps`
        for_each: {in: details.l, steps: [{id: c, wait: {for: 1h}}]}, agent: y | 4:75 | a step with `for_each.steps` cannot have `agent`
        for_each: {in: details.l, steps: [{id: c, wait: {for: 1h}}]}, compensation: {action: y} | 4:75 | each of its steps has its own
        for_each: details.l, wait: {for: 3d} | 4:34 | a step with `for_each` cannot have `wait`
        "#,
    ) {
        refused(&format!("  - {{id: b, {step}}}"), place, part);
    }
    let pivot =
        "  - {id: b, run: {workflow: x}, point_of_no_return: true, supervisor: {then: compensate}}";
    refused(
        pivot,
        "4:78",
        "cannot compensate from the point of no return on",
    );
}

#[test]
fn a_list_that_is_none_and_names_that_cannot_be_are_refused() {
    for [each, place, part] in rows(
        r#"
        details.lines + | 4:23 | is not an expression
        lines | 4:23 | unknown variable `lines`
        "'a'" | 4:24 | has to be a list
        [1, 2] | 4:13 | write a text, or a mapping with `in`
        5 | 4:23 | write a text, or a mapping with `in`
        {as: x} | 4:13 | `in` is missing; say which list it is
        {in: [1]} | 4:24 | has to be a text
        {in: details.l, az: x} | 4:39 | unknown key; there are as, at_once
        {in: "${item}"} | 4:29 | unknown variable `item`
        {in: details.l, as: steps} | 4:43 | `steps` is another variable
        {in: details.l, as: index} | 4:43 | `index` is another variable
        {in: details.l, as: a-b} | 4:43 | cannot be the name of a variable
        {in: details.l, as: for} | 4:43 | a word of expressions
        {in: details.l, as: own} | 4:43 | is a variable of the workflow
        {in: details.l, at_once: 0} | 4:48 | is 0; use 1 to 50
        {in: details.l, at_once: 51} | 4:48 | is 51; use 1 to 50
        {in: details.l, tolerate: 501} | 4:49 | is 501, above 500
        {in: details.l, within: 0s} | 4:47 | leaves no time
        {in: details.l, with: {item: 1}} | 4:46 | `item` is the element
        {in: details.l, with: {output: 1}} | 4:46 | `output` is another variable
        {in: details.l, with: {a: "${steps.c}"}} | 4:58 | there is no such step
        {in: details.l, with: {a: "${index.x}"}} | 4:52 | `index` is a number
        {in: details.l, with: {a: "{details.x}"}} | 4:50 | would be sent as it stands
        {in: details.l, steps: []} | 4:39 | at least one step
        {in: details.l, steps: x} | 4:46 | has to be a list
        "#,
    ) {
        let action = if each.contains("steps: ") && !each.contains("as:") {
            ""
        } else {
            ACTION
        };
        let step = format!("  - {{id: b, for_each: {each}, {action}}}\nvariables: [own]");
        refused(&step, place, part);
    }
}

#[test]
fn alternatives_that_cannot_be_are_refused_once_where_they_are_written() {
    for [step, place, part] in rows(
        r#"
        agent: x, action: go, compensation: none, on_failure: {agent: y} | 4:55 | has to be a list
        agent: x, action: go, compensation: none, on_failure: [y] | 4:68 | has to be a mapping
        agent: x, action: go, compensation: none, on_failure: [{agent: y, then: error}] | 4:79 | unknown key
        agent: x, action: go, compensation: none, on_failure: [{agent: Y}] | 4:76 | is not a valid name
        agent: x, action: go, compensation: none, on_failure: [{}, {}, {}, {}, {}] | 4:55 | 5 alternatives; 4 are allowed
        agent: x, action: go, compensation: none, on_failure: [{supervisor: {then: error}}] | 4:82 | follows when every way has failed
        agent: x, action: go, compensation: none, on_failure: [{input: "${detials.a}"}] | 4:79 | did you mean `details`
        agent: x, action: go, compensation: none, on_failure: [{input: "${steps.z}"}] | 4:85 | there is no such step
        agent: x, action: go, compensation: none, on_failure: [{input: "${input}"}] | 4:79 | unknown variable `input`
        agent: x, action: go, compensation: none, on_failure: [{retry: {calls_per_attempt: 0}}] | 4:96 | is 0; use 1 to
        agent: x, action: go, on_failure: [{compensation: none}] | 4:5 | has no compensation
        action: go, compensation: none, on_failure: [{agent: y}] | 4:5 | `agent` is missing
        agent: x, action: go, compensation: {action: back, input: "${details.a}"}, on_failure: [{agent: y}] | 4:77 | ask for it in the step's input
        agent: x, action: go, compensation: {action: back, input: "${order.id}"}, on_failure: [{agent: y}] | 4:80 | sees `input` and `output` here
        agent: x, action: go, compensation: {action: back, input: "${steps.a.b}"}, on_failure: [{agent: y}] | 4:80 | `input: { a: "${steps.a}" }`, and read `input.a`
        run: {workflow: x}, on_failure: [{agent: y}] | 4:33 | a step that runs orders cannot have `on_failure`
        wait: {for: 1h}, on_failure: [{agent: y}] | 4:30 | a step that waits cannot have `on_failure`
        for_each: {in: details.l, steps: [{id: c, wait: {for: 1h}}]}, on_failure: [{agent: y}] | 4:75 | cannot have `on_failure`
        agent: x, action: go, compensation: none, on_failure: [{wait: {for: 1h}}] | 4:69 | one of `on_failure` cannot have `wait`
        "#,
    ) {
        refused(&format!("  - {{id: b, {step}}}"), place, part);
    }
}

#[test]
fn ways_that_cannot_begin_at_once_are_refused_once_where_they_are_written() {
    for [step, place, part] in rows(
        r#"
        agent: x, action: go, compensation: none, first_of: [{}] | 4:55 | has 1; use 2 to 5
        agent: x, action: go, compensation: none, first_of: [{}, {}, {}, {}, {}, {}] | 4:55 | has 6; use 2 to 5
        agent: x, action: go, compensation: none, first_of: [{}, {}], on_failure: [{}] | 4:75 | declare one of the two
        agent: x, action: go, compensation: none, first_of: [{}, {unless: [a]}] | 4:71 | one of `first_of` cannot have `unless`
        agent: x, action: go, compensation: none, first_of: [{}, {supervisor: {then: error}}] | 4:84 | follows when every way has failed
        agent: x, action: go, compensation: none, first_of: [{}, {input: "${detials.a}"}] | 4:81 | did you mean `details`
        agent: x, action: go, compensation: none, first_of: [{}, {wait: {for: 1h}, agent: y}] | 4:88 | a step that waits cannot have `agent`
        agent: x, action: go, compensation: none, first_of: [{}, {wait: {for: 0s}}] | 4:83 | no time is no wait
        agent: x, action: go, compensation: none, first_of: [{}, {wait: {until: "${details.at}"}}] | 4:96 | ask for it in the step's input
        agent: x, action: go, compensation: none, first_of: [{}, {await: {event: x}}] | 4:71 | within
        agent: x, action: go, first_of: [{compensation: none}, {}] | 4:5 | has no compensation
        agent: x, action: go, compensation: none, first_of: [{}, {await: {event: e, within: 1h, otherwise: error}}] | 4:101 | follows when every way has failed
        agent: x, action: go, at_most_once: true, compensation: none, first_of: [{}, {}] | 4:35 | a step with `first_of` cannot have `at_most_once`
        agent: x, action: go, retry: {calls_per_attempt: 3}, compensation: none, first_of: [{}, {agent: y, at_most_once: true}] | 4:62 | the effect may not be repeated
        compensation: none, first_of: [{agent: y}, {agent: z}] | 4:5 | `action` is missing
        compensation: none, first_of: [{action: y}, {wait: {for: 1h}}, {agent: z, action: a}] | 4:5 | `agent` is missing
        run: {workflow: x}, first_of: [{}, {}] | 4:33 | a step that runs orders cannot have `first_of`
        wait: {for: 1h}, first_of: [{}, {}] | 4:30 | a step that waits cannot have `first_of`
        "#,
    ) {
        refused(&format!("  - {{id: b, {step}}}"), place, part);
    }
}

#[test]
fn what_is_said_of_a_code_is_checked_as_what_is_said_of_all() {
    let codes: Vec<String> = (0..17).map(|n| format!("c{n}: {{delay: 1s}}")).collect();
    let many = format!("{{{}}} | 4:74 | 17 codes; 16 are allowed", codes.join(", "));
    for [by_code, place, part] in rows(&format!(
        r#"
        {{x: {{}}}} | 4:84 | says nothing
        {{x: 1}} | 4:87 | has to be a mapping
        {{x: {{failure_threshold: 1000}}}} | 4:107 | is 1000, above
        {{x: {{wait: {{delay: 1s, attempts: 1000}}}}}} | 4:116 | is 1000, above
        {{x: {{delay: 2s, max_delay: 1s}}}} | 4:110 | is below supervisor.delay
        {{x: {{then: compensate}}}} | 4:94 | cannot compensate from the point of no return on
        {many}
        "#
    )) {
        let step = format!(
            "  - {{id: b, agent: x, action: go, point_of_no_return: true, supervisor: {{by_code: {by_code}}}}}"
        );
        refused(&step, place, part);
    }
}

#[test]
fn a_problem_of_the_work_for_an_element_is_told_where_it_is_written() {
    for [second, place, part] in rows(
        r#"
        {id: book, agent: carrier, action: book} | 10:11 | step ship: for_each.steps[1]: has no compensation
        {id: book, agent: carrier, compensation: none} | 10:11 | step ship: for_each.steps[1]: `action` is missing
        {id: reserve, wait: {for: 1h}} | 10:16 | for_each.steps[1].id: step number 1 has the same id
        {id: Book, wait: {for: 1h}} | 10:16 | is not a valid name
        {id: book, wait: {for: 0s}} | 10:34 | for_each.steps[1].wait.for: no time is no wait
        {id: book, wait: {for: 1h}, when: steps.a.x} | 10:51 | bring it with `for_each: { in: …, with: { a: "${steps.a}" } }`
        {id: book, wait: {for: 1h}, when: details.x} | 10:53 | bring it with `for_each: { in: …, with: { x: "${details.x}" } }`
        {id: book, wait: {for: 1h}, when: item.x} | 10:45 | unknown variable `item`
        {id: book, wait: {for: 1h}, when: index == 'a'} | 10:45 | index
        {id: book, wait: {for: 1h}, after: [a]} | 10:47 | there is no step
        {id: book, for_each: line.x, agent: a, action: b, compensation: none} | 10:22 | cannot have one itself
        {id: book, agent: a, action: b, point_of_no_return: true} | 10:43 | cannot be the point of no return
        {id: book, wait: {for: 1h}, agnet: x} | 10:39 | unknown key
        "#,
    ) {
        refused(&group(second), place, part);
    }
    for [input, place, part] in rows(
        r#"
        "${details.sku}" | 4:81 | bring it with
        "${line.sku}" | 4:73 | unknown variable `line`
        "${index.a}" | 4:73 | `index` is a number
        "{item.sku}" | 4:71 | `{item.sku}` would be sent as it stands
        "${output}" | 4:73 | `output` is the step's own output
        "#,
    ) {
        let step = format!(
            "  - {{id: ship, for_each: details.l, agent: x, action: go, input: {{s: {input}}}, compensation: none}}"
        );
        refused(&step, place, part);
    }
    let told = workflow("  - {id: ship, for_each: details.l}").expect_err("it does nothing");
    assert!(
        told.len() == 3 && told[0].contains("`agent` is missing"),
        "{told:#?}"
    );
    refused(
        "  - {id: B, for_each: details.l, agent: x, action: go, compensation: none}",
        "4:10",
        "is not a valid name",
    );
    let long = format!(
        "  - {{id: {}, for_each: details.l, {ACTION}}}",
        "b".repeat(63)
    );
    refused(&long, "4:10", "whose name has 65 bytes; 64 are allowed");
}

#[test]
fn an_author_writes_no_name_with_a_dot() {
    let told = load::from_yaml(
        "w.yaml",
        &text("").replace("workflow: w", "workflow: w.x"),
        &Limits::published(),
    );
    let told: Vec<String> = told.expect_err("it is a part's").lines().collect();
    assert!(
        told.len() == 1 && told[0].contains("workflow: \"w.x\" is not a valid name"),
        "{told:?}"
    );
}
