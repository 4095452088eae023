//! The work list: orders that need an operator, counted by cause.

use maud::{Markup, html};
use triad_core::Timestamp;
use triad_operator::causes::{CauseGroup, MAX_ROWS};
use triad_operator::operations::order_queries::CausesFound;
use triad_operator::operations::{ListCauses, Problem};

use super::{Visit, layout::Page, text};

pub(super) async fn page(visit: &Visit<'_>) -> Result<Page, Problem> {
    let found = visit.ask(visit.asked::<ListCauses>()?).await?;
    let now = visit.now();
    let content = html! {
        h1 { "By cause" }
        p { "Orders in Error and CompensationFailed that no operator has closed. Follow a cause to its orders, choose some or all, try it, and do it with a reason." }
        @if found.causes.is_empty() { p { "No order needs an operator." } }
        @else {
            (table(&found, now))
            p {
                @if found.sampled { "At least " }
                (found.orders()) " orders of " (found.causes.len()) " causes."
                @if found.sampled { " A sample: the " (MAX_ROWS) " that have waited longest were counted." }
            }
        }
        (text::unreadable(&found.unreadable, found.unreadable_others))
    };
    Ok(Page::new("By cause", content)
        .at("/console/causes")
        .live("/v1/operate/events"))
}

/// The causes, each with a link to its orders.
pub(super) fn table(causes: &CausesFound, now: Timestamp) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Causes" {
            table {
                thead { tr {
                    th class="number" scope="col" { "Orders" } th scope="col" { "State" } th scope="col" { "Cause" }
                    th scope="col" { "Oldest" } th scope="col" { "Newest" } th scope="col" { "Example" }
                } }
                tbody {
                    @for group in &causes.causes {
                        tr {
                            td class="number" { @if causes.sampled { "≥ " } (group.orders) }
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
