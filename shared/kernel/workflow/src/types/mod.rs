//! Types of expressions: faults that concern every order are reported when a file is loaded.
//!
//! Each expression is checked once, with what is known of each value before there is an order: the fields of `order`
//! exactly, `details` as far as a schema says, outputs of steps not at all. An expression that may work for some
//! order passes. Only loaded files are checked, never published definitions, so that their orders continue.
//!
//! A few rules are stricter. An expression that uses the output of a step that may be skipped needs a guard, because
//! it fails for each order that skips the step. And `{{ … }}`, `{details.x}` or `$details.x`, the syntax of other
//! template languages, would be sent unchanged.

mod braces;
mod guards;
mod infer;
mod keywords;
mod kinds;
mod library;
mod run;
mod schema;
pub(crate) mod service;
mod source_text;

use serde_json::Value;

use crate::check::expressions::{Role, Written, compiled};
use crate::check::search;
use crate::details::DetailsSchema;
use crate::expr::{Expression, Scope};
use crate::model::{CompensationDefinition, Definition, PolicyDefinition};
use crate::parts;
use crate::problem::{Path, Problem, Problems};
use crate::variables::Variables;
use guards::{Conditions, Facts, assume};
use infer::{Around, Fault, Infer, is_constant};
use kinds::{Fields, Kinds, Type};

/// Problems of a definition's expressions that concern every order. Expressions that do not compile are left out:
/// [`Workflow::compile`](crate::Workflow::compile) reports them.
pub(crate) fn check(definition: &Definition) -> Vec<Problem> {
    let mut problems = of_outer(&parts::outer(definition));
    for part in parts::all(definition) {
        let of_part = check(&part.definition).into_iter();
        problems.extend(of_part.filter_map(|p| part.place.moved(definition, p)));
    }
    problems.into_iter().map(|p| p.named(definition)).collect()
}

/// As [`check`], of a definition without the work of its parts.
fn of_outer(definition: &Definition) -> Vec<Problem> {
    let mut problems = Problems::default();
    let written = compiled(definition, &mut Problems::default());
    let conditions: Conditions<'_> = definition
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| (step.id.as_str(), condition_of(&written, index)))
        .collect();
    let outputs = outputs(definition);
    let known = Known {
        definition,
        conditions: &conditions,
        outputs: &outputs,
        variables: run::Variables::of(definition),
        written: &written,
    };
    for expression in &written {
        let faults = known.faults(expression);
        add_faults(
            &expression.at,
            &expression.expression,
            faults,
            &mut problems,
        );
    }
    for (name, described) in &definition.agents {
        let at = Path::top().key("agents").key(name);
        service::check(described, &at, &mut problems);
    }
    let around = |step, role| known.around(step, role);
    service::check_inputs(definition, &around, &mut problems);
    service::check_accepted(definition, &mut problems);
    for (at, expression) in search::compiled(definition, &mut Problems::default()) {
        let faults = faults_of_search_key(definition, &expression, &conditions);
        add_faults(&at, &expression, faults, &mut problems);
    }
    run::check(&known, &mut problems);
    if let Some(written) = &definition.details_schema {
        let at = Path::top().key("details_schema");
        match DetailsSchema::new(written).check() {
            Err(reason) => problems.add(at, reason.to_string()),
            Ok(()) => keywords::check(written, &at, &mut problems),
        }
    }
    let defaults = &definition.defaults.supervisor;
    delays(
        defaults.as_ref(),
        &Path::top().key("defaults"),
        &mut problems,
    );
    let variables = Variables::of(definition);
    for (index, step) in definition.steps.iter().enumerate() {
        let at = Path::step(index);
        delays(step.supervisor.as_ref(), &at, &mut problems);
        let element = step.for_each.as_ref().map(|each| each.element());
        let of_element = variables.of_element(element);
        let mut check = |value: &Value, at: Path| {
            braces::check(value, &at, of_element.names(), &mut problems);
        };
        check(&step.input, at.key("input"));
        let (list, others) = step.others();
        for (nth, other) in others.iter().enumerate() {
            let at = at.key(list).index(nth);
            check(&other.input, at.key("input"));
        }
        if let Some(CompensationDefinition::Action(c)) = &step.compensation {
            check(&c.input, at.keys("compensation.input"));
        }
        if let Some(run) = &step.run {
            check(&run.details, at.keys("run.details"));
        }
        for (name, value) in step.for_each.iter().flat_map(|each| &each.with) {
            check(value, at.keys("for_each.with").key(name));
        }
    }
    problems.0
}

/// The outputs of the steps of which the description of their service says something. Work that is finished later may
/// end with an answer to another action, or with a callback.
fn outputs(definition: &Definition) -> Vec<(&str, Type)> {
    let at_once = definition
        .steps
        .iter()
        .filter(|s| s.finishes_later.is_none());
    let known = at_once.filter_map(|step| {
        let service = definition.agents.get(step.agent.as_ref()?)?;
        let output = service::output(service, step.action.as_ref()?)?;
        Some((step.id.as_str(), output))
    });
    known.chain(run::outputs(definition)).collect()
}

/// The type of `output` in a compensation: null if it is in doubt whether its step happened.
fn own_output(definition: &Definition, step: usize, outputs: &[(&str, Type)]) -> Type {
    let id = &definition.steps[step].id;
    match outputs.iter().find(|(known, _)| known == id) {
        Some((_, output)) => output.clone().or(Type::of(Kinds::NULL)),
        None => Type::any(),
    }
}

/// Checks delays that grow from one attempt to the next up to a maximum that is below the first.
fn delays(policy: Option<&PolicyDefinition>, at: &Path, problems: &mut Problems) {
    let Some(policy) = policy else {
        return;
    };
    let at = at.key("supervisor");
    let by_code = policy.by_code.iter();
    let by_code = by_code.map(|(code, after)| {
        let at = at.key("by_code").key(code);
        (at, after.delay.or(policy.delay), after.max_delay)
    });
    let own = (at.clone(), policy.delay, policy.max_delay);
    for (at, delay, max) in std::iter::once(own).chain(by_code) {
        if let (Some(delay), Some(max)) = (delay, max)
            && delay > max
        {
            let reason = format!("{max} is below supervisor.delay, which is {delay}");
            let hint = "raise it, or leave it out";
            problems.push(Problem::new(at.key("max_delay"), reason).hint(hint));
        }
    }
}

fn add_faults(at: &Path, expression: &Expression, faults: Vec<Fault>, problems: &mut Problems) {
    for fault in faults {
        let mut problem = Problem::new(at.clone(), fault.reason);
        problem.hint = fault.hint;
        let texts = [Some(expression.source().to_owned()), fault.text];
        problems.push(problem.on_text(texts.into_iter().flatten()));
    }
}

fn condition_of(written: &[Written], step: usize) -> Option<&Expression> {
    let found = written
        .iter()
        .find(|w| w.step == step && w.role == Role::When);
    found.map(|w| &w.expression)
}

/// What is known of a definition before there is an order.
struct Known<'a> {
    definition: &'a Definition,
    conditions: &'a Conditions<'a>,
    outputs: &'a [(&'a str, Type)],
    variables: run::Variables<'a>,
    written: &'a [Written],
}

impl<'a> Known<'a> {
    /// What the expressions of a step may read.
    fn around(&'a self, step: usize, role: Role) -> Around<'a> {
        // When a step runs, its own condition held.
        let facts = match (role, condition_of(self.written, step)) {
            (Role::When, _) | (_, None) => Facts::new(),
            (_, Some(own)) => assume(own.tree(), true, self.conditions),
        };
        Around {
            order: order(),
            details: details(self.definition),
            output: match role {
                Role::Compensation => Some(own_output(self.definition, step, self.outputs)),
                Role::Poll => Some(Type::any()),
                Role::When | Role::Input | Role::Event | Role::List | Role::Details => None,
            },
            conditions: self.conditions,
            outputs: self.outputs,
            facts,
            variables: self.variables.seen_by(role),
        }
    }

    fn faults(&self, written: &Written) -> Vec<Fault> {
        let around = self.around(written.step, written.role);
        let mut infer = Infer::new(&around);
        let found = crate::expr::with_stack(|| infer.of(written.expression.tree()));
        if !infer.faults.is_empty() {
            return infer.faults;
        }
        let further = match written.role {
            Role::When | Role::Event => not_a_condition(&written.expression, &found),
            Role::List => run::not_a_list(&written.expression, &found),
            Role::Input | Role::Compensation | Role::Poll | Role::Details => None,
        };
        further.into_iter().collect()
    }
}

/// Why an expression of this type cannot be the condition of a step or of an event.
fn not_a_condition(expression: &Expression, found: &Type) -> Option<Fault> {
    let condition = expression.source();
    if found.may_be_skipped.is_some() || !found.kinds.may(Kinds::BOOL) {
        let is = match &found.may_be_skipped {
            Some(id) => format!("null where step {id} is skipped"),
            None => found.kinds.names(),
        };
        return Some(Fault {
            reason: format!("has to be true or false, and `{condition}` is {is}"),
            hint: Some("compare it with something, such as `details.count > 0`".to_owned()),
            text: None,
        });
    }
    let nothing = Scope::new(&Value::Null, &Value::Null, [], None);
    let never = is_constant(expression.tree())
        && matches!(expression.evaluate(&nothing), Ok(Value::Bool(false)));
    never.then(|| Fault {
        reason: format!("`{condition}` never holds, so that the step is skipped for every order"),
        hint: Some(
            "compare something of the order, such as `details.count > 0`, or remove the step"
                .to_owned(),
        ),
        text: None,
    })
}

/// Faults in the expression of a search key that concern every order. An expression that reads what it must not is
/// reported already.
fn faults_of_search_key(
    definition: &Definition,
    expression: &Expression,
    conditions: &Conditions<'_>,
) -> Vec<Fault> {
    if search::read_beside_details(expression).is_some() {
        return Vec::new();
    }
    let around = Around {
        order: order(),
        details: details(definition),
        output: None,
        conditions,
        outputs: &[],
        facts: Facts::new(),
        variables: &[],
    };
    let mut infer = Infer::new(&around);
    let found = crate::expr::with_stack(|| infer.of(expression.tree()));
    if infer.faults.is_empty() && !found.kinds.may(SEARCHED) {
        infer.faults.push(Fault {
            reason: format!(
                "a search key is a text, a number, or true or false, and `{}` is {}",
                expression.source(),
                found.kinds.names()
            ),
            hint: None,
            text: None,
        });
    }
    infer.faults
}

/// The kinds that the value of a search key may have.
const SEARCHED: Kinds = Kinds(Kinds::STRING.0 | Kinds::NUMBER.0 | Kinds::BOOL.0);

/// The type of the variable `details`.
fn details(definition: &Definition) -> Type {
    let written = definition.details_schema.as_ref();
    written.map_or_else(|| Type::of(Kinds::MAP), schema::details)
}

/// The type of the variable `order`.
fn order() -> Type {
    let sample = Scope::order("", "", false, 0);
    let fields = sample.as_object().into_iter().flatten();
    Type::map(Fields {
        known: fields
            .map(|(name, _)| (name.clone(), Type::of(Kinds::STRING)))
            .collect(),
        is_open: false,
    })
}
