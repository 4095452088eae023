//! Alerts by what they are about, on the overview and on a page of their own.

use maud::{Markup, html};
use triad_operator::address::PageAddress;
use triad_operator::alert::in_words;
use triad_operator::recent::{Alerts, grouped};

use super::{Visit, layout::Page, text};
use crate::installation::Installation;

/// The page of all alerts that are read.
pub(super) async fn page<I: Installation>(visit: &Visit<'_, I>) -> Page {
    let heard = visit.desk.topic_reads().await;
    let content = html! {
        h1 { "Alerts of the last day" }
        (table(&heard.alerts, usize::MAX))
    };
    Page::new("Alerts", content)
        .at("/console/alerts")
        .live("/v1/operate/events")
}

/// At most `most` groups, the newest first, and how many are left out.
pub(super) fn table(heard: &Result<Alerts, String>, most: usize) -> Markup {
    let found = match heard {
        Err(why) => {
            return html! { p class="note" { "The topic of alerts was not read: " (why) "." } };
        }
        Ok(found) if found.alerts.is_empty() => return html! { p { "None." } },
        Ok(found) => found,
    };
    let groups = grouped(&found.alerts);
    let left_out = groups.len().saturating_sub(most);
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Alerts" {
            table {
                thead { tr {
                    th class="number" scope="col" { "Alerts" } th scope="col" { "Newest" } th scope="col" { "First" }
                    th scope="col" { "About" } th scope="col" { "What" }
                } }
                tbody {
                    @for group in groups.iter().take(most) {
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
        @if left_out > 0 { p { a href="/console/alerts" { (left_out) " more" } } }
        @if found.more { p class="note" { "There are more alerts than were read; the newest " (found.alerts.len()) " are counted." } }
    }
}
