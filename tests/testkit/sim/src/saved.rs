//! Worlds saved in files: the random choices of a world that reached something rare, so that it stays the same when
//! the generator changes.
//!
//! A file has the fault rates, the settings of the processes, the orders byte by byte, and the state of the random
//! generator. A kind of fault that is added later has no rate in the file, so it does not occur and uses no random
//! numbers. What the handlers do is not in the file: if they make other calls, later random numbers apply to other
//! events. So the file also names what the world must still reach.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_core::breaker::BreakerSettings;
use triad_runtime::settings::{AdmissionSettings, DownstreamSettings};
use triad_workflow::{AgentName, Millis, WorkflowName};

use crate::kernel::Faults;
use crate::scenario::{NewAct, NewEvent, NewOrder, is_misfit};
use crate::setup::{Setup, Sizes};

/// The random choices from which a world is built.
#[derive(Debug, Clone)]
pub(crate) struct Drawn {
    pub faults: Faults,
    pub setup: Setup,
    pub orders: Vec<NewOrder>,
    /// Time within which all orders are sent, in milliseconds.
    pub over_ms: u64,
    /// Number of unreadable records sent with the orders.
    pub poison: usize,
    /// When the faults stop, in milliseconds.
    pub calm_after_ms: u64,
    /// State of the random generator before the processes are set up.
    pub rng: u64,
    pub then: u64,
}

/// The error for a [`Saved`] world without an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoOrder;

impl fmt::Display for NoOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a world without an order reaches nothing")
    }
}

impl std::error::Error for NoOrder {}

/// The faults, settings and orders that the generator once chose for a world. As JSON it is the content of that
/// world's file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// What a run of this world must reach, as names in [`coverage`](crate::coverage). The world was saved for this.
    pub sees: Vec<String>,
    /// The seed from which the world was once generated. It only names the world, and is not used in a run.
    pub seed: u64,
    faults: Faults,
    sizes: Sizes,
    downstreams: BTreeMap<AgentName, Downstream>,
    in_flight: Option<u32>,
    per_workflow: BTreeMap<WorkflowName, u32>,
    reject_after: Option<Millis>,
    retention_ms: Option<u64>,
    publishes: bool,
    operators: u32,
    wild_clocks: bool,
    unstarted: usize,
    waiting: usize,
    #[serde(default)]
    campaigns: bool,
    orders: Vec<Order>,
    over_ms: u64,
    poison: usize,
    calm_after_ms: u64,
    rng: u64,
    then: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Downstream {
    breaker: BreakerSettings,
    concurrency: Option<usize>,
    rate_per_second: Option<u32>,
}

/// An order. Its content is JSON, and therefore text.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    id: String,
    high: bool,
    value: String,
    conflict: Option<String>,
    hurries: bool,
    repeats: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<NewEvent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    act: Option<NewAct>,
}

impl Saved {
    pub(crate) fn of(seed: u64, drawn: &Drawn) -> Self {
        let Drawn { setup, .. } = drawn;
        let downstream = |own: &DownstreamSettings| Downstream {
            breaker: own.breaker,
            concurrency: own.concurrency,
            rate_per_second: own.rate_per_second,
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let order = |o: &NewOrder| Order {
            id: o.id.clone(),
            high: o.high,
            value: text(&o.value),
            conflict: o.conflict.as_deref().map(text),
            hurries: o.hurries,
            repeats: o.repeats,
            events: o.events.clone(),
            act: o.act.clone(),
        };
        let downstreams = setup.downstreams.iter();
        Self {
            sees: Vec::new(),
            seed,
            faults: drawn.faults,
            sizes: setup.sizes,
            downstreams: downstreams
                .map(|(name, own)| (name.clone(), downstream(own)))
                .collect(),
            in_flight: setup.admission.in_flight,
            per_workflow: setup.admission.per_workflow.clone(),
            reject_after: setup.admission.reject_after,
            retention_ms: setup.retention_ms,
            publishes: setup.publishes,
            operators: setup.operators,
            wild_clocks: setup.wild_clocks,
            unstarted: setup.unstarted,
            waiting: setup.waiting,
            campaigns: setup.campaigns,
            orders: drawn.orders.iter().map(order).collect(),
            over_ms: drawn.over_ms,
            poison: drawn.poison,
            calm_after_ms: drawn.calm_after_ms,
            rng: drawn.rng,
            then: drawn.then,
        }
    }

    pub(crate) fn drawn(&self) -> Result<Drawn, NoOrder> {
        if self.orders.is_empty() {
            return Err(NoOrder);
        }
        let downstream = |own: &Downstream| DownstreamSettings {
            breaker: own.breaker,
            concurrency: own.concurrency,
            rate_per_second: own.rate_per_second,
            ..DownstreamSettings::default()
        };
        let order = |o: &Order| {
            let body: Value = serde_json::from_str(&o.value).unwrap_or_default();
            let workflow = body["workflow"].as_str().unwrap_or_default();
            NewOrder {
                id: o.id.clone(),
                high: o.high,
                value: o.value.clone().into_bytes(),
                conflict: o.conflict.clone().map(String::into_bytes),
                hurries: o.hurries,
                repeats: o.repeats,
                events: o.events.clone(),
                act: o.act.clone(),
                // Computed with the current definitions.
                misfit: is_misfit(workflow, &body["details"]),
            }
        };
        let downstreams = self.downstreams.iter();
        Ok(Drawn {
            faults: self.faults,
            setup: Setup {
                sizes: self.sizes,
                downstreams: downstreams
                    .map(|(name, own)| (name.clone(), downstream(own)))
                    .collect(),
                admission: AdmissionSettings {
                    in_flight: self.in_flight,
                    per_workflow: self.per_workflow.clone(),
                    reject_after: self.reject_after,
                },
                retention_ms: self.retention_ms,
                publishes: self.publishes,
                operators: self.operators,
                wild_clocks: self.wild_clocks,
                orders: self.orders.len(),
                unstarted: self.unstarted,
                waiting: self.waiting,
                campaigns: self.campaigns,
                one_machine: false,
            },
            orders: self.orders.iter().map(order).collect(),
            over_ms: self.over_ms,
            poison: self.poison,
            calm_after_ms: self.calm_after_ms,
            rng: self.rng,
            then: self.then,
        })
    }
}
