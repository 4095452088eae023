//! Dead letters: by cause, with their values, and the forms that replay (with a corrected value or as they are) or
//! dismiss them.

use maud::{Markup, html};
use triad_core::Timestamp;
use triad_operator::address::PageAddress;
use triad_operator::dead_letters::{Bytes, Listed};
use triad_operator::json::moment;
use triad_operator::operations::letters::{ActedOnLetters, LetterAct, LettersFound};
use triad_operator::operations::{
    ActOnDeadLetters, DeadLetterFilter, GetDeadLetter, ListDeadLetters, Problem,
};
use triad_runtime::dead_letter::LetterId;

use super::act::ROWS;
use super::downstreams::reason;
use super::layout::{Page, caller_line, csrf_input};
use super::{Visit, text};
use crate::params::Params;

const AT: &str = "/console/dead-letters";

/// Path of a letter. `written` is the moment from which the topic is read.
fn path(id: &LetterId, written: Timestamp) -> String {
    let path = PageAddress::DeadLetter(id.clone()).path();
    format!("{path}?written={}", moment(written))
}

pub(super) async fn list(visit: &Visit<'_>) -> Result<Page, Problem> {
    let found = visit.ask(visit.asked::<ListDeadLetters>()?).await?;
    let content = html! {
        h1 { "Dead letters" }
        p { "Records that could not be taken, each with its cause. Nothing is lost: what is mended is replayed to where it came from." }
        (filter_form(visit))
        (by_cause(&found))
        form method="post" action="/console/dead-letters/act" {
            (table(&found.letters, visit.may_act()))
            p class="soft" {
                (found.letters.len()) " letters, the oldest first"
                @if found.more { "; older ones are left out" }
                @if found.unreadable > 0 { "; " (found.unreadable) " records of the topic are not dead letters" }
                "."
            }
            @if visit.may_act() && !found.letters.is_empty() { (act_fields(visit, None)) }
        }
    };
    Ok(Page::new("Dead letters", content).at(AT))
}

fn filter_form(visit: &Visit<'_>) -> Markup {
    let said = |name: &str| visit.query.one(name).unwrap_or_default();
    html! {
        form method="get" action=(AT) role="search" aria-label="Which letters" {
            fieldset {
                legend { "Which letters" }
                div class="fields" {
                    label { "Cause" input name="cause" value=(said("cause")); }
                    label { "Topic" input name="topic" value=(said("topic")); }
                    label { "Not older than" input name="since" value=(said("since")) placeholder="2h" size="6"; }
                    label class="check" { input type="checkbox" name="not_replayed" value="true" checked[visit.query.flag("not_replayed")]; "not replayed" }
                    label class="check" { input type="checkbox" name="dismissed" value="true" checked[visit.query.flag("dismissed")]; "dismissed, too" }
                    button type="submit" { "Show" }
                }
            }
        }
    }
}

fn by_cause(found: &LettersFound) -> Markup {
    html! {
        @if !found.causes.is_empty() {
            h2 { "By cause" }
            ul class="tiles" {
                @for group in &found.causes {
                    @let query = form_urlencoded::Serializer::new(String::new()).append_pair("cause", &group.cause).finish();
                    li {
                        a href={ (AT) "?" (query) } {
                            span class="figure" { (group.letters) } (group.cause)
                        }
                        div class="soft" { (group.replayed) " replayed, newest " (text::at(group.newest)) }
                    }
                }
            }
        }
    }
}

fn table(all: &[Listed], may_act: bool) -> Markup {
    html! {
        @if all.is_empty() { p { "No letters." } }
        @else {
            div class="scroll" tabindex="0" role="region" aria-label="Letters" {
                table {
                    thead { tr {
                        @if may_act { th scope="col" { input type="checkbox" data-all="letters" aria-label="All letters of this page"; } }
                        th scope="col" { "Letter" } th scope="col" { "Cause" } th scope="col" { "When" }
                        th class="number" scope="col" { "Bytes" } th scope="col" { "Replayed" } th scope="col" { "Message" }
                    } }
                    tbody {
                        @for one in all {
                            tr {
                                @if may_act { td { input type="checkbox" name="letters" value=(one.id) aria-label={ "Letter " (one.id) }; } }
                                td class="id" { a href=(path(&one.id, one.at)) { (one.id) } }
                                td { (one.cause) }
                                td { (text::at(one.at)) }
                                td class="number" { (one.bytes) }
                                td { (text::maybe_at(one.replayed_at)) @if one.dismissed_at.is_some() { " dismissed" } }
                                td { (one.message) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Fields of an act on the chosen letters, or on this one, whose value may be corrected.
fn act_fields(visit: &Visit<'_>, one: Option<(&str, &str)>) -> Markup {
    html! {
        fieldset {
            legend { @if one.is_some() { "Act on this letter" } @else { "Act on letters" } }
            (csrf_input(visit))
            @for name in DeadLetterFilter::NAMES {
                @if let (Some(value), None) = (visit.query.one(name), one) {
                    input type="hidden" name={ "filter_" (name) } value=(value);
                }
            }
            @if let Some((id, value)) = one {
                input type="hidden" name="letters" value=(id);
                label class="check" { input type="checkbox" name="corrected" value="yes"; "Replay with this value in place of its own:" }
                textarea name="value" aria-label="The corrected value" rows="8" { (value) }
            }
            div class="fields" {
                @if one.is_none() {
                    label { "On" select name="scope" {
                        option value="chosen" { "those that are chosen" }
                        option value="all" { "all that fit the filter" }
                    } }
                }
                label { "What" select name="act" { option value="replay" { "replay" } option value="dismiss" { "dismiss" } } }
                label class="check" { input type="checkbox" name="again" value="yes"; "also what was replayed before" }
                (caller_line(visit))
            }
            p {
                button type="submit" name="do" value="try" { "Dry run" } " "
                button class="do" type="submit" name="do" value="act" { "Do it" }
            }
        }
    }
}

pub(super) async fn letter_page(visit: &Visit<'_>) -> Result<Page, Problem> {
    let letter = visit.ask(visit.asked::<GetDeadLetter>()?).await?.0;
    let value = plain(&letter.value);
    let is_text =
        std::str::from_utf8(&letter.value.0).is_ok() && visit.desk.settings.hidden.is_empty();
    let title = format!("Dead letter {}", letter.id);
    let content = html! {
        h1 { (title) }
        dl class="facts" {
            dt { "Cause" } dd { strong { (letter.cause) } " " (letter.message) }
            dt { "Written" } dd { (text::at(letter.at)) }
            dt { "Key" } dd { code { (letter.key.as_ref().map_or_else(|| "–".to_owned(), plain)) } }
            @for (name, value) in &letter.headers {
                dt { (name) } dd { code { (value.as_ref().map_or_else(|| "–".to_owned(), plain)) } }
            }
            @for replay in &letter.replays {
                dt { "Replayed" } dd { (text::at(replay.at)) " by " (replay.by) ": " (replay.why) }
            }
            @if let Some(mark) = &letter.dismissed {
                dt { "Dismissed" } dd { (text::at(mark.at)) " by " (mark.by) ": " (mark.why) }
            }
        }
        h2 { "Value" }
        pre tabindex="0" { (value) }
        @if visit.may_act() {
            form method="post" action="/console/dead-letters/act" {
                @let id = letter.id.to_string();
                (act_fields(visit, Some((&id, if is_text { &value } else { "" }))))
            }
        }
    };
    Ok(Page::new(title, content).at(AT))
}

/// Bytes as text, or as hex digits if they are none.
fn plain(bytes: &Bytes) -> String {
    match std::str::from_utf8(&bytes.0) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.0.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

pub(super) async fn act(visit: &Visit<'_>, form: &Params) -> Result<Page, Problem> {
    let is_all = form.one("scope") == Some("all");
    let act = match form.one("act") {
        Some("replay") => LetterAct::Replay,
        Some("dismiss") => LetterAct::Dismiss,
        _ => return Err(Problem::bad("bad-act", "choose what is to be done")),
    };
    let done = visit
        .ask(ActOnDeadLetters {
            act,
            letters: match is_all {
                true => Vec::new(),
                false => form.all("letters"),
            },
            filter: is_all.then(|| DeadLetterFilter {
                cause: form.said("filter_cause"),
                topic: form.said("filter_topic"),
                since: form.said("filter_since"),
            }),
            value: form
                .said("value")
                .filter(|_| form.flag("corrected"))
                .map(|text| Bytes(text.into_bytes())),
            again: form.flag("again"),
            reason: reason(form),
            dry_run: form.one("do") != Some("act"),
            rate: None,
        })
        .await?;
    let title = if done.dry_run { "Dry run" } else { "Done" };
    let title = format!("{title}: {}", form.one("act").unwrap_or_default());
    Ok(Page::new(title.clone(), result_page(visit, form, &done, &title)).at(AT))
}

fn result_page(visit: &Visit<'_>, form: &Params, done: &ActedOnLetters, title: &str) -> Markup {
    const AGAIN: [&str; 11] = [
        "scope",
        "act",
        "why",
        "by",
        "again",
        "corrected",
        "value",
        "filter_cause",
        "filter_topic",
        "filter_since",
        "letters",
    ];
    html! {
        h1 { (title) }
        div class={ "box " (if done.failed == 0 { "good" } else { "warn" }) } role="status" {
            p {
                strong id="tally" { (done.done) (if done.dry_run { " would be done, " } else { " done, " })
                    (done.done_before) " done before, " (done.failed) " failed" } "."
            }
            @if done.dry_run { p { "Nothing was sent." } }
            @if done.more { p { "A bound of one request was reached: repeat it for the rest." } }
        }
        @if done.dry_run && done.done > 0 {
            form method="post" action="/console/dead-letters/act" {
                (csrf_input(visit))
                @for name in AGAIN {
                    @for value in form.all(name) { input type="hidden" name=(name) value=(value); }
                }
                button class="do" type="submit" name="do" value="act" { "Do it" }
            }
        }
        div class="scroll" tabindex="0" role="region" aria-label="Results" {
            table {
                @if done.results.len() > ROWS { caption { (ROWS) " of " (done.results.len()) } }
                thead { tr { th scope="col" { "Letter" } th scope="col" { "Cause" } th scope="col" { "Result" } th scope="col" { "Why" } } }
                tbody {
                    @for line in done.results.iter().take(ROWS) {
                        tr {
                            td class="id" { (line.id) } td { (line.cause) }
                            td { (text::state(&line.outcome)) }
                            td { (line.why.as_deref().unwrap_or_default()) }
                        }
                    }
                }
            }
        }
        p { a href=(AT) { "Dead letters" } }
    }
}
