//! Converts items of the DynamoDB API to the judge's form.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::history::{Item, Scalar};

/// The attributes that the judge keeps. A condition on another attribute cannot be judged.
pub const KEPT: [&str; 10] = [
    "OrderID",
    "Key",
    "Version",
    "ProcessState",
    "LockedBy",
    "CompleteBy",
    "FailureCount",
    "WriteToken",
    "ExpiresAt",
    "DueAt",
];
/// The attribute of a process record that holds the steps, as JSON text.
const STEPS: &str = "Steps";

/// Converts an item from the API's JSON.
pub fn item(json: &Value) -> Item {
    let none = serde_json::Map::new();
    let all = json.as_object().unwrap_or(&none);
    // Sorted by name, so that the hash does not depend on the map's order.
    let sorted: BTreeMap<&String, &Value> = all.iter().collect();
    let mut hash = Sha256::new();
    for (name, value) in &sorted {
        hash.update(name.as_bytes());
        hash.update(canonical(value).as_bytes());
    }
    let mut digest = String::with_capacity(16);
    for byte in hash.finalize().iter().take(8) {
        // Writing to a string cannot fail.
        let _ = write!(digest, "{byte:02x}");
    }
    let kept = KEPT.iter().filter_map(|name| {
        let value = all.get(*name)?;
        Some(((*name).to_owned(), scalar(value)?))
    });
    Item {
        digest,
        attributes: kept.collect(),
        out: all.get(STEPS).map(out).unwrap_or_default(),
    }
}

/// A canonical text of a value. The API sends numbers as text, and `"7"` and `"7.0"` are the same number.
fn canonical(value: &Value) -> String {
    match value.get("N").and_then(Value::as_str) {
        Some(number) if number.contains('.') => {
            let short = number.trim_end_matches('0').trim_end_matches('.');
            format!("N{short}")
        }
        Some(number) => format!("N{number}"),
        None => value.to_string(),
    }
}

/// The value of an attribute; `None` if it is of another type than [`Scalar`].
pub fn scalar(value: &Value) -> Option<Scalar> {
    let (kind, value) = value.as_object()?.iter().next()?;
    match (kind.as_str(), value) {
        ("S", Value::String(text)) => Some(Scalar::Text(text.clone())),
        ("N", Value::String(number)) => number.parse().ok().map(Scalar::Number),
        ("NULL", _) => Some(Scalar::Null),
        _ => None,
    }
}

/// The running attempts, from the JSON text of the steps.
fn out(steps: &Value) -> Vec<String> {
    let text = steps["S"].as_str().unwrap_or_default();
    let steps: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let attempt = |step: &Value| {
        let is_compensation = match step["state"].as_str()? {
            "running" | "probing" => false,
            "compensating" => true,
            _ => return None,
        };
        let number = u32::try_from(step["attempt"].as_u64()?).ok()?;
        Some(attempt(step["step"].as_str()?, is_compensation, number))
    };
    steps.iter().filter_map(attempt).collect()
}

/// An attempt as text.
pub fn attempt(step: &str, is_compensation: bool, number: u32) -> String {
    let way = if is_compensation { "compensate" } else { "do" };
    format!("{step}/{way}/{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_item_is_its_fingerprint_its_named_attributes_and_what_is_out() {
        let steps = r#"[{"step":"a","state":"completed","attempt":1},
            {"step":"b","state":"running","attempt":2},{"step":"c","state":"compensating","attempt":1},
            {"step":"d","state":"failed","attempt":3},{"step":"e","state":"waiting"}]"#;
        let json = json!({"Version": {"N": "7"}, "LockedBy": {"NULL": true},
            "Steps": {"S": steps}, "WriteToken": {"N": "18446744073709551615"}});
        let kept = item(&json);
        assert_eq!(kept.attributes["Version"], Scalar::Number(7));
        assert_eq!(kept.attributes["WriteToken"], Scalar::Number(u64::MAX));
        assert_eq!(kept.attributes["LockedBy"], Scalar::Null);
        assert_eq!(kept.out, ["b/do/2", "c/compensate/1"]);
        assert_eq!(kept.digest.len(), 16);
        let mut other = json.clone();
        other["Steps"] = json!({"S": "[]"});
        assert_ne!(item(&other).digest, kept.digest);
    }
}
