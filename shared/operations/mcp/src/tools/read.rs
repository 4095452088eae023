//! Tools that only read: bounds of their pages, and the parts of the answers that a model gets.

use std::sync::Arc;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use triad_operator::operations::{Answer, Route};

use crate::told::{Told, problem, told};

/// Default and most lines of a page. Their short forms fit into the bound of a result, so that pages leave nothing
/// out.
const PAGE: (usize, usize) = (20, 40);
/// Longest text of an order in a list, in characters.
const TEXT: usize = 300;

/// The schema of a request's fields, with the bound of a page.
pub(super) fn schema(route: &Route) -> Arc<Map<String, Value>> {
    let inline = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = (route.fields)(&mut inline.into_generator()).to_value();
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    if let Some(limit) = schema
        .get_mut("properties")
        .and_then(|fields| fields.get_mut("limit"))
    {
        limit["maximum"] = PAGE.1.into();
        let text = format!(
            "Most lines, from 1 to {}; {} where it is left out.",
            PAGE.1, PAGE.0
        );
        limit["description"] = text.into();
    }
    schema.entry("type").or_insert_with(|| "object".into());
    Arc::new(schema)
}

/// The fields of a request, with the size of a page.
pub(super) fn bounded(
    route: &Route,
    mut fields: Map<String, Value>,
) -> Result<Map<String, Value>, Value> {
    if route.names().iter().any(|name| name == "limit") {
        let limit = fields.entry("limit").or_insert_with(|| PAGE.0.into());
        if limit
            .as_u64()
            .is_none_or(|limit| !(1..=PAGE.1 as u64).contains(&limit))
        {
            let text = format!("limit is a number from 1 to {}", PAGE.1);
            return Err(problem("bad-limit", &text));
        }
    }
    Ok(fields)
}

/// An answer for a model.
pub(super) fn answer(made: Answer) -> Told {
    let mut shown = made.form().map_err(|e| told(&e.into()))?;
    match made {
        Answer::ListOrders(_) => {
            for order in shown["orders"].as_array_mut().into_iter().flatten() {
                *order = in_short(order);
            }
        }
        Answer::GetOrder(_) => {
            // The timeline has them as text.
            shown
                .as_object_mut()
                .and_then(|order| order.remove("incidents"));
        }
        _ => {}
    }
    Ok(shown)
}

/// The short form of an order, for lists.
fn in_short(order: &Value) -> Value {
    const KEPT: [&str; 9] = [
        "order_id",
        "state",
        "workflow",
        "submitted_at",
        "finished_at",
        "complete_by",
        "cause",
        "attempts",
        "run",
    ];
    let kept = KEPT.into_iter();
    let mut short: Map<String, Value> = kept
        .filter(|name| !order[name].is_null())
        .map(|name| (name.to_owned(), order[name].clone()))
        .collect();
    let message = order["failure"]["message"].as_str();
    short.extend(message.map(|text| ("message".to_owned(), cut(text).into())));
    let next = order["next"][0]["what"].as_str();
    short.extend(next.map(|text| ("next".to_owned(), cut(text).into())));
    for name in ["paused", "closed"] {
        if !order[name].is_null() {
            short.insert(name.to_owned(), true.into());
        }
    }
    short.into()
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT).collect()
}
