//! Types of what steps that run other orders read and give, and of the variables that a definition makes of its details.

use super::infer::{Fault, Infer};
use super::kinds::{Kinds, Type};
use super::{Known, add_faults, details};
use crate::check::expressions::Role;
use crate::check::variables::output;
use crate::expr::Expression;
use crate::model::Definition;
use crate::parts::is_part;
use crate::problem::Problems;
use crate::variables::{EVENT, INDEX};

/// The variables of a definition beside those that all have.
pub(super) struct Variables<'a> {
    usual: Vec<(&'a str, Type)>,
    of_event: Vec<(&'a str, Type)>,
    /// Of the element itself nothing is known.
    of_element: Vec<(&'a str, Type)>,
}

impl<'a> Variables<'a> {
    pub(super) fn of(definition: &'a Definition) -> Self {
        let place = || (INDEX, Type::of(Kinds::NUMBER));
        let details = details(definition);
        let usual = definition.variables.iter().map(|name| {
            let fields = details.fields.as_ref();
            let known = fields.and_then(|fields| fields.known.get(name));
            match name == INDEX && is_part(definition) {
                true => place(),
                false => (name.as_str(), known.cloned().unwrap_or_else(Type::any)),
            }
        });
        let usual: Vec<_> = usual.collect();
        let and = |more| usual.iter().cloned().chain([more]).collect();
        Self {
            // What an event brings is any value.
            of_event: and((EVENT, Type::any())),
            of_element: and(place()),
            usual,
        }
    }

    /// Those that expressions of this role see.
    pub(super) fn seen_by(&self, role: Role) -> &[(&'a str, Type)] {
        match role {
            Role::Event => &self.of_event,
            Role::Details => &self.of_element,
            _ => &self.usual,
        }
    }
}

/// The outputs of the steps that do something for each element of a list.
pub(super) fn outputs(definition: &Definition) -> impl Iterator<Item = (&str, Type)> {
    let steps = definition
        .steps
        .iter()
        .filter(|step| step.for_each.is_some());
    steps.map(|step| (step.id.as_str(), Type::list(Type::any())))
}

/// Why an expression of this type cannot be the list of a `for_each`.
pub(super) fn not_a_list(expression: &Expression, found: &Type) -> Option<Fault> {
    let is = match &found.may_be_skipped {
        Some(id) => format!("null where step {id} is skipped"),
        None if found.kinds.may(Kinds::LIST) => return None,
        None => found.kinds.names(),
    };
    Some(Fault {
        reason: format!("has to be a list, and `{}` is {is}", expression.source()),
        hint: None,
        text: None,
    })
}

/// Checks the expressions of what the end of an order brings. No step has a condition that is known to have held.
pub(super) fn check(known: &Known<'_>, problems: &mut Problems) {
    for (at, expression) in output(known.definition, &mut Problems::default()) {
        let around = known.around(0, Role::When);
        let mut infer = Infer::new(&around);
        crate::expr::with_stack(|| infer.of(expression.tree()));
        add_faults(&at, &expression, infer.faults, problems);
    }
}
