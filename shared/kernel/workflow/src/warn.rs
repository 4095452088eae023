//! Warnings: definitions that run, but fail in some cases.
//!
//! A step without a reply or with a lost answer is compensated without an output. A compensation whose input reads
//! inside `output` then has no value, so the order ends in CompensationFailed and needs an operator.
//!
//! The input cannot simply be computed without an output, because the order's details are not known when a definition
//! is loaded. So each expression is computed as far as it depends only on `output`, and all other values are unknown:
//! a warning means that there are details for which the expression fails because `output` is null.

use std::collections::BTreeSet;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, operators,
};
use cel::{Context, Value as CelValue};
use serde_json::{Value, json};

use crate::expr::{Expression, Scope, with_stack};
use crate::parts::Place;
use crate::problem::{Path, Problem};
use crate::workflow::{Repeat, Step, Workflow};

const OUTPUT: &str = "output";
/// Most unknown parts of one call that are replaced by samples.
const MAX_SAMPLED: usize = 2;

impl Workflow {
    /// Warnings for the author of a definition that has passed every check: one for each expression in the
    /// input of a compensation that has no value, for some orders, when the output of its step is null. That
    /// output is null if the effect is in doubt, or if the answer to a probe has no output. Empty if there is
    /// no such expression.
    ///
    /// # Example
    /// ```
    /// use triad_workflow::{Limits, Workflow};
    /// let text = r#"{"workflow": "w", "steps": [{"id": "a", "agent": "x", "action": "go",
    ///     "compensation": {"action": "compensate", "input": "${output.reference}"}}]}"#;
    /// let definition = serde_json::from_str(text).unwrap();
    /// let workflow = Workflow::compile(definition, &Limits::published()).unwrap();
    /// assert!(workflow.warnings()[0].reason.contains("output is null"));
    /// ```
    #[must_use]
    pub fn warnings(&self) -> Vec<Problem> {
        let unknown = Scope::new(&Value::Null, &Value::Null, [], None);
        let reader = Reader {
            context: unknown.context(),
        };
        let own = self.steps.iter().flat_map(|step| {
            let written = self.definition.steps.iter();
            let at = written.map(|s| &s.id).position(|id| id == step.id.as_str());
            reader.warnings_of(step, at.unwrap_or(0))
        });
        let of_parts = self.parts.iter().flat_map(|part| {
            let place = Place::of(&self.definition, &part.name);
            let moved = move |warning| {
                let moved = place?.moved(&self.definition, warning)?;
                Some(moved.named(&self.definition))
            };
            part.warnings().into_iter().filter_map(moved)
        });
        own.chain(of_parts).collect()
    }
}

/// Result of a part of an expression when `output` is null.
enum NullResult {
    /// The part has this value for every order.
    Known(CelValue),
    /// The value depends on the order.
    Open,
    /// There are orders for which the part has no value, because `output` is null.
    Fails,
}

struct Reader<'a> {
    context: &'a Context<'static, 'static>,
}

impl Reader<'_> {
    fn warnings_of(&self, step: &Step, written: usize) -> Vec<Problem> {
        let when = match step.call().map(|call| &call.repeat) {
            Some(Repeat::Safe) => "it is not known whether the step was applied",
            Some(Repeat::Probe(_)) => "the answer to the probe has no output",
            // Compensated only when its output is known.
            Some(Repeat::Never) | None => return Vec::new(),
        };
        let inputs = step.compensation.iter().flat_map(|c| c.input.expressions());
        inputs
            .filter(|e| self.fails(e))
            .map(|e| {
                let at = Path::step(written).keys("compensation.input");
                let reason = format!(
                    "`{0}` has no value where {when}, for output is null then: write `output == null ? null : {0}`, or give the service ${{output}} whole",
                    e.source()
                );
                let mut problem = Problem::new(at, reason).on_text([e.source().to_owned()]);
                problem.step = Some(step.id.to_string());
                problem
            })
            .collect()
    }

    fn fails(&self, expression: &Expression) -> bool {
        with_stack(|| matches!(self.part(expression.tree()), NullResult::Fails))
    }

    fn part(&self, node: &IdedExpr) -> NullResult {
        let mut names = BTreeSet::new();
        free_names(node, &mut Vec::new(), &mut names);
        let reads_output = names.remove(OUTPUT);
        if names.is_empty() {
            return match CelValue::resolve(node, self.context) {
                Ok(value) => NullResult::Known(value),
                Err(_) if reads_output => NullResult::Fails,
                Err(_) => NullResult::Open,
            };
        }
        if !reads_output {
            return NullResult::Open;
        }
        match &node.expr {
            Expr::Call(call) => self.call(call),
            Expr::Select(select) => self.all_of([&*select.operand]),
            Expr::List(list) => self.all_of(&list.elements),
            Expr::Map(map) => self.all_of(map.entries.iter().flat_map(entry)),
            Expr::Struct(of) => self.all_of(of.entries.iter().flat_map(entry)),
            Expr::Comprehension(over) => self.comprehension(over),
            Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => NullResult::Open,
        }
    }

    fn all_of<'n>(&self, nodes: impl IntoIterator<Item = &'n IdedExpr>) -> NullResult {
        let mut nodes = nodes.into_iter();
        if nodes.any(|n| matches!(self.part(n), NullResult::Fails)) {
            NullResult::Fails
        } else {
            NullResult::Open
        }
    }

    fn call(&self, call: &CallExpr) -> NullResult {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => match self.part(condition) {
                NullResult::Known(CelValue::Bool(true)) => self.part(yes),
                NullResult::Known(CelValue::Bool(false)) => self.part(no),
                NullResult::Known(_) | NullResult::Fails => NullResult::Fails,
                NullResult::Open => self.all_of([yes, no]),
            },
            (operators::LOGICAL_AND, [left, right]) => self.logic(left, right, false),
            (operators::LOGICAL_OR, [left, right]) => self.logic(left, right, true),
            _ => self.strict(call),
        }
    }

    /// `&&` is false and `||` is true as soon as one side is, whatever the other side.
    fn logic(&self, left: &IdedExpr, right: &IdedExpr, decides: bool) -> NullResult {
        let decided =
            |p: &NullResult| matches!(p, NullResult::Known(CelValue::Bool(b)) if *b == decides);
        let left = self.part(left);
        if decided(&left) {
            return left;
        }
        let right = self.part(right);
        if decided(&right) {
            return right;
        }
        match (left, right) {
            (NullResult::Fails, _) | (_, NullResult::Fails) => NullResult::Fails,
            _ => NullResult::Open,
        }
    }

    /// A call that needs a value of each of its parts. If some are known, samples replace the others: it fails if the
    /// known ones fit no combination of types.
    fn strict(&self, call: &CallExpr) -> NullResult {
        let mut tried = call.clone();
        let mut open: Vec<String> = Vec::new();
        let parts = tried.target.as_deref_mut().into_iter();
        for node in parts.chain(&mut tried.args) {
            match self.part(node) {
                NullResult::Fails => return NullResult::Fails,
                NullResult::Known(_) => {}
                NullResult::Open => {
                    let name = format!("@open{}", open.len());
                    node.expr = Expr::Ident(name.clone());
                    open.push(name);
                }
            }
        }
        let all = call.args.len() + usize::from(call.target.is_some());
        if open.len() == all || open.len() > MAX_SAMPLED {
            return NullResult::Open;
        }
        let node = IdedExpr {
            id: 0,
            expr: Expr::Call(tried),
        };
        let samples = samples();
        let ways = samples.len().pow(u32::try_from(open.len()).unwrap_or(0));
        let fits = (0..ways).any(|way| {
            let mut context = self.context.new_inner_scope();
            let mut rest = way;
            for name in &open {
                let sample = &samples[rest % samples.len()];
                context.add_variable_from_value(name, Scope::value(sample));
                rest /= samples.len();
            }
            CelValue::resolve(&node, &context).is_ok()
        });
        if fits {
            NullResult::Open
        } else {
            NullResult::Fails
        }
    }

    /// The result of a macro: its body is computed for each element, and the list may have elements.
    fn comprehension(&self, over: &ComprehensionExpr) -> NullResult {
        match self.part(&over.iter_range) {
            NullResult::Fails => return NullResult::Fails,
            NullResult::Known(CelValue::List(list)) if list.is_empty() => return NullResult::Open,
            NullResult::Known(CelValue::Map(map)) if map.map.is_empty() => return NullResult::Open,
            NullResult::Known(_) | NullResult::Open => {}
        }
        let own = [Some(&over.iter_var), over.iter_var2.as_ref()];
        if own.into_iter().flatten().any(|name| name == OUTPUT) {
            return NullResult::Open;
        }
        self.all_of([
            &over.accu_init,
            &over.loop_cond,
            &over.loop_step,
            &over.result,
        ])
    }
}

/// A value of each type, with non-empty lists and mappings.
fn samples() -> [Value; 9] {
    [
        json!("s"),
        json!(1),
        json!(1.5),
        json!(true),
        Value::Null,
        json!([]),
        json!({}),
        json!([null, 1, "s"]),
        json!({"s": 1}),
    ]
}

fn entry(entry: &IdedEntryExpr) -> impl Iterator<Item = &IdedExpr> {
    let (key, value) = match &entry.expr {
        EntryExpr::StructField(field) => (None, &field.value),
        EntryExpr::MapEntry(entry) => (Some(&entry.key), &entry.value),
    };
    key.into_iter().chain([value])
}

/// The variables that a part reads, without those of macros around it.
pub(crate) fn free_names<'n>(
    node: &'n IdedExpr,
    own: &mut Vec<&'n str>,
    found: &mut BTreeSet<&'n str>,
) {
    match &node.expr {
        Expr::Unspecified | Expr::Literal(_) => {}
        Expr::Ident(name) => {
            if !own.contains(&name.as_str()) {
                found.insert(name);
            }
        }
        Expr::Select(select) => free_names(&select.operand, own, found),
        Expr::Call(call) => {
            for part in call.target.iter().map(AsRef::as_ref).chain(&call.args) {
                free_names(part, own, found);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(|e| free_names(e, own, found)),
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(entry)
            .for_each(|e| free_names(e, own, found)),
        Expr::Struct(of) => of
            .entries
            .iter()
            .flat_map(entry)
            .for_each(|e| free_names(e, own, found)),
        Expr::Comprehension(over) => {
            free_names(&over.iter_range, own, found);
            let known = own.len();
            own.push(&over.iter_var);
            own.extend(over.iter_var2.as_deref());
            own.push(&over.accu_var);
            for part in [
                &over.accu_init,
                &over.loop_cond,
                &over.loop_step,
                &over.result,
            ] {
                free_names(part, own, found);
            }
            own.truncate(known);
        }
    }
}
