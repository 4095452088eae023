//! What the world outside knows of an order, to hold its writes against: which calls can have
//! been made, which effects may have happened. What is told the simulated world holds.

use std::collections::{BTreeMap, BTreeSet};

use triad_core::StepState;
use triad_core::outbox::Emission;
use triad_core::{Attempt, Direction, Order, Reply, ReplyOutcome, Timestamp, budget};
use triad_workflow::{Repeat, Workflow};

/// A request that went out.
#[derive(Debug, Clone)]
pub struct Asked {
    pub step: String,
    pub direction: Direction,
    pub attempt: Attempt,
    pub complete_by: Timestamp,
    pub allowance: u32,
    /// Round of counting that it belongs to: operators have calls counted from zero.
    count: u32,
    /// Calls that its agent may have made.
    calls: u32,
}

/// The call ledger: which attempts an agent has taken and which the Supervisor has revoked.
#[derive(Default)]
pub struct Ledger(BTreeMap<(String, String, Attempt), bool>);

impl Ledger {
    /// An agent makes calls for an attempt.
    pub fn taken(&mut self, asked: &Asked) {
        let revoked = *self.0.entry(asked.key()).or_insert(false);
        assert!(!revoked, "nobody takes what the Supervisor has revoked");
    }

    /// The Supervisor revokes an attempt, unless an agent has taken it. Whether it writes the
    /// first mark, and so nobody takes the attempt any more.
    pub fn revokes(&mut self, asked: &Asked, taken: bool) -> bool {
        let new = !self.0.contains_key(&asked.key());
        new && *self.0.entry(asked.key()).or_insert(!taken)
    }

    pub fn is_revoked(&self, asked: &Asked) -> bool {
        self.0.get(&asked.key()).copied().unwrap_or_default()
    }
}

/// The book of one order.
#[derive(Default)]
pub struct Book {
    pub asked: Vec<Asked>,
    /// Effects that may have happened and may not be repeated.
    in_doubt: BTreeSet<String>,
    /// Effects that the call ledger knows not to have happened. The order may doubt them still:
    /// another step may have stopped it before it came to this one.
    not_happened: BTreeSet<String>,
    count: u32,
    moved: bool,
}

impl Book {
    /// A write was made.
    pub fn written(&mut self, before: &Order, after: &Order, workflow: &Workflow) {
        for step in &after.steps {
            let was = before.steps.iter().find(|s| s.step == step.step);
            let restarted = was.is_some_and(|w| {
                w.action.calls > step.action.calls || w.compensation.calls > step.compensation.calls
            });
            let operator = after.run != before.run;
            assert!(operator || !restarted || self.moved, "calls are counted on");
            if matches!(step.state, StepState::Compensated { .. }) {
                self.in_doubt.remove(step.step.as_str());
            }
        }
        self.count += after.run - before.run;
        // A hint that is only moved leaves the outbox as it was.
        let only_moved = before.outbox == after.outbox;
        for entry in after.outbox.entries.iter().filter(|_| !only_moved) {
            if let Emission::Request {
                step,
                direction,
                attempt,
            } = entry
            {
                self.request(after, workflow, step.as_str(), *direction, *attempt);
            }
        }
        self.calls_are_within_their_totals(workflow);
    }

    /// The order was moved to a version with other totals.
    pub fn moved(&mut self) {
        self.moved = true;
    }

    /// The Scheduler has taken a reply.
    pub fn taken(&mut self, reply: &Reply) {
        let step = reply.step.to_string();
        let asked = self.asked.iter_mut().rev().find(|a| a.fits(reply));
        asked.expect("only what was asked is taken").calls = reply.calls;
        let resolved = match (&reply.outcome, reply.direction) {
            (_, Direction::Compensate) => false,
            (ReplyOutcome::Succeeded { .. }, Direction::Forward) => true,
            (ReplyOutcome::Succeeded { output }, Direction::Probe) => {
                output["applied"].is_boolean()
            }
            (ReplyOutcome::Failed { maybe_applied, .. }, Direction::Forward)
            | (ReplyOutcome::Deferred { maybe_applied, .. }, Direction::Forward) => !maybe_applied,
            (ReplyOutcome::Failed { .. } | ReplyOutcome::Deferred { .. }, Direction::Probe) => {
                false
            }
        };
        if resolved {
            self.in_doubt.remove(&step);
        }
    }

    /// Nobody has taken an attempt, and nobody can: no call was made, and nothing happened. What
    /// an earlier one did is not known better after a question.
    pub fn untaken(&mut self, asked: &Asked) {
        self.silent(asked);
        if asked.direction == Direction::Forward {
            self.in_doubt.remove(&asked.step);
            self.not_happened.insert(asked.step.clone());
        }
    }

    /// Nobody is known to have taken an attempt.
    pub fn silent(&mut self, asked: &Asked) {
        let found = self.asked.iter_mut().find(|a| a.is(asked));
        found.expect("it was asked").calls = 0;
    }

    /// An operator has said whether it happened.
    pub fn resolved(&mut self, step: &str) {
        self.in_doubt.remove(step);
    }

    fn request(
        &mut self,
        order: &Order,
        workflow: &Workflow,
        step: &str,
        direction: Direction,
        attempt: Attempt,
    ) {
        let at = workflow.step_index(step).unwrap();
        let (record, defined) = (&order.steps[at], &workflow.steps[at]);
        let complete_by = record.state.complete_by().expect("it is out");
        if defined.repeat != Repeat::Safe {
            let doubtful = self.in_doubt.contains(step);
            // A question does not make it known any less.
            let known = match direction {
                Direction::Probe => self.not_happened.contains(step),
                _ => self.not_happened.remove(step),
            };
            match direction {
                Direction::Probe => {
                    assert!(doubtful || known, "{step} is asked about without a doubt")
                }
                _ => assert!(!doubtful, "{step} is in doubt, and its service is called"),
            }
            if direction == Direction::Forward {
                self.in_doubt.insert(step.to_owned());
            }
        }
        let same = |a: &Asked| (a.direction, a.attempt) == (direction, attempt) && a.step == step;
        assert!(
            !self.asked.iter().any(same),
            "{step} {attempt} {direction} was asked before"
        );
        let allowance = budget::allowance(defined, record, direction);
        assert!(allowance > 0, "{step} may make no call");
        self.asked.push(Asked {
            step: step.to_owned(),
            direction,
            attempt,
            complete_by,
            allowance,
            count: self.count,
            calls: allowance,
        });
    }

    /// What was not answered may have used its whole allowance.
    fn calls_are_within_their_totals(&self, workflow: &Workflow) {
        if self.moved {
            return;
        }
        let mut calls: BTreeMap<(&str, bool), u32> = BTreeMap::new();
        for asked in self.asked.iter().filter(|a| a.count == self.count) {
            let compensation = asked.direction == Direction::Compensate;
            *calls.entry((&asked.step, compensation)).or_default() += asked.calls;
        }
        for ((step, compensation), made) in calls {
            let step = &workflow.steps[workflow.step_index(step).unwrap()];
            // Where no total is declared, deferred attempts are beside it.
            let (total, counted) = match (compensation, &step.compensation) {
                (false, _) => (step.calls_per_run, step.is_counted),
                (true, Some(c)) => (c.calls_per_run, c.is_counted),
                (true, None) => (0, true),
            };
            assert!(
                made <= total || !counted,
                "{} made {made} of {total} calls",
                step.id
            );
        }
    }
}

impl Asked {
    /// Whether both are the same request.
    pub fn is(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    fn key(&self) -> (String, String, Attempt) {
        (self.step.clone(), self.direction.to_string(), self.attempt)
    }

    fn fits(&self, reply: &Reply) -> bool {
        self.step == reply.step.as_str()
            && self.direction == reply.direction
            && self.attempt == reply.attempt
    }
}
