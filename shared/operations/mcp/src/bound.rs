//! Bounds the length of a result, because a model's context is limited. A shortened result says where something was
//! left out.

use serde_json::{Value, json};

/// Most bytes of a tool's result, as JSON: 64 KiB. A longer result is shortened; its field `left_out` may exceed the
/// bound.
pub const MAX_RESULT_BYTES: usize = 64 * 1024;
/// Longest text in a result, in characters, if the result fits into its bound.
const TEXT: usize = 8_000;
/// Longest text once lists have been shortened as far as possible.
const SHORT_TEXT: usize = 500;

/// Shortens a result that is too long: texts first, then the longest list repeatedly. A timeline keeps its newest
/// lines, other lists their first items. `left_out` lists what was left out.
pub(crate) fn fit(mut result: Value) -> Value {
    let mut left_out = Vec::new();
    texts(&mut result, "", TEXT, &mut left_out);
    // Each round halves a list, so there are few rounds.
    while size(&result) > MAX_RESULT_BYTES {
        if !shorten(&mut result, &mut left_out) {
            texts(&mut result, "", SHORT_TEXT, &mut left_out);
            break;
        }
    }
    if size(&result) > MAX_RESULT_BYTES {
        // An object with thousands of names can only be a payload, and no part of it is more useful than another.
        return json!({"left_out": [{"at": "", "shown": 0,
            "why": "it is too long to be shown: ask the API, or the command line"}]});
    }
    if let (Value::Object(fields), false) = (&mut result, left_out.is_empty()) {
        fields.insert("left_out".to_owned(), left_out.into());
    }
    result
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// Cuts every text that is longer than `most` characters.
fn texts(value: &mut Value, at: &str, most: usize, left_out: &mut Vec<Value>) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(most) {
                left_out.push(json!({"at": at, "shown": end, "of": text.len(), "unit": "bytes"}));
                text.truncate(end);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter_mut().enumerate() {
                texts(item, &format!("{at}/{n}"), most, left_out);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                texts(field, &format!("{at}/{name}"), most, left_out);
            }
        }
        _ => {}
    }
}

/// Halves the longest list in bytes; `false` if no list has two items.
fn shorten(result: &mut Value, left_out: &mut Vec<Value>) -> bool {
    let mut longest = (0, String::new());
    find(result, "", &mut longest);
    let (_, at) = longest;
    let Some(Value::Array(items)) = result.pointer_mut(&at) else {
        return false;
    };
    let (of, shown) = (items.len(), items.len() / 2);
    match at.ends_with("/timeline") {
        true => drop(items.drain(..of - shown)),
        false => items.truncate(shown),
    }
    let known = left_out.iter_mut().find(|one| one["at"] == *at);
    match known {
        Some(one) => one["shown"] = shown.into(),
        None => left_out.push(json!({"at": at, "shown": shown, "of": of, "unit": "items"})),
    }
    true
}

fn find(value: &Value, at: &str, longest: &mut (usize, String)) {
    let step = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Array(items) => {
            let bytes = size(value);
            if items.len() > 1 && bytes > longest.0 {
                *longest = (bytes, at.to_owned());
            }
            for (n, item) in items.iter().enumerate() {
                find(item, &step(&n.to_string()), longest);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                find(field, &step(name), longest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_short_enough_stays_as_it_is() {
        let short = json!({"a": [1, 2, {"b": "c"}]});
        assert_eq!(fit(short.clone()), short);
    }

    #[test]
    fn the_longest_list_is_cut_and_the_result_says_so() {
        let many: Vec<Value> = (0..5_000)
            .map(|n| json!({"number": n, "x": "yyyyyyyy"}))
            .collect();
        let cut = fit(json!({"many": many, "few": [1, 2]}));
        assert!(size(&cut) <= MAX_RESULT_BYTES + 200);
        assert_eq!(cut["few"], json!([1, 2]));
        assert_eq!(cut["many"][0]["number"], 0);
        let shown = cut["many"].as_array().unwrap().len();
        assert_eq!(
            cut["left_out"],
            json!([{"at": "/many", "shown": shown, "of": 5_000, "unit": "items"}])
        );
    }

    #[test]
    fn of_a_timeline_the_newest_lines_stay() {
        let lines: Vec<Value> = (0..5_000)
            .map(|n| json!({"what": format!("line {n} {}", "x".repeat(30))}))
            .collect();
        let cut = fit(json!({"timeline": lines}));
        let last = cut["timeline"].as_array().unwrap().last().unwrap();
        assert!(last["what"].as_str().unwrap().starts_with("line 4999 "));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let cut = fit(json!({"text": "é".repeat(TEXT + 1)}));
        assert_eq!(cut["text"].as_str().unwrap().chars().count(), TEXT);
        assert_eq!(cut["left_out"][0]["of"], 2 * (TEXT + 1));
    }

    #[test]
    fn what_cannot_be_shortened_is_not_shown() {
        let fields = (0..20_000)
            .map(|n| (format!("name {n}"), Value::Null))
            .collect();
        let cut = fit(json!({"payload": Value::Object(fields)}));
        assert!(cut["payload"].is_null() && cut["left_out"][0]["why"].is_string());
    }
}
