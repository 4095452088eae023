//! What the handlers are told once, at cold start.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::Timing;
use triad_core::breaker::BreakerSettings;
use triad_core::retry_budget::RetryBudgetSettings;
use triad_workflow::{AgentName, Millis, WorkflowName};

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
    /// Limits of the downstreams that have their own.
    pub downstreams: BTreeMap<AgentName, DownstreamSettings>,
    /// How long a downstream's shared record is remembered before it is read again: an
    /// operator's pause takes this long to reach every instance.
    pub refresh_downstreams: Millis,
    /// How long work for a paused downstream or step type is left alone before it is looked at
    /// again: each look costs an order three writes.
    pub recheck_held: Millis,
    /// Orders that one Submission process lets in, in each lane, before it looks whether a Scheduler
    /// has taken earlier ones up.
    pub unstarted: usize,
    /// Orders for which one Scheduler process remembers, in each lane, that they are to be started
    /// as soon as there is room; further ones are left to the Supervisor.
    pub waiting: usize,
    /// How many orders may be in flight.
    pub admission: AdmissionSettings,
    /// Orders that a sweep takes up at once.
    pub sweep_page: u32,
    /// Orders that one sweep takes up at most.
    pub sweep_limit: usize,
}

/// Limits of one downstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DownstreamSettings {
    /// When its circuit breaker opens and closes.
    pub breaker: BreakerSettings,
    /// How many calls may repeat earlier ones, in one process.
    pub retry_budget: RetryBudgetSettings,
    /// Calls under way at once in one process.
    pub concurrency: Option<usize>,
    /// Calls a second, of all processes together.
    pub rate_per_second: Option<u32>,
}

/// How many orders may be in flight, and what becomes of those beyond it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Orders in flight in all; `None`: any number.
    pub in_flight: Option<u32>,
    /// Orders in flight of one workflow.
    pub per_workflow: BTreeMap<WorkflowName, u32>,
    /// How long a submission may wait in its topic, from when it was produced, before it is
    /// rejected; `None`: it is never rejected, and submission only slows down.
    pub reject_after: Option<Millis>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            reply_topics: BTreeSet::new(),
            refresh_definitions: Millis(10_000),
            cached_orders: 2_048,
            agent_concurrency: 64,
            downstreams: BTreeMap::new(),
            refresh_downstreams: Millis(2_000),
            recheck_held: triad_core::downstream::HELD_RECHECK,
            unstarted: 4_096,
            waiting: 32_768,
            admission: AdmissionSettings {
                in_flight: None,
                per_workflow: BTreeMap::new(),
                reject_after: None,
            },
            sweep_page: 100,
            sweep_limit: 10_000,
        }
    }
}
