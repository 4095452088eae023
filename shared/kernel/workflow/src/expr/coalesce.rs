//! `coalesce(a, b)`: the first value that is not null.
//!
//! It is a form and not a function: `b` is computed only if it is needed, and in a way such as `details.gift.note` a
//! name that is missing, or that null has, counts as null. In [`super::meter`] the call becomes a loop without
//! iterations, which is how the language names a value, and each step of the way a call of [`FIELD`].

use cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators,
};
use cel::common::types::{CelNull, DYN_TYPE};
use cel::common::value::CowVal;
use cel::{Env, ExecutionError};

/// The form's name.
pub(crate) const COALESCE: &str = "coalesce";
/// Function that reads a name of a value. Authors cannot write the sign `@` in an expression.
const FIELD: &str = "@field";
/// Variable of the first value.
const FIRST: &str = "@first";

/// Adds [`FIELD`] to the language.
pub(super) fn declare(env: &mut Env) {
    // It fails only for a name that the language has already.
    let _ = env.add_overload(FIELD, FIELD, vec![DYN_TYPE, DYN_TYPE], field);
}

/// Whether a call is one of the form.
pub(crate) fn is_coalesce(call: &CallExpr) -> bool {
    call.func_name == COALESCE && call.target.is_none() && call.args.len() == 2
}

/// The part of which a step of a way reads a name; `None` for an expression that is no step.
pub(crate) fn step(node: &IdedExpr) -> Option<&IdedExpr> {
    match &node.expr {
        Expr::Select(select) if !select.test => Some(&select.operand),
        Expr::Call(call) if call.func_name == operators::INDEX && call.args.len() == 2 => {
            call.args.first()
        }
        _ => None,
    }
}

/// A step of a way, taken out of its place: the part and the name; `None` for another expression, which stays.
pub(super) fn take_step(node: &mut IdedExpr) -> Option<(IdedExpr, IdedExpr)> {
    step(node)?;
    match std::mem::take(&mut node.expr) {
        Expr::Select(select) => {
            let name = LiteralValue::String(select.field.into());
            let expr = Expr::Literal(name);
            Some((*select.operand, IdedExpr { id: node.id, expr }))
        }
        Expr::Call(call) => <[IdedExpr; 2]>::try_from(call.args).ok().map(Into::into),
        _ => None,
    }
}

/// A step of a way as a call of [`FIELD`].
pub(super) fn field_of(of: IdedExpr, name: IdedExpr) -> Expr {
    call(FIELD, vec![of, name])
}

/// The form as a loop without iterations.
pub(super) fn first_of(id: u64, first: IdedExpr, second: IdedExpr) -> Expr {
    let node = |expr: Expr| IdedExpr { id, expr };
    let name = || node(Expr::Ident(FIRST.to_owned()));
    let null = node(Expr::Literal(LiteralValue::Null));
    let is_there = node(call(operators::NOT_EQUALS, vec![name(), null]));
    Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: node(Expr::List(ListExpr {
            elements: Vec::new(),
            optional_indices: Vec::new(),
        })),
        iter_var: "@none".to_owned(),
        iter_var2: None,
        accu_var: FIRST.to_owned(),
        accu_init: first,
        loop_cond: node(Expr::Literal(LiteralValue::Boolean(false.into()))),
        loop_step: name(),
        result: node(call(operators::CONDITIONAL, vec![is_there, name(), second])),
    }))
}

fn call(function: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr {
        func_name: function.to_owned(),
        target: None,
        args,
    })
}

fn field<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let mut args = args.into_iter();
    let (Some(of), Some(name)) = (args.next(), args.next()) else {
        return Err(ExecutionError::MissingArgumentOrTarget);
    };
    let null = || CowVal::owned(CelNull);
    if of.downcast_ref::<CelNull>().is_some() {
        return Ok(null());
    }
    let kinds = || {
        let kinds = [of.as_ref(), name.as_ref()].map(|value| value.get_type().name().to_owned());
        ExecutionError::no_such_overload("_._", kinds.to_vec())
    };
    let found = match &of {
        // What a variable has is not copied.
        CowVal::Borrowed(of) => of.as_indexer().ok_or_else(kinds)?.get(name.as_ref()),
        CowVal::Owned(of) => {
            let found = of.as_indexer().ok_or_else(kinds)?.get(name.as_ref());
            found.map(|found| CowVal::Owned(found.into_owned()))
        }
    };
    match found {
        Err(ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_)) => Ok(null()),
        found => found,
    }
}
