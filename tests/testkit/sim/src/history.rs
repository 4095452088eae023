//! What the checker remembers of the orders' writes, and of watched worlds.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;
use serde_json::Value;
use triad_core::OrderId;
use triad_core::message::AlertKind;
use triad_workflow::StepIndex;

use crate::load::Load;

/// What the checker remembers of the writes.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The claim ids that were used, each with its order.
    pub claims: HashMap<String, OrderId, FixedState>,
    /// The alerts that bad ends require, by id: kind and cause.
    pub alerts: BTreeMap<String, (AlertKind, String)>,
    /// How often an operator's act has made an order's calls count from zero.
    pub resets: HashMap<OrderId, u32, FixedState>,
    /// Orders with attempts that do not count as failures, because they were deferred, probed or resubmitted.
    pub uneven: BTreeSet<OrderId>,
    /// Steps that were skipped at least once.
    pub skipped: BTreeSet<(OrderId, StepIndex)>,
    /// The latest wait before another attempt, by leg.
    pub waits: HashMap<Leg, Wait, FixedState>,
    /// The service that was called for the effect of each key.
    pub places: HashMap<String, &'static str, FixedState>,
    /// The details of an order when its step was started, by the key of the step's action.
    pub begun_with: HashMap<String, Value, FixedState>,
    /// Orders that were migrated to another version.
    pub moved: BTreeSet<OrderId>,
}

/// One leg of a step: order, step, and whether it is the compensation.
pub(crate) type Leg = (OrderId, StepIndex, bool);

/// A wait before another attempt, by the step's policy.
#[derive(Debug)]
pub(crate) struct Wait {
    /// The order's run, and the number of failures counted in it for the leg.
    pub after: (u32, u32),
    /// The time of the world before which no attempt may be made.
    pub until: u64,
}

/// What the checker remembers of a watched world.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Whether the world is watched. Most are not, because watching takes time.
    pub is_on: bool,
    /// The load of the world.
    pub load: Option<Load>,
    /// When its orders began to arrive.
    pub began: u64,
    /// When each order was first started.
    pub started: BTreeMap<OrderId, u64>,
    /// When each order ended.
    pub ended: BTreeMap<OrderId, u64>,
    /// When each order had ended and all its messages were confirmed as sent.
    pub rested: BTreeMap<OrderId, u64>,
    /// Number of first and of repeated calls, by instance and service.
    pub calls: BTreeMap<(usize, &'static str), (u64, u64)>,
}
