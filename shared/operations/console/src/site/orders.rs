//! The list of orders, page by page, with the form of acts.

use maud::{Markup, html};
use triad_core::{Order, ProcessState};
use triad_operator::next;
use triad_operator::operations::order_queries::OrdersFound;
use triad_operator::operations::{ListOrders, OrderFilter, Problem};

use super::{Visit, act, layout::Page, text};

pub(super) async fn page(visit: &Visit<'_>) -> Result<Page, Problem> {
    let asked: ListOrders = visit.asked()?;
    let (is_first, is_filtered) = (asked.cursor.is_none(), !asked.filter.is_empty());
    let found = visit.ask(asked).await?;
    let content = html! {
        h1 { "Orders" }
        (filter_form(visit))
        form method="post" action="/console/act" {
            @if visit.may_act() && !found.orders.is_empty() { (act::fields(visit, is_filtered)) }
            (table(&found, visit))
            @if let Some(hint) = &found.hint { p class="note" { (hint) "." } }
            (pages(&found, visit))
        }
        (text::unreadable(&found.skipped.unreadable, found.skipped.others))
    };
    let shown = Page::new("Orders", content).at("/console/orders");
    Ok(match is_first {
        true => shown.live("/v1/operate/events"),
        false => shown,
    })
}

fn filter_form(visit: &Visit<'_>) -> Markup {
    let said = |name: &str| visit.query.one(name).unwrap_or_default();
    let names = ProcessState::NAMES
        .into_iter()
        .chain(["UnderWay", "Paused"]);
    html! {
        form method="get" action="/console/orders" role="search" aria-label="Which orders" {
            fieldset {
                legend { "Which orders" }
                div class="fields" {
                    label { "Search key" input type="search" name="search" value=(said("search")) placeholder="customer=ALFKI" title="A name that a workflow declares, =, and the whole value"; }
                    label { "State" select name="state" {
                        option value="" { "any" }
                        @for name in names {
                            option value=(name) selected[said("state").eq_ignore_ascii_case(name)] { (name) }
                        }
                    } }
                    label { "Cause" input name="cause" value=(said("cause")) placeholder="permanent/charge/*"; }
                    label { "Workflow" input name="workflow" value=(said("workflow")); }
                    label { "Older than" input name="older_than" value=(said("older_than")) placeholder="2h" size="6"; }
                    label { "Newer than" input name="newer_than" value=(said("newer_than")) placeholder="1d" size="6"; }
                    label { "In the error" input name="error" value=(said("error")); }
                    label { "Child orders of" input name="parent" value=(said("parent")); }
                    label { "Wait for the event" input name="event" value=(said("event")); }
                    label { "In the id" input name="id" value=(said("id")); }
                    button type="submit" { "Show" }
                }
            }
        }
    }
}

fn table(found: &OrdersFound, visit: &Visit<'_>) -> Markup {
    html! {
        @if found.orders.is_empty() {
            p { @if found.sampled { "None among the records that were read." } @else { "No orders." } }
        } @else {
            div class="scroll" tabindex="0" role="region" aria-label="Orders" {
                table {
                    thead { tr {
                        @if visit.may_act() {
                            th scope="col" { input type="checkbox" data-all="orders" aria-label="All orders of this page"; }
                        }
                        th scope="col" { "Order" } th scope="col" { "State" } th scope="col" { "Workflow" }
                        th scope="col" { "Submitted" } th class="number" scope="col" { "Failures" }
                        th scope="col" { "Cause, or waits for" }
                    } }
                    tbody { @for order in &found.orders { (row(order, visit.may_act())) } }
                }
            }
        }
    }
}

fn row(order: &Order, may_act: bool) -> Markup {
    let why = match order.state.cause() {
        Some(cause) => cause.to_string(),
        None => next::waits_for(order).unwrap_or_default(),
    };
    html! {
        tr {
            @if may_act {
                td { input type="checkbox" name="orders" value=(order.id) aria-label={ "Order " (order.id) }; }
            }
            td class="id" { (text::order_link(&order.id)) }
            td { (states(order)) }
            td { a href=(text::version_path(&order.workflow)) { (order.workflow.name) } }
            td { (text::at(order.submitted_at)) }
            td class="number" { (order.failure_count()) }
            td { (why) }
        }
    }
}

/// An order's process state, and whether an operator paused or closed it.
pub(super) fn states(order: &Order) -> Markup {
    html! {
        (text::state(order.state.name()))
        @for mark in next::marks(order) {
            @let class = if mark == "closed" { "none" } else { "warn" };
            " " span class={ "state " (class) } { (mark) }
        }
    }
}

fn pages(found: &OrdersFound, visit: &Visit<'_>) -> Markup {
    let query = visit
        .query
        .query(&[&OrderFilter::NAMES[..], &["limit"]].concat());
    let join = if query.is_empty() { "" } else { "&" };
    html! {
        @if found.sampled {
            p class="note" { "A sample: no index answers this, and " (found.looked_at) " records were looked at. The next page goes on looking." }
        }
        div class="pages" {
            span class="soft" { (found.orders.len()) " orders" @if found.next.is_some() { ", and more" } }
            @if visit.query.one("cursor").is_some() {
                a href={ "/console/orders?" (query) } { "First page" }
            }
            @if let Some(next) = &found.next {
                a rel="next" href={ "/console/orders?" (query) (join) "cursor=" (next) } { "Next page" }
            }
        }
    }
}
