//! Expressions over an order, in the Common Expression Language.
//!
//! Contents: parsing, the bounds that make an expression safe to run on every order, and the translation between JSON
//! and the language's values. An expression sees four variables: `order` (id, workflow, priority, submitted_at),
//! `details` (the order's details as submitted), `steps` (earlier outputs by step id; null for a skipped step) and, in
//! compensations, `output`.
//!
//! Bounds: source of [`MAX_SOURCE_BYTES`], nesting of [`MAX_NESTING`], macros nested at most
//! [`MAX_COMPREHENSION_DEPTH`] deep, and work of [`MAX_WORK`] for all expressions of a scope. The language has no
//! loops, no recursion, no IO and no clock: an expression has the same value for an attempt and its repetition.

pub(crate) mod coalesce;
mod cost_bound;
pub(crate) mod decimals;
mod failed;
mod functions;
mod in_order;
mod meter;
pub(crate) mod reads;
mod sure_reads;
mod syntax;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::common::types::CelString;
use cel::common::value::CowVal;
use cel::objects::{Key, Map};
use cel::{Context, Env, ExecutionError, Program, Value as CelValue};
use serde_json::{Value, json};

pub use cost_bound::MAX_WORK;
pub use sure_reads::ReadOf;

use crate::moment;
use crate::problem::nearest;

/// Longest text of one expression, in bytes, inclusive.
pub const MAX_SOURCE_BYTES: usize = 1_024;
/// Most brackets, of any kind, one inside another in one expression, inclusive. Those in texts are counted
/// too.
pub const MAX_NESTING: usize = 12;
/// Most operator characters in one expression, inclusive, counted in its whole source: each of
/// `+-*/%<>=!&|?.[`, so `&&` is two. Each may be a level of the syntax tree, over which parsing and
/// evaluation recurse. The library's own recursion limit does not count them all, so this bound keeps a
/// hostile expression from overflowing the stack.
pub const MAX_OPERATORS: usize = 96;
/// Most macros (`map`, `filter`, `all`, …) one inside another in one expression, inclusive.
pub const MAX_COMPREHENSION_DEPTH: usize = 2;

pub(crate) const VARIABLES: [&str; 4] = ["order", "details", "steps", "output"];

/// The error of an expression, or of a whole template, that has no value for an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expression `{source_text}`: {reason}")]
pub struct EvalError {
    /// The expression as written; `input` if the value of a whole template is too large or nested too deep.
    pub source_text: String,
    /// Why there is no value, for a person.
    pub reason: String,
}

/// A compiled expression of the Common Expression Language, within the bounds of this module.
#[derive(Debug)]
pub struct Expression {
    source: String,
    program: Program,
    /// The program to evaluate: with the arithmetic of decimals, the work of macros counted, and their ranges sorted.
    metered: IdedExpr,
    read: Box<Read>,
}

/// What an expression reads.
#[derive(Debug)]
struct Read {
    /// Ids of steps.
    steps: Vec<String>,
    /// Whether it reads `output`.
    output: bool,
    /// The variables that are values of the details: `x` is `details.x`.
    of_details: Vec<String>,
}

/// The error of an expression or a template that cannot be compiled: the reason, for its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CompileError(pub(crate) String);

impl Expression {
    /// Parses an expression and checks the bounds of this module.
    ///
    /// # Errors
    /// [`CompileError`]: a syntax error, an unknown variable, `steps` without the id of one step written behind
    /// it, or a bound that is exceeded.
    ///
    /// # Example
    /// ```
    /// let e = triad_workflow::Expression::compile("details.freight > 100.0").unwrap();
    /// assert!(triad_workflow::Expression::compile("detials.freight").is_err());
    /// # let _ = e;
    /// ```
    pub fn compile(source: &str) -> Result<Self, CompileError> {
        Self::compiled(source).map_err(CompileError)
    }

    /// As [`compile`](Self::compile), with only the reason as error.
    pub(crate) fn compiled(source: &str) -> Result<Self, String> {
        Self::compiled_over(source, &VARIABLES)
    }

    /// As [`compiled`](Self::compiled), for an expression that sees these variables.
    pub(crate) fn compiled_over(source: &str, variables: &[&str]) -> Result<Self, String> {
        Self::compiled_with(source, variables, &[])
    }

    /// As [`compiled_over`](Self::compiled_over). Those of the variables that `of_details` has too are values of the
    /// details.
    pub(crate) fn compiled_with(
        source: &str,
        variables: &[&str],
        of_details: &[String],
    ) -> Result<Self, String> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(format!("longer than {MAX_SOURCE_BYTES} bytes"));
        }
        bound_nesting(source)?;
        let program = with_stack(|| Program::compile(source)).map_err(|e| {
            format!(
                "`{source}` is not an expression: {}",
                syntax::error_text(source, &e)
            )
        })?;
        let mut walk = Walk::default();
        walk.visit(program.expression(), 0);
        if walk.depth > MAX_COMPREHENSION_DEPTH {
            return Err(format!(
                "`{source}` nests macros {} deep; {MAX_COMPREHENSION_DEPTH} are allowed",
                walk.depth
            ));
        }
        if let Some(unknown) = walk
            .variables
            .iter()
            .find(|v| !variables.contains(&v.as_str()))
        {
            if let Some(step) = syntax::step_with_hyphen(source, unknown) {
                return Err(format!(
                    "`{source}` takes the `-` of `steps.{step}` for a minus: write steps[\"{step}\"]"
                ));
            }
            return Err(format!(
                "`{source}` uses the unknown variable `{unknown}`; there are {}{}",
                variables.join(", "),
                nearest(unknown, variables.iter().copied())
                    .map_or_else(String::new, |near| format!(", did you mean `{near}`?"))
            ));
        }
        if walk.dynamic_step {
            return Err(format!(
                "`{source}` does not name the step whose output it reads: write steps.name or steps[\"name\"]"
            ));
        }
        Ok(Self {
            source: source.to_owned(),
            metered: meter::metered(program.expression()),
            program,
            read: Box::new(Read {
                output: walk.variables.iter().any(|name| name == "output"),
                steps: walk.steps,
                of_details: {
                    let is_of_details = |name: &String| of_details.contains(name);
                    let read = walk.variables.into_iter();
                    read.filter(is_of_details).collect()
                },
            }),
        })
    }

    /// Ids of the steps whose outputs the expression reads, each once; empty if it reads none. Whether the
    /// workflow has these steps is not checked here.
    #[must_use]
    pub fn steps(&self) -> &[String] {
        &self.read.steps
    }

    /// Whether the expression reads `output`, the output of the step that is compensated.
    #[must_use]
    pub fn reads_output(&self) -> bool {
        self.read.output
    }

    /// The values that the expression reads of `order`, `details`, `steps`, `output` and `input`, each as the names
    /// that lead to it, such as `["steps", "charge", "reference"]`. If a name is computed, the list ends
    /// before it. A variable of the workflow is in the list as the value of the details that it stands for.
    #[must_use]
    pub fn reads(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        reads::reads(self.tree(), &self.read.of_details, &mut found);
        found
    }

    /// The variables that it reads and that are values of the details.
    #[cfg(feature = "load")]
    pub(crate) fn of_details(&self) -> &[String] {
        &self.read.of_details
    }

    /// The expression as written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn tree(&self) -> &IdedExpr {
        self.program.expression()
    }

    /// Computes the expression's value in a scope.
    ///
    /// # Errors
    /// [`EvalError`] if the expression has no value, for example because a field is missing or types do not
    /// fit; if its value has no form in JSON; or if the work of this expression and of all that were computed
    /// in the same scope before would be more than [`MAX_WORK`].
    pub fn evaluate(&self, scope: &Scope) -> Result<Value, EvalError> {
        let compute = || {
            let value = CelValue::resolve(&self.metered, &scope.context)?;
            cost_bound::count(&value)?;
            Ok(value)
        };
        let (value, left) = cost_bound::with_left(scope.left.get(), || with_stack(compute));
        scope.left.set(left);
        let value: CelValue =
            value.map_err(|e: ExecutionError| self.error(failed::error_text(&self.source, &e)))?;
        json(&value).map_err(|reason| self.error(reason.to_owned()))
    }

    /// Why a constant part of an expression has no value; `None` if it has one.
    #[cfg(feature = "load")]
    pub(crate) fn fault_of_constant(part: &IdedExpr, source: &str) -> Option<String> {
        let scope = Scope::new(&Value::Null, &Value::Null, [], None);
        let value = resolve(part, scope.context(), |value| value.map(|_| ()));
        value.err().map(|e| failed::error_text(source, &e))
    }

    /// Computes the expression as a condition in a scope, and returns its value.
    ///
    /// # Errors
    /// [`EvalError`] in the cases of [`Expression::evaluate`], and if the value is neither true nor false.
    pub fn holds(&self, scope: &Scope) -> Result<bool, EvalError> {
        match self.evaluate(scope)? {
            Value::Bool(b) => Ok(b),
            other => {
                let kind = failed::kind(&cel_value(&other));
                Err(self.error(format!("it is {kind}, not true or false")))
            }
        }
    }

    fn error(&self, reason: String) -> EvalError {
        EvalError {
            source_text: self.source.clone(),
            reason,
        }
    }
}

/// Computes a part of an expression alone, with all the work that a scope has.
#[cfg(feature = "load")]
pub(crate) fn resolve<T>(
    part: &IdedExpr,
    context: &Context<'_, '_>,
    found: impl FnOnce(Result<CowVal<'_, '_>, ExecutionError>) -> T,
) -> T {
    let compute = || {
        let tree = meter::metered(part);
        found(CelValue::resolve_val(&tree, context))
    };
    cost_bound::with_left(MAX_WORK, || with_stack(compute)).0
}

/// Runs the library's recursive code with enough stack for the deepest expression within the bounds.
///
/// Measured: a level takes up to 32 KiB of stack unoptimised and 4 KiB optimised. In a macro each level is counted by
/// one more. Optimised code fits a thread's usual 2 MiB, so no stack is allocated for it.
pub(crate) fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    const ROOM: usize = if cfg!(debug_assertions) {
        12 << 20
    } else {
        1 << 20
    };
    stacker::maybe_grow(ROOM, 2 * ROOM, work)
}

fn bound_nesting(source: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut operators = 0;
    for b in source.bytes() {
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        operators += usize::from(b"+-*/%<>=!&|?.[".contains(&b));
        deepest = deepest.max(depth);
    }
    if deepest > MAX_NESTING {
        return Err(format!("nests more than {MAX_NESTING} brackets"));
    }
    if operators > MAX_OPERATORS {
        return Err(format!("has more than {MAX_OPERATORS} operators"));
    }
    Ok(())
}

#[derive(Default)]
struct Walk {
    variables: Vec<String>,
    steps: Vec<String>,
    dynamic_step: bool,
    depth: usize,
    local: Vec<String>,
}

impl Walk {
    fn visit(&mut self, node: &IdedExpr, depth: usize) {
        self.depth = self.depth.max(depth);
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                if name == "steps" {
                    self.dynamic_step = true;
                }
                if !self.local.contains(name) && !self.variables.contains(name) {
                    self.variables.push(name.clone());
                }
            }
            Expr::Select(select) => {
                if is_steps(&select.operand) {
                    self.read_step(&select.field);
                } else {
                    self.visit(&select.operand, depth);
                }
            }
            Expr::Call(call) => {
                if let [object, index] = call.args.as_slice()
                    && is_steps(object)
                    && let Expr::Literal(LiteralValue::String(name)) = &index.expr
                {
                    self.read_step(name.inner());
                    return;
                }
                for e in call.target.iter().map(AsRef::as_ref).chain(&call.args) {
                    self.visit(e, depth);
                }
            }
            Expr::List(list) => list.elements.iter().for_each(|e| self.visit(e, depth)),
            Expr::Map(map) => map
                .entries
                .iter()
                .for_each(|e| self.visit_entry(&e.expr, depth)),
            Expr::Struct(s) => s
                .entries
                .iter()
                .for_each(|e| self.visit_entry(&e.expr, depth)),
            Expr::Comprehension(c) => {
                self.visit(&c.iter_range, depth);
                let known = self.local.len();
                self.local.push(c.iter_var.clone());
                self.local.extend(c.iter_var2.clone());
                self.local.push(c.accu_var.clone());
                for e in [&c.accu_init, &c.loop_cond, &c.loop_step, &c.result] {
                    self.visit(e, depth + 1);
                }
                self.local.truncate(known);
            }
        }
    }

    fn visit_entry(&mut self, entry: &EntryExpr, depth: usize) {
        match entry {
            EntryExpr::StructField(f) => self.visit(&f.value, depth),
            EntryExpr::MapEntry(m) => {
                self.visit(&m.key, depth);
                self.visit(&m.value, depth);
            }
        }
    }

    fn read_step(&mut self, name: &str) {
        if !self.steps.iter().any(|s| s == name) {
            self.steps.push(name.to_owned());
        }
    }
}

fn is_steps(node: &IdedExpr) -> bool {
    matches!(&node.expr, Expr::Ident(name) if name == "steps")
}

/// The language's own functions, declared once: declaring them for each scope cost more than the rest of an
/// evaluation.
static LANGUAGE: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    in_order::declare(&mut env);
    decimals::declare(&mut env);
    functions::declare(&mut env);
    coalesce::declare(&mut env);
    Arc::new(env)
});

/// The variables of expressions, for one order at one moment, and the work left for the expressions of this scope:
/// [`MAX_WORK`] at first.
pub struct Scope {
    context: Context<'static, 'static>,
    /// Work left in this scope.
    left: Cell<u64>,
}

impl Scope {
    /// A scope with the four variables. `order` is made by [`Scope::order`]; `details` are the order's
    /// details as submitted; `steps` has the outputs of steps by step id, null for a skipped step. `output`
    /// is the output of the step that is compensated; expressions see `None` as null.
    #[must_use]
    pub fn new<'a>(
        order: &Value,
        details: &Value,
        steps: impl IntoIterator<Item = (&'a str, &'a Value)>,
        output: Option<&Value>,
    ) -> Self {
        let mut context = Context::with_env(LANGUAGE.clone());
        let outputs: HashMap<Key, CelValue> = steps
            .into_iter()
            .map(|(id, v)| (key(id), cel_value(v)))
            .collect();
        context.add_variable_from_value("order", cel_value(order));
        context.add_variable_from_value("details", cel_value(details));
        context.add_variable_from_value(
            "steps",
            CelValue::Map(Map {
                map: Arc::new(outputs),
            }),
        );
        context.add_variable_from_value("output", output.map_or(CelValue::Null, cel_value));
        meter::declare(&mut context);
        Self {
            context,
            left: Cell::new(MAX_WORK),
        }
    }

    /// The same scope with one more variable, such as `event`: what an event from outside brings.
    #[must_use]
    pub fn with(mut self, name: &str, value: &Value) -> Self {
        self.context.add_variable_from_value(name, cel_value(value));
        self
    }

    /// A scope with these variables.
    pub(crate) fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Self {
        let mut context = Context::with_env(LANGUAGE.clone());
        for (name, value) in variables {
            context.add_variable_from_value(name, cel_value(value));
        }
        meter::declare(&mut context);
        Self {
            context,
            left: Cell::new(MAX_WORK),
        }
    }

    /// The value that expressions see as `order`: an object with `id`, `workflow` (the name), `priority`, which is
    /// `high` if `is_high`, else `normal`, and `submitted_at`, which is given in milliseconds since 1970 and is an RFC
    /// 3339 text with three decimals, in UTC. A moment behind the year 9999 becomes its end.
    #[must_use]
    pub fn order(id: &str, workflow: &str, is_high: bool, submitted_at: u64) -> Value {
        let priority = if is_high { "high" } else { "normal" };
        let at = moment::text(submitted_at);
        json!({"id": id, "workflow": workflow, "priority": priority, "submitted_at": at})
    }

    /// A value as expressions see it.
    pub(crate) fn value(value: &Value) -> CelValue {
        cel_value(value)
    }

    pub(crate) fn context(&self) -> &Context<'static, 'static> {
        &self.context
    }
}

fn key(text: &str) -> Key {
    Key::String(Arc::new(text.to_owned()))
}

/// JSON as the language's value. Whole numbers become its `int`, not `uint`, so that
/// `quantity * 2` means what its author expects.
fn cel_value(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(b) => CelValue::Bool(*b),
        Value::Number(n) => n
            .as_i64()
            .map(CelValue::Int)
            .or_else(|| n.as_u64().map(CelValue::UInt))
            .or_else(|| n.as_f64().map(CelValue::Float))
            .unwrap_or(CelValue::Null),
        Value::String(s) => CelValue::String(Arc::new(s.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(cel_value).collect())),
        Value::Object(map) => CelValue::Map(Map {
            map: Arc::new(map.iter().map(|(k, v)| (key(k), cel_value(v))).collect()),
        }),
    }
}

/// The language's value as JSON.
///
/// # Errors
/// A reason for people: the value has no form in JSON, such as an infinite number, or two keys of a mapping, such as
/// `1` and `'1'`, have the same form, so that a value would be lost.
fn json(value: &CelValue) -> Result<Value, &'static str> {
    if !has_distinct_keys(value) {
        return Err("two keys of a mapping are the same in JSON");
    }
    // JSON would make it `null`.
    if !is_finite(value) {
        return Err(
            "a number in its value is infinite or not a number: a division by zero, or too large",
        );
    }
    form(value).ok_or("its value has no form in JSON")
}

/// As the library writes JSON, but for times and durations: those are as `string()` has them.
fn form(value: &CelValue) -> Option<Value> {
    match value {
        CelValue::List(items) => items.iter().map(form).collect(),
        CelValue::Map(map) => {
            let fields = map.map.iter();
            let fields = fields.map(|(key, value)| Some((key.to_string(), form(value)?)));
            fields.collect::<Option<_>>().map(Value::Object)
        }
        CelValue::Timestamp(_) | CelValue::Duration(_) => {
            let args = vec![CowVal::Owned(value.clone().try_into().ok()?)];
            let string = LANGUAGE.find_overload("string", &args)?;
            let text = string(args).ok()?;
            text.downcast_ref::<CelString>()
                .map(|text| Value::from(text.inner()))
        }
        other => other.json().ok(),
    }
}

fn is_finite(value: &CelValue) -> bool {
    match value {
        CelValue::Float(number) => number.is_finite(),
        CelValue::List(items) => items.iter().all(is_finite),
        CelValue::Map(map) => map.map.values().all(is_finite),
        _ => true,
    }
}

fn has_distinct_keys(value: &CelValue) -> bool {
    match value {
        CelValue::List(items) => items.iter().all(has_distinct_keys),
        CelValue::Map(map) => {
            let is_text = |key: &Key| matches!(key, Key::String(_));
            let texts = || map.map.keys().map(Key::to_string).collect::<HashSet<_>>();
            let is_distinct = map.map.keys().all(is_text) || texts().len() == map.map.len();
            is_distinct && map.map.values().all(has_distinct_keys)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope::new(
            &json!({"id": "1001"}),
            &json!({"freight": 32.5, "items": [{"sku": "a", "quantity": 2}], "ship": {"city": "Reims"}}),
            [
                ("reserve-stock", &json!({"reference": "r-1"})),
                ("gift", &Value::Null),
            ],
            None,
        )
    }

    #[test]
    fn what_is_unsafe_or_unclear_is_refused() {
        for bad in [
            "detials.x",
            "1 +",
            "steps[details.x]",
            "size(steps) > 0",
            "details.a.map(x, details.a.map(y, details.a.map(z, 1)))",
        ] {
            assert!(Expression::compile(bad).is_err(), "{bad}");
        }
        assert!(Expression::compile(&format!("'{}'", "x".repeat(MAX_SOURCE_BYTES))).is_err());
    }

    #[test]
    fn a_number_that_json_has_not_is_refused_and_never_null() {
        let infinite = "infinite or not a number";
        for (source, reason) in [
            ("details.freight / 0.0", "a division by zero"),
            ("0.0 / 0.0", "a division by zero"),
            ("7 % 0.0", "a division by zero"),
            ("1e308 * 10.0", infinite),
            ("{'a': [1.0, 1e308 + 1e308]}", infinite),
            ("[1e308 * 10.0 - 1e308 * 10.0]", infinite),
            ("{'a': [1.0, details.freight / 0.0]}", "a division by zero"),
        ] {
            let found = Expression::compile(source).unwrap().evaluate(&scope());
            let error = found.expect_err(source).to_string();
            assert!(error.contains(reason), "{error}");
            assert!(error.contains(source), "its place is said: {error}");
        }
    }

    #[test]
    fn the_steps_that_are_read_are_known() {
        let e = Expression::compile("steps.a.x == 1 && steps[\"b-c\"].y == 2 && has(steps.d.z)")
            .unwrap();
        assert_eq!(e.steps(), ["a", "b-c", "d"]);
        let ways = e.reads();
        let ways: Vec<String> = ways.iter().map(|way| way.join("/")).collect();
        assert_eq!(ways, ["steps/a/x", "steps/b-c/y", "steps/d/z"]);
        let e = Expression::compile("{details.key: [steps.a.x]}").unwrap();
        assert_eq!(
            e.reads(),
            [["details", "key"].as_slice(), &["steps", "a", "x"]]
        );
    }

    /// The worst expression within the bounds still runs in a test thread's 2 MiB, unoptimised.
    #[test]
    fn hostile_sources_are_errors_and_not_stack_overflows() {
        let n = MAX_SOURCE_BYTES;
        let o = MAX_OPERATORS;
        let hostile = [
            format!("{}1{}", "(".repeat(MAX_NESTING), ")".repeat(MAX_NESTING)),
            format!("{}1", "1+".repeat(o)),
            format!("{}true", "!".repeat(o)),
            format!("{}1", "true?1:".repeat(o)),
            format!("details{}", ".a".repeat(o)),
            format!("details{}", "[0]".repeat(o)),
            format!("{}1{}", "(".repeat(n / 3), ")".repeat(n / 3)),
            format!("{}1{}", "[".repeat(n / 3), "]".repeat(n / 3)),
            format!("{}1{}", "{1:".repeat(n / 5), "}".repeat(n / 5)),
            format!("{}true", "!".repeat(n - 10)),
            format!("{}1", "- ".repeat(n / 2 - 10)),
            format!("{}1", "true?1:".repeat(n / 7 - 2)),
            format!("{}true", "true||".repeat(n / 6 - 2)),
            format!("{}1", "1+".repeat(n / 2 - 2)),
            format!("details{}", ".a".repeat(n / 2 - 10)),
            format!("details{}", "[0]".repeat(n / 3 - 10)),
        ];
        let in_macros = hostile
            .clone()
            .map(|inner| format!("details.items.map(i, {inner})"));
        for source in hostile.into_iter().chain(in_macros) {
            if let Ok(e) = Expression::compile(&source) {
                let _ = e.evaluate(&scope());
            }
        }
    }
}
