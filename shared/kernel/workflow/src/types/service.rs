//! Types of a service's input and answer: checks the expressions of a description, and the inputs of steps, against
//! them.

use serde_json::Value;

use super::guards::{Conditions, Facts};
use super::infer::{Around, Infer};
use super::kinds::{Fields, Kinds, Type};
use super::{add_faults, order};
use crate::check::expressions::Role;
use crate::expr::Expression;
use crate::model::{ActionDefinition, BodyForm, CompensationDefinition, Definition, Method};
use crate::problem::{Path, Problem, Problems, nearest};
use crate::service::{
    ANSWER_VARIABLES, AnswerMeaning, CallDirection, LEFT_OUT, REQUEST_VARIABLES, ServiceDefinition,
};
use crate::template::{self, Piece, Template};
use crate::variables::Variables;

/// Deepest nesting of a written type that is read; deeper parts take any value.
const MAX_DEPTH: usize = 16;
/// The name that allows further names in a written mapping.
const FURTHER: &str = "*";
/// The words for types.
const WORDS: [(&str, Kinds); 7] = [
    ("string", Kinds::STRING),
    ("number", Kinds::NUMBER),
    ("integer", Kinds::NUMBER),
    ("boolean", Kinds::BOOL),
    ("list", Kinds::LIST),
    ("object", Kinds::MAP),
    ("any", Kinds(Kinds::JSON.0 & !Kinds::NULL.0)),
];
/// Kinds of values that a path, a query, a header or a form sends as text.
const PLAIN: Kinds = Kinds(Kinds::STRING.0 | Kinds::NUMBER.0 | Kinds::BOOL.0);

/// The type that an author has written. A part that is not a type is a problem, and takes any value.
fn parse(written: &Value, at: &Path, depth: usize, problems: &mut Problems) -> Type {
    let mut wrong = |reason: String, hint: String| {
        problems.push(Problem::new(at.clone(), reason).hint(hint));
        Type::any()
    };
    match written {
        _ if depth > MAX_DEPTH => Type::any(),
        Value::String(word) => match WORDS.iter().find(|(known, _)| known == word) {
            Some((_, kinds)) => Type::of(*kinds),
            None => {
                let known = WORDS.map(|(word, _)| word);
                let hint = match nearest(word, known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!(
                        "there are {}, `[TYPE]` and `{{ NAME: TYPE }}`",
                        known.join(", ")
                    ),
                };
                wrong(format!("{word:?} is not a type"), hint)
            }
        },
        Value::Array(items) => match items.as_slice() {
            [one] => Type::list(parse(one, &at.index(0), depth + 1, problems)),
            _ => wrong(
                format!("a list with {} types", items.len()),
                "write the type of its elements: `[string]`".to_owned(),
            ),
        },
        Value::Object(fields) => {
            let mut found = Fields::default();
            for (name, of) in fields {
                let of = parse(of, &at.key(name), depth + 1, problems);
                match name.strip_suffix('?') {
                    _ if name == FURTHER => found.is_open = true,
                    Some(name) => {
                        drop(
                            found
                                .known
                                .insert(name.to_owned(), of.or(Type::of(Kinds::NULL))),
                        );
                    }
                    None => drop(found.known.insert(name.clone(), of)),
                }
            }
            Type::map(found)
        }
        other => wrong(
            format!("{other} is not a type"),
            "write a word such as `string`, `[TYPE]`, or `{ NAME: TYPE }`".to_owned(),
        ),
    }
}

/// The types of `input` and `body` of an action. Where nothing is written, any value fits.
fn types_of(action: &ActionDefinition, at: &Path, problems: &mut Problems) -> (Type, Type) {
    let mut of = |written: &Value, name: &str| match written {
        Value::Null => Type::any(),
        written => parse(written, &at.keys("types").key(name), 0, problems),
    };
    match &action.types {
        Some(types) => (of(&types.input, "input"), of(&types.body, "body")),
        None => (Type::any(), Type::any()),
    }
}

/// The variables that the expressions of a description may read.
fn around<'a>(conditions: &'a Conditions<'a>, variables: &'a [(&'a str, Type)]) -> Around<'a> {
    Around {
        order: order(),
        details: Type::any(),
        output: None,
        conditions,
        outputs: &[],
        facts: Facts::new(),
        variables,
    }
}

/// The variables of a request and of an answer.
fn variables(input: &Type, body: &Type) -> [(&'static str, Type); 6] {
    [
        ("input", input.clone()),
        ("key", Type::of(Kinds::STRING)),
        ("callback", Type::any()),
        ("status", Type::of(Kinds::INT)),
        ("headers", Type::of(Kinds::MAP)),
        ("body", body.clone()),
    ]
}

/// Checks the expressions of a description against its own types.
pub(crate) fn check(service: &ServiceDefinition, at: &Path, problems: &mut Problems) {
    for (name, action) in &service.actions {
        if action.types.is_some() {
            check_action(action, &at.key("actions").key(name), problems);
        }
    }
}

fn check_action(action: &ActionDefinition, at: &Path, problems: &mut Problems) {
    let (input, body) = types_of(action, at, problems);
    let of_answer = variables(&input, &body);
    let of_other_answer = variables(&input, &Type::any());
    let conditions = Conditions::new();
    let mut check = |value: &Value, at: Path, variables: &[(&str, Type)], names: &[&str]| {
        for (at, piece) in template::pieces(value, &at) {
            if let Piece::Expression(source) = piece
                && let Ok(expression) = Expression::compiled_over(&source, names)
            {
                let around = around(&conditions, variables);
                let (_, faults) = infer(&around, &expression);
                add_faults(&at, &expression, faults, problems);
            }
        }
    };
    let path = Value::from(action.path.as_deref());
    check(&path, at.key("path"), &of_answer, &REQUEST_VARIABLES);
    for (values, key) in [(&action.query, "query"), (&action.headers, "headers")] {
        for (name, value) in values {
            let at = at.key(key).key(name);
            check(
                &Value::from(value.as_str()),
                at,
                &of_answer,
                &REQUEST_VARIABLES,
            );
        }
    }
    check(
        &action.content,
        at.key("content"),
        &of_answer,
        &REQUEST_VARIABLES,
    );
    if action.keep.is_object() {
        check(&action.keep, at.key("keep"), &of_answer, &ANSWER_VARIABLES);
    }
    for (index, row) in action.answers.iter().enumerate() {
        let at = at.key("answers").index(index);
        let code = Value::from(row.code.as_deref());
        check(&code, at.key("code"), &of_other_answer, &ANSWER_VARIABLES);
    }
    let rows = action.answers.iter().enumerate();
    let rows = rows.map(|(index, row)| {
        let at = at.key("answers").index(index).key("when");
        (&row.when, at, &of_other_answer)
    });
    let fails_when = (&action.fails_when, at.key("fails_when"), &of_answer);
    for (source, at, variables) in rows.chain([fails_when]) {
        let Some(source) = source else { continue };
        let Ok(expression) = Expression::compiled_over(source, &ANSWER_VARIABLES) else {
            continue;
        };
        let around = around(&conditions, variables);
        let (found, faults) = infer(&around, &expression);
        if faults.is_empty() && !found.kinds.may(Kinds::BOOL) {
            let reason = format!("has to be true or false, and is {}", found.kinds.names());
            problems.push(Problem::new(at.clone(), reason));
        }
        add_faults(&at, &expression, faults, problems);
    }
    let kept = action.keep.as_array().into_iter().flatten();
    for (index, name) in kept.enumerate() {
        if let (Some(name), Some(fields)) = (name.as_str(), &body.fields)
            && !fields.is_open
            && !fields.known.contains_key(name)
        {
            let reason = format!("`types.body` has no field `{name}`");
            let problem = Problem::new(at.key("keep").index(index), reason);
            problems.push(problem.nearest(name, fields.known.keys().map(String::as_str)));
        }
    }
}

fn infer(around: &Around<'_>, expression: &Expression) -> (Type, Vec<super::infer::Fault>) {
    let mut infer = Infer::new(around);
    let found = crate::expr::with_stack(|| infer.of(expression.tree()));
    (found, infer.faults)
}

/// The type of a step's output, if the description has `keep` or `types.body`: that of the kept parts, or of the whole
/// answer. The field that says which parts are missing may always be in it.
pub(super) fn output(service: &ServiceDefinition, action: &str) -> Option<Type> {
    let written = service.actions.get(action)?;
    let (input, body) = types_of(written, &Path::top(), &mut Problems::default());
    let left_out = (LEFT_OUT.to_owned(), Type::any());
    let Some(names) = service.kept(action) else {
        let fields = body.fields.as_ref()?;
        let known = fields.known.clone().into_iter().chain([left_out]);
        return Some(Type {
            kinds: body.kinds,
            ..Type::map(Fields {
                known: known.collect(),
                is_open: fields.is_open,
            })
        });
    };
    let (conditions, variables) = (Conditions::new(), variables(&input, &body));
    let around = around(&conditions, &variables);
    let of = |name: &str| match &written.keep {
        Value::Object(values) => of_value(&values[name], &around, &ANSWER_VARIABLES),
        _ => {
            let known = body.fields.as_ref().and_then(|f| f.known.get(name));
            known.cloned().unwrap_or_else(Type::any)
        }
    };
    let known = names.into_iter().map(|name| (name.to_owned(), of(name)));
    Some(Type::map(Fields {
        known: known.chain([left_out]).collect(),
        is_open: false,
    }))
}

/// The type of a template. For a list or a mapping any value fits.
fn of_value(written: &Value, around: &Around<'_>, variables: &[&str]) -> Type {
    match Template::compiled_over(written, variables) {
        Ok(Template::Value(expression)) => infer(around, &expression).0,
        Ok(Template::Text(_)) => Type::of(Kinds::STRING),
        Ok(Template::Constant(value)) => Type::of(of_json(&value)),
        _ => Type::any(),
    }
}

fn of_json(value: &Value) -> Kinds {
    match value {
        Value::Null => Kinds::NULL,
        Value::Bool(_) => Kinds::BOOL,
        Value::Number(_) => Kinds::NUMBER,
        Value::String(_) => Kinds::STRING,
        Value::Array(_) => Kinds::LIST,
        Value::Object(_) => Kinds::MAP,
    }
}

/// Checks the inputs of steps and of compensations against the types of their actions. `around` returns the variables
/// that the expressions of a step may read.
pub(super) fn check_inputs<'a>(
    definition: &Definition,
    around: &dyn Fn(usize, Role) -> Around<'a>,
    problems: &mut Problems,
) {
    let variables = Variables::of(definition);
    for (index, step) in definition.steps.iter().enumerate() {
        let at = Path::step(index);
        let mut check = |agent: &str, action: &str, input: &Value, at: Path, role: Role| {
            let service = definition.agents.get(agent);
            let Some(written) = service.and_then(|service| service.actions.get(action)) else {
                return;
            };
            if written
                .types
                .as_ref()
                .is_none_or(|types| types.input.is_null())
            {
                return;
            }
            let (wanted, _) = types_of(written, &at, &mut Problems::default());
            let mut fit = Fit {
                of: format!("{agent} {action}"),
                variables: &variables,
                around: &around(index, role),
                is_plain: false,
                problems: &mut *problems,
            };
            fit.input(written, input, &wanted, &at);
        };
        if let (Some(agent), Some(action)) = (&step.agent, &step.action) {
            check(agent, action, &step.input, at.key("input"), Role::Input);
        }
        let poll = step.finishes_later.as_ref().and_then(|l| l.poll.as_ref());
        if let (Some(agent), Some(poll)) = (&step.agent, poll)
            && let Some(action) = &poll.action
        {
            let at = at.keys("finishes_later.poll.input");
            check(agent, action, &poll.input, at, Role::Poll);
        }
        if let Some(CompensationDefinition::Action(c)) = &step.compensation
            && let Some(agent) = c.agent.as_ref().or(step.agent.as_ref())
        {
            let at = at.keys("compensation.input");
            check(agent, &c.action, &c.input, at, Role::Compensation);
        }
    }
}

/// Checks that a step waits for the end of work that its service accepts and does later.
pub(super) fn check_accepted(definition: &Definition, problems: &mut Problems) {
    for (index, step) in definition.steps.iter().enumerate() {
        let at = Path::step(index);
        if step.finishes_later.is_none()
            && let (Some(agent), Some(action)) = (&step.agent, &step.action)
            && let Some(service) = definition.agents.get(agent)
            && accepts(service, action)
        {
            let reason = format!(
                "{agent} accepts {action} and does it later: the step has to wait for its end"
            );
            let hint =
                "add `finishes_later: { within: 1d }`, with `poll` if the service is to be asked";
            problems.push(Problem::new(at.key("action"), reason).hint(hint));
        }
    }
}

/// Whether an action may be answered as work that is done later.
fn accepts(service: &ServiceDefinition, action: &str) -> bool {
    let own = service.actions.get(action);
    let own = own.into_iter().flat_map(|action| &action.answers);
    own.chain(&service.answers).any(|row| {
        let is_forward = row.direction.is_none_or(|of| of == CallDirection::Forward);
        is_forward && row.means == AnswerMeaning::Accepted
    })
}

/// The comparison of one input with the type that an action takes.
struct Fit<'f, 'a> {
    /// Agent and action, for people.
    of: String,
    variables: &'f Variables<'f>,
    around: &'f Around<'a>,
    /// Whether a text, a number, true and false may stand for each other, because all are sent as text.
    is_plain: bool,
    problems: &'f mut Problems,
}

impl Fit<'_, '_> {
    fn input(&mut self, action: &ActionDefinition, input: &Value, wanted: &Type, at: &Path) {
        let empty = Value::Object(serde_json::Map::new());
        let input = if input.is_null() { &empty } else { input };
        let (Value::Object(fields), Some(known)) = (input, &wanted.fields) else {
            return self.value(input, wanted, at);
        };
        self.names(fields.keys().map(String::as_str), wanted, at, true);
        for (name, value) in fields {
            let Some(of) = known.known.get(name) else {
                continue;
            };
            self.is_plain = !is_in_json(action, name);
            self.value(value, of, &at.key(name));
        }
    }

    fn value(&mut self, written: &Value, wanted: &Type, at: &Path) {
        match written {
            Value::Object(fields) if wanted.kinds.may(Kinds::MAP) => {
                self.names(fields.keys().map(String::as_str), wanted, at, true);
                let known = wanted.fields.as_ref();
                for (name, value) in fields {
                    if let Some(of) = known.and_then(|known| known.known.get(name)) {
                        self.value(value, of, &at.key(name));
                    }
                }
            }
            Value::Array(items) if wanted.kinds.may(Kinds::LIST) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(item, &wanted.element(), &at.index(index));
                }
            }
            Value::String(_) => match self.variables.template(written) {
                Ok(Template::Value(expression)) => {
                    let (found, faults) = infer(self.around, &expression);
                    if faults.is_empty() {
                        let before = self.problems.0.len();
                        self.found(&found, wanted, at);
                        for problem in &mut self.problems.0[before..] {
                            let text = expression.source().to_owned();
                            *problem = problem.clone().on_text([text]);
                        }
                    }
                }
                Ok(_) => self.found(&Type::of(Kinds::STRING), wanted, at),
                Err(_) => {}
            },
            other => self.found(&Type::of(of_json(other)), wanted, at),
        }
    }

    /// Compares a value of which only the type is known.
    fn found(&mut self, found: &Type, wanted: &Type, at: &Path) {
        let kinds = match self.is_plain && wanted.kinds.may(PLAIN) {
            true => wanted.kinds | PLAIN,
            false => wanted.kinds,
        };
        if found.kinds == Kinds::NEVER {
            return;
        }
        if !found.kinds.may(kinds) {
            let (is, takes) = (found.kinds.names(), wanted.kinds.names());
            let reason = format!("is {is}, and {} takes {takes}", self.of);
            return self.problems.add(at.clone(), reason);
        }
        if let (Some(fields), true) = (&found.fields, found.kinds == Kinds::MAP)
            && !fields.is_open
        {
            self.names(fields.known.keys().map(String::as_str), wanted, at, false);
            for (name, of) in &fields.known {
                if let Some(wanted) = wanted.fields.as_ref().and_then(|w| w.known.get(name)) {
                    self.found(of, wanted, at);
                }
            }
        }
        if found.kinds == Kinds::LIST && found.elements.is_some() && wanted.elements.is_some() {
            self.found(&found.element(), &wanted.element(), at);
        }
    }

    /// Reports names that the action does not have, and names that it needs and that are missing.
    fn names<'n>(
        &mut self,
        given: impl Iterator<Item = &'n str>,
        wanted: &Type,
        at: &Path,
        are_written: bool,
    ) {
        let Some(fields) = &wanted.fields else { return };
        let known = || fields.known.keys().map(String::as_str);
        let given: Vec<&str> = given.collect();
        // Names that are reported as the right spelling of a wrong one: they do not count as missing.
        let mut meant = Vec::new();
        for name in given
            .iter()
            .filter(|name| !fields.known.contains_key(**name))
        {
            if fields.is_open || (*name == LEFT_OUT && !are_written) {
                continue;
            }
            let reason = format!("{} has no field `{name}`", self.of);
            let problem = match are_written {
                true => Problem::new(at.key(name), reason).on_key(),
                false => Problem::new(at.clone(), reason),
            };
            let hint = match nearest(name, known()) {
                Some(near) => {
                    meant.push(near);
                    format!("did you mean `{near}`?")
                }
                None => format!("there are {}", known().collect::<Vec<_>>().join(", ")),
            };
            self.problems.push(problem.hint(hint));
        }
        let missing = fields
            .known
            .iter()
            .filter(|(name, of)| !of.kinds.may(Kinds::NULL) && !given.contains(&name.as_str()));
        let missing = missing.map(|(name, _)| name.as_str());
        let missing: Vec<&str> = missing.filter(|name| !meant.contains(name)).collect();
        if !missing.is_empty() {
            let reason = format!("{} needs `{}` too", self.of, missing.join("`, `"));
            self.problems
                .push(Problem::new(at.clone(), reason).on_key());
        }
    }
}

/// Whether a field of the input is sent in JSON, where a number differs from its text.
fn is_in_json(action: &ActionDefinition, name: &str) -> bool {
    let has_no_body = matches!(action.method, Some(Method::Get | Method::Delete));
    let is_json = match action.body {
        Some(body) => body == BodyForm::Json,
        None => !has_no_body,
    };
    let reads = |content: &Value| {
        let compiled = Template::compiled_over(content, &REQUEST_VARIABLES);
        let Ok(template) = compiled else { return false };
        let ways = template
            .expressions()
            .into_iter()
            .flat_map(Expression::reads);
        ways.into_iter().any(|way| match way.as_slice() {
            [first] => first == "input",
            [first, second, ..] => first == "input" && second == name,
            [] => false,
        })
    };
    is_json && (action.content.is_null() || reads(&action.content))
}
