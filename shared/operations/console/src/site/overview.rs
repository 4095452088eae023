//! The overview: what is under way, what waits, and what needs an operator.

use std::collections::BTreeSet;

use maud::{Markup, html};
use triad_core::Timestamp;
use triad_operator::address::PageAddress;
use triad_operator::counts::{CLOSED, OrderCounts, Rate};
use triad_operator::downstreams::{DownstreamView, Waiting, Why, reachability};
use triad_operator::operations::order_queries::CausesFound;
use triad_operator::operations::{GetHistory, GetOverview, Problem};
use triad_operator::recent::Letters;

use super::outages::boxes;
use super::{Visit, alerts, causes, layout::Page, plots, text};

pub(super) async fn page(visit: &Visit<'_>) -> Result<Page, Problem> {
    let (found, now) = (visit.ask(GetOverview::default()).await?, visit.now());
    let history = visit.ask(GetHistory::default()).await?;
    let is_day = visit.query.one("range") == Some("day");
    let (counts, rates) = (&found.counts.counts, found.counts.rates.as_deref());
    let content = html! {
        h1 { "Overview" }
        (boxes(&found.outages, rates, now))
        (tiles(counts, rates, found.dead_letters.ok_or(found.dead_letters_unread.as_deref()), now))
        (plots::all(&history, is_day, now))
        (by_cause(&found.causes, now))
        h2 { "Alerts of the last day" }
        @match &found.alerts_unread {
            Some(why) => p class="note" { "The topic of alerts was not read: " (why) "." },
            None => (alerts::table(&found.alerts)),
        }
        @let left_out = found.alert_groups - found.alerts.len();
        @if left_out > 0 { p { a href="/console/alerts" { (left_out) " more" } } }
        (held(&found.downstreams, &found.waiting))
        (by_state(counts, rates))
    };
    Ok(Page::new("Overview", content)
        .at("/console/")
        .live("/v1/operate/events"))
}

fn tiles(
    counts: &OrderCounts,
    rates: Option<&[Rate]>,
    letters: Result<Letters, Option<&str>>,
    now: Timestamp,
) -> Markup {
    html! {
        ul class="tiles" aria-label="Orders" {
            @for one in &counts.needing {
                li {
                    a href={ "/console/orders?state=" (one.state) } {
                        span class="figure" { (least(one.more)) (one.orders) }
                        (text::state(&one.state))
                    }
                    @if let Some(at) = one.oldest { div class="soft" { "oldest " (text::at(at)) } }
                }
            }
            li {
                a href="/console/orders?state=UnderWay" {
                    span class="figure" { (least(counts.under_way.more)) (counts.under_way.orders) }
                    span class="label" { "under way" }
                }
                @if counts.under_way.set_aside > 0 {
                    div class="soft" { (counts.under_way.set_aside) " set aside" }
                }
                @if counts.under_way.overdue > 0 {
                    div class="state bad" { (least(counts.under_way.more_overdue)) (counts.under_way.overdue) " overdue" }
                }
                @if let Some(due) = counts.under_way.oldest_due {
                    div class="soft" { "the oldest for " (text::since(due, now)) }
                }
            }
            li {
                a href="/console/dead-letters" {
                    @match letters {
                        Ok(found) => span class="figure" { (least(found.more)) (found.letters) },
                        Err(_) => span class="figure" { "?" },
                    }
                    span class="label" { "dead letters in a day" }
                }
                @if let Err(Some(why)) = letters { div class="soft" { "not read: " (why) } }
            }
            @if let Some(minute) = rates.and_then(<[Rate]>::first) {
                li {
                    span class="figure" { (minute.p50_ms.map_or_else(|| "–".to_owned(), text::span)) }
                    span class="label" { "p50, submission to end, in the last minute" }
                    div class="soft" { "p99 " (minute.p99_ms.map_or_else(|| "–".to_owned(), text::span)) }
                }
                li {
                    span class="figure" { (least(minute.more)) (minute.all_finished()) }
                    span class="label" { "finished in the last minute" }
                    div class="soft" { (least(minute.more)) (minute.submitted) " submitted" }
                }
            }
        }
    }
}

fn by_cause(top: &CausesFound, now: Timestamp) -> Markup {
    html! {
        h2 { "What needs an operator" }
        @if top.causes.is_empty() { p { "No order does." } }
        @else {
            (causes::table(top, now))
            p { a href="/console/causes" { "All causes" } }
        }
    }
}

fn held(all: &[DownstreamView], waiting: &[Waiting]) -> Markup {
    html! {
        h2 { "Downstreams" }
        @if all.is_empty() { p { "No workflow is published." } }
        @else {
            ul class="tiles" aria-label="Downstreams" {
                @for one in all {
                    li {
                        a href=(PageAddress::Downstream(one.downstream.as_str()).path()) { (one.downstream) }
                        div {
                            (text::state(reachability(&one.record.breaker)))
                            @if one.record.forced.is_some() { " " span class="state warn" { "set by hand" } }
                            @if !one.record.paused.is_empty() { " " span class="state warn" { "steps paused" } }
                        }
                        @for waits in waiting.iter().filter(|w| w.waiting_for == one.downstream.as_str() && w.why != Why::NeedsOthers) {
                            div class="soft" { (waits.pressure.waiting) " wait" }
                        }
                    }
                }
            }
        }
    }
}

fn by_state(counts: &OrderCounts, rates: Option<&[Rate]>) -> Markup {
    html! {
        h2 { "Orders by state" }
        @if let Some(orders) = &counts.orders {
            p class="note" { (orders.values().sum::<u64>()) " orders are stored." }
            ul class="tiles" aria-label="Orders by state" {
                @for (name, orders) in orders {
                    li {
                        @if name == CLOSED {
                            span class="figure" { (orders) }
                            span class="label" { "closed by an operator" }
                        } @else {
                            a href={ "/console/orders?state=" (name) } {
                                span class="figure" { (orders) }
                                (text::state(name))
                            }
                        }
                    }
                }
            }
        } @else {
            p class="note" {
                "Orders that have ended well are not counted here, on DynamoDB: see the metrics "
                code { "triad_orders_accepted_total" } " and " code { "triad_orders_ended_total" } "."
            }
        }
        @if let Some(rates) = rates { (table(rates)) }
        p { a href="/console/dead-letters" { "Dead letters" } " · " a href="/console/orders" { "All orders" } }
    }
}

/// Recent rates of submission and completion.
fn table(rates: &[Rate]) -> Markup {
    let names = rates.iter().flat_map(|rate| rate.finished.keys());
    let names: BTreeSet<&String> = names.collect();
    html! {
        h2 { "Submitted and finished" }
        div class="scroll" tabindex="0" role="region" aria-label="Rates" {
            table {
                thead {
                    tr {
                        th scope="col" { "Within" }
                        th scope="col" class="number" { "Submitted" }
                        th scope="col" class="number" { "Finished" }
                        @for name in &names { th scope="col" class="number" { (name) } }
                    }
                }
                tbody {
                    @for (rate, within) in rates.iter().zip(["minute", "hour", "day"]) {
                        tr {
                            td { "the last " (within) }
                            td class="number" { (least(rate.more)) (rate.submitted) }
                            td class="number" { (least(rate.more)) (rate.all_finished()) }
                            @for name in &names {
                                td class="number" { (least(rate.more)) (rate.finished.get(*name).copied().unwrap_or(0)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The words before a count that was cut at a limit.
fn least(more: bool) -> &'static str {
    if more { "≥ " } else { "" }
}
