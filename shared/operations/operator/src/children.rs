//! The child orders of a step, for operators: how many are where, and which of them to look at.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use triad_core::children::{ChildState, Parent, child_id};
use triad_core::{Order, OrderId, StepRecord};

/// Most child orders in one state that are named, inclusive.
pub const MAX_NAMED: usize = 10;

/// The states by name and in words, in the order in which people read them, and whether child orders in it are named.
const STATES: [(&str, &str, bool); 7] = [
    ("processed", "Processed", false),
    ("failed", "failed", true),
    ("under_way", "under way", true),
    ("not_started", "not started", false),
    ("compensating", "being compensated", true),
    ("compensated", "compensated", false),
    ("not_compensated", "cannot be compensated", true),
];

fn name(state: &ChildState) -> &'static str {
    match state {
        ChildState::Processed(_) => "processed",
        ChildState::Failed => "failed",
        ChildState::Running => "under_way",
        ChildState::Waiting => "not_started",
        ChildState::Compensating { .. } => "compensating",
        ChildState::Compensated => "compensated",
        ChildState::Kept => "not_compensated",
    }
}

/// The child orders of a step, as far as the record of their parent order knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChildrenView {
    /// How many there are.
    pub all: usize,
    /// How many are in each state, by its name; a state that none is in is left out.
    pub states: BTreeMap<&'static str, usize>,
    /// The ids of those that have failed, are under way, are being compensated or cannot be compensated, by the name of
    /// the state: of each at most [`MAX_NAMED`].
    pub orders: BTreeMap<&'static str, Vec<OrderId>>,
}

/// Some child orders in one state.
#[derive(Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// The state in words.
    pub state: &'static str,
    /// Their ids; at least one.
    pub ids: &'a [OrderId],
    /// How many more are in the state.
    pub more: usize,
}

impl ChildrenView {
    /// The child orders of a step of an order; `None` if the step has started none.
    #[must_use]
    pub fn of(order: &Order, record: &StepRecord) -> Option<Self> {
        let children = record.children.as_ref()?;
        let mut states = BTreeMap::new();
        for child in &children.all {
            *states.entry(name(&child.state)).or_default() += 1;
        }
        let shown = STATES.iter().filter(|(.., is_named)| *is_named);
        let named = shown.map(|(state, ..)| {
            let ids = children.ids(&order.id, &record.step, |is| name(is) == *state);
            (*state, ids.take(MAX_NAMED).collect::<Vec<_>>())
        });
        Some(Self {
            all: children.all.len(),
            states,
            orders: named.filter(|(_, ids)| !ids.is_empty()).collect(),
        })
    }

    /// How many are in the state of this name.
    #[must_use]
    pub fn count(&self, state: &str) -> usize {
        self.states.get(state).copied().unwrap_or_default()
    }

    /// Those whose ids are shown, state by state.
    pub fn named(&self) -> impl Iterator<Item = Named<'_>> {
        STATES.iter().filter_map(|(name, in_words, _)| {
            let ids = self.orders.get(name)?;
            Some(Named {
                state: in_words,
                ids,
                more: self.count(name) - ids.len(),
            })
        })
    }
}

/// `40 child orders: 38 Processed, 1 failed, 1 under way`.
impl fmt::Display for ChildrenView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = STATES
            .iter()
            .map(|(name, in_words, _)| (self.count(name), in_words));
        let counts = counts.filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(n, state)| format!("{n} {state}")).collect();
        match self.all {
            0 => f.write_str("no child orders"),
            1 => write!(f, "1 child order: {}", counts.join(", ")),
            all => write!(f, "{all} child orders: {}", counts.join(", ")),
        }
    }
}

/// Which child order of its parent an order is: `step ship, number 17`, without a number if it is the only one.
#[must_use]
pub fn place(order: &Order, parent: &Parent) -> String {
    let alone = child_id(&parent.order_id, &parent.step, None, parent.attempt);
    match order.id == alone {
        true => format!("step {}", parent.step),
        false => format!("step {}, number {}", parent.step, parent.number),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;
    use triad_core::{Attempt, StepState, Timestamp, Work};
    use triad_workflow::{Limits, Workflow};

    use super::*;

    /// The order `o` with a step that has child orders in these states, in the stored form.
    pub(crate) fn parent_of(children: &str) -> Order {
        let definition = json!({"workflow": "w", "steps": [{"id": "ship", "for_each": "details.lines",
            "agent": "carrier", "action": "book", "compensation": "none"}]});
        let definition = serde_json::from_value(definition).unwrap();
        let workflow = Workflow::compile(definition, &Limits::published()).unwrap();
        let accepted = json!({"order_id": "o", "workflow": format!("w@{}", workflow.hash),
            "submitted_at": 0, "due": 1, "details": {}});
        let accepted = serde_json::from_value(accepted).unwrap();
        let mut order = Order::new(&accepted, &workflow, Timestamp(1));
        let step = &mut order.steps[0];
        step.children = serde_json::from_value(json!({"since": 7, "all": children})).unwrap();
        step.state = StepState::Acting(Work::Parked {
            attempt: Attempt(1),
            since: Timestamp(7),
            until: Timestamp(9),
            ends: None,
            events: Vec::new(),
            keys: BTreeMap::new(),
        });
        order
    }

    /// Makes an order a child order of the order `p`.
    pub(crate) fn adopt(order: &mut Order) {
        let parent = json!({"order_id": "p", "step": "ship", "number": 17, "depth": 1});
        order.parent = Some(serde_json::from_value(parent).unwrap());
    }

    #[test]
    fn child_orders_are_counted_and_those_to_look_at_are_named() {
        let order = parent_of(&format!("ppf{}ww", "r1".repeat(12)));
        let view = ChildrenView::of(&order, &order.steps[0]).unwrap();
        assert_eq!(
            view.to_string(),
            "17 child orders: 2 Processed, 1 failed, 12 under way, 2 not started"
        );
        let named: Vec<_> = view.named().collect();
        assert_eq!(
            (named[0].state, named[0].ids.len(), named[0].more),
            ("failed", 1, 0)
        );
        assert_eq!(
            (named[1].state, named[1].ids.len(), named[1].more),
            ("under way", 10, 2)
        );
        assert_eq!(named[1].ids[0].as_str(), "o:ship:3~1");
        let order = parent_of("kuc");
        let view = ChildrenView::of(&order, &order.steps[0]).unwrap();
        assert_eq!(
            view.to_string(),
            "3 child orders: 1 being compensated, 1 compensated, 1 cannot be compensated"
        );
    }

    #[test]
    fn the_place_of_a_child_order_has_a_number_if_it_is_one_of_a_list() {
        let mut order = parent_of("pf");
        adopt(&mut order);
        let parent = order.parent.clone().unwrap();
        assert_eq!(place(&order, &parent), "step ship, number 17");
        order.id = OrderId::new("p:ship").unwrap();
        assert_eq!(place(&order, &parent), "step ship");
    }
}
