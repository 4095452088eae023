//! The fields of steps' outputs that an expression reads for every order.

use cel::common::ast::operators::{CONDITIONAL, INDEX, LOGICAL_AND, LOGICAL_OR};
use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

use super::Expression;
use super::coalesce::COALESCE;

/// The step whose output an expression reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOf {
    /// The step with this id, read as `steps.<id>`.
    Step(String),
    /// The step that is compensated, read as `output`.
    Output,
}

impl Expression {
    /// Every field of an output that the expression reads whenever it is computed: the step whose output it
    /// is, and the names that lead to the field, at least one. Fields that are read under a condition (`? :`,
    /// `&&`, `||`, `has()`, `coalesce()`, the body of a macro) are left out, because an output need not have them.
    #[must_use]
    pub fn sure_reads(&self) -> Vec<(ReadOf, Vec<String>)> {
        let mut found = Vec::new();
        visit(self.tree(), &mut found);
        found
    }
}

fn visit(node: &IdedExpr, found: &mut Vec<(ReadOf, Vec<String>)>) {
    if let Some((of, path)) = chain(node) {
        if !path.is_empty() {
            found.push((of, path));
        }
        return;
    }
    match &node.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
        // `has()` tests for a field and reads nothing.
        Expr::Select(select) if select.test => {}
        Expr::Select(select) => visit(&select.operand, found),
        Expr::Call(call) => match call.func_name.as_str() {
            CONDITIONAL => call.args.iter().take(1).for_each(|e| visit(e, found)),
            LOGICAL_AND | LOGICAL_OR | COALESCE => {}
            _ => {
                let target = call.target.iter().map(AsRef::as_ref);
                target.chain(&call.args).for_each(|e| visit(e, found));
            }
        },
        Expr::List(list) => list.elements.iter().for_each(|e| visit(e, found)),
        Expr::Map(map) => map.entries.iter().for_each(|e| entry(&e.expr, found)),
        Expr::Struct(s) => s.entries.iter().for_each(|e| entry(&e.expr, found)),
        Expr::Comprehension(c) => visit(&c.iter_range, found),
    }
}

fn entry(entry: &EntryExpr, found: &mut Vec<(ReadOf, Vec<String>)>) {
    match entry {
        EntryExpr::StructField(f) => visit(&f.value, found),
        EntryExpr::MapEntry(m) => {
            visit(&m.key, found);
            visit(&m.value, found);
        }
    }
}

/// A chain of names from `steps` or `output` on: `steps.a.b.c`, `output["x"]`.
fn chain(node: &IdedExpr) -> Option<(ReadOf, Vec<String>)> {
    let mut names = Vec::new();
    let mut node = node;
    let root = loop {
        match &node.expr {
            Expr::Ident(name) => break name.as_str(),
            Expr::Select(select) if !select.test => {
                names.push(select.field.clone());
                node = &select.operand;
            }
            Expr::Call(call) if call.func_name == INDEX => {
                let [object, index] = call.args.as_slice() else {
                    return None;
                };
                let Expr::Literal(LiteralValue::String(name)) = &index.expr else {
                    return None;
                };
                names.push(name.inner().to_owned());
                node = object;
            }
            _ => return None,
        }
    };
    names.reverse();
    match root {
        "output" => Some((ReadOf::Output, names)),
        "steps" if !names.is_empty() => {
            let step = names.remove(0);
            Some((ReadOf::Step(step), names))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(source: &str) -> Vec<String> {
        let expression = Expression::compile(source).expect("it compiles");
        let told = |(of, path): (ReadOf, Vec<String>)| match of {
            ReadOf::Step(id) => format!("{id}: {}", path.join(".")),
            ReadOf::Output => format!("output: {}", path.join(".")),
        };
        expression.sure_reads().into_iter().map(told).collect()
    }

    #[test]
    fn what_is_read_for_sure_is_known_and_what_a_condition_guards_is_not() {
        for (source, expected) in [
            ("steps.a.x", &["a: x"][..]),
            ("steps[\"a-b\"].x[\"y\"].z + 1", &["a-b: x.y.z"]),
            ("output.id", &["output: id"]),
            ("output", &[]),
            ("steps.a", &[]),
            ("details.x + order.id", &[]),
            ("has(steps.a.x) ? steps.a.x : 1", &[]),
            ("steps.a.x > 1 ? steps.b.y : 2", &["a: x"]),
            ("steps.a.x && steps.b.y", &[]),
            ("steps.a.lines.map(l, l.sku == steps.b.y)", &["a: lines"]),
            ("[steps.a.x, {'k': steps.b.y}]", &["a: x", "b: y"]),
            ("size(steps.a.x)", &["a: x"]),
            ("coalesce(steps.a.x, steps.b.y)", &[]),
            ("steps.a.lines[0].sku", &["a: lines"]),
        ] {
            assert_eq!(reads(source), expected, "{source}");
        }
    }
}
