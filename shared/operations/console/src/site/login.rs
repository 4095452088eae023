//! Log-in with a token, and log-out.

use http::header::{LOCATION, SET_COOKIE};
use http::{HeaderValue, StatusCode, Uri};
use maud::html;
use triad_operator::operations::{Problem, Role};

use super::{HTML, ROOT, layout, redirect};
use crate::answer::{self, Answer};
use crate::caller::Keys;
use crate::desk::Desk;
use crate::params::Params;
use crate::session::{Cookie, digest};
use crate::settings::Settings;

/// Why a token does not get in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Refused {
    /// There is no such token.
    Unknown,
    /// It has no role here.
    Role,
}

/// The log-in form, in place of a page that needs a known caller.
pub(super) fn page(settings: &Settings, word: &str, wanted: &Uri, why: Option<Refused>) -> Answer {
    let (status, why) = match why {
        None => (StatusCode::UNAUTHORIZED, None),
        Some(Refused::Unknown) => (StatusCode::UNAUTHORIZED, Some("This token is unknown.")),
        Some(Refused::Role) => (
            StatusCode::FORBIDDEN,
            Some("This token may only submit orders: the role read or operate is needed."),
        ),
    };
    let wanted = wanted
        .path_and_query()
        .map_or(ROOT, |wanted| wanted.as_str());
    let by_proxy = settings.user_header.is_some();
    let content = html! {
        h1 { "Log in" }
        @if let Some(why) = why { div class="box bad" role="alert" { p { (why) } } }
        @if by_proxy { p { "The proxy in front of this server says who you are, and it has not: come through it, or log in with a token." } }
        form method="post" action="/console/login" {
            input type="hidden" name="word" value=(word);
            input type="hidden" name="to" value=(wanted);
            fieldset {
                legend { "Token" }
                div class="fields" {
                    label { "A token with the role read or operate"
                        input class="why" type="password" name="token" required autocomplete="current-password" autofocus; }
                    button class="do" type="submit" { "Log in" }
                }
            }
        }
        p class="note" { "Tokens are made with " code { "triad token NAME --role operate" } "." }
    };
    let page = layout::document("Log in", &settings.name, &html! {}, &content);
    answer::of(status, HTML, page)
}

/// Begins a session if the token is valid.
pub(super) fn begin(desk: &Desk, keys: &dyn Keys, form: &Params) -> Result<Answer, Problem> {
    let token = digest(form.one("token").unwrap_or_default().trim().as_bytes());
    let to = form.one("to").unwrap_or(ROOT);
    let why = match keys.of(&token) {
        None => Some(Refused::Unknown),
        Some(caller) => (caller.role < Role::Read).then_some(Refused::Role),
    };
    if why.is_some() {
        let word = form.one("word").unwrap_or_default();
        let wanted: Uri = to.parse().unwrap_or_default();
        return Ok(page(&desk.settings, word, &wanted, why));
    }
    let cookie = desk.sessions.begin(token, desk.operations.now())?;
    let mut answer = redirect("/console/")?;
    let headers = answer.headers_mut();
    // Redirect only within the console: the form's value must not lead to another site.
    let is_here = to.starts_with("/console") && !to.contains(['\\', '\r', '\n']);
    if let (true, Ok(to)) = (is_here, HeaderValue::try_from(to)) {
        headers.insert(LOCATION, to);
    }
    if let Some(set) = cookie.set(&desk.settings) {
        headers.insert(SET_COOKIE, set);
    }
    Ok(answer)
}

/// Ends a session.
pub(super) fn end(desk: &Desk, cookie: Option<&Cookie>) -> Result<Answer, Problem> {
    if let Some(cookie) = cookie {
        desk.sessions.end(cookie);
    }
    let mut answer = redirect("/console/login")?;
    if let Some(forget) = Cookie::forget(&desk.settings) {
        answer.headers_mut().insert(SET_COOKIE, forget);
    }
    Ok(answer)
}
