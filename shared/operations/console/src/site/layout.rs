//! The frame of every page.

use maud::{DOCTYPE, Markup, html};
use triad_operator::operations::{Problem, Role};
use triad_operator::visible_text::visible;

use super::Visit;
use crate::answer::title;

/// Content of a page, inside the frame.
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) content: Markup,
    /// Path of its entry in the navigation.
    pub(crate) at: &'static str,
    /// Address of its events; empty if the page is not refreshed.
    pub(crate) live: String,
    /// Content behind the part that is refreshed.
    pub(crate) behind: Markup,
}

impl Page {
    pub(crate) fn new(title: impl Into<String>, content: Markup) -> Self {
        Self {
            title: title.into(),
            content,
            at: "",
            live: String::new(),
            behind: html! {},
        }
    }

    /// Sets the entry in the navigation.
    pub(crate) fn at(self, at: &'static str) -> Self {
        Self { at, ..self }
    }

    /// Refreshes the page by the events of this address.
    pub(crate) fn live(self, live: impl Into<String>) -> Self {
        Self {
            live: live.into(),
            ..self
        }
    }

    /// Sets the content behind the refreshed part.
    pub(crate) fn behind(self, behind: Markup) -> Self {
        Self { behind, ..self }
    }
}

/// Entries of the navigation.
const PARTS: [(&str, &str); 8] = [
    ("/console/", "Overview"),
    ("/console/causes", "By cause"),
    ("/console/orders", "Orders"),
    ("/console/campaigns", "Campaigns"),
    ("/console/workflows", "Workflows"),
    ("/console/downstreams", "Downstreams"),
    ("/console/dead-letters", "Dead letters"),
    ("/console/alerts", "Alerts"),
];

/// A page in its frame.
pub(crate) fn frame(visit: &Visit<'_>, page: Page) -> String {
    let settings = &visit.desk.settings;
    document(
        &page.title,
        &settings.name,
        &html! {
            nav aria-label="Pages" {
                ul {
                    @for (path, name) in PARTS {
                        li { a href=(path) aria-current=[(path == page.at).then_some("page")] { (name) } }
                    }
                }
            }
            div class="who" {
                @if settings.read_only { span class="state none" { "read-only" } }
                @else if visit.caller.role == Role::Read { span class="state none" { "read-only" } }
                @if let Some(name) = &visit.caller.name { span { (name) } }
                @if visit.is_session {
                    form class="inline" method="post" action="/console/logout" {
                        (csrf_input(visit))
                        button type="submit" { "Log out" }
                    }
                }
            }
        },
        &html! {
            @if page.live.is_empty() { (page.content) }
            @else {
                div data-live=(page.live) { (page.content) }
                p id="live-said" class="live" role="status" aria-live="polite" {}
            }
            (page.behind)
        },
    )
}

/// A whole HTML document. Its text is shown as it is: characters that change the direction of text, and invisible
/// ones, are escaped.
pub(crate) fn document(title: &str, name: &str, head: &Markup, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Triad" @if !name.is_empty() { " · " (name) } }
                link rel="stylesheet" href="/console/assets/console.css";
                link rel="icon" href="/console/assets/icon.svg" type="image/svg+xml";
                script src="/console/assets/console.js" defer {}
            }
            body {
                a class="skip" href="#main" { "To the content" }
                header {
                    strong { "Triad" @if !name.is_empty() { " · " (name) } }
                    (head)
                }
                main id="main" { (content) }
            }
        }
    };
    visible(&page.into_string(), "\n\r\t").into_owned()
}

/// A problem as text for people.
pub(crate) fn problem_body(problem: &Problem) -> Markup {
    html! {
        h1 { (title(problem)) }
        div class="box bad" role="alert" { p { (problem.detail) } }
        p { a href="/console/" { "To the overview" } }
    }
}

/// A problem without a frame.
pub(crate) fn problem(problem: &Problem) -> String {
    document(title(problem), "", &html! {}, &problem_body(problem))
}

/// The hidden field with the CSRF token.
pub(crate) fn csrf_input(visit: &Visit<'_>) -> Markup {
    html! { input type="hidden" name="word" value=(visit.word); }
}

/// The fields for who acts and why.
pub(crate) fn caller_line(visit: &Visit<'_>) -> Markup {
    html! {
        @if visit.caller.name.is_none() {
            label { "Who" input name="by" required autocomplete="username" maxlength="256"; }
        }
        label { "Why" input class="why" name="why" required maxlength="256" autocomplete="off"; }
    }
}
