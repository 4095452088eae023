//! Rewrites an expression: arithmetic becomes that of decimals ([`super::decimals`]), and `coalesce` what it stands for
//! ([`super::coalesce`]). The work of macros is counted ([`super::cost_bound`]), and their ranges are sorted
//! ([`super::in_order`]).

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use cel::{Context, Value as CelValue};

use super::cost_bound::{count, take_units};
use super::in_order::IN_ORDER;
use super::{coalesce, decimals};

/// Function that counts its argument and returns it. Authors cannot write the sign `@` in an expression.
const COUNTED: &str = "@counted";
/// Function that counts an iteration of a loop and returns its argument, the loop's condition.
const GOES_ON: &str = "@goes_on";

/// Adds the functions that [`metered`] writes to a scope.
pub(super) fn declare(context: &mut Context<'static, 'static>) {
    let counted = |value: CelValue| count(&value).map(|()| value);
    let goes_on = |condition: CelValue| take_units(1).map(|()| condition);
    // These calls fail only for a name that the language already has.
    let _ = context.add_function(COUNTED, counted);
    let _ = context.add_function(GOES_ON, goes_on);
}

/// The expression to evaluate in the place of another one.
pub(super) fn metered(program: &IdedExpr) -> IdedExpr {
    let mut tree = program.clone();
    rewrite(&mut tree, false);
    tree
}

fn rewrite(node: &mut IdedExpr, in_macro: bool) {
    match &mut node.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select(select) => rewrite(&mut select.operand, in_macro),
        Expr::List(list) => {
            for element in &mut list.elements {
                rewrite(element, in_macro);
            }
        }
        Expr::Map(map) => {
            for entry in &mut map.entries {
                rewrite_entry(&mut entry.expr, in_macro);
            }
        }
        Expr::Struct(fields) => {
            for entry in &mut fields.entries {
                rewrite_entry(&mut entry.expr, in_macro);
            }
        }
        Expr::Call(call) if coalesce::is_coalesce(call) => {
            let mut parts = std::mem::take(&mut call.args).into_iter();
            let (Some(mut first), Some(mut second)) = (parts.next(), parts.next()) else {
                return;
            };
            for part in [&mut first, &mut second] {
                rewrite_way(part, in_macro);
                if in_macro {
                    wrap(part, COUNTED);
                }
            }
            node.expr = coalesce::first_of(node.id, first, second);
        }
        Expr::Call(call) => {
            let is_counted = in_macro && !is_cheap(&call.func_name);
            let target = call.target.as_mut().map(AsMut::as_mut);
            for part in target.into_iter().chain(&mut call.args) {
                rewrite(part, in_macro);
                if is_counted {
                    wrap(part, COUNTED);
                }
            }
            if let Some(function) = decimals::in_place_of(&call.func_name) {
                function.clone_into(&mut call.func_name);
            }
        }
        Expr::Comprehension(comprehension) => {
            rewrite(&mut comprehension.iter_range, in_macro);
            wrap(&mut comprehension.iter_range, IN_ORDER);
            rewrite_loop(comprehension);
        }
    }
}

/// A part of `coalesce`: the steps of a way do not fail for what is missing.
fn rewrite_way(node: &mut IdedExpr, in_macro: bool) {
    let Some((mut of, mut name)) = coalesce::take_step(node) else {
        return rewrite(node, in_macro);
    };
    rewrite_way(&mut of, in_macro);
    rewrite(&mut name, in_macro);
    node.expr = coalesce::field_of(of, name);
}

fn rewrite_entry(entry: &mut EntryExpr, in_macro: bool) {
    match entry {
        EntryExpr::StructField(field) => rewrite(&mut field.value, in_macro),
        EntryExpr::MapEntry(entry) => {
            rewrite(&mut entry.key, in_macro);
            rewrite(&mut entry.value, in_macro);
        }
    }
}

/// Counts a loop's body. The step keeps its form, by which the library recognises a `map` or `filter` and appends in
/// place; such a loop ends at its first error. Other loops continue after errors, because a later element may decide:
/// their condition ends them.
fn rewrite_loop(comprehension: &mut ComprehensionExpr) {
    let accumulator = comprehension.accu_var.clone();
    let step = &mut comprehension.loop_step;
    rewrite_step(step, &accumulator);
    if !matches!(comprehension.loop_cond.expr, Expr::Literal(_)) {
        wrap(&mut comprehension.loop_cond, GOES_ON);
    }
}

/// The parts of a loop's step that an author wrote: all but the accumulator and the operator that joins them.
fn rewrite_step(step: &mut IdedExpr, accumulator: &str) {
    match &mut step.expr {
        Expr::Ident(name) if name == accumulator => {}
        Expr::Call(call) if joins(call, accumulator) => {
            for part in &mut call.args {
                rewrite_step(part, accumulator);
            }
        }
        Expr::List(list) => {
            for element in &mut list.elements {
                rewrite(element, true);
                wrap(element, COUNTED);
            }
        }
        _ => {
            rewrite(step, true);
            wrap(step, COUNTED);
        }
    }
}

/// Whether a call has the accumulator as an argument, directly or within one further call.
fn joins(call: &CallExpr, accumulator: &str) -> bool {
    let names = |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if name == accumulator);
    let nested = |part: &IdedExpr| match &part.expr {
        Expr::Call(inner) => inner.args.iter().any(names),
        _ => names(part),
    };
    call.target.is_none() && call.args.iter().any(nested)
}

/// Whether the work of a call is independent of the size of its arguments.
fn is_cheap(function: &str) -> bool {
    [
        operators::LOGICAL_AND,
        operators::LOGICAL_OR,
        operators::LOGICAL_NOT,
        operators::CONDITIONAL,
        operators::INDEX,
    ]
    .contains(&function)
}

fn wrap(node: &mut IdedExpr, function: &str) {
    let inner = std::mem::take(node);
    *node = IdedExpr {
        id: inner.id,
        expr: Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args: vec![inner],
        }),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{EvalError, Expression, Scope};

    fn over(count: usize, source: &str) -> Result<Value, EvalError> {
        let items: Vec<Value> = (0..count)
            .map(|n| json!({"n": n, "tags": ["a", "b"]}))
            .collect();
        let details = json!({"items": items, "text": "x".repeat(100_000)});
        let scope = Scope::new(&json!({}), &details, [], None);
        Expression::compile(source).expect(source).evaluate(&scope)
    }

    #[test]
    fn macros_give_the_same_values_as_before() {
        for (source, wanted) in [
            ("details.items.map(i, i.n * 2)", json!([0, 2, 4])),
            (
                "details.items.filter(i, i.n > 0).map(i, i.n)",
                json!([1, 2]),
            ),
            (
                "details.items.map(i, i.n > 1, [i.n, i.tags.size()])",
                json!([[2, 2]]),
            ),
            ("details.items.all(i, i.n < 3)", json!(true)),
            ("details.items.exists(i, i.n == 2)", json!(true)),
            (
                "details.items.exists(i, i.missing == 2 || i.n == 2)",
                json!(true),
            ),
            ("details.items.exists_one(i, i.n == 2)", json!(true)),
            (
                "details.items.map(i, details.items.filter(j, j.n < i.n).size())",
                json!([0, 1, 2]),
            ),
            (
                "details.items.map(i, {'n': i.n})",
                json!([{"n": 0}, {"n": 1}, {"n": 2}]),
            ),
            ("{'a': 1}.map(k, k + 'b')", json!(["ab"])),
            (
                "details.items.map(i, i.tags.map(t, t + '!'))[0]",
                json!(["a!", "b!"]),
            ),
        ] {
            assert_eq!(over(3, source).unwrap(), wanted, "{source}");
        }
    }

    #[test]
    fn a_long_order_may_be_gone_through_more_than_once() {
        let source = "details.items.filter(i, i.n % 2 == 0).map(i, i.n * 3 + 1).size()";
        assert_eq!(over(4_000, source).unwrap(), json!(2_000));
        let source = "details.items.map(i, i.tags.exists(t, t == 'b')).size()";
        assert_eq!(over(4_000, source).unwrap(), json!(4_000));
    }

    #[test]
    fn work_has_a_bound_whatever_the_macro() {
        for source in [
            "details.items.map(i, details.items.map(j, i.n + j.n).size())",
            "details.items.filter(i, details.items.filter(j, j.n == i.n).size() > 5)",
            "details.items.exists(i, details.items.exists(j, j.n + i.n < 0))",
            "details.items.all(i, details.items.all(j, j.n + i.n >= 0))",
            "details.items.exists_one(i, details.items.exists_one(j, j.n + i.n < 0))",
            "details.items.exists(i, details.items.exists(j, j.missing == 1))",
            "details.items.map(i, details.text + details.text).size()",
            "details.items.exists(i, details.text + 'a' == details.text + 'b')",
            "details.items.filter(i, details.items == details.items)",
            "details.items.map(i, details.items)",
        ] {
            let error = over(4_000, source).unwrap_err();
            assert!(
                error.reason.contains("units of work"),
                "{source}: {}",
                error.reason
            );
        }
    }

    #[test]
    fn a_scope_has_250000_units_of_work() {
        let items: Vec<Value> = (0..1_249).map(Value::from).collect();
        let scope = Scope::new(&json!({}), &json!({ "items": items }), [], None);
        let is_computed = |source: &str| {
            Expression::compile(source)
                .unwrap()
                .evaluate(&scope)
                .is_ok()
        };
        for _ in 0..100 {
            // Each element while the list is made, the list, and each element of it.
            assert!(is_computed("details.items.map(i, i)"), "1,249 + 1 + 1,249");
            assert!(is_computed("1"));
        }
        assert!(!is_computed("1"), "nothing is left");
    }

    #[test]
    fn all_expressions_of_a_scope_share_one_bound() {
        let items: Vec<Value> = (0..4_000).map(Value::from).collect();
        let scope = Scope::new(&json!({}), &json!({ "items": items }), [], None);
        let e = Expression::compile("details.items.map(i, i + 1).size()").unwrap();
        let fails = (0..1_000).find(|_| e.evaluate(&scope).is_err());
        assert!(fails.is_some_and(|at| at > 5), "{fails:?}");
    }
}
