//! Type inference of expressions, and faults that make them fail for every order.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use super::guards::{Conditions, Facts, assume, step_read};
use super::kinds::{Fields, Kinds, Type};
use super::library::{FUNCTIONS, MACROS, result, written};
use super::source_text;
use crate::expr::Expression;
use crate::expr::coalesce::{COALESCE, step};
use crate::problem::nearest;

/// A fault of an expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: String,
    pub(super) hint: Option<String>,
    /// The piece of the source that has the fault.
    pub(super) text: Option<String>,
}

/// What an expression may read at its position.
pub(super) struct Around<'a> {
    pub(super) order: Type,
    pub(super) details: Type,
    /// `None` outside of compensations.
    pub(super) output: Option<Type>,
    pub(super) conditions: &'a Conditions<'a>,
    /// The outputs of steps of which more is known than that they are values.
    pub(super) outputs: &'a [(&'a str, Type)],
    /// Steps that have run for every order.
    pub(super) facts: Facts,
    /// Further variables, such as those of the expressions of a description.
    pub(super) variables: &'a [(&'a str, Type)],
}

pub(super) struct Infer<'a> {
    around: &'a Around<'a>,
    facts: Facts,
    locals: Vec<(String, Type)>,
    pub(super) faults: Vec<Fault>,
}

impl<'a> Infer<'a> {
    pub(super) fn new(around: &'a Around<'a>) -> Self {
        Self {
            around,
            facts: around.facts.clone(),
            locals: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn fault(&mut self, about: &IdedExpr, reason: String, hint: Option<String>) {
        self.faults.push(Fault {
            reason,
            hint,
            text: source_text::source(about),
        });
    }

    pub(super) fn of(&mut self, node: &IdedExpr) -> Type {
        if let Some(id) = step_read(node) {
            return self.step(id);
        }
        match &node.expr {
            Expr::Unspecified => Type::any(),
            Expr::Literal(literal) => Type::of(kind(literal)),
            Expr::Ident(name) => self.variable(node, name),
            Expr::Select(select) => self.field(node, select),
            Expr::Call(call) => {
                let before = self.faults.len();
                let found = self.call(node, call);
                if self.faults.len() == before && is_constant(node) {
                    self.computed(node);
                }
                found
            }
            Expr::List(list) => {
                let mut elements = Type::of(Kinds::NEVER);
                for element in &list.elements {
                    elements = elements.or(self.of(element));
                }
                elements.may_be_skipped = None;
                if list.elements.is_empty() {
                    elements = Type::any();
                }
                Type::list(elements)
            }
            Expr::Map(map) => self.mapping(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Struct(of) => {
                let reason = format!("there is no type `{}`", of.type_name);
                let hint = "write a mapping with quoted keys: {\"a\": 1}".to_owned();
                self.fault(node, reason, Some(hint));
                Type::any()
            }
            Expr::Comprehension(over) => self.comprehension(over),
        }
    }

    /// A constant part: it has its value now, or never.
    fn computed(&mut self, node: &IdedExpr) {
        let source = source_text::source(node).unwrap_or_default();
        if let Some(why) = Expression::fault_of_constant(node, &source) {
            let reason = format!(
                "{} has no value for any order: {why}",
                source_text::value(node)
            );
            let hint = "write what it is to be, or read it from `details`";
            self.fault(node, reason, Some(hint.to_owned()));
        }
    }

    fn mapping<'n>(&mut self, entries: impl Iterator<Item = &'n EntryExpr>) -> Type {
        let mut fields = Fields::default();
        for entry in entries {
            let EntryExpr::MapEntry(entry) = entry else {
                continue;
            };
            let keys = self.value(&entry.key);
            let allowed = Kinds::STRING | Kinds::BOOL | Kinds::INT | Kinds::UINT;
            if !keys.kinds.may(allowed) {
                let reason = format!(
                    "a key of a mapping is {}, and has to be a text",
                    keys.kinds.names()
                );
                self.fault(&entry.key, reason, None);
            }
            let mut value = self.of(&entry.value);
            value.may_be_skipped = None;
            match &entry.key.expr {
                Expr::Literal(LiteralValue::String(name)) if !entry.optional => {
                    fields.known.insert(name.inner().to_owned(), value);
                }
                _ => fields.is_open = true,
            }
        }
        Type::map(fields)
    }

    fn step(&self, id: &str) -> Type {
        let condition = self
            .around
            .conditions
            .iter()
            .find(|(known, _)| *known == id);
        let may_be_skipped = condition.is_some_and(|(_, condition)| condition.is_some());
        let output = self.around.outputs.iter().find(|(known, _)| *known == id);
        Type {
            may_be_skipped: (may_be_skipped && !self.facts.contains(id)).then(|| id.to_owned()),
            ..output.map_or_else(Type::any, |(_, output)| output.clone())
        }
    }

    fn variable(&mut self, node: &IdedExpr, name: &str) -> Type {
        if let Some((_, local)) = self.locals.iter().rev().find(|(known, _)| known == name) {
            return local.clone();
        }
        let mut further = self.around.variables.iter();
        if let Some((_, found)) = further.find(|(known, _)| *known == name) {
            return found.clone();
        }
        match name {
            "order" => self.around.order.clone(),
            "details" => self.around.details.clone(),
            "output" => match &self.around.output {
                Some(output) => output.clone(),
                None => {
                    let reason = "`output` is the step's own output, and only the step's \
                                  compensation has it: here it is always null";
                    let hint = "read an earlier step's output as `steps.NAME`";
                    self.fault(node, reason.to_owned(), Some(hint.to_owned()));
                    Type::any()
                }
            },
            _ => Type::any(),
        }
    }

    /// The type of a part in an operation that does not accept null.
    fn value(&mut self, node: &IdedExpr) -> Type {
        let found = self.of(node);
        if let Some(id) = &found.may_be_skipped {
            let output = source_text::source(node).unwrap_or_else(|| source_text::step(id));
            let condition = self.around.conditions.iter().find(|(known, _)| known == id);
            let when = condition.and_then(|(_, c)| *c).map_or("", |c| c.source());
            let reason = format!(
                "step {id} is skipped where `{when}` does not hold, its output is null then, and \
                 nothing can be done with null"
            );
            let hint = format!(
                "write `{output} == null ? null : …` around it, or give this step the same `when`"
            );
            self.fault(node, reason, Some(hint));
            return Type {
                may_be_skipped: None,
                ..found
            };
        }
        found
    }

    fn field(&mut self, node: &IdedExpr, select: &SelectExpr) -> Type {
        let of = self.value(&select.operand);
        let (name, field) = (source_text::value(&select.operand), &select.field);
        if !of.kinds.may(Kinds::MAP) {
            if of.kinds != Kinds::NEVER {
                let reason = format!("{name} is {}, and has no field `{field}`", of.kinds.names());
                self.fault(node, reason, None);
            }
            return Type::any();
        }
        let found = self.field_of(node, &of, &name, field);
        if select.test {
            return Type::of(Kinds::BOOL);
        }
        found
    }

    fn field_of(&mut self, node: &IdedExpr, of: &Type, name: &str, field: &str) -> Type {
        let Some(fields) = &of.fields else {
            return Type::any();
        };
        if let Some(known) = fields.known.get(field) {
            return known.clone();
        }
        if !fields.is_open && of.kinds.is_subset_of(Kinds::MAP | Kinds::NULL) {
            let names: Vec<&str> = fields.known.keys().map(String::as_str).collect();
            let there = match names.as_slice() {
                [] => "it has none".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            let hint = match nearest(field, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => there,
            };
            self.fault(node, format!("{name} has no field `{field}`"), Some(hint));
        }
        Type::any()
    }

    fn call(&mut self, node: &IdedExpr, call: &CallExpr) -> Type {
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                self.condition(condition, "the condition before `?`");
                let yes = self.knowing(assume(condition, true, self.around.conditions), yes);
                let no = self.knowing(assume(condition, false, self.around.conditions), no);
                yes.or(no)
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                // A fact of one side holds for the other in either order: the error of one side is dropped if the
                // other decides.
                let is_and = call.func_name == operators::LOGICAL_AND;
                let of_left = assume(left, is_and, self.around.conditions);
                let of_right = assume(right, is_and, self.around.conditions);
                let operator = format!("a side of `{}`", if is_and { "&&" } else { "||" });
                self.knowing_with(of_right, |me| me.condition(left, &operator));
                self.knowing_with(of_left, |me| me.condition(right, &operator));
                Type::of(Kinds::BOOL)
            }
            (operators::LOGICAL_NOT, [inner]) => {
                self.condition(inner, "what stands behind `!`");
                Type::of(Kinds::BOOL)
            }
            (operators::EQUALS | operators::NOT_EQUALS, [left, right]) => {
                self.equal(node, call, left, right)
            }
            (operators::INDEX, [of, index]) => self.element(node, of, index),
            (operator, [left, right]) if call.target.is_none() && written(operator).is_some() => {
                self.operator(node, call, left, right)
            }
            (operators::NEGATE, [inner]) => {
                let of = self.value(inner);
                let found = result(operators::NEGATE, false, &[of.kinds]);
                if found == Kinds::NEVER && of.kinds != Kinds::NEVER {
                    let reason = format!(
                        "{} is {}, and no number",
                        source_text::value(inner),
                        of.kinds.names()
                    );
                    self.fault(node, reason, None);
                }
                Type::of(found)
            }
            (COALESCE, [first, second]) if call.target.is_none() => {
                let mut first = self.leniently(first);
                first.kinds = Kinds(first.kinds.0 & !Kinds::NULL.0);
                first.or(self.leniently(second))
            }
            (name, _) if name.starts_with('@') => {
                for part in &call.args {
                    self.of(part);
                }
                Type::any()
            }
            _ => self.function(call),
        }
    }

    /// A part of `coalesce`: in a way, names of null are null, so that no guard is needed.
    fn leniently(&mut self, node: &IdedExpr) -> Type {
        let mut facts = Facts::new();
        let mut part = Some(node);
        while let Some(node) = part {
            facts.extend(step_read(node).map(str::to_owned));
            part = step(node);
        }
        let found = self.knowing(facts, node);
        Type {
            may_be_skipped: None,
            ..found
        }
    }

    fn knowing(&mut self, more: Facts, node: &IdedExpr) -> Type {
        let mut found = None;
        self.knowing_with(more, |me| found = Some(me.of(node)));
        found.unwrap_or_else(Type::any)
    }

    fn knowing_with(&mut self, more: Facts, work: impl FnOnce(&mut Self)) {
        let before = self.facts.clone();
        self.facts.extend(more);
        work(self);
        self.facts = before;
    }

    /// Checks a part that must be true or false.
    fn condition(&mut self, node: &IdedExpr, what: &str) {
        let of = self.value(node);
        if !of.kinds.may(Kinds::BOOL) && of.kinds != Kinds::NEVER {
            let reason = format!(
                "{what} has to be true or false, and {} is {}",
                source_text::value(node),
                of.kinds.names()
            );
            self.fault(node, reason, None);
        }
    }

    fn equal(
        &mut self,
        node: &IdedExpr,
        call: &CallExpr,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Type {
        let (of_left, of_right) = (self.of(left), self.of(right));
        let wide = |kinds: Kinds| match kinds.may(Kinds::NUMBER) {
            true => kinds | Kinds::NUMBER,
            false => kinds,
        };
        let (a, b) = (of_left.kinds, of_right.kinds);
        let is_guess = [a, b].contains(&Kinds::NEVER) || a.may(Kinds::NULL) || b.may(Kinds::NULL);
        if !wide(a).may(wide(b)) && !is_guess {
            let verdict = match call.func_name.as_str() {
                operators::EQUALS => "they are never equal",
                _ => "they are always unequal",
            };
            let reason = format!(
                "{} is {}, and {} is {}: {verdict}",
                source_text::value(left),
                a.names(),
                source_text::value(right),
                b.names()
            );
            self.fault(node, reason, convert(a, b));
        }
        Type::of(Kinds::BOOL)
    }

    fn operator(
        &mut self,
        node: &IdedExpr,
        call: &CallExpr,
        left: &IdedExpr,
        right: &IdedExpr,
    ) -> Type {
        let operator = call.func_name.as_str();
        let (of_left, of_right) = (self.value(left), self.value(right));
        let (a, b) = (of_left.kinds, of_right.kinds);
        if a == Kinds::NEVER || b == Kinds::NEVER {
            // The elements of a list that is still empty.
            return of_left.or(of_right);
        }
        let is_zero = |node: &IdedExpr| match &node.expr {
            Expr::Literal(LiteralValue::Int(n)) => *n.inner() == 0,
            Expr::Literal(LiteralValue::Double(n)) => *n.inner() == 0.0,
            _ => false,
        };
        if matches!(operator, operators::DIVIDE | operators::MODULO) && is_zero(right) {
            self.fault(node, "it divides by zero".to_owned(), None);
            return Type::of(Kinds::NUMBER);
        }
        let found = result(operator, false, &[a, b]);
        if found == Kinds::NEVER {
            let sign = written(operator).unwrap_or(operator);
            let reason = format!(
                "`{sign}` cannot be used here: {} is {}, and {} is {}",
                source_text::value(left),
                a.names(),
                source_text::value(right),
                b.names()
            );
            self.fault(node, reason, convert(a, b));
            return Type::any();
        }
        if operator == operators::ADD && found.may(Kinds::LIST) {
            return Type {
                kinds: found,
                ..of_left.or(of_right)
            };
        }
        Type::of(found)
    }

    fn element(&mut self, node: &IdedExpr, of: &IdedExpr, index: &IdedExpr) -> Type {
        let (list, at) = (self.value(of), self.value(index));
        let kinds = list.kinds;
        if kinds == Kinds::NEVER || at.kinds == Kinds::NEVER {
            return Type::any();
        }
        let found = result(operators::INDEX, false, &[kinds, at.kinds]);
        if found == Kinds::NEVER {
            let reason = if kinds.may(Kinds::LIST | Kinds::MAP) {
                format!(
                    "{} is {}, and {} is {}: a list is read by a whole number, from 0, and a mapping by a text",
                    source_text::value(of),
                    kinds.names(),
                    source_text::value(index),
                    at.kinds.names()
                )
            } else {
                format!(
                    "{} is {}, and has no elements",
                    source_text::value(of),
                    kinds.names()
                )
            };
            self.fault(node, reason, None);
            return Type::any();
        }
        match &index.expr {
            Expr::Literal(LiteralValue::String(name)) if kinds.may(Kinds::MAP) => {
                let of_name = source_text::value(of);
                self.field_of(node, &list, &of_name, name.inner())
            }
            _ if kinds.is_subset_of(Kinds::LIST | Kinds::NULL) => list.element(),
            _ => Type::any(),
        }
    }

    fn function(&mut self, call: &CallExpr) -> Type {
        let name = call.func_name.as_str();
        let mut types: Vec<Type> = Vec::new();
        if let Some(target) = &call.target {
            types.push(self.value(target));
        }
        for part in &call.args {
            // After a faulty call of a macro its new name has no meaning.
            let is_macro = MACROS.iter().any(|(known, _)| *known == name);
            if !is_macro {
                types.push(self.value(part));
            }
        }
        let text = Some(format!("{name}("));
        let mut fault = |reason: String, hint: String| {
            self.faults.push(Fault {
                reason,
                hint: Some(hint),
                text: text.clone(),
            });
            Type::any()
        };
        if let Some((_, usage)) = MACROS.iter().find(|(known, _)| *known == name) {
            return fault(
                format!("`{name}` is not called like this"),
                format!("write for example `{usage}`"),
            );
        }
        let Some(known) = FUNCTIONS.iter().find(|known| known.name == name) else {
            let names = FUNCTIONS.iter().map(|known| known.name);
            let macros = MACROS.iter().map(|(name, _)| *name);
            let hint = match nearest(name, names.clone().chain(macros.clone())) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    let all: Vec<&str> = names.chain(macros).collect();
                    format!("there are {}", all.join(", "))
                }
            };
            return fault(format!("there is no function `{name}`"), hint);
        };
        let form = match call.target {
            Some(_) => known.of_value,
            None => known.alone,
        };
        let given = call.args.len();
        if !form.contains(&given) {
            let counts: Vec<String> = form.iter().map(usize::to_string).collect();
            let reason = if form.is_empty() {
                format!("`{name}` is not called like this")
            } else {
                let values = if form == [1] { "value" } else { "values" };
                let counts = counts.join(" or ");
                format!("`{name}` takes {counts} {values} in its brackets, and {given} are given")
            };
            return fault(reason, format!("write for example `{}`", known.usage));
        }
        let kinds: Vec<Kinds> = types.iter().map(|of| of.kinds).collect();
        if kinds.contains(&Kinds::NEVER) {
            return Type::any();
        }
        let found = result(name, call.target.is_some(), &kinds);
        if found == Kinds::NEVER {
            let parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
            let given: Vec<String> = parts
                .zip(&kinds)
                .map(|(part, kinds)| format!("{} is {}", source_text::value(part), kinds.names()))
                .collect();
            let reason = format!("`{name}` cannot be used here: {}", given.join(", and "));
            return fault(reason, format!("write for example `{}`", known.usage));
        }
        match name {
            "dyn" => Type::any(),
            _ => Type::of(found),
        }
    }

    /// A macro: its body is checked once, for all elements.
    fn comprehension(&mut self, over: &ComprehensionExpr) -> Type {
        let range = self.value(&over.iter_range);
        let kinds = range.kinds;
        if !kinds.may(Kinds::LIST | Kinds::MAP) && kinds != Kinds::NEVER {
            let reason = format!(
                "{} is {}, and has no elements to go through",
                source_text::value(&over.iter_range),
                kinds.names()
            );
            self.fault(&over.iter_range, reason, None);
        }
        let element = match (kinds.may(Kinds::LIST), kinds.may(Kinds::MAP)) {
            (true, false) => range.element(),
            (false, true) => Type::of(Kinds::STRING | Kinds::INT | Kinds::UINT | Kinds::BOOL),
            _ => Type::any(),
        };
        let accumulator = match self.of(&over.accu_init) {
            list if list.kinds == Kinds::LIST => Type::list(Type::of(Kinds::NEVER)),
            other => other,
        };
        let known = self.locals.len();
        self.locals.push((over.iter_var.clone(), element));
        if let Some(second) = &over.iter_var2 {
            self.locals.push((second.clone(), Type::any()));
        }
        self.locals.push((over.accu_var.clone(), accumulator));
        let after = self.of(&over.loop_step);
        if let Some((_, accumulator)) = self.locals.last_mut() {
            *accumulator = after;
        }
        let mut found = self.of(&over.result);
        self.locals.truncate(known);
        // A list without an element.
        if found
            .elements
            .as_ref()
            .is_some_and(|e| e.kinds == Kinds::NEVER)
        {
            found.elements = None;
        }
        found
    }
}

/// Whether a part is constant: the same for every order.
pub(super) fn is_constant(node: &IdedExpr) -> bool {
    match &node.expr {
        Expr::Literal(_) => true,
        Expr::Select(select) => is_constant(&select.operand),
        Expr::Call(call) => {
            let mut parts = call.target.iter().map(AsRef::as_ref).chain(&call.args);
            parts.all(is_constant)
        }
        Expr::List(list) => list.elements.iter().all(is_constant),
        Expr::Map(map) => map.entries.iter().all(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => is_constant(&entry.key) && is_constant(&entry.value),
            EntryExpr::StructField(_) => false,
        }),
        Expr::Unspecified | Expr::Ident(_) | Expr::Struct(_) | Expr::Comprehension(_) => false,
    }
}

fn kind(literal: &LiteralValue) -> Kinds {
    match literal {
        LiteralValue::Boolean(_) => Kinds::BOOL,
        LiteralValue::Bytes(_) => Kinds::BYTES,
        LiteralValue::Double(_) => Kinds::DOUBLE,
        LiteralValue::Int(_) => Kinds::INT,
        LiteralValue::Null => Kinds::NULL,
        LiteralValue::String(_) => Kinds::STRING,
        LiteralValue::UInt(_) => Kinds::UINT,
    }
}

/// How to convert values of two kinds to one.
fn convert(a: Kinds, b: Kinds) -> Option<String> {
    let one_is = |kinds: Kinds| a.is_subset_of(kinds) || b.is_subset_of(kinds);
    if one_is(Kinds::NULL) {
        return None;
    }
    if one_is(Kinds::STRING) && one_is(Kinds::NUMBER) {
        return Some("write string(…) around the number, or double(…) around the text".to_owned());
    }
    if one_is(Kinds::STRING) && one_is(Kinds::TIME) {
        return Some("write timestamp(…) around the text".to_owned());
    }
    if one_is(Kinds::STRING) && one_is(Kinds::DURATION) {
        return Some("write duration(…) around the text".to_owned());
    }
    if one_is(Kinds::STRING) && one_is(Kinds::BOOL) {
        return Some("write true and false without quotes".to_owned());
    }
    None
}
