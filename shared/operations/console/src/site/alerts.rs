//! Alerts by what they are about, on the overview and on a page of their own.

use maud::{Markup, html};
use triad_operator::address::PageAddress;
use triad_operator::alert::in_words;
use triad_operator::operations::{ListAlerts, Problem};
use triad_operator::pages::MAX_PAGE;
use triad_operator::recent::{AlertGroup, grouped};

use super::{Visit, layout::Page, text};

/// The page of the newest alerts of the last day.
pub(super) async fn page(visit: &Visit<'_>) -> Result<Page, Problem> {
    let newest = ListAlerts {
        limit: Some(MAX_PAGE),
        ..ListAlerts::default()
    };
    let found = visit.ask(newest).await?.0;
    let content = html! {
        h1 { "Alerts of the last day" }
        (table(&grouped(&found.alerts)))
        @if found.more { p class="note" { "There are more alerts than were read; the newest " (found.alerts.len()) " are counted." } }
    };
    Ok(Page::new("Alerts", content)
        .at("/console/alerts")
        .live("/v1/operate/events"))
}

/// Groups of alerts, the newest first.
pub(super) fn table(groups: &[AlertGroup]) -> Markup {
    if groups.is_empty() {
        return html! { p { "None." } };
    }
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Alerts" {
            table {
                thead { tr {
                    th class="number" scope="col" { "Alerts" } th scope="col" { "Newest" } th scope="col" { "First" }
                    th scope="col" { "About" } th scope="col" { "What" }
                } }
                tbody {
                    @for group in groups {
                        tr {
                            td class="number" { (group.alerts) }
                            td { (text::at(group.newest.at)) }
                            td { @if group.alerts > 1 { (text::at(group.first)) } }
                            td {
                                @match PageAddress::of_alert(&group.newest) {
                                    Some(place) => a href=(place.path()) { (in_words(group.newest.kind)) },
                                    None => (in_words(group.newest.kind)),
                                }
                            }
                            td { (group.newest.cause) }
                        }
                    }
                }
            }
        }
    }
}
