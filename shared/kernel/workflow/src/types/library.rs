//! Results of the expression language's operators and functions by kinds of values.
//!
//! There is no table: the library is called. Each kind has sample values, and a call that fails for all samples of
//! its arguments counts as one that fails for every order. The names of the functions are listed for messages; a test
//! calls each of them.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use cel::common::ast::{CallExpr, Expr, IdedExpr, operators};
use cel::common::types::Kind;
use cel::{Program, Value as CelValue};
use serde_json::{Value, json};

use super::kinds::Kinds;
use crate::expr::decimals::may_change_kind;
use crate::expr::{Scope, resolve, with_stack};

/// A function of the language: its name and its forms.
pub(crate) struct LanguageFunction {
    pub(crate) name: &'static str,
    /// Numbers of arguments of a call `name(a, b)`; none if it is not called so.
    pub(crate) alone: &'static [usize],
    /// Numbers of arguments of a call `a.name(b)`, without `a`; none if it is not called so.
    pub(crate) of_value: &'static [usize],
    /// For messages.
    pub(crate) usage: &'static str,
}

const fn function(
    name: &'static str,
    alone: &'static [usize],
    of_value: &'static [usize],
    usage: &'static str,
) -> LanguageFunction {
    LanguageFunction {
        name,
        alone,
        of_value,
        usage,
    }
}

/// A part of a time, by the zone that is given, or by the offset of its text.
const fn of_time(name: &'static str, usage: &'static str) -> LanguageFunction {
    function(name, &[], &[0, 1], usage)
}

/// Every function that expressions can call. The bounds and costs of those from `format` on are in
/// [`crate::expr`].
pub(crate) const FUNCTIONS: &[LanguageFunction] = &[
    function("size", &[1], &[0], "size(details.items)"),
    function("contains", &[], &[1], "details.note.contains(\"gift\")"),
    function("startsWith", &[], &[1], "order.id.startsWith(\"A\")"),
    function("endsWith", &[], &[1], "order.id.endsWith(\"9\")"),
    function("string", &[1], &[], "string(details.count)"),
    function("int", &[1], &[], "int(details.count)"),
    function("uint", &[1], &[], "uint(details.count)"),
    function("double", &[1], &[], "double(details.price)"),
    function("bool", &[1], &[], "bool(details.flag)"),
    function("bytes", &[1], &[], "bytes(details.text)"),
    function("dyn", &[1], &[], "dyn(details.x)"),
    function("type", &[1], &[], "type(details.x)"),
    function("timestamp", &[1], &[], "timestamp(order.submitted_at)"),
    function("duration", &[1], &[], "duration(\"36h\")"),
    of_time(
        "getFullYear",
        "timestamp(order.submitted_at).getFullYear(\"UTC\")",
    ),
    of_time(
        "getMonth",
        "timestamp(order.submitted_at).getMonth(\"UTC\")",
    ),
    of_time("getDate", "timestamp(order.submitted_at).getDate(\"UTC\")"),
    of_time(
        "getDayOfMonth",
        "timestamp(order.submitted_at).getDayOfMonth(\"UTC\")",
    ),
    of_time(
        "getDayOfWeek",
        "timestamp(order.submitted_at).getDayOfWeek(\"UTC\")",
    ),
    of_time(
        "getDayOfYear",
        "timestamp(order.submitted_at).getDayOfYear(\"UTC\")",
    ),
    of_time(
        "getHours",
        "timestamp(order.submitted_at).getHours(\"UTC\")",
    ),
    of_time(
        "getMinutes",
        "timestamp(order.submitted_at).getMinutes(\"UTC\")",
    ),
    of_time(
        "getSeconds",
        "timestamp(order.submitted_at).getSeconds(\"UTC\")",
    ),
    of_time(
        "getMilliseconds",
        "timestamp(order.submitted_at).getMilliseconds(\"UTC\")",
    ),
    function(
        "format",
        &[],
        &[2],
        "timestamp(order.submitted_at).format(\"%Y-%m-%d\", \"Europe/Paris\")",
    ),
    function("round", &[2], &[], "round(details.price * 1.19, 2)"),
    function("floor", &[1], &[], "floor(details.price)"),
    function("ceil", &[1], &[], "ceil(details.price)"),
    function("abs", &[1], &[], "abs(details.price)"),
    function("min", &[2], &[], "min(details.count, 10)"),
    function("max", &[2], &[], "max(details.price, 0)"),
    function("sum", &[1], &[], "sum(details.items.map(i, i.price))"),
    function("fixed", &[2], &[], "fixed(details.price, 2)"),
    function("lower", &[], &[0], "details.note.lower()"),
    function("upper", &[], &[0], "details.note.upper()"),
    function("trim", &[], &[0], "details.note.trim()"),
    function("split", &[], &[1], "details.note.split(\",\")"),
    function(
        "join",
        &[],
        &[1],
        "details.items.map(i, i.count).join(\", \")",
    ),
    function("replace", &[], &[2], "details.note.replace(\"-\", \"\")"),
    function("substring", &[], &[2], "details.note.substring(0, 40)"),
    function("base64", &[1], &[], "base64(details.text)"),
    function("base64_decode", &[1], &[], "base64_decode(details.code)"),
    function("url_encode", &[1], &[], "url_encode(details.text)"),
    function("sha256", &[1], &[], "sha256(details.text)"),
    function("coalesce", &[2], &[], "coalesce(details.name, \"none\")"),
];

/// Own functions whose result is a number: of which kind depends on its value.
const OF_NUMBERS: [&str; 7] = ["round", "floor", "ceil", "abs", "min", "max", "sum"];

/// Every macro, with the form of its call: written like a function, but expanded by the parser.
pub(crate) const MACROS: [(&str, &str); 6] = [
    ("has", "has(details.note)"),
    ("all", "details.items.all(i, i.count > 0)"),
    ("exists", "details.items.exists(i, i.count > 0)"),
    ("exists_one", "details.items.exists_one(i, i.count > 0)"),
    ("map", "details.items.map(i, i.price)"),
    ("filter", "details.items.filter(i, i.count > 0)"),
];

const MOMENT: &str = "2026-01-02T03:04:05Z";

/// Values of a kind, such that every operation on the kind works for one of them.
fn samples(kind: Kinds) -> Vec<CelValue> {
    let of = |values: &[Value]| values.iter().map(Scope::value).collect();
    match kind {
        Kinds::NULL => of(&[Value::Null]),
        Kinds::BOOL => of(&[json!(true)]),
        Kinds::INT => of(&[json!(1), json!(0)]),
        Kinds::UINT => vec![CelValue::UInt(1)],
        Kinds::DOUBLE => of(&[json!(1.0)]),
        Kinds::STRING => of(&[
            json!("s"),
            json!("1"),
            json!("true"),
            json!(""),
            json!(MOMENT),
            json!("1h"),
            json!("UTC"),
        ]),
        Kinds::BYTES => vec![CelValue::Bytes(b"s".to_vec().into())],
        Kinds::LIST => of(&[json!([1, "s"]), json!([])]),
        Kinds::MAP => vec![
            computed("{'s': 1, '1': 1, 1: 1, 0: 1, true: 1}"),
            Scope::value(&json!({"s": 1})),
        ],
        Kinds::TYPE => vec![computed("type(1)")],
        Kinds::TIME => vec![computed("timestamp(1)")],
        Kinds::DURATION => vec![computed("duration('1h')")],
        _ => Vec::new(),
    }
    .into_iter()
    .filter(|value| *value != CelValue::Null || kind == Kinds::NULL)
    .collect()
}

fn computed(source: &str) -> CelValue {
    let scope = Scope::new(&Value::Null, &Value::Null, [], None);
    Program::compile(source)
        .ok()
        .and_then(|program| CelValue::resolve(program.expression(), scope.context()).ok())
        .unwrap_or(CelValue::Null)
}

fn kinds_of(kind: Kind) -> Kinds {
    match kind {
        Kind::NullType => Kinds::NULL,
        Kind::Boolean => Kinds::BOOL,
        Kind::Int => Kinds::INT,
        Kind::UInt => Kinds::UINT,
        Kind::Double => Kinds::DOUBLE,
        Kind::String => Kinds::STRING,
        Kind::Bytes => Kinds::BYTES,
        Kind::List => Kinds::LIST,
        Kind::Map => Kinds::MAP,
        Kind::Type => Kinds::TYPE,
        Kind::Timestamp => Kinds::TIME,
        Kind::Duration => Kinds::DURATION,
        _ => Kinds::JSON,
    }
}

/// Signature of a call: name, whether it is of a value, and one kind for each argument.
type CallSignature = (String, bool, Vec<Kinds>);

static ANSWERS: LazyLock<Mutex<BTreeMap<CallSignature, Kinds>>> = LazyLock::new(Mutex::default);

/// The kinds of a call's result, with the value before the point, if there is one, as the first argument. Empty if it
/// fails for every order.
pub(crate) fn result(function: &str, is_of_value: bool, arguments: &[Kinds]) -> Kinds {
    let mut found = Kinds::NEVER;
    let mut ways: Vec<Vec<Kinds>> = vec![Vec::new()];
    for kinds in arguments {
        ways = ways
            .iter()
            .flat_map(|way| {
                kinds.each().map(|kind| {
                    let mut longer = way.clone();
                    longer.push(kind);
                    longer
                })
            })
            .collect();
    }
    let mut answers = ANSWERS.lock().unwrap_or_else(|e| e.into_inner());
    for way in ways {
        let asked = (function.to_owned(), is_of_value, way);
        let answer = answers
            .entry(asked)
            .or_insert_with_key(|(function, is_of_value, way)| {
                // One stack for all samples, because allocating it takes longer than a sample.
                with_stack(|| ask(function, *is_of_value, way))
            });
        found = found | *answer;
    }
    found
}

fn ask(function: &str, is_of_value: bool, arguments: &[Kinds]) -> Kinds {
    let scope = Scope::new(&Value::Null, &Value::Null, [], None);
    let names: Vec<String> = (0..arguments.len()).map(|n| format!("@{n}")).collect();
    let mut nodes: Vec<IdedExpr> = names
        .iter()
        .map(|name| IdedExpr {
            id: 0,
            expr: Expr::Ident(name.clone()),
        })
        .collect();
    let target = is_of_value.then(|| Box::new(nodes.remove(0)));
    let call = IdedExpr {
        id: 0,
        expr: Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target,
            args: nodes,
        }),
    };
    let values: Vec<Vec<CelValue>> = arguments.iter().map(|kind| samples(*kind)).collect();
    let ways: usize = values.iter().map(Vec::len).product();
    let mut found = Kinds::NEVER;
    for way in 0..ways {
        let mut context = scope.context().new_inner_scope();
        let mut rest = way;
        for (name, values) in names.iter().zip(&values) {
            context.add_variable_from_value(name, values[rest % values.len()].clone());
            rest /= values.len();
        }
        let kind = resolve(&call, &context, |value| {
            value.ok().map(|value| value.as_ref().get_type().kind())
        });
        found = found | kind.map_or(Kinds::NEVER, kinds_of);
    }
    let whole = Kinds::INT | Kinds::UINT;
    let are_whole = arguments.iter().all(|kind| kind.is_subset_of(whole));
    let is_any_number = may_change_kind(function, are_whole) || OF_NUMBERS.contains(&function);
    match is_any_number && found.may(Kinds::NUMBER) {
        true => found | Kinds::NUMBER,
        false => found,
    }
}

/// An operator as authors write it; `None` if it is not written between two values.
pub(crate) fn written(operator: &str) -> Option<&'static str> {
    Some(match operator {
        operators::ADD => "+",
        operators::SUBSTRACT => "-",
        operators::MULTIPLY => "*",
        operators::DIVIDE => "/",
        operators::MODULO => "%",
        operators::LESS => "<",
        operators::LESS_EQUALS => "<=",
        operators::GREATER => ">",
        operators::GREATER_EQUALS => ">=",
        operators::EQUALS => "==",
        operators::NOT_EQUALS => "!=",
        operators::IN => "in",
        operators::LOGICAL_AND => "&&",
        operators::LOGICAL_OR => "||",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expression;

    /// All kinds.
    const EVERY: Kinds = Kinds(0xfff);

    fn all() -> Vec<Kinds> {
        EVERY.each().collect()
    }

    #[test]
    fn each_kind_has_samples_that_are_of_it() {
        for kind in all() {
            let values = samples(kind);
            assert!(!values.is_empty(), "{kind:?}");
            if kind != Kinds::TYPE {
                assert_eq!(result("dyn", false, &[kind]), kind, "{kind:?}");
            }
        }
    }

    #[test]
    fn each_function_of_the_list_can_be_called_and_with_no_other_number_of_values() {
        for known in FUNCTIONS {
            for count in 0..3 {
                // A thousand ways of three values are too many, and no function needs another kind.
                let any = match count {
                    2 => {
                        Kinds::TIME
                            | Kinds::STRING
                            | Kinds::INT
                            | Kinds::LIST
                            | Kinds::MAP
                            | Kinds::NULL
                    }
                    _ => EVERY,
                };
                let works = |is_of_value: bool, count: usize| {
                    result(known.name, is_of_value, &vec![any; count]) != Kinds::NEVER
                };
                assert_eq!(
                    works(false, count),
                    known.alone.contains(&count),
                    "{}",
                    known.name
                );
                assert_eq!(
                    works(true, count + 1),
                    known.of_value.contains(&count),
                    ".{}",
                    known.name
                );
            }
        }
    }

    #[test]
    fn the_usages_in_messages_work() {
        let details = json!({
            "items": [{"count": 1, "price": 2.5}], "note": "a gift", "count": 3, "price": 1,
            "flag": "true", "text": "t", "x": 1, "a": 1, "code": "dA=="
        });
        let usages = FUNCTIONS.iter().map(|f| f.usage);
        for usage in usages.chain(MACROS.iter().map(|(_, usage)| *usage)) {
            let order = json!({"id": "A9", "submitted_at": MOMENT});
            let scope = Scope::new(&order, &details, [], None);
            let computed = Expression::compile(usage).expect(usage);
            if !usage.starts_with("type") {
                computed.evaluate(&scope).expect(usage);
            }
        }
    }

    #[test]
    fn the_page_has_every_function() {
        let page = include_str!("../../../../../docs/reference/workflow-file.md");
        for known in FUNCTIONS {
            let named = [("`", "`"), ("`", "("), (".", "("), ("[", "("), (" ", "(")];
            let is_there =
                |(before, behind)| page.contains(&format!("{before}{}{behind}", known.name));
            assert!(named.into_iter().any(is_there), "{}", known.name);
        }
    }

    #[test]
    fn functions_of_other_dialects_are_not_there() {
        for name in [
            "matches",
            "upperAscii",
            "lowerAscii",
            "toLower",
            "date",
            "today",
            "concat",
            "ifNull",
            "average",
            "toUpper",
            "now",
            "run",
            "len",
            "length",
            "first",
            "last",
            "optMap",
            "orValue",
            "hasValue",
            "value",
            "or",
        ] {
            assert!(FUNCTIONS.iter().all(|f| f.name != name), "{name}");
            for count in 1..3 {
                for is_of_value in [false, true] {
                    let kinds = result(name, is_of_value, &vec![EVERY; count]);
                    assert_eq!(kinds, Kinds::NEVER, "{name}");
                }
            }
        }
    }

    #[test]
    fn the_library_says_what_goes_with_what() {
        let sum = |a, b| result(operators::ADD, false, &[a, b]);
        assert_eq!(sum(Kinds::INT, Kinds::INT), Kinds::INT);
        assert_eq!(sum(Kinds::STRING, Kinds::STRING), Kinds::STRING);
        assert_eq!(sum(Kinds::STRING, Kinds::INT), Kinds::NEVER);
        assert_eq!(sum(Kinds::INT, Kinds::DOUBLE), Kinds::NUMBER);
        assert_eq!(sum(Kinds::DOUBLE, Kinds::UINT), Kinds::NUMBER);
        assert_eq!(sum(Kinds::STRING, Kinds::NUMBER), Kinds::NEVER);
        let share = |a, b| result(operators::DIVIDE, false, &[a, b]);
        assert_eq!(share(Kinds::INT, Kinds::INT), Kinds::NUMBER);
        assert_eq!(share(Kinds::INT, Kinds::LIST), Kinds::NEVER);
        assert_eq!(result("sum", false, &[Kinds::LIST]), Kinds::NUMBER);
        let less = |a, b| result(operators::LESS, false, &[a, b]);
        assert_eq!(less(Kinds::INT, Kinds::DOUBLE), Kinds::BOOL);
        assert_eq!(less(Kinds::STRING, Kinds::INT), Kinds::NEVER);
        assert_eq!(less(Kinds::NULL, Kinds::INT), Kinds::NEVER);
        assert_eq!(less(Kinds::JSON, Kinds::INT), Kinds::BOOL);
    }
}
