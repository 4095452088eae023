//! Orders, page by page, and one order with its full record.

use serde_json::{Value, json};
use triad_core::{Order, OrderId};
use triad_operator::find::Skipped;
use triad_operator::{find, inputs, pages};

use crate::answer::{self, Answer};
use crate::installation::Installation;
use crate::params::{FILTER, Params, sent_cursor};
use crate::problem::Problem;
use crate::shared_state::Desk;

/// A page of orders.
pub(super) async fn list<I: Installation>(
    desk: &Desk<I>,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&[&FILTER[..], &["limit", "cursor"]].concat())?;
    let (filter, (limit, from)) = (query.filter(&desk.settings.hidden)?, query.page()?);
    let store = desk.of.store();
    let page = pages::page(store, &filter, limit, from.as_ref(), desk.now()).await?;
    let orders: Result<Vec<Value>, Problem> =
        page.orders.iter().map(|order| view(desk, order)).collect();
    answer::json(&json!({
        "kind": "orders",
        "orders": orders?,
        "next": page.next.as_ref().map(sent_cursor),
        "sampled": page.sampled,
        "looked_at": page.looked_at,
        "unreadable": unreadable(&page.skipped),
    }))
}

/// One order; with `inputs=true` also the inputs and outputs of its steps.
pub(super) async fn get_order<I: Installation>(
    desk: &Desk<I>,
    id: OrderId,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&["inputs"])?;
    let store = desk.of.store();
    let text = format!("there is no order {id}, or it has expired");
    let order = find::by_id(store, id).await?;
    let order = order.ok_or_else(|| Problem::missing("no-such-order", text))?;
    let mut shown = view(desk, &order)?;
    if query.flag("inputs") {
        let timing = desk.of.operator().timing();
        let found = inputs::of(store, &order, timing).await;
        let mut found = match found {
            Ok(found) => found.json(),
            Err(inputs::InputsError::Store(e)) => return Err(e.into()),
            Err(other) => json!({"why": other.to_string()}),
        };
        desk.settings.hidden.mask_record(&mut found);
        shown["inputs"] = found;
    }
    answer::json(&shown)
}

fn view<I: Installation>(desk: &Desk<I>, order: &Order) -> Result<Value, Problem> {
    let timing = desk.of.operator().timing();
    let mut shown = desk.settings.hidden.view(order, &timing)?;
    if let (Some(at), Some(id)) = (
        &desk.settings.trace_url,
        shown["trace"]["trace_id"].as_str(),
    ) {
        shown["trace"]["url"] = at.of(id).into();
    }
    Ok(shown)
}

/// The records that could not be read.
pub(super) fn unreadable(skipped: &Skipped) -> Vec<Value> {
    let named = skipped.unreadable.iter();
    named
        .map(|one| json!({"order_id": one.order_id, "why": one.why}))
        .collect()
}
