//! The pages, under `/console`: server-rendered HTML. Every page has an address. Pages work without scripts, except
//! for the live refresh.

mod act;
mod alerts;
mod bars;
mod campaigns;
mod causes;
mod downstreams;
mod graph;
mod layout;
mod letters;
mod login;
mod order;
mod orders;
mod outages;
mod overview;
mod spans;
mod text;
mod workflows;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use maud::Markup;
pub(crate) use triad_operator::address::ROOT;

use crate::answer::{self, Answer};
use crate::caller::{Caller, Keys, Role};
use crate::installation::Installation;
use crate::params::{Params, segments};
use crate::problem::Problem;
use crate::session::Cookie;
use crate::shared_state::Desk;

/// Content security policy: only resources of this server, no inline script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const HTML: &str = "text/html; charset=utf-8";

/// A request for a page, with its caller.
pub(crate) struct Visit<'a, I> {
    pub(crate) desk: &'a Arc<Desk<I>>,
    pub(crate) caller: Caller,
    /// CSRF token for the forms of this browser.
    pub(crate) word: String,
    pub(crate) query: Params,
    /// Whether the caller has a session, so that a log-out is offered.
    pub(crate) is_session: bool,
}

impl<I: Installation> Visit<'_, I> {
    /// Whether the pages offer acts.
    pub(crate) fn may_act(&self) -> bool {
        self.caller.role == Role::Operate && !self.desk.settings.read_only
    }
}

/// Answers a request; a problem becomes a page.
pub(crate) async fn answer<I: Installation>(
    desk: &Arc<Desk<I>>,
    request: Request<Bytes>,
    keys: &dyn Keys,
) -> Answer {
    let mut answer = match route(desk, request, keys).await {
        Ok(answer) => answer,
        Err(problem) => {
            let page = layout::problem(&problem);
            answer::with_problem(&problem, answer::of(problem.status, HTML, page))
        }
    };
    let headers = answer.headers_mut();
    let always: [(HeaderName, &'static str); 4] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

async fn route<I: Installation>(
    desk: &Arc<Desk<I>>,
    request: Request<Bytes>,
    keys: &dyn Keys,
) -> Result<Answer, Problem> {
    let (head, body) = request.into_parts();
    let path = segments(head.uri.path().strip_prefix(ROOT).unwrap_or_default())?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    if let ["assets", name] = path.as_slice() {
        return asset(name);
    }
    let reads = matches!(head.method, Method::GET | Method::HEAD);
    if !reads && head.method != Method::POST {
        return Err(Problem::method("GET, HEAD, POST"));
    }
    let _place = desk.enter()?;
    let sent = Cookie::of(&head.headers);
    let form = match reads {
        true => Params::default(),
        false => sent_form(desk, sent.as_ref(), &head.headers, &body)?,
    };
    match path.as_slice() {
        ["login"] if !reads => return login::begin(desk, keys, &form),
        ["logout"] if !reads => return login::end(desk, sent.as_ref()),
        _ => {}
    }
    let (cookie, is_new) = match sent {
        Some(cookie) => (cookie, false),
        None => (Cookie::new()?, true),
    };
    let word = desk.sessions.csrf_token(&cookie);
    let caller = desk
        .sessions
        .caller(&head.headers, keys, &desk.settings, true, desk.now());
    let mut answer = match caller {
        None => login::page(&desk.settings, &word, &head.uri, None),
        Some(caller) if caller.role < Role::Read => {
            login::page(&desk.settings, &word, &head.uri, Some(login::Refused::Role))
        }
        Some(_) if path == ["login"] => entrance()?,
        Some(caller) => {
            let visit = Visit {
                desk,
                is_session: !keys.is_open() && desk.settings.user_header.is_none(),
                caller,
                word,
                query: Params::of(head.uri.query().unwrap_or_default().as_bytes())?,
            };
            let came = match reads {
                true => route_page(&visit, &path).await.map(PageOutcome::Shown),
                false => act(&visit, &path, &form).await,
            };
            match came {
                Ok(PageOutcome::Moved(to)) => redirect(&to)?,
                Ok(PageOutcome::Shown(shown)) => page(&visit, Ok(shown)),
                Err(problem) => page(&visit, Err(problem)),
            }
        }
    };
    if let (true, Some(set)) = (is_new, cookie.set(&desk.settings)) {
        answer.headers_mut().insert(SET_COOKIE, set);
    }
    Ok(answer)
}

/// Result of a request for a page.
enum PageOutcome {
    /// Show this page.
    Shown(layout::Page),
    /// Redirect to the page at this path.
    Moved(String),
}

/// Renders a page, or a problem in its place, in the frame.
fn page<I: Installation>(visit: &Visit<'_, I>, shown: Result<layout::Page, Problem>) -> Answer {
    match shown {
        Ok(shown) => answer::of(StatusCode::OK, HTML, layout::frame(visit, shown)),
        Err(problem) => {
            let shown = layout::Page::new(problem.title(), layout::problem_body(&problem));
            let page = layout::frame(visit, shown);
            answer::with_problem(&problem, answer::of(problem.status, HTML, page))
        }
    }
}

/// Parses a form after checking its CSRF token.
fn sent_form<I: Installation>(
    desk: &Desk<I>,
    cookie: Option<&Cookie>,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Params, Problem> {
    let site = headers
        .get("sec-fetch-site")
        .and_then(|site| site.to_str().ok());
    let is_other = matches!(site, Some("cross-site" | "same-site"));
    let form = Params::of(body)?;
    if is_other || !desk.sessions.is_word(cookie, form.one("word")) {
        let text = "this form was not sent by a page of this server, or the server was started anew since: load the page again";
        return Err(Problem::new(StatusCode::FORBIDDEN, "csrf", text));
    }
    Ok(form)
}

async fn route_page<I: Installation>(
    visit: &Visit<'_, I>,
    path: &[&str],
) -> Result<layout::Page, Problem> {
    match path {
        [] => overview::page(visit).await,
        ["alerts"] => Ok(alerts::page(visit).await),
        ["causes"] => causes::page(visit).await,
        ["orders"] => orders::page(visit).await,
        ["orders", id] => order::page(visit, id).await,
        ["campaigns"] => campaigns::list(visit).await,
        ["campaigns", id] => campaigns::campaign_page(visit, id).await,
        ["workflows"] => workflows::list(visit).await,
        ["workflows", name, version] => workflows::workflow_page(visit, name, version).await,
        ["downstreams"] => downstreams::page(visit).await,
        ["dead-letters"] => letters::list(visit).await,
        ["dead-letters", topic, partition, offset] => {
            letters::letter_page(visit, &format!("{topic}/{partition}/{offset}")).await
        }
        _ => Err(Problem::no_path()),
    }
}

async fn act<I: Installation>(
    visit: &Visit<'_, I>,
    path: &[&str],
    form: &Params,
) -> Result<PageOutcome, Problem> {
    match path {
        ["act"] if form.one("do") == Some("campaign") => act::start_campaign(visit, form)
            .await
            .map(PageOutcome::Moved),
        ["act"] => act::orders(visit, form).await.map(PageOutcome::Shown),
        ["campaigns", id, what @ ("stop" | "resume")] => {
            let at = campaigns::act(visit, (id, what), form).await;
            at.map(PageOutcome::Moved)
        }
        ["downstreams", "act"] => downstreams::act(visit, form).await.map(PageOutcome::Shown),
        ["dead-letters", "act"] => letters::act(visit, form).await.map(PageOutcome::Shown),
        _ => Err(Problem::no_path()),
    }
}

/// Redirect to the first page.
pub(crate) fn entrance() -> Result<Answer, Problem> {
    redirect("/console/")
}

/// Redirect. The path must consist of characters that a header may hold.
fn redirect(to: &str) -> Result<Answer, Problem> {
    let to = HeaderValue::from_str(to).map_err(|e| Problem::internal(e.to_string()))?;
    let mut answer = answer::of(StatusCode::SEE_OTHER, HTML, Bytes::new());
    answer.headers_mut().insert(LOCATION, to);
    Ok(answer)
}

fn asset(name: &str) -> Result<Answer, Problem> {
    let (media, content) = match name {
        "console.css" => (
            "text/css; charset=utf-8",
            include_str!("../assets/console.css"),
        ),
        "console.js" => (
            "text/javascript; charset=utf-8",
            include_str!("../assets/console.js"),
        ),
        "icon.svg" => ("image/svg+xml", include_str!("../assets/icon.svg")),
        _ => return Err(Problem::no_path()),
    };
    Ok(answer::of(StatusCode::OK, media, content))
}

/// Empty markup.
pub(crate) fn nothing() -> Markup {
    maud::html! {}
}
