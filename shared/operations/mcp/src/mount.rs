//! The protocol over HTTP, at [`PATH`] of a server for operators: requests are independent and answered in JSON.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use triad_console::{Answer, Answers, Body, Caller, Keys, MAX_BODY_BYTES};
use triad_operator::operations::Operations;
use triad_runtime::{Clock, Entropy};

use crate::parse_errors::not_json;
use crate::request_context::Mcp;

/// The path at which [`Mounted`] speaks the Model Context Protocol.
pub const PATH: &str = "/mcp";

/// The API and the pages of an installation, with the Model Context Protocol at [`PATH`] beside them. A
/// caller of the protocol must be known in the same way as a caller of the API; a browser's session does not
/// count.
pub struct Mounted<C, E> {
    api: Arc<dyn Answers>,
    mcp: Arc<Mcp<C, E>>,
}

impl<C, E> fmt::Debug for Mounted<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mounted").finish_non_exhaustive()
    }
}

impl<C: Clock, E: Entropy> Mounted<C, E> {
    /// Adds the protocol to `api`, whose operations the tools ask for.
    #[must_use]
    pub fn new(api: Arc<dyn Answers>, mcp: Arc<Mcp<C, E>>) -> Self {
        Self { api, mcp }
    }

    async fn handle(&self, request: Request<Bytes>, keys: Arc<dyn Keys>) -> Answer {
        let caller = match self.api.caller(request.headers(), &*keys) {
            Ok(caller) => caller,
            Err(refused) => return *refused,
        };
        if request.method() == Method::POST
            && let Some(why) = not_json(request.body())
        {
            return no_json(&format!("the body {why}"));
        }
        let operations = Arc::clone(self.api.operations());
        let visit = Arc::clone(&self.mcp).visit(operations, caller);
        // The listener checks the host. Programs send no `Origin`, and a page in a browser must not use this path.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_BODY_BYTES)
            .disable_allowed_hosts()
            .enforce_origin_validation();
        let sessions = Arc::new(NeverSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(visit.clone()), sessions, config);
        let answer = service.handle(request.map(Full::new)).await;
        let (head, body) = answer.into_parts();
        // No stream: the result is the first message, so the answer has one message.
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(never) => match never {},
        };
        Answer::from_parts(head, Body::from(body))
    }
}

/// The answer to a body that is no JSON: the error of JSON-RPC 2.0, section 5.1, for a message whose id is not known.
fn no_json(why: &str) -> Answer {
    let message = json!({"jsonrpc": "2.0", "id": null, "error": {
        "code": -32700, "message": why}});
    let mut answer = Answer::new(Body::from(message.to_string()));
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    let media = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, media);
    answer
}

impl<C: Clock, E: Entropy> Answers for Mounted<C, E> {
    fn is_ours(&self, path: &str) -> bool {
        path == PATH || self.api.is_ours(path)
    }

    fn answer(&self, request: Request<Bytes>, keys: Arc<dyn Keys>) -> BoxFuture<'_, Answer> {
        match request.uri().path() == PATH {
            true => Box::pin(self.handle(request, keys)),
            false => self.api.answer(request, keys),
        }
    }

    fn caller(&self, headers: &HeaderMap, keys: &dyn Keys) -> Result<Caller, Box<Answer>> {
        self.api.caller(headers, keys)
    }

    fn knows(&self, headers: &HeaderMap, keys: &dyn Keys) -> bool {
        self.api.knows(headers, keys)
    }

    fn operations(&self) -> &Arc<dyn Operations> {
        self.api.operations()
    }

    fn stop(&self) {
        self.api.stop();
    }
}
