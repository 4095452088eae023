//! Checks of steps that run other orders: one, or one for each element of a list.

use super::kinds::{ONE_OF, refuse};
use super::{MAX_ALTERNATIVES, MAX_AT_ONCE, MAX_INSTANCES};
use crate::duration::Millis;
use crate::expr::Expression;
use crate::model::{
    CompensationDefinition, Definition, ForEachDefinition, OtherwiseDefinition, PolicyDefinition,
    RunDefinition, StepDefinition,
};
use crate::names::{MAX_NAME_BYTES, check_name};
use crate::parts::{self, is_way};
use crate::problem::{Path, Problem, Problems};
use crate::template::Template;
use crate::variables::{Variables, check_name as check_variable};

pub(super) fn check(definition: &Definition, problems: &mut Problems) {
    for (index, step) in definition.steps.iter().enumerate() {
        let at = Path::step(index);
        if step.runs_orders() {
            check_keys(step, &at, problems);
        }
        if let Some(run) = &step.run {
            check_run(definition, step, run, &at.key("run"), problems);
        }
        if let Some(each) = &step.for_each {
            check_each(definition, step, each, &at.key("for_each"), problems);
        }
        check_others(step, &at, problems);
        check_part_name(definition, step, &at.key("id"), problems);
    }
}

/// Reports keys that belong to the work of another kind of step, or to the work for one element.
fn check_keys(step: &StepDefinition, at: &Path, problems: &mut Problems) {
    let waits = [
        ("wait", step.wait.is_some()),
        ("await", step.awaits.is_some()),
    ];
    let steps = step.for_each.as_ref().and_then(|each| each.steps.as_ref());
    let is_group = step.makes_parts() && steps.is_some();
    if step.makes_parts() && !is_group {
        // Its other keys are those of the action for each element, or of the first way to do its work.
        let hint = "write a step that waits below `for_each: { in: …, steps: … }`";
        return refuse("a step with `for_each`", &waits, hint, at, problems);
    }
    let of_calls = [
        ("agent", step.agent.is_some()),
        ("action", step.action.is_some()),
        ("input", !step.input.is_null()),
        ("attempt_timeout", step.attempt_timeout.is_some()),
        ("retry", step.retry.is_some()),
        ("at_most_once", step.at_most_once),
        ("probe", step.probe.is_some()),
        ("finishes_later", step.finishes_later.is_some()),
        ("on_failure", !step.on_failure.is_empty()),
        ("first_of", !step.first_of.is_empty()),
    ];
    let (such, hint) = match is_group {
        true => (
            "a step with `for_each.steps`",
            "write it in the steps that it is about",
        ),
        false => ("a step that runs orders", ONE_OF),
    };
    let all: Vec<_> = of_calls.into_iter().chain(waits).collect();
    refuse(such, &all, hint, at, problems);
    let only_then = |policy: &PolicyDefinition| PolicyDefinition {
        then: policy.then,
        ..PolicyDefinition::default()
    };
    if let Some(policy) = &step.supervisor
        && *policy != only_then(policy)
    {
        let reason = "a step that runs orders makes no attempts: it can have `then` alone";
        problems.push(Problem::new(at.key("supervisor"), reason).on_key());
    }
    if let Some(CompensationDefinition::Action(_)) = &step.compensation {
        let reason = match is_group {
            true => "each of its steps has its own: write `compensation` in them",
            false => "the orders are compensated as their own workflow says: remove it",
        };
        let hint = "write `none` if they are not to be compensated";
        problems.push(Problem::new(at.key("compensation"), reason).hint(hint));
    }
}

fn check_run(
    definition: &Definition,
    step: &StepDefinition,
    run: &RunDefinition,
    at: &Path,
    problems: &mut Problems,
) {
    if let Err(e) = check_name(&run.workflow) {
        problems.add(at.key("workflow"), e.to_string());
    }
    check_within(run.within, at, problems);
    let element = step.for_each.as_ref().map(ForEachDefinition::element);
    let variables = Variables::of(definition).of_element(element);
    let is_mapping = match variables.template(&run.details) {
        Ok(Template::Constant(value)) => value.is_null() || value.is_object(),
        Ok(Template::List(_) | Template::Text(_)) => false,
        Ok(Template::Object(_) | Template::Value(_)) => true,
        // What does not compile is reported with the other expressions.
        Err(_) => true,
    };
    if !is_mapping {
        let problem = Problem::new(at.key("details"), "have to be a mapping");
        problems.push(problem.hint("write `details: { sku: \"${details.sku}\" }`"));
    }
}

fn check_within(within: Option<Millis>, at: &Path, problems: &mut Problems) {
    if within == Some(Millis(0)) {
        problems.add(at.key("within"), "leaves no time for an order");
    }
}

fn check_each(
    definition: &Definition,
    step: &StepDefinition,
    each: &ForEachDefinition,
    at: &Path,
    problems: &mut Problems,
) {
    if let Err(reason) = check_variable(each.element()) {
        problems.add(at.key("as"), reason);
    } else if definition.variables.iter().any(|v| v == each.element()) {
        let reason = format!("`{}` is a variable of the workflow", each.element());
        let problem = Problem::new(at.key("as"), reason);
        problems.push(problem.hint("give the element another name: `as: line`"));
    }
    if let Some(count) = each.at_once
        && !(1..=MAX_AT_ONCE).contains(&count)
    {
        let reason = format!("is {count}; use 1 to {MAX_AT_ONCE}");
        problems.add(at.key("at_once"), reason);
    }
    if let Some(count) = each.tolerate
        && count as usize > MAX_INSTANCES
    {
        let reason = format!("is {count}, above {MAX_INSTANCES}, the longest list");
        problems.add(at.key("tolerate"), reason);
    }
    if step.run.is_some() {
        let keys = [
            ("with", !each.with.is_empty()),
            ("within", each.within.is_some()),
            ("steps", each.steps.is_some()),
        ];
        let hint = "`run` has `details` and `within`, and its workflow has the steps";
        return refuse("a `for_each` beside `run`", &keys, hint, at, problems);
    }
    check_within(each.within, at, problems);
    for name in each.with.keys() {
        let at = at.key("with").key(name);
        if let Err(reason) = check_variable(name) {
            problems.push(Problem::new(at, reason).on_key());
        } else if name == each.element() {
            let reason = format!("`{name}` is the element: use another name");
            problems.push(Problem::new(at, reason).on_key());
        }
    }
    for (nth, inner) in step.inner().enumerate() {
        let at = at.key("steps").index(nth);
        if inner.for_each.is_some() {
            let reason = "a step inside a `for_each` cannot have one itself";
            let problem = Problem::new(at.key("for_each"), reason).on_key();
            problems.push(
                problem.hint("let it run a workflow with that `for_each`: `run: { workflow: … }`"),
            );
        }
        if inner.point_of_no_return {
            let reason = "a step inside a `for_each` cannot be the point of no return";
            let problem = Problem::new(at.key("point_of_no_return"), reason).on_key();
            problems.push(problem.hint("write it in the step around it"));
        }
    }
}

/// Checks the ways to do a step's work that are written in a list, beside what is checked in their own definitions.
fn check_others(step: &StepDefinition, at: &Path, problems: &mut Problems) {
    let (list, others) = step.others();
    let is_race = list == "first_of";
    let count = others.len();
    if is_race && !(2..=MAX_ALTERNATIVES + 1).contains(&count) {
        let most = MAX_ALTERNATIVES + 1;
        problems.add(at.key(list), format!("has {count}; use 2 to {most}"));
    } else if !is_race && count > MAX_ALTERNATIVES {
        let reason = format!("{count} alternatives; {MAX_ALTERNATIVES} are allowed");
        problems.add(at.key(list), reason);
    }
    if is_race && !step.on_failure.is_empty() {
        let reason = "a step has its ways at once, or one after another: declare one of the two";
        problems.push(Problem::new(at.key("on_failure"), reason).on_key());
    }
    if is_race {
        let keys = [
            ("at_most_once", step.at_most_once),
            ("probe", step.probe.is_some()),
            ("finishes_later", step.finishes_later.is_some()),
        ];
        let hint = "write it in the way that it is about";
        refuse("a step with `first_of`", &keys, hint, at, problems);
    }
    for (nth, other) in others.iter().enumerate() {
        let at = at.key(list).index(nth);
        let otherwise = other.awaits.as_ref().and_then(|wait| wait.otherwise);
        if is_race && otherwise == Some(OtherwiseDefinition::Error) {
            let at = at.keys("await.otherwise");
            let problem = Problem::new(at, "follows when every way has failed").on_key();
            problems.push(problem.hint("write `then: error` in the `supervisor` of the step"));
        }
        let then = other.supervisor.as_ref().and_then(|policy| policy.then);
        if then.is_some() {
            let at = at.keys("supervisor.then");
            let problem = Problem::new(at, "follows when every way has failed").on_key();
            problems.push(problem.hint("write it in the `supervisor` of the step"));
        }
        let keys = match is_race {
            true => vec![("unless", !other.unless.is_empty())],
            false => vec![
                ("wait", other.wait.is_some()),
                ("await", other.awaits.is_some()),
            ],
        };
        let such = format!("one of `{list}`");
        let hint = "`on_failure` has ways that are tried one after another, `first_of` ways that begin at once";
        refuse(&such, &keys, hint, &at, problems);
    }
}

/// Checks that the workflows of the parts that a step makes can have their names.
fn check_part_name(
    definition: &Definition,
    step: &StepDefinition,
    at: &Path,
    problems: &mut Problems,
) {
    let name = match (&step.for_each, step.others().1.len()) {
        (None, others) => parts::name_of_way(&definition.workflow, &step.id, others),
        (Some(_), _) => parts::name(&definition.workflow, &step.id),
    };
    let is_sound = definition
        .workflow
        .split('.')
        .chain([&*step.id])
        .all(|name| check_name(name).is_ok());
    if step.makes_parts() && is_sound && name.len() > MAX_NAME_BYTES {
        let reason = format!(
            "it makes the workflow {name}, whose name has {} bytes; {MAX_NAME_BYTES} are allowed",
            name.len()
        );
        let problem = Problem::new(at.clone(), reason);
        problems.push(problem.hint("give the step or the workflow a shorter name"));
    }
}

/// Reports an expression of a part that reads what the part has not.
pub(super) fn check_reads(
    part: &Definition,
    at: &Path,
    expression: &Expression,
    problems: &mut Problems,
) {
    for way in expression.reads() {
        let (read, of) = match way.as_slice() {
            [order, name, ..] if order == "order" && is_way(part) => (name, order),
            [details, name, ..] if details == "details" && !part.variables.contains(name) => {
                (name, details)
            }
            _ => continue,
        };
        let reason = match is_way(part) {
            true => format!(
                "reads {of}.{read}: a step with several ways sees `input` and `output` here"
            ),
            false => format!("reads {of}.{read}, which the work for an element does not see"),
        };
        let problem = Problem::new(at.clone(), reason);
        let source = expression.source().to_owned();
        let hint = bring(part, read, &format!("{of}.{read}"));
        problems.push(problem.hint(hint).on_text([source, read.clone()]));
    }
}

/// How the work of a part gets what it does not see.
pub(super) fn bring(part: &Definition, name: &str, expression: &str) -> String {
    match is_way(part) {
        true => format!(
            "ask for it in the step's input, `input: {{ {name}: \"${{{expression}}}\" }}`, and read `input.{name}`"
        ),
        false => format!(
            "bring it with `for_each: {{ in: …, with: {{ {name}: \"${{{expression}}}\" }} }}`, and read `{name}`"
        ),
    }
}
