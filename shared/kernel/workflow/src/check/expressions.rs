//! Checks of a definition's expressions: each compiles, and reads only outputs that exist by then.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::bounds;
use crate::check::ids;
use crate::expr::Expression;
use crate::model::{AwaitDefinition, CompensationDefinition, Definition, StepDefinition};
use crate::problem::{Path, Problem, Problems};
use crate::template::{self, Piece};

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
    for (step, written) in definition.steps.iter().enumerate() {
        let top = Path::step(step);
        if let Some(when) = &written.when {
            let at = top.key("when");
            match Expression::compiled(when) {
                Ok(expression) => all.push(Written {
                    step,
                    role: Role::When,
                    at,
                    expression,
                }),
                Err(reason) => problems.push(Problem::new(at, reason).on_text([when.clone()])),
            }
        }
        let events = written
            .awaits
            .iter()
            .flat_map(AwaitDefinition::events)
            .enumerate();
        let conditions = events.filter_map(|(nth, event)| {
            let at = event_path(written, &top, nth);
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
            match Expression::of_event(&matches) {
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
        if let Some(CompensationDefinition::Action(c)) = &written.compensation {
            inputs.push((Role::Compensation, top.keys("compensation.input"), &c.input));
        }
        if let Some(poll) = later.and_then(|later| later.poll.as_ref()) {
            let at = top.keys("finishes_later.poll.input");
            inputs.push((Role::Poll, at, &poll.input));
        }
        for (role, at, input) in inputs {
            if let Err(e) = bounds::check_nesting(input) {
                problems.add(at, e.to_string());
                continue;
            }
            for (at, piece) in template::pieces(input, &at) {
                match piece {
                    Piece::Expression(source) => match Expression::compiled(&source) {
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
fn event_path(step: &StepDefinition, at: &Path, nth: usize) -> Path {
    let at = at.key("await");
    let list = step.awaits.as_ref().and_then(|wait| {
        let lists = [("first_of", &wait.first_of), ("all_of", &wait.all_of)];
        lists.into_iter().find(|(_, events)| !events.is_empty())
    });
    let at = list.map_or(at.clone(), |(name, _)| at.key(name).index(nth));
    at.key("match")
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
        return Some(problem(reason).nearest(read, ids(definition)).of_ids());
    };
    if other == written.step {
        return Some(match written.role {
            Role::Compensation => problem("reads its own step's output".to_owned())
                .hint("a compensation reads its own step's output as `output`"),
            Role::When | Role::Input | Role::Event | Role::Poll => problem(format!(
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
        Role::When | Role::Input | Role::Event | Role::Poll => problem(format!(
            "reads the output of {read}, which need not have completed by then: add it to after"
        )),
    })
}
