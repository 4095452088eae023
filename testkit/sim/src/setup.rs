//! What a world is like beside its faults: limits, caps, retention, who acts in it.

use std::collections::BTreeMap;

use triad_core::breaker::BreakerSettings;
use triad_core::retry_budget::RetryBudgetSettings;
use triad_runtime::settings::{AdmissionSettings, DownstreamSettings, Settings};
use triad_workflow::{AgentName, Millis};

use crate::definitions::{AGENTS, TIMING};
use crate::kernel::Rng;

/// How soon an instance reads a downstream's record again.
pub(crate) const REFRESH_DOWNSTREAMS: Millis = Millis(2_000);

/// Longest pause between two sweeps of one Supervisor.
pub(crate) const SWEEP_MS: u64 = 4_000;

/// A breaker that opens after little and stays open for little.
const NERVOUS: BreakerSettings = BreakerSettings {
    window: 6,
    minimum: 4,
    failure_percent: 50,
    open: Millis(1_000),
    max_open: Millis(8_000),
    probes: 2,
    probe_within: Millis(5_000),
};

/// Drawn once from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub downstreams: BTreeMap<AgentName, DownstreamSettings>,
    pub admission: AdmissionSettings,
    /// Finished records expire after this.
    pub retention_ms: Option<u64>,
    /// Later versions that are published in the course of it.
    pub publishes: bool,
    /// Operators act so often, in a thousand turns.
    pub operators: u32,
    /// Clocks may be far off, beyond the skew.
    pub wild_clocks: bool,
    /// Orders that are submitted.
    pub orders: usize,
    /// Orders that one Submission may run ahead of the Schedulers.
    pub unstarted: usize,
    /// Orders that may wait in one Scheduler.
    pub waiting: usize,
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
    /// Nothing special, for orders that only run.
    pub(crate) fn plain() -> Self {
        Self {
            downstreams: BTreeMap::new(),
            admission: uncapped(),
            retention_ms: None,
            publishes: false,
            operators: 0,
            wild_clocks: false,
            orders: 0,
            unstarted: 64,
            waiting: 1_000,
        }
    }

    /// For a world under load: little room, so that much is held back.
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
        Self {
            downstreams,
            admission,
            // Longer than outages that follow one another, as it is in production: whoever has to send
            // a last message again makes it from the record.
            retention_ms: rng.chance(300).then(|| rng.between(220_000, 270_000)),
            publishes: rng.chance(300),
            operators: if rng.chance(500) { 300 } else { 0 },
            wild_clocks: rng.chance(80),
            orders,
            unstarted: *rng.pick(&[1, 2, 64]),
            waiting: *rng.pick(&[0, 1, 64]),
        }
    }

    /// What the handlers of one process are told.
    pub(crate) fn settings(&self, cached_orders: usize) -> Settings {
        Settings {
            timing: TIMING,
            reply_topics: ["reply.app".to_owned()].into(),
            refresh_definitions: Millis(5_000),
            cached_orders,
            agent_concurrency: 4,
            downstreams: self.downstreams.clone(),
            refresh_downstreams: REFRESH_DOWNSTREAMS,
            admission: self.admission.clone(),
            unstarted: self.unstarted,
            waiting: self.waiting,
            sweep_page: 3,
            sweep_limit: 200,
            ..Settings::default()
        }
    }

    /// The limits of one downstream.
    pub(crate) fn limits(&self, service: &str) -> DownstreamSettings {
        let found = self.downstreams.get(&agent(service));
        found.copied().unwrap_or_default()
    }
}
