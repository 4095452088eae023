//! The checker's memory of the orders' writes, and of watched worlds.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;
use triad_core::OrderId;
use triad_core::message::AlertKind;
use triad_workflow::StepIndex;

use crate::load::Load;

/// The checker's memory.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Claim ids that were used, and for which order.
    pub claims: HashMap<String, OrderId, FixedState>,
    /// Alerts that bad ends require, by id: the kind, and the cause.
    pub alerts: BTreeMap<String, (AlertKind, String)>,
    /// How often an operator has had the calls of an order counted from zero.
    pub resets: HashMap<OrderId, u32, FixedState>,
    /// Orders with attempts that are not failures: deferred, probed or resubmitted.
    pub uneven: BTreeSet<OrderId>,
    /// Steps that were skipped at some time.
    pub skipped: BTreeSet<(OrderId, StepIndex)>,
    /// The waits before another attempt, by leg of a step.
    pub waits: HashMap<Leg, Wait, FixedState>,
    /// The service that was called for the effect of a key.
    pub places: HashMap<String, &'static str, FixedState>,
    /// Orders that were moved to another version.
    pub moved: BTreeSet<OrderId>,
}

/// One leg of a step of an order: its compensation if true, else its action.
pub(crate) type Leg = (OrderId, StepIndex, bool);

/// A wait before another attempt, as the policy of the step has it.
#[derive(Debug)]
pub(crate) struct Wait {
    /// The order's run, and the counted failures of the leg in it.
    pub after: (u32, u32),
    /// No attempt is made before this moment of the world.
    pub until: u64,
}

/// The checker's memory of a watched world.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Whether the world is watched: most are not, for speed.
    pub is_on: bool,
    /// The load of the world.
    pub load: Option<Load>,
    /// When its orders began to arrive.
    pub began: u64,
    /// When an order was started first.
    pub started: BTreeMap<OrderId, u64>,
    /// When an order ended.
    pub ended: BTreeMap<OrderId, u64>,
    /// When an order had ended with all of its messages known to be sent.
    pub rested: BTreeMap<OrderId, u64>,
    /// First calls and repeated ones of an instance to a service.
    pub calls: BTreeMap<(usize, &'static str), (u64, u64)>,
}
