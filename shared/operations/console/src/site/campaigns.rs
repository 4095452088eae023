//! Pages of campaigns: the list, and one campaign with the results of its orders.

use maud::{Markup, html};
use triad_core::{CampaignId, Timestamp};
use triad_operator::address::PageAddress;
use triad_operator::campaign::commands::is_left_behind;
use triad_operator::campaign::{CampaignAct, CampaignOrder, Done, OrderAfterAct, View};
use triad_operator::correction::Correction;
use triad_operator::operations::campaigns::CampaignStarted;
use triad_operator::operations::{
    ActOnOrders, GetCampaign, GetCampaignBatch, ListCampaigns, Problem, ResumeCampaign,
    StartCampaign, StopCampaign,
};

use super::downstreams::reason;
use super::layout::{Page, caller_line, csrf_input};
use super::{Visit, text};
use crate::params::Params;

/// Path of the list.
const AT: &str = "/console/campaigns";
/// Most orders of a batch on a page.
const SHOWN: usize = 500;

pub(super) async fn list(visit: &Visit<'_>) -> Result<Page, Problem> {
    let all = visit.ask(ListCampaigns::default()).await?.campaigns;
    let content = html! {
        h1 { "Campaigns" }
        p { "One act on many orders, carried out by the Supervisor in batches that grow. It stops early if too many orders fail again. Start one from a list of " a href="/console/orders" { "orders" } " or a " a href="/console/causes" { "cause" } "." }
        @if all.is_empty() { p { "There is none." } }
        @else {
            div class="scroll" tabindex="0" role="region" aria-label="Campaigns" {
                table {
                    thead { tr {
                        th scope="col" { "Campaign" } th scope="col" { "What" } th scope="col" { "Which orders" }
                        th scope="col" { "Started" } th scope="col" { "By" } th scope="col" { "How it stands" }
                        th class="number" scope="col" { "Done" } th class="number" scope="col" { "Well" }
                        th class="number" scope="col" { "Failed again" }
                    } }
                    tbody { @for one in &all {
                        tr {
                            td class="id" { (link(&one.id)) }
                            td { (one.what.name()) }
                            td { (fits(one)) }
                            td { (text::at(one.started_at)) }
                            td { (one.operator.by) }
                            td { (state_badge(one)) }
                            td class="number" { (one.orders.done) } td class="number" { (one.orders.well) }
                            td class="number" { (one.orders.again) }
                        }
                    } }
                }
            }
        }
    };
    Ok(Page::new("Campaigns", content)
        .at(AT)
        .live("/v1/operate/events?campaigns=true"))
}

fn link(id: &CampaignId) -> Markup {
    let id = id.to_string();
    html! { a href=(PageAddress::Campaign(&id).path()) { (id) } }
}

/// The orders that a campaign is for, as text.
fn fits(view: &View) -> String {
    let filter = &view.filter;
    let parts = [
        filter.state.map(|state| state.to_string()),
        filter.cause.as_ref().map(|cause| cause.0.clone()),
        filter
            .workflow
            .as_ref()
            .map(|name| format!("workflow {name}")),
        filter.search.as_ref().map(ToString::to_string),
        filter.older_than.map(|span| format!("older than {span}")),
        filter.newer_than.map(|span| format!("newer than {span}")),
        filter
            .error
            .as_ref()
            .map(|text| format!("{text:?} in the error")),
        filter
            .parent
            .as_ref()
            .map(|id| format!("child orders of {id}")),
        filter
            .event
            .as_ref()
            .map(|event| format!("wait for {event}")),
        filter.id.as_ref().map(|id| format!("{id:?} in the id")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

fn state_badge(view: &View) -> Markup {
    let class = match view.end.as_deref() {
        None => "busy",
        Some("finished") => "good",
        Some("stopped") => "warn",
        Some(_) => "bad",
    };
    let words = match view.end.as_deref() {
        Some("fails-again") => "stopped: still failing",
        Some("stalled") => "stopped: orders came to no end",
        Some(end) => end,
        None => &view.phase,
    };
    html! { span class={ "state " (class) } { (words) } }
}

pub(super) async fn campaign_page(visit: &Visit<'_>) -> Result<Page, Problem> {
    let id = visit.path_field("id");
    let view = visit.ask(GetCampaign { id: id.clone() }).await?.0;
    let is_all = visit.query.flag("all");
    let number = visit.query.one("batch").and_then(|text| text.parse().ok());
    let number = number.unwrap_or(view.batch).clamp(1, view.batch.max(1));
    let asked = GetCampaignBatch {
        id: id.clone(),
        batch: number,
    };
    let entries = match visit.ask(asked).await {
        Ok(batch) => batch.orders,
        // It has none yet, or its record has expired.
        Err(problem) if problem.status == 404 => Vec::new(),
        Err(problem) => return Err(problem),
    };
    // The possible changes depend on the state, so the form is in the part that is refreshed.
    let content = html! {
        (campaign_body(&view, visit.now()))
        (change_form(visit, &view))
        @if view.batch > 0 { (orders(&view, (number, is_all), &entries)) }
    };
    let events = format!("/v1/operate/events?campaign={id}");
    Ok(Page::new(format!("Campaign {id}"), content)
        .at(AT)
        .live(events))
}

/// A campaign in words and numbers.
fn campaign_body(view: &View, now: Timestamp) -> Markup {
    let counts = view.orders;
    let open = counts.done - counts.well - counts.again;
    html! {
        h1 { "Campaign: " (view.what.name()) }
        div class={ "box " (match view.end.as_deref() { Some("finished") => "good", None => "", Some(_) => "warn" }) } role="status" {
            p id="standing" { (state_badge(view)) " " (view.text) "." }
            p { (fits(view)) }
            (progress(view, now))
            p class="soft" { "By " (view.operator.by) ": " (view.operator.why) }
            @if view.end.is_none() {
                p class="soft" { "The Supervisor carries it out, whether this page is open or not. After a restart it goes on with the next order: what was done is stored, and is not done twice." }
            }
        }
        @match &view.what {
            CampaignAct::Correct { step, correction } => {
                p { "Step " code { (step) } ", input corrected: " code { (correction_in_words(correction)) } }
            }
            CampaignAct::Migrate { to } => p { "To " code { (to) } },
            _ => {}
        }
        dl class="facts" {
            dt { "Started" } dd { (text::at(view.started_at)) }
            @if let Some(at) = view.ended_at { dt { "Ended" } dd { (text::at(at)) } }
            dt { "Batch" } dd { (view.batch) }
            dt { "Acted on" } dd id="done" { (counts.done) }
            dt { "Ended well" } dd { (counts.well) }
            dt { "Failed again" } dd { (counts.again) }
            dt { "Under way" } dd { (open) }
            dt { "Refused" } dd { (counts.refused) }
            dt { "Could not be acted on" } dd { (counts.failed) }
            dt { "At most" } dd { (view.rate) " a second" }
            dt { "Stops" } dd { "beyond " (view.stop_share) " of 100 that fail again, or where most of a batch come to no end in " (view.patience) }
        }
        @for note in &view.notes {
            p { (text::at(note.at)) " " (note.what) " by " (note.operator.by) ": " (note.operator.why) }
        }
    }
}

/// How many of the orders were acted on, and how long the rest will take at this pace.
fn progress(view: &View, now: Timestamp) -> Markup {
    let counts = view.orders;
    let acted = counts.done + counts.refused + counts.failed;
    let Some(total) = view.total else {
        return super::nothing();
    };
    let left = total.orders.saturating_sub(acted);
    let took = now.since(view.started_at).0;
    let more = match acted {
        0 => None,
        acted => Some(u128::from(took) * u128::from(left) / u128::from(acted)),
    };
    html! {
        p id="progress" {
            progress max=(total.orders.max(acted)) value=(acted) {} " "
            (acted) " of " @if total.more { "at least " } (total.orders.max(acted)) " orders were acted on"
            @if view.end.is_none() && left > 0 {
                @if let Some(more) = more {
                    "; the others take about " (text::span(u64::try_from(more).unwrap_or(u64::MAX))) " more, if they go on like these"
                }
            }
            "."
        }
    }
}

fn correction_in_words(correction: &Correction) -> String {
    match correction {
        Correction::Whole(value) => value.to_string(),
        Correction::Set(all) => {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            all.join(", ")
        }
    }
}

fn orders(view: &View, (number, is_all): (u32, bool), entries: &[CampaignOrder]) -> Markup {
    let mut shown: Vec<&CampaignOrder> = entries.iter().collect();
    // Those that need a person come first.
    shown.sort_by_key(|entry| !is_left_behind(entry));
    let most = if is_all { SHOWN } else { ROWS };
    html! {
        h2 { "Batch " (number) " of " (view.batch) }
        div class="pages" {
            @if number > 1 { a href={ "?batch=" (number - 1) } { "The one before" } }
            @if number < view.batch { a href={ "?batch=" (number + 1) } { "The next" } }
        }
        div class="scroll" tabindex="0" role="region" aria-label="Orders of the batch" {
            table {
                thead { tr { th scope="col" { "Order" } th scope="col" { "Act" } th scope="col" { "Then" } th scope="col" { "Why" } } }
                tbody { @for entry in shown.into_iter().take(most) {
                    tr class=[is_left_behind(entry).then_some("left")] {
                        td class="id" { (text::order_link(&entry.order_id)) }
                        td { @match entry.result {
                            None => "to come",
                            Some(Done::Done) => (text::state("done")),
                            Some(Done::Refused) => (text::state("refused")),
                            Some(Done::Failed) => (text::state("failed")),
                        } }
                        td { @match entry.then {
                            None => "",
                            Some(OrderAfterAct::Well) => span class="state good" { "well" },
                            Some(OrderAfterAct::Again) => span class="state bad" { "failed again" },
                        } }
                        td { (entry.text.as_deref().unwrap_or_default()) }
                    }
                } }
            }
        }
        @if entries.len() > most {
            p { (most) " of " (entries.len()) " orders, those that need a person first. " a href={ "?batch=" (number) "&all=true" } { "All of them" } }
        }
    }
}

/// Most orders of a batch on a page that was not asked for all.
const ROWS: usize = 50;

/// The form that stops or resumes a campaign.
fn change_form(visit: &Visit<'_>, view: &View) -> Markup {
    let (path, button, offers) = match (view.is_over(), view.is_cut_short()) {
        (false, _) => ("stop", "Stop", true),
        (true, true) => ("resume", "Go on, with small batches first", true),
        (true, false) => ("", "", false),
    };
    html! {
        @if offers && visit.may_act() {
            form method="post" action={ (AT) "/" (view.id) "/" (path) } {
                fieldset {
                    legend { (button) }
                    (csrf_input(visit))
                    div class="fields" { (caller_line(visit)) button class="do" type="submit" { (button) } }
                }
            }
        }
    }
}

/// Starts a campaign from the form of a list of orders; returns the path of its page.
pub(super) async fn begin(
    visit: &Visit<'_>,
    form: &Params,
    request: ActOnOrders,
) -> Result<String, Problem> {
    let text = "a campaign is for all orders that fit a filter: choose those in the list above, or act on the chosen ones at once";
    let filter = request
        .filter
        .ok_or_else(|| Problem::bad("bad-filter", text))?;
    let stop_share = form.one("stop_share").map(str::parse).transpose();
    let bad = |_| Problem::bad("bad-stop-share", "the share is a number from 1 to 100");
    let wanted = StartCampaign {
        act: request.act,
        filter,
        details: request.details,
        reason: request.reason,
        dry_run: false,
        rate: request.rate,
        stop_share: stop_share.map_err(bad)?,
        patience: form.said("patience"),
    };
    match visit.ask(wanted).await? {
        CampaignStarted::Started(view) => Ok(PageAddress::Campaign(&view.id.to_string()).path()),
        CampaignStarted::Tried(_) => Err(Problem::internal("it was no dry run")),
    }
}

/// Stops or resumes a campaign; returns the path of its page.
pub(super) async fn act(
    visit: &Visit<'_>,
    (id, what): (&str, &str),
    form: &Params,
) -> Result<String, Problem> {
    let (id, reason) = (id.to_owned(), reason(form));
    let changed = match what {
        "resume" => visit.ask(ResumeCampaign { id, reason }).await,
        _ => visit.ask(StopCampaign { id, reason }).await,
    };
    Ok(PageAddress::Campaign(&changed?.0.id.to_string()).path())
}
