//! Checks of a definition's form: its keys and their values.
//!
//! The rules are the published JSON Schema, which is generated from the model. A validator's messages are about
//! schemas and not about workflows, so this module checks the few kinds of rules of that schema itself. Unusable
//! parts are removed, so that the rest can still be checked.

use serde_json::{Map, Value, json};

use crate::duration::{InvalidSpan, Millis};
use crate::problem::{Path, Problem, nearest};

/// A definition without its unusable parts.
pub(super) struct Shaped {
    pub(super) problems: Vec<Problem>,
    /// Parts that were removed or replaced, about which no further problem is reported.
    pub(super) repaired: Vec<Path>,
    /// Whether all ids of steps are the author's own.
    pub(super) ids_are_whole: bool,
}

struct Shape<'s> {
    schema: &'s Value,
    found: Shaped,
}

/// Checks a value against the schema of definitions, and removes parts that do not fit.
pub(super) fn check(schema: &Value, value: &mut Value) -> Shaped {
    let mut shape = Shape {
        schema,
        found: Shaped {
            problems: Vec::new(),
            repaired: Vec::new(),
            ids_are_whole: true,
        },
    };
    if value.is_object() {
        shape.fits(schema, value, &Path::top());
    } else {
        let reason = match value {
            Value::Null => "the file says nothing".to_owned(),
            other => format!("the file is {}, and no workflow", named(other)),
        };
        let hint =
            "a workflow is a mapping with at least `workflow:`, its name, and `steps:`, a list";
        shape
            .found
            .problems
            .push(Problem::of_all(reason).hint(hint));
    }
    shape.found
}

impl Shape<'_> {
    /// Whether a value is usable. Unusable parts inside it are removed.
    fn fits(&mut self, schema: &Value, value: &mut Value, at: &Path) -> bool {
        if let Some(name) = schema["$ref"].as_str().and_then(|r| r.rsplit('/').next()) {
            let root = self.schema;
            return self.fits(&root["$defs"][name], value, at);
        }
        if let Some(ways) = schema["anyOf"].as_array() {
            return self.one_of(ways, value, at);
        }
        if let Some(words) = schema["oneOf"].as_array() {
            return self.check_enum(words, value, at);
        }
        let types = types(schema);
        if types.is_empty() {
            return true;
        }
        if !types.iter().any(|t| is(t, value)) {
            let problem = wrong_type(&types, schema, value, at);
            self.wrong(problem);
            return false;
        }
        match value {
            Value::Object(map) => self.mapping(schema, map, at),
            Value::Array(items) => {
                self.list(&schema["items"], items, at);
                true
            }
            Value::String(text) if schema["pattern"].is_string() => self.duration(text, at),
            Value::Number(number) => self.count(number, at),
            _ => true,
        }
    }

    /// Removes elements that do not fit. A step that does not fit is replaced by an empty one, so that the others
    /// keep their positions.
    fn list(&mut self, schema: &Value, items: &mut Vec<Value>, at: &Path) {
        let is_of_steps = schema["$ref"].is_string();
        let mut kept = Vec::with_capacity(items.len());
        for (index, mut item) in std::mem::take(items).into_iter().enumerate() {
            if self.fits(schema, &mut item, &at.index(index)) {
                kept.push(item);
            } else if is_of_steps {
                self.found.ids_are_whole = false;
                kept.push(json!({
                    "id": made_up_id(index), "agent": MADE_UP, "action": MADE_UP, "compensation": "none"
                }));
            }
        }
        *items = kept;
    }

    fn wrong(&mut self, problem: Problem) {
        self.found.repaired.push(problem.at.clone());
        self.found.problems.push(problem);
    }

    fn one_of(&mut self, ways: &[Value], value: &mut Value, at: &Path) -> bool {
        let resolved: Vec<&Value> = ways.iter().flat_map(|way| self.leaves(way)).collect();
        let takes_null = resolved.iter().any(|way| way["type"] == "null");
        if value.is_null() && takes_null {
            return true;
        }
        let is_mapping = |way: &&Value| way["properties"].is_object();
        let words: Vec<Value> = resolved
            .iter()
            .filter_map(|way| way["oneOf"].as_array())
            .flatten()
            .cloned()
            .collect();
        let mapping = resolved.iter().copied().find(is_mapping).cloned();
        let takes_text = resolved.iter().any(|way| way["type"] == "string");
        match (mapping, words.is_empty()) {
            (Some(mapping), _) if value.is_object() => self.fits(&mapping, value, at),
            (Some(_), true) if takes_text && value.is_string() => true,
            (Some(mapping), true) if takes_text => {
                let keys = required(&mapping).join("` and `");
                let reason = format!("is {}, and cannot be used", display_value(value));
                let hint = format!("write a text, or a mapping with `{keys}`");
                self.wrong(Problem::new(at.clone(), reason).hint(hint));
                false
            }
            (Some(mapping), true) => self.fits(&mapping, value, at),
            (Some(mapping), false) => {
                if value.is_string() && words.iter().any(|w| w["const"] == *value) {
                    return true;
                }
                let keys = required(&mapping).join("` and `");
                let word = words[0]["const"].as_str().unwrap_or_default();
                let reason = format!("is {}, and cannot be used", display_value(value));
                let problem = Problem::new(at.clone(), reason)
                    .hint(format!("write `{word}`, or a mapping with `{keys}`"));
                self.wrong(problem);
                false
            }
            (None, false) => self.check_enum(&words, value, at),
            (None, true) => true,
        }
    }

    /// The alternatives of a schema, with references and nested alternatives resolved.
    fn leaves<'v>(&'v self, way: &'v Value) -> Vec<&'v Value> {
        if let Some(name) = way["$ref"].as_str().and_then(|r| r.rsplit('/').next()) {
            return self.leaves(&self.schema["$defs"][name]);
        }
        match way["anyOf"].as_array() {
            Some(ways) => ways.iter().flat_map(|way| self.leaves(way)).collect(),
            None => vec![way],
        }
    }

    fn check_enum(&mut self, words: &[Value], value: &Value, at: &Path) -> bool {
        if words.iter().any(|word| word["const"] == *value) {
            return true;
        }
        let known: Vec<&str> = words.iter().filter_map(|w| w["const"].as_str()).collect();
        let mut problem = Problem::new(
            at.clone(),
            format!(
                "is {}; there are `{}`",
                display_value(value),
                known.join("` and `")
            ),
        );
        if let Some(text) = value.as_str() {
            problem = problem.nearest(text, known);
        }
        self.wrong(problem);
        false
    }

    fn mapping(&mut self, schema: &Value, map: &mut Map<String, Value>, at: &Path) -> bool {
        let Some(properties) = schema["properties"].as_object() else {
            self.entries(&schema["additionalProperties"], map, at);
            return true;
        };
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        let required = required(schema);
        let unknown: Vec<String> = map
            .keys()
            .filter(|key| !properties.contains_key(*key))
            .cloned()
            .collect();
        let mut meant = Vec::new();
        for key in unknown {
            map.remove(&key);
            let (of_mapping, at) = (at, at.key(&key));
            let free: Vec<&str> = known
                .iter()
                .copied()
                .filter(|k| !map.contains_key(*k))
                .collect();
            let mut problem = Problem::new(at, "unknown key").on_key();
            match other_word(&key, &free)
                .or_else(|| nearest(&key, free.iter().copied()))
                .or_else(|| nearest(&key, known.iter().copied()))
            {
                Some(near) => {
                    meant.push(near.to_owned());
                    self.found.repaired.push(of_mapping.key(near));
                    problem = problem.hint(format!("did you mean `{near}`?"));
                }
                None => problem = problem.hint(elsewhere(&key, &known)),
            }
            self.wrong(problem);
        }
        let mut whole = true;
        for (key, value) in std::mem::take(map) {
            let mut value = value;
            let at = at.key(&key);
            let fits = self.fits(&properties[&key], &mut value, &at);
            if fits {
                map.insert(key, value);
            } else if required.contains(&key.as_str()) {
                whole &= self.make_up(map, &key, &at);
            } else if let Some(made) = made_up_work(&key, &known) {
                map.insert(key, made);
            }
        }
        for key in required {
            // A misspelt key is reported already.
            if !map.contains_key(key) {
                let at_key = at.key(key);
                if !meant.iter().any(|m| m == key) && !self.found.repaired.contains(&at_key) {
                    let reason = format!("`{key}` is missing");
                    let problem = Problem::new(at.clone(), reason).on_key();
                    self.found.problems.push(problem.hint(purpose(key, at)));
                }
                self.found.repaired.push(at_key.clone());
                whole &= self.make_up(map, key, &at_key);
            }
        }
        whole
    }

    /// Removes entries that do not fit from a mapping with keys of the author's choice.
    fn entries(&mut self, schema: &Value, map: &mut Map<String, Value>, at: &Path) {
        if schema.is_object() {
            map.retain(|key, value| self.fits(schema, value, &at.key(key)));
        }
    }

    /// Fills in a missing required value, so that the mapping can be checked. False if that is impossible: then the
    /// mapping is unusable.
    fn make_up(&mut self, map: &mut Map<String, Value>, key: &str, at: &Path) -> bool {
        let step = at.step_index();
        let made = match (key, step) {
            ("steps", None) => {
                self.found.ids_are_whole = false;
                Value::Array(Vec::new())
            }
            ("id", Some(index)) => {
                self.found.ids_are_whole = false;
                made_up_id(index).into()
            }
            ("workflow" | "agent" | "action", _) => MADE_UP.into(),
            ("in", Some(_)) => MADE_UP_LIST.into(),
            ("within", Some(_)) => MADE_UP_SPAN.into(),
            _ => return false,
        };
        map.insert(key.to_owned(), made);
        true
    }

    fn duration(&mut self, text: &str, at: &Path) -> bool {
        let Err(why) = Millis::try_from(text.to_owned()) else {
            return true;
        };
        let plain = text.trim();
        let is = match why {
            InvalidSpan::Months(_) => "has `M`, which is months",
            InvalidSpan::TooLong(_) => "is longer than 366 days",
            InvalidSpan::Form(..) => "is not a duration",
        };
        let reason = format!("{} {is}", display_value(&text.into()));
        let problem = Problem::new(at.clone(), reason);
        if let InvalidSpan::Months(_) = why {
            self.wrong(problem.hint("write `m` for minutes"));
            return false;
        }
        self.wrong(
            match plain.bytes().all(|b| b.is_ascii_digit()) && !plain.is_empty() {
                true => problem.hint(format!(
                    "say of what: `{plain}ms`, `{plain}s` or `{plain}m`"
                )),
                false => {
                    problem.hint("write a number and a unit, such as 250ms, 10s, 5m or 2h 30m")
                }
            },
        );
        false
    }

    fn count(&mut self, number: &serde_json::Number, at: &Path) -> bool {
        let fits = number.as_u64().is_some_and(|n| u32::try_from(n).is_ok());
        if !fits {
            let reason = format!("is {number}, and has to be a whole number from 0 up");
            self.wrong(Problem::new(at.clone(), reason));
        }
        fits
    }
}

/// Placeholder for a missing name.
const MADE_UP: &str = "x";

/// Placeholder for a missing time.
const MADE_UP_SPAN: &str = "1s";

/// Placeholder for a missing list.
const MADE_UP_LIST: &str = "details.x";

/// Placeholder for what a step does, if it is there and unusable: the step still does it, and needs no agent. `known`
/// are the keys beside it.
fn made_up_work(key: &str, known: &[&str]) -> Option<Value> {
    match key {
        "wait" if known.contains(&"await") => Some(json!({"for": MADE_UP_SPAN})),
        "await" => Some(json!({"event": MADE_UP, "within": MADE_UP_SPAN})),
        "run" => Some(json!({"workflow": MADE_UP})),
        "for_each" => Some(json!({"in": MADE_UP_LIST})),
        "steps" if known.contains(&"in") => Some(json!([])),
        _ => None,
    }
}

/// Placeholder for a missing id of a step.
pub(super) fn made_up_id(index: usize) -> String {
    format!("number-{}", index + 1)
}

/// The key that is meant by a common synonym from other tools: the first that is allowed here.
fn other_word<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    const WORDS: [(&str, &[&str]); 8] = [
        ("complete_within", &["attempt_timeout", "order_timeout"]),
        ("timeout", &["attempt_timeout", "order_timeout"]),
        ("deadline", &["order_timeout"]),
        ("calls", &["calls_per_attempt"]),
        ("total", &["calls_per_run"]),
        ("threshold", &["failure_threshold"]),
        ("times", &["attempts"]),
        ("park", &["defer_for"]),
    ];
    let (_, meant) = WORDS.iter().find(|(word, _)| *word == key)?;
    let is_meant = |name: &&&str| meant.contains(*name);
    known.iter().find(is_meant).copied()
}

/// Where a key belongs that is allowed in another place.
fn elsewhere(key: &str, known: &[&str]) -> String {
    let of_retry = ["calls_per_attempt", "calls_per_run", "initial", "max"];
    let of_supervisor = [
        "failure_threshold",
        "delay",
        "retry_at_once",
        "max_delay",
        "wait",
        "defer_for",
        "then",
    ];
    let of_step = [
        "agent",
        "action",
        "input",
        "after",
        "when",
        "compensation",
        "probe",
    ];
    if of_retry.contains(&key) && known.contains(&"retry") {
        return format!("write it below `retry:`, as `retry: {{ {key}: … }}`");
    }
    if of_supervisor.contains(&key) && known.contains(&"supervisor") {
        return format!("write it below `supervisor:`, as `supervisor: {{ {key}: … }}`");
    }
    if of_step.contains(&key) && known.contains(&"steps") {
        return "it belongs to a step: write it below a `- id: …` of `steps:`".to_owned();
    }
    format!("there are {}", known.join(", "))
}

/// The purpose of a required key.
fn purpose(key: &str, of: &Path) -> &'static str {
    match key {
        "workflow" if of.step_index().is_some() => {
            "say which workflow the order is of: `workflow: NAME`"
        }
        "workflow" => "write `workflow: NAME`, by which orders ask for it",
        "steps" => "write `steps:`, and below it a list of steps, each with `- id: …`",
        "id" => "give the step a name, unique in the workflow: `id: charge-payment`",
        "agent" => "say who does it: `agent: payment`",
        "action" => "say what the agent is asked to do: `action: charge`",
        "calls_per_attempt" => {
            "say how often the service is called in one attempt: `calls_per_attempt: 3`"
        }
        "in" => "say which list it is: `in: details.lines`",
        "delay" => "say how long to wait: `delay: 10m`",
        "attempts" => "say how many more attempts there are: `attempts: 2`",
        _ => "write it",
    }
}

fn required(schema: &Value) -> Vec<&str> {
    let required = schema["required"].as_array();
    required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is(wanted: &str, value: &Value) -> bool {
    match wanted {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

fn wrong_type(types: &[&str], schema: &Value, value: &Value, at: &Path) -> Problem {
    let (wanted, example) = match types.iter().find(|t| **t != "null") {
        Some(&"boolean") => ("true or false", ""),
        Some(&"integer") => ("a whole number", ""),
        Some(&"string") if schema["pattern"].is_string() => (
            "a duration",
            "write a number and a unit, such as 250ms, 10s or 5m",
        ),
        Some(&"string") => ("a text", ""),
        Some(&"array") => (
            "a list",
            "write `[one, other]`, or each below the other with `- `",
        ),
        _ => (
            "a mapping",
            "write its keys below it, indented by two more spaces",
        ),
    };
    let reason = format!("is {}, and has to be {wanted}", display_value(value));
    let problem = Problem::new(at.clone(), reason);
    match (value, wanted) {
        (Value::String(text), "a whole number") if text.trim().parse::<u32>().is_ok() => {
            problem.hint("write it without quotes")
        }
        (Value::String(text), "true or false") => match text.to_lowercase().as_str() {
            "yes" | "on" | "y" | "true" => problem.hint("write `true`"),
            "no" | "off" | "n" | "false" => problem.hint("write `false`"),
            _ => problem,
        },
        (Value::Number(_) | Value::Bool(_), "a text") => problem.hint("put it in quotes"),
        (Value::Number(n), "a duration") => {
            problem.hint(format!("say of what: `{n}ms`, `{n}s` or `{n}m`"))
        }
        _ if example.is_empty() => problem,
        _ => problem.hint(example),
    }
}

/// Most characters of a text that a message shows.
const SHOWN_CHARS: usize = 60;

/// A value in a form that its author recognises.
fn display_value(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > SHOWN_CHARS => {
            let cut: String = text.chars().take(SHOWN_CHARS).collect();
            format!("{cut:?}…")
        }
        Value::String(text) => format!("{text:?}"),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        other => named(other).to_owned(),
    }
}

fn named(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
