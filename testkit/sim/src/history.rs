//! What the checker remembers of the orders' writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use triad_core::OrderId;
use triad_core::message::AlertKind;
use triad_workflow::StepIndex;

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Claim ids that were used, and for which order.
    pub claims: HashMap<String, OrderId>,
    /// Alerts that bad ends call for, by id: the kind, and the cause.
    pub alerts: BTreeMap<String, (AlertKind, String)>,
    /// How often an operator has had the calls of an order counted from zero.
    pub resets: HashMap<OrderId, u32>,
    /// Orders whose attempts are not all failures: put off, probed or set going again.
    pub uneven: BTreeSet<OrderId>,
    /// Steps that were skipped at some time.
    pub skipped: BTreeSet<(OrderId, StepIndex)>,
    /// Orders that were moved to another version.
    pub moved: BTreeSet<OrderId>,
}
