//! The function from a request to an answer.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Request;

use crate::answer::Answer;
use crate::caller::Keys;
use crate::desk::Desk;
use crate::installation::Installation;
use crate::session::{NoRandom, Sessions};
use crate::settings::Settings;
use crate::{api, site};

/// Whether a path is one of the API or of the pages.
#[must_use]
pub fn is_ours(path: &str) -> bool {
    let is_in = |root: &str| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_in(api::ROOT) || is_in(site::ROOT)
}

/// Whoever answers the requests of operators, whatever the installation.
pub trait Answers: std::fmt::Debug + Send + Sync + 'static {
    /// Answers a request whose body has [`MAX_BODY_BYTES`](crate::MAX_BODY_BYTES) at most. `keys` says who
    /// is let in.
    fn answer<'a>(&'a self, request: Request<Bytes>, keys: &'a dyn Keys) -> BoxFuture<'a, Answer>;

    /// Ends the streams of events: the server stops.
    fn stop(&self);
}

/// The API and the pages of one installation.
pub struct Console<I>(Arc<Desk<I>>);

impl<I: Installation> Console<I> {
    /// Over an installation.
    ///
    /// # Errors
    /// [`NoRandom`] if the system gives no random numbers.
    pub fn new(of: I, settings: Settings) -> Result<Self, NoRandom> {
        let desk = Desk::new(of, settings, Sessions::new()?);
        Ok(Self(Arc::new(desk)))
    }
}

impl<I> std::fmt::Debug for Console<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl<I: Installation> Answers for Console<I> {
    fn answer<'a>(&'a self, request: Request<Bytes>, keys: &'a dyn Keys) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match request.uri().path().starts_with(api::ROOT) {
                true => api::answer(&self.0, request, keys).await,
                false => site::answer(&self.0, request, keys).await,
            }
        })
    }

    fn stop(&self) {
        self.0.stopping.send_replace(true);
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
