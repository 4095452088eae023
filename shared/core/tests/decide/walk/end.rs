//! After faults stop: every order finishes, and an operator brings each to a good end.

use serde_json::json;
use triad_core::{Action, Direction, Event, ProcessState, Reason, ReplyOutcome};
use triad_workflow::StepId;

use super::book::Asked;
use super::world::World;
use crate::support::Then;

/// Most events in which an order finishes when everything succeeds.
const BOUND: usize = 60;

impl World<'_> {
    /// Faults stop: what is asked succeeds, the Scheduler and the Supervisor run. The order
    /// finishes within the bound.
    pub fn finishes(&mut self) {
        self.log.lines.push("faults stop".into());
        // What was asked before may be lost.
        let lost = self.book.asked.len() * usize::from(self.chance.one_in(2));
        if self.story.order.paused.is_some() {
            assert_eq!(self.act(Action::Resume), Then::Written);
        }
        if self.story.order.set_aside.is_some() {
            assert_eq!(self.happens(Event::Admit), Then::Written);
        }
        for _ in 0..BOUND {
            if self.story.order.state.is_finished() {
                return;
            }
            self.goes_on(lost);
        }
        panic!("it does not finish");
    }

    fn goes_on(&mut self, lost: usize) {
        let heard: Vec<Asked> = self.book.asked[lost..].to_vec();
        let out = self.out().into_iter().find(|a| {
            heard.iter().any(|h| h.is(a))
                && a.complete_by >= self.story.now
                && !self.ledger.is_revoked(a)
        });
        if let Some(asked) = out {
            let output = match asked.direction {
                Direction::Probe => json!({"applied": self.chance.one_in(2)}),
                Direction::Forward | Direction::Compensate => json!({"ref": 1}),
            };
            let reply = self.reply(&asked, ReplyOutcome::Succeeded { output });
            assert_eq!(self.happens(Event::Reply(reply)), Then::Written);
            return;
        }
        // An announcement may be lost; the Supervisor makes another.
        let waits = self.story.order.state.locked_by().is_none();
        if waits && self.story.announces() && !self.chance.one_in(4) {
            self.claim();
            return;
        }
        // The Supervisor sees only what the index shows it.
        let due = self.story.order.due.expect("it is alive");
        self.story.now = self.story.now.max(due.plus(self.story.timing.skew));
        let untaken = self.revoked();
        let mut then = self.happens(Event::Overdue(untaken.into()));
        if then == Then::Ignored(Reason::NotDue) {
            // The hint was early, and the true time has not passed on every clock; or it has met
            // an attempt beyond that, and has not listened for long enough.
            let true_due = self.story.now.plus(self.story.timing.skew);
            self.story.now = true_due.max(self.heard_out());
            let untaken = self.revoked();
            then = self.happens(Event::Overdue(untaken.into()));
        }
        assert_eq!(then, Then::Written, "the Supervisor knows what to do");
    }

    /// An operator brings an order that has finished badly to a good end, whatever happened.
    pub fn is_brought_to_a_good_end(&mut self) {
        for _ in 0..8 {
            self.finishes();
            let again = match &self.story.order.state {
                ProcessState::Processed { .. } | ProcessState::Compensated { .. } => return,
                ProcessState::Error { .. } => Action::Resubmit { input: None },
                _ => Action::RetryCompensation,
            };
            self.resolve_all();
            if self.story.order.state.is_finished() {
                assert_eq!(self.act(again), Then::Written, "it can be set going");
            }
        }
        panic!("no good end");
    }

    fn resolve_all(&mut self) {
        let steps = self.story.order.steps.iter();
        let doubtful: Vec<StepId> = steps
            .filter(|s| s.in_doubt.is_some() || s.state.is_running())
            .map(|s| s.step.clone())
            .collect();
        for step in doubtful {
            let applied = self.chance.one_in(2).then(|| json!({"ref": 4}));
            self.story.silent();
            self.act(Action::Resolve {
                step,
                applied,
                attempt: None,
            });
        }
    }
}
