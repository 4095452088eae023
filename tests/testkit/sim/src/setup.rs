//! The setup of a world besides its faults: limits, caps, retention, actors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use triad_core::breaker::BreakerSettings;
use triad_core::retry_budget::RetryBudgetSettings;
use triad_runtime::settings::{AdmissionSettings, DownstreamSettings, Settings};
use triad_workflow::{AgentName, Millis};

use crate::definitions::{AGENTS, TIMING, workflows};
use crate::kernel::Rng;

/// Refresh time of a downstream's record in an instance.
pub(crate) const REFRESH_DOWNSTREAMS: Millis = Millis(2_000);

/// Longest pause between two sweeps of one Supervisor.
pub(crate) const SWEEP_MS: u64 = 4_000;

/// Longest time after an order has stopped until its record permits a resolution: the time of the longest request,
/// which may have been made at the last moment.
pub(crate) const ASKED_WITHIN_MS: u64 = 16_000;
/// With wrong clocks an operator waits this long before checking with a service: by then no call is made any more.
pub(crate) const ASKS_LATE_AFTER_MS: u64 = 200_000;
/// Time between two rounds of the clean-up.
pub(crate) const ROUND_MS: u64 = 1_000;

/// A breaker that opens after few failures and for a short time.
const NERVOUS: BreakerSettings = BreakerSettings {
    window: 6,
    minimum: 4,
    failure_percent: 50,
    open: Millis(1_000),
    max_open: Millis(8_000),
    probes: 2,
    probe_within: Millis(5_000),
};

/// Numbers of instances, and sizes of batches.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Sizes {
    pub submissions: usize,
    pub schedulers: usize,
    pub agents: usize,
    pub supervisors: usize,
    /// Partitions of the normal lanes; the high ones have one each.
    pub orders_partitions: usize,
    pub scheduler_partitions: usize,
    pub agent_partitions: usize,
    /// Most records that a consumer gets at once.
    pub batch: u64,
    /// Requests that an agent works on at once, of one partition.
    pub agent_concurrency: usize,
    /// Rows of the due index that a Supervisor handles at once, and in one sweep.
    pub sweep_page: u32,
    pub sweep_limit: usize,
    /// How long the current version of a workflow is cached.
    pub refresh_definitions: Millis,
}

/// A few of each, for worlds that are not drawn.
const A_FEW: Sizes = Sizes {
    submissions: 2,
    schedulers: 3,
    agents: 3,
    supervisors: 2,
    orders_partitions: 2,
    scheduler_partitions: 3,
    agent_partitions: 2,
    batch: 6,
    agent_concurrency: 4,
    sweep_page: 3,
    sweep_limit: 200,
    refresh_definitions: Millis(5_000),
};

impl Sizes {
    /// From one of each to sensible maximums, and up to the bounds of production.
    fn drawn(rng: &mut Rng) -> Self {
        let up_to = |most: u64| usize::try_from(rng.between(1, most)).unwrap_or(1);
        let counts = [3, 4, 4, 3, 3, 4, 3].map(up_to);
        let [
            submissions,
            schedulers,
            agents,
            supervisors,
            orders,
            scheduler,
            agent,
        ] = counts;
        Self {
            submissions,
            schedulers,
            agents,
            supervisors,
            orders_partitions: orders,
            scheduler_partitions: scheduler,
            agent_partitions: agent,
            batch: *rng.pick(&[1, 6, 64]),
            agent_concurrency: *rng.pick(&[1, 4, 64]),
            sweep_page: *rng.pick(&[1, 3, 100]),
            // Not less: a sweep that is always cut short has no bound.
            sweep_limit: *rng.pick(&[50, 200, 10_000]),
            refresh_definitions: Millis(rng.below(10_001)),
        }
    }
}

/// Drawn once from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub sizes: Sizes,
    pub downstreams: BTreeMap<AgentName, DownstreamSettings>,
    pub admission: AdmissionSettings,
    /// Finished records expire after this.
    pub retention_ms: Option<u64>,
    /// Later versions that are published in the course of it.
    pub publishes: bool,
    /// Operators act, in thousandths of their turns.
    pub operators: u32,
    /// Clocks may be far off, beyond the skew.
    pub wild_clocks: bool,
    /// Orders that are submitted.
    pub orders: usize,
    /// Orders that one Submission may run ahead of the Schedulers.
    pub unstarted: usize,
    /// Orders that may wait in one Scheduler.
    pub waiting: usize,
    /// Operators start campaigns, and Supervisors carry them on.
    pub campaigns: bool,
    /// All handlers are one process, and its log is on the machine's own disk: see `crate::machine`.
    pub one_machine: bool,
}

fn agent(name: &str) -> AgentName {
    AgentName::new(name).expect("a good name")
}

fn uncapped() -> AdmissionSettings {
    AdmissionSettings {
        in_flight: None,
        per_workflow: BTreeMap::new(),
        reject_after: None,
    }
}

impl Setup {
    /// A plain setup, for orders that only run.
    pub(crate) fn plain() -> Self {
        Self {
            sizes: A_FEW,
            downstreams: BTreeMap::new(),
            admission: uncapped(),
            retention_ms: None,
            publishes: false,
            operators: 0,
            wild_clocks: false,
            orders: 0,
            unstarted: 64,
            waiting: 1_000,
            campaigns: false,
            one_machine: false,
        }
    }

    /// The same on one machine, with one of each handler.
    pub(crate) fn on_one_machine(self) -> Self {
        let sizes = Sizes {
            submissions: 1,
            schedulers: 1,
            agents: 1,
            supervisors: 1,
            ..self.sizes
        };
        Self {
            sizes,
            one_machine: true,
            ..self
        }
    }

    /// For a world under load: little room, so that many orders are held back.
    pub(crate) fn load() -> Self {
        let little = DownstreamSettings {
            retry_budget: RetryBudgetSettings {
                percent: 20,
                per_second: 1,
                saved: 5,
            },
            ..DownstreamSettings::default()
        };
        Self {
            downstreams: AGENTS.into_iter().map(|a| (agent(a), little)).collect(),
            unstarted: 16,
            waiting: 400,
            ..Self::plain()
        }
    }

    /// The setup of a seed.
    pub(crate) fn drawn(rng: &mut Rng) -> Self {
        let mut downstreams = BTreeMap::new();
        for name in AGENTS {
            let mut own = DownstreamSettings::default();
            if rng.chance(700) {
                own.breaker = NERVOUS;
            }
            if rng.chance(250) {
                own.concurrency = Some(usize::try_from(rng.between(1, 2)).unwrap_or(1));
            }
            if rng.chance(250) {
                own.rate_per_second = u32::try_from(rng.between(1, 4)).ok();
            }
            downstreams.insert(agent(name), own);
        }
        let mut admission = uncapped();
        let mut orders = usize::try_from(rng.between(2, 6)).unwrap_or(2);
        if rng.chance(150) {
            orders *= 3;
            admission.in_flight = u32::try_from(rng.between(2, 4)).ok();
            if rng.chance(500) {
                admission.reject_after = Some(Millis(rng.between(1_000, 10_000)));
            }
        }
        if rng.chance(100) {
            orders = orders.max(6) * 2;
            for _ in 0..rng.between(1, 6) {
                let name = rng.pick(workflows()).name.clone();
                let cap = u32::try_from(rng.between(1, 2)).unwrap_or(1);
                admission.per_workflow.insert(name, cap);
            }
        }
        // Enough that some need an operator at the same time, and get none but the campaigns.
        let campaigns = rng.chance(200);
        if campaigns {
            orders = orders.max(4) * 3;
        }
        let operators = if rng.chance(500) { 300 } else { 0 };
        Self {
            sizes: Sizes::drawn(rng),
            downstreams,
            admission,
            // Longer than successive outages, as in production: last messages are made again from the record.
            retention_ms: rng.chance(500).then(|| rng.between(285_000, 320_000)),
            publishes: rng.chance(300),
            operators: if campaigns { operators / 10 } else { operators },
            wild_clocks: rng.chance(80),
            orders,
            unstarted: *rng.pick(&[1, 2, 64]),
            waiting: *rng.pick(&[0, 1, 64]),
            campaigns,
            one_machine: false,
        }
    }

    /// Time between a Supervisor's repeated announcements: the longer, the fewer a Scheduler remembers, so that more
    /// depends on them. With a second some worlds have enough orders for growing intervals.
    pub(crate) fn announce_apart(&self) -> Millis {
        Millis(match self.waiting {
            0 => 1_000,
            1 => 100,
            _ => 2,
        })
    }

    /// The settings of the handlers of one process.
    pub(crate) fn settings(&self, cached_orders: usize) -> Settings {
        Settings {
            timing: TIMING,
            reply_topics: ["reply.app".to_owned()].into(),
            refresh_definitions: self.sizes.refresh_definitions,
            cached_orders,
            agent_concurrency: self.sizes.agent_concurrency,
            downstreams: self.downstreams.clone(),
            refresh_downstreams: REFRESH_DOWNSTREAMS,
            admission: self.admission.clone(),
            unstarted: self.unstarted,
            waiting: self.waiting,
            announce_apart: self.announce_apart(),
            sweep_page: self.sizes.sweep_page,
            sweep_limit: self.sizes.sweep_limit,
            ..Settings::default()
        }
    }

    /// The limits of one downstream.
    pub(crate) fn limits(&self, service: &str) -> DownstreamSettings {
        let found = self.downstreams.get(&agent(service));
        found.copied().unwrap_or_default()
    }
}
