//! What all callers share, and one who calls.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use triad_console::{Answers, Caller, Keys};
use triad_runtime::{Clock, Entropy};

use crate::api_request::Asking;
use crate::dry_runs::Tried;
use crate::pages::Pages;

/// Settings of the MCP server; they are the same for all callers. The default allows no acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Whether the tools `dry_run` and `act` are offered. This gives nobody a right: whether a caller may act
    /// is decided by the operators' API.
    pub acts: bool,
}

/// What all callers of the MCP server share: the settings, the documentation, and the dry runs. `C` is the
/// clock and `E` the source of random numbers.
pub struct Mcp<C, E> {
    pub(crate) clock: C,
    pub(crate) entropy: E,
    pub(crate) settings: Settings,
    pub(crate) pages: Box<dyn Pages>,
    tried: Mutex<Tried>,
}

impl<C, E> fmt::Debug for Mcp<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Mcp");
        shown
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl<C: Clock, E: Entropy> Mcp<C, E> {
    /// An MCP server with these settings and this documentation. The clock says how old a dry run is; the ids
    /// of dry runs are drawn from `entropy`.
    #[must_use]
    pub fn new(clock: C, entropy: E, settings: Settings, pages: impl Pages) -> Arc<Self> {
        Arc::new(Self {
            clock,
            entropy,
            settings,
            pages: Box::new(pages),
            tried: Mutex::default(),
        })
    }

    /// One who is known: `keys` lets them into `api` by these headers.
    pub(crate) fn visit(
        self: Arc<Self>,
        api: Arc<dyn Answers>,
        keys: Arc<dyn Keys>,
        caller: Caller,
        headers: &HeaderMap,
    ) -> Visit<C, E> {
        let asking = Asking::new(api, keys, caller, headers);
        Visit { mcp: self, asking }
    }

    pub(crate) fn tried(&self) -> MutexGuard<'_, Tried> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who calls tools.
pub(crate) struct Visit<C, E> {
    pub(crate) mcp: Arc<Mcp<C, E>>,
    pub(crate) asking: Asking,
}

impl<C, E> Clone for Visit<C, E> {
    fn clone(&self) -> Self {
        Self {
            mcp: Arc::clone(&self.mcp),
            asking: self.asking.clone(),
        }
    }
}
