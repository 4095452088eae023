//! Settings of the handlers, fixed at cold start.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::Timing;
use triad_core::breaker::BreakerSettings;
use triad_core::retry_budget::RetryBudgetSettings;
use triad_workflow::{AgentName, Millis, WorkflowName};

use crate::traces::Traces;

/// Bounds and time spans of the handlers, fixed when the process starts. The defaults are those of
/// [`Settings::default`]; times are in milliseconds.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The time spans that hold for the whole installation, such as the clock skew.
    pub timing: Timing,
    /// Name of this process for people, which the claims of a Scheduler hold
    /// ([`ClaimId::by`](triad_core::ClaimId::by)). Default: `unnamed`.
    pub instance: String,
    /// Reply topics that a submission may name, beside the default topic `status`. Empty: none.
    pub reply_topics: BTreeSet<String>,
    /// How long the current version of a workflow is cached before it is read again. Default: 10,000 ms.
    pub refresh_definitions: Millis,
    /// Most orders of which one Scheduler process keeps a copy of record and details; 0 keeps none.
    /// Default: 2,048.
    pub cached_orders: usize,
    /// Most requests of one batch that [`Agent::handle`](crate::agent::Agent::handle) works on at
    /// once, of all its agents together; 0 counts as 1. Default: 64.
    pub agent_concurrency: usize,
    /// Limits of single downstreams, by agent name. A downstream that is not named here has
    /// [`DownstreamSettings::default`].
    pub downstreams: BTreeMap<AgentName, DownstreamSettings>,
    /// How long a downstream's shared record is cached before it is read again, and so about the longest time until a
    /// process that makes calls follows an operator's pause. Default: 2,000 ms.
    pub refresh_downstreams: Millis,
    /// How long work for a paused downstream or step type waits before it is due again: from half of this time to all
    /// of it. Each time costs an order three writes. Default: 30,000 ms.
    pub recheck_held: Millis,
    /// How many orders one Submission process lets in, in each lane, before it checks whether Schedulers have claimed
    /// earlier ones; 0 counts as 1. The bound grows to four times this while the Schedulers are idle. Default: 4,096.
    pub unstarted: usize,
    /// Most orders that wait in one Scheduler process, in each lane, to start as soon as there is room. The
    /// Supervisor announces further ones later. Default: 32,768.
    pub waiting: usize,
    /// How many orders may be in flight. Default: any number.
    pub admission: AdmissionSettings,
    /// Time between two repeated announcements by one Supervisor process of orders that no Scheduler has claimed. The
    /// more such orders, the less often each is announced. Default: 2 ms, which is 500 a second.
    pub announce_apart: Millis,
    /// Most rows of the due index that a sweep reads and handles at once. Default: 100.
    pub sweep_page: u32,
    /// How many rows of the due index a sweep reads before it begins no further page. Default: 10,000.
    pub sweep_limit: usize,
    /// Where the handlers send the spans of their orders' traces. Default: nowhere.
    pub traces: Traces,
}

/// Limits of one downstream. The default has no limit of concurrency or rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DownstreamSettings {
    /// When the circuit breaker opens and closes.
    pub breaker: BreakerSettings,
    /// How many calls may repeat earlier ones, counted in each process separately.
    pub retry_budget: RetryBudgetSettings,
    /// Most calls that one process makes at once, 0 counting as 1; `None`: no limit of its own.
    /// Work that would wait for more than two seconds, or for more than a quarter of the time that is left
    /// for its call, is deferred.
    pub concurrency: Option<usize>,
    /// Most calls a second, of all processes together, 0 counting as 1; `None`: no limit. Work that would wait for
    /// longer than described at `concurrency` is deferred.
    pub rate_per_second: Option<u32>,
}

/// How many orders may be in flight, and what happens to further ones. Several Submission processes that let orders
/// in at the same time may exceed the caps a little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// Most orders in flight, of all workflows; `None`: any number.
    pub in_flight: Option<u32>,
    /// Most orders in flight of single workflows, by name. A workflow that is not named has no cap
    /// of its own. Orders beyond such a cap are set aside until there is room.
    pub per_workflow: BTreeMap<WorkflowName, u32>,
    /// How many milliseconds a submission may wait in its topic, from when it was produced. One that has
    /// waited for so long or longer, and finds no room, is rejected with a status. `None`: no submission is
    /// rejected, and Submission only slows down.
    pub reject_after: Option<Millis>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            instance: "unnamed".to_owned(),
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
            announce_apart: Millis(2),
            sweep_page: 100,
            sweep_limit: 10_000,
            traces: Traces::default(),
        }
    }
}
