//! The server's shared state, and one caller's access to it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use triad_operator::operations::{Answer, Caller, Operations, Request};
use triad_runtime::{Clock, Entropy};

use crate::dry_runs::DryRuns;
use crate::pages::Pages;
use crate::told::told;

/// Settings of the MCP server; they are the same for all callers. The default allows no acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Whether the tools `dry_run` and `act` are offered. This grants no permission: the role of a caller
    /// says whether it may act.
    pub acts: bool,
}

/// What all callers of the MCP server share: the settings, the documentation, and the dry runs. `C` is the
/// clock and `E` the source of random numbers.
pub struct Mcp<C, E> {
    pub(crate) clock: C,
    pub(crate) entropy: E,
    pub(crate) settings: Settings,
    pub(crate) pages: Box<dyn Pages>,
    tried: Mutex<DryRuns>,
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
    /// An MCP server with these settings and this documentation. The clock determines the age of a dry run; the ids
    /// of dry runs come from `entropy`.
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

    /// The context of a known caller.
    pub(crate) fn visit(
        self: Arc<Self>,
        operations: Arc<dyn Operations>,
        caller: Caller,
    ) -> Visit<C, E> {
        Visit {
            mcp: self,
            operations,
            caller,
        }
    }

    pub(crate) fn tried(&self) -> MutexGuard<'_, DryRuns> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller of the tools.
pub(crate) struct Visit<C, E> {
    pub(crate) mcp: Arc<Mcp<C, E>>,
    operations: Arc<dyn Operations>,
    pub(crate) caller: Caller,
}

impl<C, E> Visit<C, E> {
    /// Executes a request on behalf of the caller.
    pub(crate) async fn execute(&self, asked: Request) -> Result<Answer, Value> {
        let made = self.operations.execute(&self.caller, asked).await;
        made.map_err(|problem| told(&problem))
    }
}

impl<C, E> Clone for Visit<C, E> {
    fn clone(&self) -> Self {
        Self {
            mcp: Arc::clone(&self.mcp),
            operations: Arc::clone(&self.operations),
            caller: self.caller.clone(),
        }
    }
}
