//! Downstreams: their state, what waits for them, and the form that holds them.

use std::cmp::Reverse;

use maud::{Markup, html};
use triad_core::downstream::{Downstream, ForcedTo, MAX_EARLIER};
use triad_operator::address::row;
use triad_operator::downstreams::{DownstreamView, Why, reachability};
use triad_operator::operations::downstreams::DownstreamAct;
use triad_operator::operations::{ActOnDownstreams, ListDownstreams, Problem, Reason};

use super::layout::{Page, caller_line, csrf_input};
use super::{Visit, text};
use crate::params::Params;

pub(super) async fn page(visit: &Visit<'_>) -> Result<Page, Problem> {
    let found = visit.ask(ListDownstreams::default()).await?;
    let (all, waiting) = (&found.downstreams, &found.waiting);
    let content = html! {
        h1 { "Downstreams" }
        @if all.is_empty() { p { "No workflow is published." } }
        @else {
            div class="scroll" tabindex="0" role="region" aria-label="Downstreams" {
                table {
                    thead { tr {
                        th scope="col" { "Downstream" } th scope="col" { "State" } th scope="col" { "Set by hand" }
                        th scope="col" { "Paused steps" } th scope="col" { "Last change" }
                        th class="number" scope="col" { "Deferred orders" }
                    } }
                    tbody {
                        @for one in all {
                            tr id=(row(one.downstream.as_str())) {
                                td { (one.downstream) @if one.is_not_called() { " " span class="state bad" { "not called" } } }
                                td { (text::state(reachability(&one.record.breaker))) }
                                td { (forced(&one.record)) }
                                td { @for p in &one.record.paused { (p.workflow) "/" (p.step) " by " (p.hold.act.by) ": " (p.hold.act.why) br; } }
                                td { @if !one.record.last.what.is_empty() { (text::at(one.record.last.at)) " " (one.record.last.what) } }
                                td class="number" { @if found.sampled { "≥ " } (found.deferred.get(&one.downstream).copied().unwrap_or(0)) }
                            }
                        }
                    }
                }
            }
        }
        (history(all))
        @if !waiting.is_empty() {
            h2 { "What orders wait for" }
            ul {
                @for one in waiting {
                    li { (one.pressure.waiting) " wait for " (one.waiting_for) ": " (why(one.why)) " (" (one.pressure.under_way) " of " (one.pressure.bound) " under way)" }
                }
            }
        }
    };
    let behind = match visit.may_act() && !all.is_empty() {
        true => form(visit, all.iter().map(|one| one.downstream.as_str())),
        false => super::nothing(),
    };
    let shown = Page::new("Downstreams", content).at("/console/downstreams");
    Ok(shown.live("/v1/operate/events").behind(behind))
}

/// Recorded changes of downstreams, the newest first.
fn history(all: &[DownstreamView]) -> Markup {
    let changes = all.iter().flat_map(|one| {
        let kept = std::iter::once(&one.record.last).chain(&one.record.earlier);
        let kept = kept.filter(|change| !change.what.is_empty());
        kept.map(|change| (&one.downstream, change))
    });
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by_key(|(_, change)| Reverse(change.at));
    html! {
        @if !changes.is_empty() {
            h2 { "History" }
            p class="note" { "The last " (MAX_EARLIER + 1) " changes of each downstream: its breaker, and what operators did." }
            div class="scroll" tabindex="0" role="region" aria-label="History" {
                table {
                    thead { tr { th scope="col" { "When" } th scope="col" { "Downstream" } th scope="col" { "What" } } }
                    tbody {
                        @for (downstream, change) in &changes {
                            tr { td { (text::at(change.at)) } td { (downstream) } td { (change.what) } }
                        }
                    }
                }
            }
        }
    }
}

fn forced(record: &Downstream) -> Markup {
    html! {
        @if let Some(forced) = &record.forced {
            @match forced.to { ForcedTo::Open => "open", ForcedTo::Closed => "closed" }
            " by " (forced.hold.act.by) ": " (forced.hold.act.why)
        }
    }
}

fn why(why: Why) -> &'static str {
    match why {
        Why::NotToBeCalled => "it is not to be called for now",
        Why::Full => "as many are under way as it answers in time",
        Why::NeedsOthers => "they wait for another one",
    }
}

fn form<'a>(visit: &Visit<'_>, agents: impl Iterator<Item = &'a str>) -> Markup {
    html! {
        form method="post" action="/console/downstreams/act" {
            fieldset {
                legend { "Hold a downstream, or let it go" }
                (csrf_input(visit))
                div class="fields" {
                    label { "What" select name="what" { @for (name, _) in DownstreamAct::ALL { option value=(name) { (name) } } } }
                    label { "Downstream" select name="downstream" {
                        option value="" { "–" }
                        @for agent in agents { option value=(agent) { (agent) } }
                    } }
                    label { "Or a step in all orders" input name="step_type" placeholder="workflow/step"; }
                    (caller_line(visit))
                    button class="do" type="submit" { "Do it" }
                }
                p class="note" { "pause makes no call until resume; what is on its way is not called back, and what waits does not count as failed." }
            }
        }
    }
}

pub(super) async fn act(visit: &Visit<'_>, form: &Params) -> Result<Page, Problem> {
    let act = DownstreamAct::ALL
        .into_iter()
        .find(|(name, _)| Some(*name) == form.one("what"));
    let (name, act) = act.ok_or_else(|| Problem::bad("bad-act", "choose what is to be done"))?;
    let acted = visit
        .ask(ActOnDownstreams {
            act,
            downstream: form.said("downstream"),
            step_type: form.said("step_type"),
            reason: reason(form),
            dry_run: false,
        })
        .await?;
    let title = format!("Done: {name}");
    let content = html! {
        h1 { (title) }
        ul role="status" {
            @for one in &acted.results {
                li { (one.downstream) " " (text::state(&one.result)) " " (one.text) }
            }
        }
        p { a href="/console/downstreams" { "Downstreams" } }
    };
    Ok(Page::new(title, content).at("/console/downstreams"))
}

/// Who acts and why, from a form.
pub(super) fn reason(form: &Params) -> Reason {
    Reason {
        why: form.said("why").unwrap_or_default(),
        by: form.said("by"),
    }
}
