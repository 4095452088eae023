//! Stable 64-bit hashes: the same on every platform and in every later build.
//!
//! Computed here, because the standard library's hasher may change between releases, and one build reads the ledger
//! that another has written.

use serde_json::Value;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Spreads the bits of `x` over the whole word (the finaliser of SplitMix64).
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Hashes `bytes`, continuing from `state`. The hash includes the length, so that concatenated fields cannot be
/// confused.
pub(crate) fn bytes(state: u64, bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(FNV_OFFSET ^ state, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)
    });
    mix(fnv ^ mix(bytes.len() as u64))
}

/// Hashes a JSON value by its meaning: the order of an object's fields does not matter.
///
/// The parser limits the depth of recursion to 128.
pub(crate) fn json(value: &Value) -> u64 {
    match value {
        Value::Null => mix(1),
        Value::Bool(flag) => mix(2 + u64::from(*flag)),
        Value::Number(number) => bytes(4, number.to_string().as_bytes()),
        Value::String(text) => bytes(5, text.as_bytes()),
        Value::Array(items) => items
            .iter()
            .fold(mix(6), |hash, item| mix(hash ^ json(item))),
        Value::Object(fields) => mix(fields.iter().fold(mix(7), |hash, (name, field)| {
            hash.wrapping_add(mix(bytes(8, name.as_bytes()) ^ json(field).rotate_left(17)))
        })),
    }
}

/// A number in `[0, 1)` made of the upper 53 bits of `hash`.
pub(crate) fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn field_order_makes_no_difference_but_values_do() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":[1,2]}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"b":[1,2],"a":1}"#).unwrap();
        assert_eq!(json(&one), json(&two));
        assert_ne!(json(&one), json(&json!({"a": 1, "b": [2, 1]})));
        assert_ne!(json(&json!({"a": "b"})), json(&json!({"b": "a"})));
        assert_ne!(json(&json!([])), json(&json!({})));
    }

    #[test]
    fn the_hash_is_pinned_because_ledgers_outlive_builds() {
        assert_eq!(bytes(0, b"order-1"), 0x8329_02b9_d969_648f);
        assert_eq!(json(&json!({"a": 1})), 0x9baa_d4ca_0091_e9ec);
    }

    #[test]
    fn unit_stays_below_one() {
        assert!(unit(u64::MAX) < 1.0);
        assert!(unit(0) == 0.0);
    }
}
