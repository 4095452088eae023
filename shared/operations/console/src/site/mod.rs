//! The pages, under `/console`: server-rendered HTML. Every page has an address. Pages work without scripts, except
//! for the live refresh.

mod act;
mod alerts;
mod bars;
mod campaigns;
mod causes;
mod decision;
mod downstreams;
mod graph;
mod layout;
mod letters;
mod login;
mod order;
mod orders;
mod outages;
mod overview;
mod plots;
mod spans;
mod text;
mod workflows;

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawPathParams, Request, State};
use axum::routing::any;
use bytes::Bytes;
use http::header::{
    ALLOW, CONTENT_SECURITY_POLICY, HeaderName, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use maud::Markup;
pub(crate) use triad_operator::address::ROOT;
use triad_operator::operations::{Asked, Caller, Problem, Role, ask};

use crate::answer::{self, Answer};
use crate::api::{LetIn, no_path, not_allowed};
use crate::desk::Desk;
use crate::params::Params;
use crate::request::{InPath, in_path};
use crate::session::Cookie;

/// Content security policy: only resources of this server, no inline script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const HTML: &str = "text/html; charset=utf-8";

/// A request for a page, with its caller.
pub(crate) struct Visit<'a> {
    pub(crate) desk: &'a Desk,
    pub(crate) caller: Caller,
    /// CSRF token for the forms of this browser.
    pub(crate) word: String,
    pub(crate) query: Params,
    /// The query and the fields of the path, as one query string.
    fields: String,
    /// Whether the caller has a session, so that a log-out is offered.
    pub(crate) is_session: bool,
}

impl Visit<'_> {
    /// Whether the pages offer acts.
    pub(crate) fn may_act(&self) -> bool {
        self.caller.role == Role::Operate && !self.desk.settings.read_only
    }

    /// Executes a request on behalf of the caller.
    pub(crate) async fn ask<Q: Asked>(&self, request: Q) -> Result<Q::Answer, Problem> {
        ask(&*self.desk.operations, &self.caller, request).await
    }

    /// The request that the page's own address stands for: its path and query have the fields of the request.
    pub(crate) fn asked<Q: Asked>(&self) -> Result<Q, Problem> {
        let asked = serde_urlencoded::from_str(&self.fields);
        asked.map_err(|e| Problem::bad("bad-query", format!("the address: {e}")))
    }

    /// The value of a field of the path.
    pub(crate) fn path_field(&self, name: &str) -> String {
        let mut fields = form_urlencoded::parse(self.fields.as_bytes());
        let found = fields.find(|(known, _)| known == name);
        found.map_or_else(String::new, |(_, value)| value.into_owned())
    }

    /// The present moment.
    pub(crate) fn now(&self) -> triad_core::Timestamp {
        self.desk.operations.now()
    }
}

/// Paths of the pages below the root, with the fields of what they show in braces.
const PATHS: [&str; 20] = [
    "",
    "/",
    "/assets/{name}",
    "/login",
    "/logout",
    "/alerts",
    "/causes",
    "/orders",
    "/orders/{id}",
    "/orders/{id}/decide",
    "/campaigns",
    "/campaigns/{id}",
    "/campaigns/{id}/{change}",
    "/workflows",
    "/workflows/{name}/{version}",
    "/downstreams",
    "/downstreams/act",
    "/dead-letters",
    "/dead-letters/act",
    "/dead-letters/{topic}/{partition}/{offset}",
];

/// The pages.
pub(crate) fn router(desk: Arc<Desk>) -> Router {
    let mut paths = Router::new().route("/console/act", page_at("/act"));
    for path in PATHS {
        paths = paths.route(&format!("{ROOT}{path}"), page_at(path));
    }
    paths
        .fallback(async || framed(Err(no_path())))
        .with_state(desk)
}

fn page_at(path: &'static str) -> axum::routing::MethodRouter<Arc<Desk>> {
    any(
        move |State(desk): State<Arc<Desk>>, parameters: InPath, request: Request| async move {
            framed(match in_path(request.uri(), parameters) {
                Ok(parameters) => route(&desk, path, &parameters, request).await,
                Err(problem) => Err(problem),
            })
        },
    )
}

/// An answer of the pages, with the headers of all; a problem becomes a page.
fn framed(answered: Result<Answer, Problem>) -> Answer {
    let mut answer = answered.unwrap_or_else(|problem| {
        let page = layout::problem(&problem);
        let answer = answer::of(answer::status(&problem), HTML, page);
        answer::with_problem(&problem, answer)
    });
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
    if answer.status() == StatusCode::METHOD_NOT_ALLOWED {
        let methods = HeaderValue::from_static("GET, HEAD, POST");
        answer.headers_mut().insert(ALLOW, methods);
    }
    answer
}

async fn route(
    desk: &Desk,
    path: &'static str,
    parameters: &RawPathParams,
    request: Request,
) -> Result<Answer, Problem> {
    let (head, body) = request.into_parts();
    let fields = crate::api::fields(parameters, head.uri.query().unwrap_or_default())?;
    let values: Vec<&str> = parameters.iter().map(|(_, value)| value).collect();
    if let ("/assets/{name}", [name]) = (path, values.as_slice()) {
        return asset(name);
    }
    let reads = matches!(head.method, Method::GET | Method::HEAD);
    if !reads && head.method != Method::POST {
        return Err(not_allowed());
    }
    let keys = head.extensions.get::<LetIn>();
    let keys = &*keys
        .ok_or_else(|| Problem::internal("the listener does not say who is let in"))?
        .0;
    let sent = Cookie::of(&head.headers);
    let form = match reads {
        true => Params::default(),
        false => {
            let body = axum::body::to_bytes(body, crate::MAX_BODY_BYTES).await;
            let body = body.map_err(|e| Problem::bad("bad-body", format!("the form: {e}")))?;
            sent_form(desk, sent.as_ref(), &head.headers, &body)?
        }
    };
    match path {
        "/login" if !reads => return login::begin(desk, keys, &form),
        "/logout" if !reads => return login::end(desk, sent.as_ref()),
        _ => {}
    }
    let (cookie, is_new) = match sent {
        Some(cookie) => (cookie, false),
        None => (Cookie::new()?, true),
    };
    let word = desk.sessions.csrf_token(&cookie);
    let now = desk.operations.now();
    let caller = desk
        .sessions
        .caller(&head.headers, keys, &desk.settings, true, now);
    let mut answer = match caller {
        None => login::page(&desk.settings, &word, &head.uri, None),
        Some(caller) if caller.role < Role::Read => {
            login::page(&desk.settings, &word, &head.uri, Some(login::Refused::Role))
        }
        Some(_) if path == "/login" => entrance()?,
        Some(caller) => {
            let visit = Visit {
                desk,
                is_session: !keys.is_open() && desk.settings.user_header.is_none(),
                caller,
                word,
                query: Params::of(head.uri.query().unwrap_or_default().as_bytes())?,
                fields,
            };
            let came = match reads {
                true => route_page(&visit, path).await.map(PageOutcome::Shown),
                false => act(&visit, path, &values, &form).await,
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
fn page(visit: &Visit<'_>, shown: Result<layout::Page, Problem>) -> Answer {
    match shown {
        Ok(shown) => answer::of(StatusCode::OK, HTML, layout::frame(visit, shown)),
        Err(problem) => {
            let shown = layout::Page::new(answer::title(&problem), layout::problem_body(&problem));
            let page = layout::frame(visit, shown);
            answer::with_problem(&problem, answer::of(answer::status(&problem), HTML, page))
        }
    }
}

/// Parses a form after checking its CSRF token.
fn sent_form(
    desk: &Desk,
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
        return Err(Problem::forbidden("csrf", text));
    }
    Ok(form)
}

async fn route_page(visit: &Visit<'_>, path: &str) -> Result<layout::Page, Problem> {
    match path {
        "" | "/" => overview::page(visit).await,
        "/alerts" => alerts::page(visit).await,
        "/causes" => causes::page(visit).await,
        "/orders" => orders::page(visit).await,
        "/orders/{id}" => order::page(visit).await,
        "/campaigns" => campaigns::list(visit).await,
        "/campaigns/{id}" => campaigns::campaign_page(visit).await,
        "/workflows" => workflows::list(visit).await,
        "/workflows/{name}/{version}" => workflows::workflow_page(visit).await,
        "/downstreams" => downstreams::page(visit).await,
        "/dead-letters" => letters::list(visit).await,
        "/dead-letters/{topic}/{partition}/{offset}" => letters::letter_page(visit).await,
        _ => Err(no_path()),
    }
}

async fn act(
    visit: &Visit<'_>,
    path: &str,
    values: &[&str],
    form: &Params,
) -> Result<PageOutcome, Problem> {
    match (path, values) {
        ("/act", []) if form.one("do") == Some("campaign") => act::start_campaign(visit, form)
            .await
            .map(PageOutcome::Moved),
        ("/act", []) => act::orders(visit, form).await.map(PageOutcome::Shown),
        ("/orders/{id}/decide", [id]) => decision::decide(visit, id, form)
            .await
            .map(PageOutcome::Moved),
        ("/campaigns/{id}/{change}", [id, what @ ("stop" | "resume")]) => {
            let at = campaigns::act(visit, (id, what), form).await;
            at.map(PageOutcome::Moved)
        }
        ("/downstreams/act", []) => downstreams::act(visit, form).await.map(PageOutcome::Shown),
        ("/dead-letters/act", []) => letters::act(visit, form).await.map(PageOutcome::Shown),
        _ => Err(no_path()),
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
        _ => return Err(no_path()),
    };
    Ok(answer::of(StatusCode::OK, media, content))
}

/// Empty markup.
pub(crate) fn nothing() -> Markup {
    maud::html! {}
}
