//! The work list: orders that need an operator, counted by cause.

use maud::{Markup, html};
use triad_core::Timestamp;
use triad_operator::causes::{CauseGroup, Causes, MAX_ROWS, among};

use super::{Visit, layout::Page, text};
use crate::installation::Installation;
use crate::problem::Problem;

pub(super) async fn page<I: Installation>(visit: &Visit<'_, I>) -> Result<Page, Problem> {
    let (store, now) = (visit.desk.of.store(), visit.desk.now());
    let found = among(
        store,
        &visit.query.filter(&visit.desk.settings.hidden)?,
        now,
        MAX_ROWS,
    )
    .await?;
    let orders: u64 = found.groups.iter().map(|group| group.orders).sum();
    let content = html! {
        h1 { "By cause" }
        p { "Orders in Error and CompensationFailed that no operator has closed. Follow a cause to its orders, choose some or all, try it, and do it with a reason." }
        @if found.groups.is_empty() { p { "No order needs an operator." } }
        @else {
            (table(&found, now))
            p {
                @if found.more { "At least " }
                (orders + found.others) " orders of " (found.groups.len()) " causes."
                @if found.more { " A sample: the " (MAX_ROWS) " that have waited longest were counted." }
            }
        }
        (text::unreadable(&found.skipped))
    };
    Ok(Page::new("By cause", content)
        .at("/console/causes")
        .live("/v1/operate/events"))
}

/// The causes, each with a link to its orders.
pub(super) fn table(causes: &Causes, now: Timestamp) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Causes" {
            table {
                thead { tr {
                    th class="number" scope="col" { "Orders" } th scope="col" { "State" } th scope="col" { "Cause" }
                    th scope="col" { "Oldest" } th scope="col" { "Newest" } th scope="col" { "Example" }
                } }
                tbody {
                    @for group in &causes.groups {
                        tr {
                            td class="number" { @if causes.more { "≥ " } (group.orders) }
                            td { (text::state(group.state.name())) }
                            td { a href=(path(group)) { @if group.cause.is_empty() { "(no cause)" } @else { (group.cause) } } }
                            td { (text::at(group.oldest)) " " span class="soft" { (text::since(group.oldest, now)) } }
                            td { (text::at(group.newest)) }
                            td { (text::order_link(&group.example)) }
                        }
                    }
                }
            }
        }
    }
}

/// Path of a cause's orders.
fn path(group: &CauseGroup) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("state", group.state.name());
    if !group.cause.is_empty() {
        query.append_pair("cause", &group.cause);
    }
    format!("/console/orders?{}", query.finish())
}
