//! Checks of a definition's expressions: each compiles, and reads only outputs that exist by then.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bounds;
use crate::check::{ids, run};
use crate::expr::Expression;
use crate::model::{
    AwaitDefinition, CompensationDefinition, Definition, ForEachDefinition, StepDefinition,
};
use crate::parts::is_part;
use crate::problem::{Path, Problem, Problems};
use crate::template::{self, Piece};
use crate::variables::Variables;

/// The position of an expression, which decides what it may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Condition of a step.
    When,
    /// Input of an action.
    Input,
    /// Input of a compensation.
    Compensation,
    /// Condition of an event that a step waits for.
    Event,
    /// Input of the action by which a service is asked for the end of the step's work.
    Poll,
    /// The list for whose elements the step does its work.
    List,
    /// Details of the orders that the step runs.
    Details,
}

/// A compiled expression of a definition.
pub(crate) struct Written {
    /// Position of its step in the file.
    pub step: usize,
    pub role: Role,
    pub at: Path,
    pub expression: Expression,
}

/// Every expression of every step that compiles; adds a problem for each other one.
pub(crate) fn compiled(definition: &Definition, problems: &mut Problems) -> Vec<Written> {
    let mut all = Vec::new();
    let variables = Variables::of(definition);
    let of_event = variables.of_event();
    for (step, written) in definition.steps.iter().enumerate() {
        let top = Path::step(step);
        let each = written.for_each.as_ref();
        let of_element = variables.of_element(each.map(ForEachDefinition::element));
        let when = written.when.as_ref();
        let when = when.map(|when| {
            (
                Role::When,
                top.key("when"),
                variables.expression(when),
                when,
            )
        });
        let list = each.map(|each| {
            let at = top.keys("for_each.in");
            (Role::List, at, variables.bare(&each.list), &each.list)
        });
        for (role, at, compiled, source) in when.into_iter().chain(list) {
            match compiled {
                Ok(expression) => all.push(Written {
                    step,
                    role,
                    at,
                    expression,
                }),
                Err(reason) => problems.push(Problem::new(at, reason).on_text([source.clone()])),
            }
        }
        let events = written
            .awaits
            .iter()
            .flat_map(AwaitDefinition::events)
            .enumerate();
        let conditions = events.filter_map(|(nth, event)| {
            let at = event_path(written, &top, nth, "match");
            Some((at, event.matches?))
        });
        let fails = written
            .awaits
            .as_ref()
            .and_then(|wait| wait.fails_when.clone());
        let fails = fails.map(|fails| (top.keys("await.fails_when"), fails));
        let later = written.finishes_later.as_ref();
        let called_back = later.and_then(|later| later.fails_when.clone());
        let called_back = called_back.map(|fails| (top.keys("finishes_later.fails_when"), fails));
        for (at, matches) in conditions.chain(fails).chain(called_back) {
            match of_event.bare(&matches) {
                Ok(expression) => all.push(Written {
                    step,
                    role: Role::Event,
                    at,
                    expression,
                }),
                Err(reason) => problems.push(Problem::new(at, reason).on_text([matches])),
            }
        }
        let until = written.wait.as_ref().and_then(|wait| wait.until.as_deref());
        let until = until.map_or(Value::Null, Value::from);
        let mut inputs = vec![
            (Role::Input, top.key("input"), &written.input),
            (Role::Input, top.keys("wait.until"), &until),
        ];
        let keys = written.awaits.iter().flat_map(AwaitDefinition::events);
        let keys: Vec<_> = keys
            .map(|event| event.key.map_or(Value::Null, Value::from))
            .collect();
        for (nth, key) in keys.iter().enumerate() {
            let at = event_path(written, &top, nth, "key");
            inputs.push((Role::Input, at, key));
        }
        let (list, others) = written.others();
        for (nth, other) in others.iter().enumerate() {
            let at = top.key(list).index(nth).key("input");
            inputs.push((Role::Input, at, &other.input));
        }
        if let Some(CompensationDefinition::Action(c)) = &written.compensation {
            inputs.push((Role::Compensation, top.keys("compensation.input"), &c.input));
        }
        if let Some(poll) = later.and_then(|later| later.poll.as_ref()) {
            let at = top.keys("finishes_later.poll.input");
            inputs.push((Role::Poll, at, &poll.input));
        }
        if let Some(run) = &written.run {
            inputs.push((Role::Details, top.keys("run.details"), &run.details));
        }
        let with = each.map_or(Value::Null, |each| Value::Object(each.with.clone()));
        inputs.push((Role::Details, top.keys("for_each.with"), &with));
        for (role, at, input) in inputs {
            let variables = match role {
                Role::Details => &of_element,
                _ => &variables,
            };
            if let Err(e) = bounds::check_nesting(input) {
                problems.add(at, e.to_string());
                continue;
            }
            for (at, piece) in template::pieces(input, &at) {
                match piece {
                    Piece::Expression(source) => match variables.expression(&source) {
                        Ok(expression) => all.push(Written {
                            step,
                            role,
                            at,
                            expression,
                        }),
                        Err(reason) => problems.push(Problem::new(at, reason).on_text([source])),
                    },
                    Piece::Unclosed(text) => {
                        let reason = format!("`{text}` has `${{` without its `}}`");
                        let problem = Problem::new(at, reason).hint("close it with `}`");
                        problems.push(problem.on_text(["${".to_owned()]));
                    }
                }
            }
        }
    }
    all
}

/// The place of an event's condition.
fn event_path(step: &StepDefinition, at: &Path, nth: usize, field: &str) -> Path {
    let at = at.key("await");
    let list = step.awaits.as_ref().and_then(|wait| {
        let lists = [("first_of", &wait.first_of), ("all_of", &wait.all_of)];
        lists.into_iter().find(|(_, events)| !events.is_empty())
    });
    let at = list.map_or(at.clone(), |(name, _)| at.key(name).index(nth));
    at.key(field)
}

/// Checks the expressions. `ancestors` are the steps that each step comes after; `None` if that is not
/// known.
pub(super) fn check(
    definition: &Definition,
    ancestors: Option<&[BTreeSet<usize>]>,
    problems: &mut Problems,
) {
    let mut told = BTreeSet::new();
    for written in compiled(definition, problems) {
        if is_part(definition) {
            run::check_reads(definition, &written.at, &written.expression, problems);
        }
        for read in written.expression.steps() {
            let key = (
                written.step,
                written.role == Role::Compensation,
                read.clone(),
            );
            if let Some(problem) = check_read(definition, ancestors, &written, read)
                && told.insert(key)
            {
                let source = written.expression.source().to_owned();
                problems.push(problem.on_text([source, read.clone()]));
            }
        }
    }
}

fn check_read(
    definition: &Definition,
    ancestors: Option<&[BTreeSet<usize>]>,
    written: &Written,
    read: &str,
) -> Option<Problem> {
    let problem = |reason: String| Problem::new(written.at.clone(), reason);
    let Some(other) = ids(definition).position(|id| id == read) else {
        let reason = format!("reads the output of {read:?}, and there is no such step");
        let problem = problem(reason).nearest(read, ids(definition)).of_ids();
        return Some(match is_part(definition) && problem.hint.is_none() {
            true => problem.hint(run::bring(definition, read, &format!("steps.{read}"))),
            false => problem,
        });
    };
    if other == written.step {
        return Some(match written.role {
            Role::Compensation => problem("reads its own step's output".to_owned())
                .hint("a compensation reads its own step's output as `output`"),
            _ => problem(format!(
                "reads the output of {read}, which is this step: it has none before it is done"
            )),
        });
    }
    if ancestors?[written.step].contains(&other) {
        return None;
    }
    Some(match written.role {
        Role::Compensation => problem(format!(
            "reads the output of {read:?}, which the step does not come after"
        )),
        _ => problem(format!(
            "reads the output of {read}, which need not have completed by then: add it to after"
        )),
    })
}
