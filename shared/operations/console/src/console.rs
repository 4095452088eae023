//! The function from a request to an answer.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Request};
use tower_service::Service;
use triad_operator::operations::{self, Caller, Installation, Local, Operations};

use crate::answer::{self, Answer};
use crate::caller::Keys;
use crate::desk::Desk;
use crate::random::NoRandom;
use crate::settings::Settings;
use crate::{api, site};

fn is_ours(path: &str) -> bool {
    let is_in = |root: &str| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_in(api::ROOT) || is_in(site::ROOT)
}

/// Something that answers the requests of operators, such as a [`Console`].
pub trait Answers: std::fmt::Debug + Send + Sync + 'static {
    /// Whether requests for this path are for [`answer`](Self::answer).
    fn is_ours(&self, path: &str) -> bool;

    /// Answers a request. Its body must have at most [`MAX_BODY_BYTES`](crate::MAX_BODY_BYTES) bytes: the
    /// server must check this. `keys` says whose requests are answered. A refusal or a failure is an answer,
    /// too.
    fn answer(&self, request: Request<Bytes>, keys: Arc<dyn Keys>) -> BoxFuture<'_, Answer>;

    /// The caller of a request with these headers, by its token, by the header of a proxy, or because the
    /// listener accepts every caller. A browser's session does not count.
    ///
    /// # Errors
    /// If the caller is not let in: the answer that the server should send, with the status 401, or 403 for a token without a role here.
    fn caller(&self, headers: &HeaderMap, keys: &dyn Keys) -> Result<Caller, Box<Answer>>;

    /// Whether it is known who sends a request with these headers, by a browser's session too. A server asks before it
    /// reads a body: of others it reads [`STRANGER_BODY_BYTES`](crate::STRANGER_BODY_BYTES) at most.
    fn knows(&self, headers: &HeaderMap, keys: &dyn Keys) -> bool;

    /// The operations that the requests ask for.
    fn operations(&self) -> &Arc<dyn Operations>;

    /// Ends all streams of events, and each one that is begun later. A server calls it when it stops.
    fn stop(&self);
}

/// The answer of a server for operators alone to a path that [`Answers::is_ours`] does not know: `/` is
/// redirected to the pages (303), and every other path is answered with 404.
#[must_use]
pub fn elsewhere(path: &str) -> Answer {
    let found = match path {
        "/" => site::entrance(),
        _ => Err(api::no_path()),
    };
    found.unwrap_or_else(|problem| answer::problem(&problem))
}

/// The API and the pages of one installation.
pub struct Console {
    desk: Arc<Desk>,
    paths: Router,
}

impl Console {
    /// A console over the installation `of`.
    ///
    /// # Errors
    /// [`NoRandom`] if the system gives no random numbers. They are needed only for
    /// [`SessionForm::InMemory`](crate::SessionForm::InMemory).
    pub fn new<I: Installation>(of: I, settings: Settings) -> Result<Self, NoRandom> {
        let rules = operations::Settings {
            read_only: settings.read_only,
            hidden: settings.hidden.clone(),
            trace_url: settings.trace_url.clone(),
        };
        let desk = Arc::new(Desk::new(Arc::new(Local::new(of, rules)), settings)?);
        let paths = Router::new()
            .nest(api::ROOT, api::router(Arc::clone(&desk)))
            .merge(site::router(Arc::clone(&desk)));
        Ok(Self { desk, paths })
    }
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl Answers for Console {
    fn is_ours(&self, path: &str) -> bool {
        is_ours(path)
    }

    fn answer(&self, request: Request<Bytes>, keys: Arc<dyn Keys>) -> BoxFuture<'_, Answer> {
        let mut request = request.map(Body::from);
        request.extensions_mut().insert(api::LetIn(keys));
        let mut paths = self.paths.clone();
        Box::pin(async move {
            match paths.call(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            }
        })
    }

    fn caller(&self, headers: &HeaderMap, keys: &dyn Keys) -> Result<Caller, Box<Answer>> {
        let found = api::caller(&self.desk, headers, keys, false);
        found.map_err(|problem| Box::new(answer::problem(&problem)))
    }

    fn knows(&self, headers: &HeaderMap, keys: &dyn Keys) -> bool {
        api::caller(&self.desk, headers, keys, true).is_ok()
    }

    fn operations(&self) -> &Arc<dyn Operations> {
        &self.desk.operations
    }

    fn stop(&self) {
        self.desk.stopping.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::is_ours;

    #[test]
    fn paths_below_the_roots_are_ours() {
        for path in [
            "/console",
            "/console/",
            "/v1/operate/orders",
            "/console/a/b",
        ] {
            assert!(is_ours(path), "{path}");
        }
        for path in ["/", "/consoles", "/v1/orders", "/v1/operated"] {
            assert!(!is_ours(path), "{path}");
        }
    }
}
