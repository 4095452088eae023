//! The values that an expression reads.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};

/// The values that an expression reads, each as the list of names that lead to it. A variable of `of_details` is the
/// value of that name in the details.
pub(crate) fn reads(node: &IdedExpr, of_details: &[String], found: &mut Vec<Vec<String>>) {
    if let Some(mut way) = way_to(node) {
        if of_details.contains(&way[0]) {
            way.insert(0, "details".to_owned());
        }
        if matches!(
            way[0].as_str(),
            "details" | "steps" | "order" | "output" | "input"
        ) {
            found.push(way);
        }
        return;
    }
    match &node.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => {}
        Expr::Select(select) => reads(&select.operand, of_details, found),
        Expr::List(list) => list
            .elements
            .iter()
            .for_each(|e| reads(e, of_details, found)),
        Expr::Map(map) => map
            .entries
            .iter()
            .for_each(|e| of_entry(&e.expr, of_details, found)),
        Expr::Struct(of) => of
            .entries
            .iter()
            .for_each(|e| of_entry(&e.expr, of_details, found)),
        Expr::Call(call) => {
            let target = call.target.iter().map(AsRef::as_ref);
            target
                .chain(&call.args)
                .for_each(|e| reads(e, of_details, found));
        }
        Expr::Comprehension(over) => {
            reads(&over.iter_range, of_details, found);
            reads(&over.loop_step, of_details, found);
        }
    }
}

fn of_entry(entry: &EntryExpr, of_details: &[String], found: &mut Vec<Vec<String>>) {
    match entry {
        EntryExpr::StructField(field) => reads(&field.value, of_details, found),
        EntryExpr::MapEntry(entry) => {
            reads(&entry.key, of_details, found);
            reads(&entry.value, of_details, found);
        }
    }
}

fn way_to(node: &IdedExpr) -> Option<Vec<String>> {
    match &node.expr {
        Expr::Ident(name) => Some(vec![name.clone()]),
        Expr::Select(select) => {
            let mut way = way_to(&select.operand)?;
            way.push(select.field.clone());
            Some(way)
        }
        Expr::Call(call) if call.func_name == operators::INDEX => match call.args.as_slice() {
            [object, index] => match &index.expr {
                Expr::Literal(LiteralValue::String(name)) => {
                    let mut way = way_to(object)?;
                    way.push(name.inner().to_owned());
                    Some(way)
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
