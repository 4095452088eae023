//! Orders: a page of a list, one with its record, and those that need an operator by cause.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use triad_core::{Order, OrderId, Timing};
use triad_runtime::ports::Unreadable;

use super::filter::said;
use super::local::{Execute, Installation, Local};
use super::{Caller, Form, OrderFilter, Problem, plain_form, record};
use crate::causes::{self, CauseGroup};
use crate::json as form;
use crate::order::OrderView;
use crate::pages::{self, Cursor, MAX_PAGE};
use crate::skipped::Skipped;
use crate::{find, inputs, search};

/// Default orders or letters on a page.
pub const PAGE: usize = 100;

/// A page of the orders that fit a filter.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListOrders {
    /// Which orders.
    #[serde(flatten)]
    pub filter: OrderFilter,
    /// Most orders of the page, from 1 to 500; 100 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<usize>,
    /// `next` of the page before; left out for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A page of orders.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct OrdersFound {
    /// The orders. With a search key the one that was submitted last comes first; those that need an operator come
    /// with the longest waiting first.
    #[serde(with = "record::list")]
    pub orders: Vec<Order>,
    /// The cursor of the next page; `None` after the last one.
    pub next: Option<String>,
    /// Whether a bound ended the search before the page was full, so that more orders may fit.
    pub sampled: bool,
    /// How many records and rows were looked at.
    pub looked_at: usize,
    /// What could not be read.
    pub skipped: Skipped,
    /// Why a search key may have found nothing, for people.
    pub hint: Option<String>,
    /// The time spans of the installation.
    pub timing: Timing,
    /// The template of the address of a trace.
    pub trace_url: Option<super::TraceUrl>,
}

/// The page size that was asked for.
pub(super) fn limit(limit: Option<usize>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(PAGE);
    match (1..=MAX_PAGE).contains(&limit) {
        true => Ok(limit),
        false => {
            let text = format!("limit is a number from 1 to {MAX_PAGE}");
            Err(Problem::bad("bad-limit", text))
        }
    }
}

fn read_cursor(text: &str) -> Result<Cursor, Problem> {
    let decoded = URL_SAFE_NO_PAD.decode(text).ok();
    let cursor = decoded.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    cursor.ok_or_else(|| Problem::bad("bad-cursor", "the cursor is not one that was sent"))
}

fn sent_cursor(cursor: &Cursor) -> Result<String, Problem> {
    Ok(URL_SAFE_NO_PAD.encode(serde_json::to_vec(cursor)?))
}

/// An order's id.
pub(super) fn order_id(text: &str) -> Result<OrderId, Problem> {
    let bad = |e| Problem::bad("bad-order-id", format!("{text:?} is not an order id: {e}"));
    OrderId::new(text).map_err(bad)
}

impl Execute for ListOrders {
    type Answer = OrdersFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<OrdersFound, Problem> {
        let filter = self.filter.read(&on.settings.hidden)?;
        let from = said(&self.cursor).map(read_cursor).transpose()?;
        let (store, limit) = (on.store(), limit(self.limit)?);
        let page = pages::page(store, &filter, limit, from.as_ref(), on.moment()).await?;
        let mut orders = page.orders;
        // An id finds its order in a lookup, however many orders there are.
        if let (Some(id), None) = (&filter.id, &from)
            && let Ok(id) = OrderId::new(id.as_str())
            && !orders.iter().any(|order| order.id == id)
            && let Ok(Some(order)) = find::by_id(store, id).await
            && filter.fits(&order, on.moment())
        {
            orders.insert(0, order);
        }
        let hint = match &filter.search {
            Some(key) if orders.is_empty() => {
                let declared = search::declared(store).await?;
                search::hint(&declared, key, filter.workflow.as_deref())
            }
            _ => None,
        };
        let orders = orders.into_iter().map(|order| on.shown(order));
        Ok(OrdersFound {
            orders: orders.collect::<Result<_, _>>()?,
            next: page.next.as_ref().map(sent_cursor).transpose()?,
            sampled: page.sampled,
            looked_at: page.looked_at,
            skipped: page.skipped,
            hint,
            timing: on.parts().operator.timing(),
            trace_url: on.settings.trace_url.clone(),
        })
    }
}

/// A record for programs, with the link to its trace.
fn view(
    order: &Order,
    timing: &Timing,
    trace_url: Option<&super::TraceUrl>,
) -> Result<Value, serde_json::Error> {
    let mut shown = form::line("order", &OrderView::of(order, timing))?;
    if let (Some(at), Some(id)) = (trace_url, shown["trace"]["trace_id"].as_str()) {
        shown["trace"]["url"] = at.of(id).into();
    }
    Ok(shown)
}

impl Form for OrdersFound {
    fn form(&self) -> Result<Value, serde_json::Error> {
        let view = |order| view(order, &self.timing, self.trace_url.as_ref());
        let orders = self.orders.iter().map(view);
        Ok(json!({
            "kind": "orders",
            "orders": orders.collect::<Result<Vec<_>, _>>()?,
            "next": self.next,
            "sampled": self.sampled,
            "looked_at": self.looked_at,
            "hint": self.hint,
            "unreadable": self.skipped.unreadable,
        }))
    }

    fn schema(of: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "required": ["kind", "orders", "next", "sampled", "looked_at", "unreadable"],
            "properties": {
                "kind": {"const": "orders"},
                "orders": {"type": "array", "items": of.subschema_for::<OrderView<'static>>()},
                "next": {"type": ["string", "null"], "description": "The cursor of the next page."},
                "sampled": {"type": "boolean", "description": "A bound ended the search before the page was full."},
                "looked_at": {"type": "integer", "minimum": 0},
                "hint": {"type": ["string", "null"], "description": "Why a search key may have found nothing."},
                "unreadable": of.subschema_for::<Vec<crate::schema::Object>>(),
            },
        })
    }
}

/// One order with its whole record.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetOrder {
    /// The order's id.
    pub id: String,
    /// Also the order's details, and what its steps ask and were answered.
    #[serde(default)]
    pub inputs: bool,
}

/// One order.
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderFound {
    /// Its record.
    #[serde(with = "record")]
    pub order: Order,
    /// The time spans of the installation.
    pub timing: Timing,
    /// The template of the address of a trace.
    pub trace_url: Option<super::TraceUrl>,
    /// Its details, the outputs of its steps and their calls ([`inputs::Inputs::json`]), or why they cannot be shown;
    /// `None` if they were not asked for.
    pub inputs: Option<Result<Value, String>>,
}

impl Execute for GetOrder {
    type Answer = OrderFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<OrderFound, Problem> {
        let id = order_id(&self.id)?;
        let text = format!(
            "there is no order {id}, or it has expired; a refused order is among the dead letters"
        );
        let order = find::by_id(on.store(), id).await?;
        let order = order.ok_or_else(|| Problem::missing("no-such-order", text))?;
        let timing = on.parts().operator.timing();
        let inputs = match self.inputs {
            false => None,
            true => Some(match inputs::of(on.store(), &order, timing).await {
                Ok(found) => {
                    let mut found = found.json();
                    on.settings.hidden.mask_record(&mut found);
                    Ok(found)
                }
                Err(inputs::InputsError::Store(e)) => return Err(e.into()),
                Err(other) => Err(other.to_string()),
            }),
        };
        Ok(OrderFound {
            order: on.shown(order)?,
            timing,
            trace_url: on.settings.trace_url.clone(),
            inputs,
        })
    }
}

impl Form for OrderFound {
    fn form(&self) -> Result<Value, serde_json::Error> {
        let mut shown = view(&self.order, &self.timing, self.trace_url.as_ref())?;
        match &self.inputs {
            None => {}
            Some(Ok(found)) => shown["inputs"] = found.clone(),
            Some(Err(why)) => shown["inputs"] = json!({"why": why}),
        }
        Ok(shown)
    }

    fn schema(of: &mut SchemaGenerator) -> Schema {
        let mut schema = super::routes::with_kind(OrderView::json_schema(of), "order");
        if let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            let inputs = json!({"type": "object", "description": "With `inputs=true`: `details`, `outputs` by step, \
                and `calls`; or `why` they cannot be shown."});
            fields.insert("inputs".to_owned(), inputs);
        }
        schema
    }
}

/// Orders that need an operator, counted by cause.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListCauses {
    /// Which orders; a search key is refused.
    #[serde(flatten)]
    pub filter: OrderFilter,
    /// Count all of them, and not only those that have waited longest: the whole index is read.
    #[serde(default)]
    pub all: bool,
}

/// Orders that need an operator, counted by cause.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CausesFound {
    /// The causes, the most frequent first.
    pub causes: Vec<CauseGroup>,
    /// How many orders belong to none of `causes`, because there are too many.
    pub others: u64,
    /// Whether only the orders that have waited longest were counted.
    pub sampled: bool,
    /// What could not be read.
    #[schemars(with = "Vec<crate::schema::Object>")]
    pub unreadable: Vec<Unreadable>,
    /// How many more could not be read beyond `unreadable`.
    #[serde(default)]
    pub unreadable_others: u64,
}

plain_form!(CausesFound: "causes");

impl CausesFound {
    /// How many orders were counted.
    #[must_use]
    pub fn orders(&self) -> u64 {
        self.causes.iter().map(|group| group.orders).sum::<u64>() + self.others
    }
}

impl From<causes::Causes> for CausesFound {
    fn from(found: causes::Causes) -> Self {
        Self {
            causes: found.groups,
            others: found.others,
            sampled: found.more,
            unreadable: found.skipped.unreadable,
            unreadable_others: found.skipped.others,
        }
    }
}

impl Execute for ListCauses {
    type Answer = CausesFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<CausesFound, Problem> {
        if said(&self.filter.search).is_some() {
            let text = "causes are not counted by search key: leave `search` out";
            return Err(Problem::bad("bad-filter", text));
        }
        let filter = self.filter.read(&on.settings.hidden)?;
        let (store, now) = (on.store(), on.moment());
        let most = match self.all {
            true => usize::MAX,
            false => causes::MAX_ROWS,
        };
        Ok(causes::among(store, &filter, now, most).await?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_filter_page_or_cursor_is_refused() {
        let code = |query: &str| {
            let asked: ListOrders = serde_urlencoded::from_str(query).expect(query);
            asked.filter.read(&super::super::Hidden::default())?;
            said(&asked.cursor).map(read_cursor).transpose()?;
            limit(asked.limit)
        };
        let code = |query: &str| code(query).map_err(|p| p.code.into_owned());
        assert_eq!(code(""), Ok(100));
        assert_eq!(
            code("state=error&limit=500&id=+x+&older_than=2h&search=customer%3Da%3Db&cause="),
            Ok(500)
        );
        for (query, wrong) in [
            ("state=Erorr", "bad-filter"),
            ("older_than=soon", "bad-filter"),
            ("search=ALFKI", "bad-filter"),
            ("search=customer%3D", "bad-filter"),
            ("limit=0", "bad-limit"),
            ("limit=501", "bad-limit"),
            ("cursor=x", "bad-cursor"),
            ("cursor=eyJ4IjoxfQ", "bad-cursor"),
        ] {
            assert_eq!(code(query), Err(wrong.to_owned()), "{query}");
        }
        for wrong in ["a=1", "state=Error&state=Paused", "limit=x", "limit="] {
            assert!(
                serde_urlencoded::from_str::<ListOrders>(wrong).is_err(),
                "{wrong}"
            );
        }
    }
}
