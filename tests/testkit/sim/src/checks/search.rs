//! Checks that orders are found by exactly their search keys.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use triad_core::order::IncidentKind;
use triad_core::stored::SEARCH;
use triad_core::{Order, OrderId};
use triad_workflow::{SearchKey, Workflow};

use super::findings::Findings;
use crate::definitions;
use crate::ports;
use crate::world::State;

/// Longest value of a search key, in bytes, as documented.
const LONGEST: usize = 256;

/// The search keys that an order with these details must have. In these definitions, each key is a field of the
/// details.
fn expected(workflow: &Workflow, details: &Value) -> Vec<SearchKey> {
    let declared = workflow.definition.search.iter();
    let keys = declared.filter_map(|(name, written)| {
        let field = written.strip_prefix("${details.")?.strip_suffix('}')?;
        let value = match &details[field] {
            Value::String(text) => text.clone(),
            value @ (Value::Number(_) | Value::Bool(_)) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        let fits = (1..=LONGEST).contains(&value.len());
        fits.then(|| format!("{name}={value}").parse().expect("a search key"))
    });
    keys.collect()
}

/// The versions of the workflow on which the order may have been submitted.
fn versions(order: &Order) -> Vec<&'static Workflow> {
    let mut lines = order.incidents.iter();
    let may_be_moved =
        order.dropped.is_some() || lines.any(|line| line.what == IncidentKind::Migrated);
    let of_name = definitions::versions().filter(|w| w.name == order.workflow.name);
    let of_it = of_name.filter(|w| may_be_moved || w.hash == order.workflow.hash);
    of_it.map(AsRef::as_ref).collect()
}

/// Every order must have the keys of the version on which it was submitted, and each key must find exactly its
/// orders. Deleted orders must not be found.
pub(super) fn searched(state: &State, found: &mut Findings) {
    let mut wanted: BTreeMap<&SearchKey, BTreeSet<&OrderId>> = BTreeMap::new();
    for order in state.store.orders() {
        let Some(details) = state.store.details(&order.id) else {
            continue;
        };
        let versions = versions(order);
        let declares = versions.iter().any(|w| !w.definition.search.is_empty());
        let holds = versions
            .iter()
            .any(|w| expected(w, &details) == order.search);
        if declares {
            let reached = match order.search.len() {
                0 => Some("input: no value for a search key"),
                1 => None,
                _ => Some("input: two search keys"),
            };
            if let Some(reached) = reached {
                found.looked_at(reached, 1);
            }
            found.check("search-keys-are-those-of-the-submission", holds, || {
                format!("{} has {:?} of {details}", order.id, order.search)
            });
        }
        for key in &order.search {
            let of_key = wanted.entry(key).or_default();
            if !state.store.is_gone(&order.id) {
                of_key.insert(&order.id);
            }
        }
    }
    let mut rows: BTreeMap<&SearchKey, Vec<&OrderId>> = BTreeMap::new();
    for order in state.store.orders_there() {
        for key in (0..SEARCH.len()).filter_map(|index| ports::searched_by(order, index)) {
            rows.entry(key).or_default().push(&order.id);
        }
    }
    for (key, wanted) in wanted {
        let there = rows.remove(key).unwrap_or_default();
        let distinct: BTreeSet<&OrderId> = there.iter().copied().collect();
        let holds = distinct == wanted && distinct.len() == there.len();
        found.check(
            "search-finds-exactly-the-orders-with-the-key",
            holds,
            || format!("{key} finds {there:?} and not {wanted:?}"),
        );
    }
}
