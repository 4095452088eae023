//! Source texts of parts of expressions, for messages.

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};

/// Longest text of a part that is shown whole, in characters.
const MAX_CHARS: usize = 60;

/// The output of a step, as an expression.
pub(super) fn step(id: &str) -> String {
    match id.contains('-') {
        true => format!("steps[\"{id}\"]"),
        false => format!("steps.{id}"),
    }
}

/// A part's name in a sentence.
pub(super) fn value(node: &IdedExpr) -> String {
    match source(node) {
        Some(text) if text.chars().count() <= MAX_CHARS => format!("`{text}`"),
        _ => "what stands there".to_owned(),
    }
}

/// The probable source text of a part; `None` if it cannot be reconstructed.
pub(super) fn source(node: &IdedExpr) -> Option<String> {
    Some(match &node.expr {
        Expr::Ident(name) if !name.starts_with('@') => name.clone(),
        Expr::Literal(literal) => match literal {
            LiteralValue::Boolean(b) => b.inner().to_string(),
            LiteralValue::Int(n) => n.inner().to_string(),
            LiteralValue::UInt(n) => format!("{}u", n.inner()),
            LiteralValue::Double(n) => format!("{:?}", n.inner()),
            LiteralValue::String(text) => format!("{:?}", text.inner()),
            LiteralValue::Null => "null".to_owned(),
            LiteralValue::Bytes(_) => return None,
        },
        Expr::Select(select) if select.test => {
            format!("has({}.{})", source(&select.operand)?, select.field)
        }
        Expr::Select(select) => format!("{}.{}", source(&select.operand)?, select.field),
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::INDEX, [of, index]) => format!("{}[{}]", source(of)?, source(index)?),
            (operators::LOGICAL_NOT, [inner]) => format!("!{}", source(inner)?),
            (operators::NEGATE, [inner]) => format!("-{}", source(inner)?),
            (operator, [left, right]) if super::library::written(operator).is_some() => {
                let sign = super::library::written(operator)?;
                format!("{} {sign} {}", source(left)?, source(right)?)
            }
            (name, args) if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                let args: Vec<String> = args.iter().map(source).collect::<Option<_>>()?;
                let target = match &call.target {
                    Some(target) => format!("{}.", source(target)?),
                    None => String::new(),
                };
                format!("{target}{name}({})", args.join(", "))
            }
            _ => return None,
        },
        Expr::List(list) => {
            let elements: Vec<String> = list.elements.iter().map(source).collect::<Option<_>>()?;
            format!("[{}]", elements.join(", "))
        }
        _ => return None,
    })
}
