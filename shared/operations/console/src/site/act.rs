//! Acts on orders from a form: first a dry run, then the act.

use std::collections::HashMap;

use maud::{Markup, html};
use serde_json::Value;
use triad_core::{Order, ProcessState};
use triad_operator::bulk::{ActResult, MAX_AT_ONCE};
use triad_operator::operations::order_acts::{ActDetails, ActedOnOrders, OrderAct};
use triad_operator::operations::{ActOnOrders, OrderFilter, Problem};
use triad_operator::outcome::Verdict;
use triad_workflow::numbers;

use super::downstreams::reason;
use super::layout::{Page, caller_line, csrf_input};
use super::{Visit, campaigns, text};
use crate::params::Params;

/// Most orders or letters with a result of their own on a page; beyond it results are counted.
pub(super) const ROWS: usize = 50;
/// Most different results that are counted separately.
const OUTCOMES: usize = 20;

/// Fields of a form that acts on the chosen orders, or on all that the page's filter fits. For a cause, "all" is
/// preselected: an operator who follows a cause usually acts on all its orders.
pub(super) fn fields(visit: &Visit<'_>, has_filter: bool) -> Markup {
    let acts_on = offered(visit.query.one("state"));
    if acts_on.is_empty() {
        return html! { p class="note" { "These orders have ended well: there is nothing to do about them." } };
    }
    html! {
        fieldset {
            legend { "Act on orders" }
            (csrf_input(visit))
            @for name in OrderFilter::NAMES {
                @if let Some(value) = visit.query.one(name) {
                    input type="hidden" name={ "filter_" (name) } value=(value);
                }
            }
            @let of_cause = visit.query.one("cause").is_some();
            div class="fields" {
                label { "On" select name="scope" {
                    option value="chosen" { "those that are chosen" }
                    @if has_filter {
                        option value="all" selected[of_cause] { "all that fit the filter, " (MAX_AT_ONCE) " at most" }
                    }
                } }
                (acts(&acts_on))
                (caller_line(visit))
            }
            (further())
            (buttons())
            @if has_filter { (campaign()) }
        }
    }
}

/// The choice to act on all fitting orders by a campaign.
fn campaign() -> Markup {
    html! {
        details { summary { "All that fit, however many: a campaign" }
            p { "The Supervisor carries it out in batches of 1, 2, 5, 20 and more, even if this page is closed, and stops it early if too many orders fail again." }
            div class="fields" {
                label { "Stop if more than this percentage fails again" input name="stop_share" type="number" min="1" max="100" placeholder="20" size="4"; }
                label { "Wait for a batch at most" input name="patience" placeholder="10m" size="6"; }
                button class="do" type="submit" name="do" value="campaign" { "Start a campaign" }
            }
        }
    }
}

/// The form on an order's page. For each step it sends the number of the latest attempt that the page showed: an
/// operator's answer about an effect is refused if a newer attempt has been made since.
pub(super) fn of_one(visit: &Visit<'_>, order: &Order, advised: &[&str]) -> Markup {
    if matches!(order.state, ProcessState::Processed { .. }) {
        return super::nothing();
    }
    let mut all = OrderAct::ALL;
    all.sort_by_key(|act| !advised.contains(&act.name()));
    html! {
        form method="post" action="/console/act" {
            fieldset {
                legend { "Act on this order" }
                (csrf_input(visit))
                input type="hidden" name="scope" value="chosen";
                input type="hidden" name="orders" value=(order.id);
                @for record in &order.steps {
                    input type="hidden" name="seen" value=(format!("{}={}", record.step, record.actions()));
                }
                div class="fields" { (acts(&all)) (caller_line(visit)) }
                (further())
                (buttons())
            }
        }
    }
}

/// The acts, with the usual one for this state first; none for orders that have ended well.
fn offered(state: Option<&str>) -> Vec<OrderAct> {
    let is = |name: &str| state.is_some_and(|state| state.eq_ignore_ascii_case(name));
    let usual = match () {
        () if is("Processed") => return Vec::new(),
        () if is("CompensationFailed") => OrderAct::RetryCompensation,
        () if is("Paused") => OrderAct::Resume,
        () if is("Pending") || is("Processing") || is("UnderWay") => OrderAct::Cancel,
        () => OrderAct::Resubmit,
    };
    let mut all = OrderAct::ALL.to_vec();
    all.sort_by_key(|act| *act != usual);
    all
}

fn acts(all: &[OrderAct]) -> Markup {
    html! {
        label { "What" select name="act" {
            @for act in all { option value=(act.name()) { (act.name()) } }
        } }
    }
}

/// Optional fields of the acts.
fn further() -> Markup {
    html! {
        details { summary { "Amended details, a corrected input, resolving, moving, rate" }
        div class="fields" {
            label data-for="resubmit resolve" { "Step (for a corrected input, or to resolve)" input name="step"; }
            label data-for="resolve" { "Did the effect happen?" select name="applied" {
                option value="" { "–" } option value="yes" { "yes" } option value="no" { "no" }
            } }
            label data-for="migrate" { "To workflow" input name="to_workflow"; }
            label data-for="migrate" { "To version (empty: the present one)" input name="to_version"; }
            label { "Orders a second" input name="rate" type="number" min="1" max="10000" placeholder="50" size="6"; }
        }
        label class="wide" data-for="amend" { "What changes in the details, as JSON; null removes a field"
            textarea name="details" rows="2" {} }
        label class="wide" data-for="resubmit" { "Values in the step's input, one a line, such as amount=12.5"
            textarea name="set" rows="2" {} }
        label class="wide" data-for="resubmit" { "Or its whole new input, as JSON"
            textarea name="input" rows="2" {} }
        label class="wide" data-for="resolve" { "What the service answered, as JSON"
            textarea name="output" rows="2" {} }
        }
    }
}

fn buttons() -> Markup {
    html! {
        p {
            button type="submit" name="do" value="try" { "Dry run" }
            " "
            button class="do" type="submit" name="do" value="act" { "Do it" }
        }
    }
}

/// Carries out a form's request, and shows the result.
pub(super) async fn orders(visit: &Visit<'_>, form: &Params) -> Result<Page, Problem> {
    let done = visit.ask(request(form)?).await?;
    let title = match done.dry_run {
        true => format!("Dry run: {}", done.act.name()),
        false => format!("Done: {}", done.act.name()),
    };
    Ok(Page::new(title.clone(), result_page(visit, form, &done, &title)).at("/console/orders"))
}

/// Starts a campaign from a form; returns the path of the campaign's page.
pub(super) async fn start_campaign(visit: &Visit<'_>, form: &Params) -> Result<String, Problem> {
    campaigns::begin(visit, form, request(form)?).await
}

fn request(form: &Params) -> Result<ActOnOrders, Problem> {
    let bad = |text: &str| Problem::bad("bad-act", text.to_owned());
    if form.one("scope") == Some("all")
        && form.one("do") != Some("campaign")
        && !form.all("orders").is_empty()
    {
        let text = "the form has both chosen orders and the choice of all that fit the filter: send one of the two";
        return Err(bad(text));
    }
    let act = form.one("act").and_then(OrderAct::of);
    // A campaign is for all fitting orders, whatever orders are chosen.
    let is_all = form.one("scope") == Some("all") || form.one("do") == Some("campaign");
    let json = |name: &str| -> Result<Option<Value>, Problem> {
        let text = form.one(name);
        if let Some(place) = text.and_then(numbers::altered) {
            let why = format!(
                "{name} has a number that would be rounded, at {place:?}: write it as a text"
            );
            return Err(Problem::bad("number-out-of-range", why));
        }
        let value = text.map(serde_json::from_str).transpose();
        value.map_err(|e| Problem::bad("bad-act", format!("{name} is not JSON: {e}")))
    };
    let lines = form.one("set").unwrap_or_default().lines();
    let lines = lines.map(str::trim).filter(|line| !line.is_empty());
    let rate = form.one("rate").map(str::parse).transpose();
    Ok(ActOnOrders {
        act: act.ok_or_else(|| bad("choose what is to be done"))?,
        orders: match is_all {
            true => Vec::new(),
            false => form.all("orders"),
        },
        filter: is_all.then(|| OrderFilter {
            search: form.said("filter_search"),
            state: form.said("filter_state"),
            cause: form.said("filter_cause"),
            workflow: form.said("filter_workflow"),
            older_than: form.said("filter_older_than"),
            newer_than: form.said("filter_newer_than"),
            error: form.said("filter_error"),
            parent: form.said("filter_parent"),
            event: form.said("filter_event"),
            id: form.said("filter_id"),
        }),
        limit: None,
        details: ActDetails {
            amendment: json("details")?,
            step: form.said("step"),
            input: json("input")?,
            set: lines.map(str::to_owned).collect(),
            applied: form.one("applied").map(|said| said == "yes"),
            output: json("output")?,
            attempt: resolved(form),
            to_workflow: form.said("to_workflow"),
            to_version: form.said("to_version"),
        },
        reason: reason(form),
        dry_run: form.one("do") != Some("act"),
        rate: rate.map_err(|_| bad("the rate is a number of orders a second"))?,
    })
}

/// The attempt that is resolved: the latest one that the page showed.
fn resolved(form: &Params) -> Option<u32> {
    let step = form.one("step")?;
    let is_resolved = form.one("act") == Some(OrderAct::Resolve.name());
    let seen = form.all("seen");
    let of_step = |seen: &String| {
        let (of, attempt) = seen.split_once('=')?;
        (of == step).then(|| attempt.parse().ok())?
    };
    is_resolved.then(|| seen.iter().find_map(of_step))?
}

/// The fields of a dry run that its confirmation sends again.
const AGAIN: [&str; 27] = [
    "scope",
    "seen",
    "act",
    "why",
    "by",
    "rate",
    "details",
    "step",
    "input",
    "set",
    "applied",
    "output",
    "to_workflow",
    "to_version",
    "filter_search",
    "filter_state",
    "filter_cause",
    "filter_workflow",
    "filter_older_than",
    "filter_newer_than",
    "filter_error",
    "filter_parent",
    "filter_event",
    "filter_id",
    "orders",
    "stop_share",
    "patience",
];

fn result_page(visit: &Visit<'_>, form: &Params, done: &ActedOnOrders, title: &str) -> Markup {
    let tally = done.tally;
    html! {
        h1 { (title) }
        div class={ "box " (if tally.refused + tally.failed + tally.left == 0 { "good" } else { "warn" }) } role="status" {
            p {
                strong id="tally" { (tally.done) (if done.dry_run { " would be done, " } else { " done, " })
                    (tally.refused) " refused, " (tally.failed) " failed" }
                @if tally.left > 0 { ", " (tally.left) " not reached within the time of one request: repeat it" }
                "."
            }
            @if done.dry_run { p { "Nothing was written." } }
            @if tally.unsent > 0 { p { (tally.unsent) " are stored, and their messages are not sent yet: the Supervisor sends them." } }
            @if done.more { p { "The filter fits further orders: " (MAX_AT_ONCE) " are taken at once, and all of them by a campaign." } }
            p class="soft" { "By " (done.by) ": " (done.why) }
        }
        @if done.dry_run && tally.done > 0 {
            form method="post" action="/console/act" {
                (csrf_input(visit))
                @for name in AGAIN {
                    @for value in form.all(name) { input type="hidden" name=(name) value=(value); }
                }
                p {
                    button class="do" type="submit" name="do" value="act" { "Do it" }
                    @if form.one("scope") == Some("all") && !done.act.is_of_one_order() {
                        " " button type="submit" name="do" value="campaign" { "Start a campaign" }
                    }
                }
            }
        }
        (differences(done))
        (results(done))
        p { a href="/console/causes" { "By cause" } " · " a href="/console/orders" { "Orders" } }
    }
}

fn results(done: &ActedOnOrders) -> Markup {
    let is_done = |line: &&ActResult| line.result == Verdict::Done;
    let mut lines: Vec<&ActResult> = done.results.iter().collect();
    lines.sort_by_key(is_done);
    let all = lines.len();
    html! {
        @if all > ROWS { (outcomes(done)) }
        div class="scroll" tabindex="0" role="region" aria-label="Results" {
            table {
                caption {
                    @if done.dry_run { "What would come of each order" } @else { "What came of each order" }
                    @if all > ROWS { ": " (ROWS) " of " (all) ", unfinished ones at the top" }
                }
                thead { tr { th scope="col" { "Order" } th scope="col" { "Result" } th scope="col" { "What" } } }
                tbody {
                    @for line in lines.into_iter().take(ROWS) {
                        tr {
                            td class="id" { (text::order_link(&line.order_id)) }
                            td { (verdict(line.result, done.dry_run)) }
                            td { (line.text) }
                        }
                    }
                }
            }
        }
    }
}

/// How many orders had each result, the most frequent first. The last row sums those that are not counted separately.
fn outcomes(done: &ActedOnOrders) -> Markup {
    let mut counted: HashMap<(Verdict, String), usize> = HashMap::new();
    for line in &done.results {
        let outcome = (line.result, line.text.clone());
        *counted.entry(outcome).or_default() += 1;
    }
    let mut counted: Vec<_> = counted.into_iter().collect();
    counted.sort_by(|(a, many), (b, more)| (more, &a.1).cmp(&(many, &b.1)));
    let rest = counted.split_off(counted.len().min(OUTCOMES));
    let rest: usize = rest.into_iter().map(|(_, orders)| orders).sum();
    html! {
        table id="outcomes" {
            caption { "By outcome" }
            thead { tr { th scope="col" { "Orders" } th scope="col" { "Result" } th scope="col" { "What" } } }
            tbody {
                @for ((of, what), orders) in &counted {
                    tr { td class="number" { (orders) } td { (verdict(*of, done.dry_run)) } td { (what) } }
                }
                @if rest > 0 { tr { td class="number" { (rest) } td {} td { "other outcomes" } } }
            }
        }
    }
}

fn verdict(verdict: Verdict, dry_run: bool) -> Markup {
    match verdict {
        Verdict::Done if dry_run => html! { span class="state good" { "would be done" } },
        other => text::state(other.name()),
    }
}

fn differences(done: &ActedOnOrders) -> Markup {
    let value = |value: &Option<Value>| value.clone().unwrap_or_default().to_string();
    html! {
        @if !done.differences.is_empty() {
            h2 { "What changes in the input" }
            ul {
                @for of in done.differences.iter().take(ROWS) {
                    @for one in &of.changes {
                        li { (of.order_id) ": " code { (one.path) } " from "
                            code { (value(&one.before)) } " to " code { (value(&one.after)) } }
                    }
                }
            }
            @if done.differences.len() > ROWS { p class="soft" { "Of the first " (ROWS) " orders." } }
        }
    }
}
