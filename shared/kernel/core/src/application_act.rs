//! What an act of an application becomes: an operator's act, and an answer if the order refuses it.

use crate::operate::{Action, Operation, OperationRefusal};
use crate::order::{OperatorAct, Order, ProcessState};
use crate::received::ApplicationAct;

impl ApplicationAct {
    /// The act as that of an operator: the rules are the same.
    #[must_use]
    pub fn operation(&self) -> Operation {
        Operation {
            action: match &self.amendment {
                Some(patch) => Action::Amend {
                    patch: patch.clone(),
                },
                None => Action::Cancel,
            },
            act: OperatorAct::new(&self.by, &self.why),
        }
    }

    /// The code of the failure in the status `refused`, if the order refuses it.
    #[must_use]
    pub fn refusal_code(&self) -> &'static str {
        match self.amendment {
            Some(_) => "not-amended",
            None => "not-cancelled",
        }
    }

    /// Whether an order that refuses it has had it before.
    #[must_use]
    pub fn is_repeated(&self, order: &Order, refusal: &OperationRefusal) -> bool {
        match self.amendment {
            Some(_) => *refusal == OperationRefusal::AmendedAlready,
            None => matches!(
                order.state,
                ProcessState::Compensating { .. } | ProcessState::Compensated { .. }
            ),
        }
    }
}
