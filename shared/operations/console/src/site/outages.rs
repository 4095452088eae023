//! What is wrong, at the top of the overview: which service, since when, how many orders wait for it, and what to do.

use maud::{Markup, html};
use triad_core::Timestamp;
use triad_operator::address::PageAddress;
use triad_operator::counts::Rate;
use triad_operator::outages::{Outage, OutageKind};

use super::text;

/// A box for each outage; nothing if all is well. `rates` are those of [`rates`](triad_operator::counts::rates).
pub(super) fn boxes(all: &[Outage], rates: Option<&[Rate]>, now: Timestamp) -> Markup {
    html! {
        @for one in all {
            div class={ "box " (class(&one.kind)) } role="status" {
                p {
                    strong { a href=(PageAddress::Downstream(one.downstream.as_str()).path()) { (one.downstream) } " " (title(&one.kind)) }
                    @if let Some(since) = one.since { " since " (text::at(since)) ", for " (text::since(since, now)) }
                    "."
                    (because(&one.kind))
                }
                p { (waiting(one, rates, now)) }
                p { (what_to_do(&one.kind)) }
            }
        }
    }
}

fn class(kind: &OutageKind) -> &'static str {
    match kind {
        OutageKind::Down { .. } => "bad",
        OutageKind::Paused { .. } | OutageKind::StepPaused { .. } | OutageKind::Busy { .. } => {
            "warn"
        }
    }
}

fn title(kind: &OutageKind) -> String {
    match kind {
        OutageKind::Down { .. } => "is down".to_owned(),
        OutageKind::Paused { by, .. } => format!("is paused by {by}"),
        OutageKind::StepPaused { step, by, .. } => {
            format!("is not called for {step}, paused by {by},")
        }
        OutageKind::Busy { under_way } => {
            format!(
                "is busy: {under_way} orders are under way to it, as many as it answers in time"
            )
        }
    }
}

fn because(kind: &OutageKind) -> Markup {
    let why = match kind {
        OutageKind::Down { why, .. }
        | OutageKind::Paused { why, .. }
        | OutageKind::StepPaused { why, .. } => why.as_str(),
        OutageKind::Busy { .. } => "",
    };
    html! { @if !why.is_empty() { " Why: " (why) "." } }
}

fn waiting(one: &Outage, rates: Option<&[Rate]>, now: Timestamp) -> Markup {
    html! {
        @if one.waiting == 0 { "No order waits for it." }
        @else {
            a href="/console/orders?state=UnderWay" {
                @if one.more { "At least " }
                (one.waiting) @if one.waiting == 1 { " order waits" } @else { " orders wait" }
            }
            " for it"
            @if let Some(oldest) = one.oldest { ", the oldest for " (text::since(oldest, now)) }
            "."
            @if let Some(minute) = rates.and_then(<[Rate]>::first) {
                " In the last minute " (minute.submitted) " orders came and " (minute.all_finished()) " ended"
                @if !minute.more && minute.all_finished() < minute.submitted { ": more and more wait." } @else { "." }
            }
        }
    }
}

fn what_to_do(kind: &OutageKind) -> Markup {
    html! {
        @match kind {
            OutageKind::Down { tried_again, .. } => {
                "Triad calls it again at " (text::at(*tried_again)) ", and the orders go on by themselves once it answers: mend the service. Waiting is no failure until the " code { "defer_for" } " of the workflow has passed, by default 24 hours."
            }
            OutageKind::Paused { .. } | OutageKind::StepPaused { .. } => {
                "The orders go on once it is resumed: " a href="/console/downstreams" { "Downstreams" } "."
            }
            OutageKind::Busy { .. } => "The orders go on by themselves, as fast as it answers.",
        }
    }
}
