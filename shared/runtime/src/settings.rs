//! What the handlers are told once, at cold start.

use std::collections::BTreeSet;

use triad_core::Timing;
use triad_workflow::Millis;

/// Bounds and spans of the handlers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The installation's spans.
    pub timing: Timing,
    /// Reply topics that submissions may name.
    pub reply_topics: BTreeSet<String>,
    /// How long the present version of a workflow is remembered before it is asked for again.
    pub refresh_definitions: Millis,
    /// Orders of which the Scheduler keeps a copy of record and details.
    pub cached_orders: usize,
    /// Requests that one agent process works on at once.
    pub agent_concurrency: usize,
    /// Orders that a sweep takes up at once.
    pub sweep_page: u32,
    /// Orders that one sweep takes up at most.
    pub sweep_limit: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            reply_topics: BTreeSet::new(),
            refresh_definitions: Millis(10_000),
            cached_orders: 2_048,
            agent_concurrency: 64,
            sweep_page: 100,
            sweep_limit: 10_000,
        }
    }
}
