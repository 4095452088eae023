//! Macros iterate over a mapping in the order of its keys.
//!
//! The library iterates over a mapping in a random order, so a step's input could differ between two deliveries of
//! its order, under the same idempotency key. So the range of a macro is sorted first: the keys of a mapping become a
//! list, numbers before `false`, `true` and texts, each ascending, texts by the code points of their characters. A
//! list stays unchanged.

use cel::common::types::{CelList, CelMap, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{Env, ExecutionError};

use super::cost_bound;

/// Function that sorts the range of a macro. Authors cannot write the sign `@` in an expression.
pub(super) const IN_ORDER: &str = "@in_order";

/// Keys that are sorted for one unit of work.
const KEYS: usize = 8;

/// Adds [`IN_ORDER`] to the language.
pub(super) fn declare(env: &mut Env) {
    // Fails only for a name that the language already has.
    let _ = env.add_overload(IN_ORDER, "in_order_dyn", vec![DYN_TYPE], in_order);
}

fn in_order<'b, 'v>(range: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let range = range.into_iter().next();
    let range = range.ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let Some(map) = range.downcast_ref::<CelMap>() else {
        return Ok(range);
    };
    cost_bound::take_units((map.inner().len() / KEYS) as u64)?;
    let mut keys: Vec<_> = map.inner().keys().collect();
    keys.sort_unstable();
    let keys: Vec<Box<dyn Val + 'v>> = keys.iter().map(|k| k.inner().clone_as_boxed()).collect();
    Ok(CowVal::owned(CelList::from(keys)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{EvalError, Expression, MAX_WORK, Scope};

    fn over(details: &Value, source: &str) -> Result<Value, EvalError> {
        let scope = Scope::new(&json!({}), details, [], None);
        Expression::compile(source).expect(source).evaluate(&scope)
    }

    #[test]
    fn macros_go_through_a_mapping_in_the_order_of_its_keys() {
        let details =
            json!({"prices": {"pear": 3, "Fig": 5, "apple": 1, "quince": 2, "über": 4, "nut": 6}});
        for (source, wanted) in [
            (
                "details.prices.map(name, details.prices[name])",
                json!([5, 1, 6, 3, 2, 4]),
            ),
            (
                "details.prices.filter(name, details.prices[name] > 2)",
                json!(["Fig", "nut", "pear", "über"]),
            ),
            (
                "details.prices.map(name, name.startsWith('n'), name)",
                json!(["nut"]),
            ),
            (
                "{true: 1, 'a': 2, 7: 3, false: 4, -1: 5}.map(key, key)",
                json!([-1, 7, false, true, "a"]),
            ),
            (
                "[1, 2].map(n, details.prices.map(name, n))[1].size()",
                json!(6),
            ),
            (
                "details.prices.exists_one(name, name == 'nut')",
                json!(true),
            ),
            ("details.prices.all(name, name != '')", json!(true)),
        ] {
            // The library's own order almost surely differs in one of a hundred runs.
            for _ in 0..100 {
                assert_eq!(over(&details, source).unwrap(), wanted, "{source}");
            }
        }
    }

    #[test]
    fn a_list_stays_as_it_is_and_nothing_else_is_gone_through() {
        let details = json!({"items": ["b", "c", "a"], "name": "x"});
        let same = over(&details, "details.items.map(i, i)").unwrap();
        assert_eq!(same, json!(["b", "c", "a"]));
        assert!(over(&details, "details.name.map(c, c)").is_err());
    }

    /// If the first key ends the macro, sorting the keys is all the work.
    #[test]
    fn bringing_keys_into_order_is_counted() {
        let prices: serde_json::Map<String, Value> =
            (0..4_000).map(|n| (format!("p{n:04}"), json!(n))).collect();
        let items: Vec<u32> = (0..4_000).collect();
        let details = json!({"prices": prices, "items": items});
        let first = "details.prices.exists(name, name == 'p0000')";
        assert_eq!(over(&details, first).unwrap(), json!(true));
        let error = over(&details, &format!("details.items.all(i, {first})")).unwrap_err();
        assert!(error.reason.contains(&MAX_WORK.to_string()), "{error}");
    }
}
