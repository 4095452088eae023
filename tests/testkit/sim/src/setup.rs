//! The random settings of a world other than its faults: limits, caps, retention, and numbers of actors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use triad_core::breaker::BreakerSettings;
use triad_core::retry_budget::RetryBudgetSettings;
use triad_runtime::settings::{AdmissionSettings, DownstreamSettings, Settings};
use triad_workflow::{AgentName, Millis};

use crate::definitions::{AGENTS, TIMING, workflows};
use crate::kernel::Rng;

/// How often an instance reads a downstream's record again.
pub(crate) const REFRESH_DOWNSTREAMS: Millis = Millis(2_000);

/// Longest pause between two sweeps of one Supervisor.
pub(crate) const SWEEP_MS: u64 = 4_000;

/// Longest time after an order has stopped until its record permits a resolution, in milliseconds. That is the time
/// of the longest request, which may have been made at the last moment.
pub(crate) const ASKED_WITHIN_MS: u64 = 16_000;
/// How long an operator waits before checking with a service if clocks are wrong, in milliseconds. After that no call
/// is made any more.
pub(crate) const ASKS_LATE_AFTER_MS: u64 = 200_000;
/// Interval between rounds of the repair after the faults, in milliseconds.
pub(crate) const ROUND_MS: u64 = 1_000;

/// A breaker that opens after few failures, for a short time.
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
    /// Partitions of the normal lanes; each high lane has one.
    pub orders_partitions: usize,
    pub scheduler_partitions: usize,
    pub agent_partitions: usize,
    /// Most records in one batch of a consumer.
    pub batch: u64,
    /// Number of requests of one partition that an agent handles at once.
    pub agent_concurrency: usize,
    /// Number of rows of the due index that a Supervisor handles at once, and in one sweep.
    pub sweep_page: u32,
    pub sweep_limit: usize,
    /// How long the current version of a workflow is cached.
    pub refresh_definitions: Millis,
}

/// The sizes for worlds that are not random.
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
    /// Random sizes, from one of each up to reasonable maximums and the limits of production.
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
            // Not less, because the duration of repeated incomplete sweeps would have no bound.
            sweep_limit: *rng.pick(&[50, 200, 10_000]),
            refresh_definitions: Millis(rng.below(10_001)),
        }
    }
}

/// The settings of a world, chosen once by its seed.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub sizes: Sizes,
    pub downstreams: BTreeMap<AgentName, DownstreamSettings>,
    pub admission: AdmissionSettings,
    /// How long finished records are kept, in milliseconds; `None` for ever.
    pub retention_ms: Option<u64>,
    /// Whether later versions of workflows are published during the run.
    pub publishes: bool,
    /// Probability in thousandths that an operator acts in a round.
    pub operators: u32,
    /// Whether clocks may differ by more than the skew.
    pub wild_clocks: bool,
    /// Number of orders that are submitted.
    pub orders: usize,
    /// Number of orders that one Submission may admit ahead of the Schedulers.
    pub unstarted: usize,
    /// Number of orders that may wait in one Scheduler.
    pub waiting: usize,
    /// Whether operators start campaigns, which Supervisors carry out.
    pub campaigns: bool,
    /// Whether all handlers are one process with one durable file: see `crate::machine`.
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
    /// The settings for plain orders.
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

    /// These settings on one machine, with one handler of each kind.
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

    /// The settings for a world under load: low limits, so that many orders are held back.
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

    /// Random settings.
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
        // So many that several orders need an operator at the same time; only campaigns act on them.
        let campaigns = rng.chance(200);
        if campaigns {
            orders = orders.max(4) * 3;
        }
        let operators = if rng.chance(500) { 300 } else { 0 };
        Self {
            sizes: Sizes::drawn(rng),
            downstreams,
            admission,
            // Longer than successive outages, as in production, because an order's last messages are made from its
            // record.
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

    /// Interval between repeated wakes by a Supervisor. The longer it is, the fewer orders a Scheduler needs to
    /// remember, so that more depends on the wakes. With one second, some worlds have enough orders for growing
    /// intervals.
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
