//! Steps that must have run when an expression is evaluated.
//!
//! The output of a skipped step is null, and null has no fields. `has(steps.x.y)` is not a guard: it fails for null
//! as `steps.x.y` does.

use std::collections::BTreeSet;

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};

use crate::expr::Expression;
use crate::expr::reads::reads;

/// The conditions of all steps, by their ids; `None` for a step that always runs.
pub(super) type Conditions<'a> = Vec<(&'a str, Option<&'a Expression>)>;

/// Ids of steps that have run.
pub(super) type Facts = BTreeSet<String>;

/// The id of the step whose whole output this is.
pub(super) fn step_read(node: &IdedExpr) -> Option<&str> {
    let is_steps = |node: &IdedExpr| matches!(&node.expr, Expr::Ident(name) if name == "steps");
    match &node.expr {
        Expr::Select(select) if is_steps(&select.operand) && !select.test => Some(&select.field),
        Expr::Call(call) if call.func_name == operators::INDEX => match call.args.as_slice() {
            [object, index] if is_steps(object) => match &index.expr {
                Expr::Literal(LiteralValue::String(name)) => Some(name.inner()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Facts that follow from the value of a condition: if a step has run, its own condition held, with further facts.
pub(super) fn assume(condition: &IdedExpr, holds: bool, conditions: &Conditions<'_>) -> Facts {
    let mut facts = Facts::new();
    learn(condition, holds, conditions, &mut facts);
    loop {
        let before = facts.len();
        for (id, own) in conditions {
            if let Some(own) = own
                && facts.contains(*id)
            {
                learn(own.tree(), true, conditions, &mut facts);
            }
        }
        if facts.len() == before {
            return facts;
        }
    }
}

fn learn(node: &IdedExpr, holds: bool, conditions: &Conditions<'_>, facts: &mut Facts) {
    for (id, own) in conditions {
        let Some(own) = own else { continue };
        let is_same = same(own.tree(), node);
        // Another condition on the same values may be equivalent, and only its author knows that.
        if (is_same && holds) || (!is_same && share(own, node)) {
            facts.insert((*id).to_owned());
        }
    }
    let Expr::Call(call) = &node.expr else {
        return;
    };
    match (call.func_name.as_str(), call.args.as_slice()) {
        (operators::LOGICAL_NOT, [inner]) => learn(inner, !holds, conditions, facts),
        (operators::LOGICAL_AND, [left, right]) if holds => {
            learn(left, true, conditions, facts);
            learn(right, true, conditions, facts);
        }
        (operators::LOGICAL_OR, [left, right]) if !holds => {
            learn(left, false, conditions, facts);
            learn(right, false, conditions, facts);
        }
        (operators::EQUALS | operators::NOT_EQUALS, [left, right]) => {
            let is_null = |node: &IdedExpr| matches!(&node.expr, Expr::Literal(LiteralValue::Null));
            let is_unequal = (call.func_name == operators::NOT_EQUALS) == holds;
            for (value, other) in [(left, right), (right, left)] {
                let Some(id) = step_read(value) else { continue };
                // Unequal to null, or equal to a value that is not null.
                let is_literal = matches!(&other.expr, Expr::Literal(_));
                if is_null(other) && is_unequal || is_literal && !is_null(other) && !is_unequal {
                    facts.insert(id.to_owned());
                }
            }
        }
        _ => {}
    }
}

/// Whether two expressions are equal, except for insignificant spaces and brackets.
fn same(a: &IdedExpr, b: &IdedExpr) -> bool {
    match (&a.expr, &b.expr) {
        (Expr::Ident(a), Expr::Ident(b)) => a == b,
        (Expr::Literal(a), Expr::Literal(b)) => a == b,
        (Expr::Select(a), Expr::Select(b)) => {
            a.field == b.field && a.test == b.test && same(&a.operand, &b.operand)
        }
        (Expr::List(a), Expr::List(b)) => all_same(&a.elements, &b.elements),
        (Expr::Call(a), Expr::Call(b)) => {
            a.func_name == b.func_name
                && all_same(&a.args, &b.args)
                && match (&a.target, &b.target) {
                    (None, None) => true,
                    (Some(a), Some(b)) => same(a, b),
                    _ => false,
                }
        }
        _ => false,
    }
}

fn all_same(a: &[IdedExpr], b: &[IdedExpr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// Whether two expressions read the same value of the order, or one reads a part of the other's value.
fn share(a: &Expression, b: &IdedExpr) -> bool {
    let (of_a, mut of_b) = (a.reads(), Vec::new());
    reads(b, a.of_details(), &mut of_b);
    let meet = |a: &Vec<String>, b: &Vec<String>| {
        let shorter = a.len().min(b.len());
        a[..shorter] == b[..shorter]
    };
    of_a.iter().any(|a| of_b.iter().any(|b| meet(a, b)))
}
