//! One order on a random way: events that resolve to what fits it at the moment, each checked.

use serde_json::{Value, json};
use triad_core::decide::true_due;
use triad_core::migrate::migrate;
use triad_core::{
    Act, Action, Direction, Event, Failure, FailureKind, Outcome, Reason, Reply, StepState,
    invariants,
};
use triad_workflow::{Millis, StepId, Workflow};

use super::book::{Asked, Book};
use super::chance::Chance;
use super::reached::Reached;
use crate::support::{Story, Then};
use crate::table::read_again;

/// Longest that nobody looks at a live order: a day's hold, and the retry of a long wait.
const LOOKED_AT_WITHIN: u64 = 25 * 3_600_000;

/// What may happen next.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Claim,
    Answer,
    Stale,
    Forged,
    Time,
    Overdue,
    Sent,
    Confirmed,
    Operate,
    Migrate,
}

const CHOICES: [(usize, Choice); 10] = [
    (18, Choice::Claim),
    (40, Choice::Answer),
    (6, Choice::Stale),
    (1, Choice::Forged),
    (6, Choice::Time),
    (20, Choice::Overdue),
    (8, Choice::Sent),
    (3, Choice::Confirmed),
    (9, Choice::Operate),
    (1, Choice::Migrate),
];

/// An order, its book, and the version that it is not on.
pub struct World<'a> {
    pub story: Story,
    other: Workflow,
    pub chance: Chance,
    pub book: Book,
    reached: &'a mut Reached,
    pub log: Log,
}

/// What happened; shown when a check fails.
pub struct Log {
    name: String,
    pub lines: Vec<String>,
}

impl Drop for Log {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}:\n{}", self.name, self.lines.join("\n"));
        }
    }
}

impl<'a> World<'a> {
    pub fn new(workflows: [Workflow; 2], seed: u64, reached: &'a mut Reached) -> Self {
        let [workflow, other] = workflows;
        let name = format!("workflow {}, seed {seed}", workflow.name);
        Self {
            story: Story::with_workflow(workflow, json!({"amount": 7})),
            other,
            chance: Chance::of(seed),
            book: Book::default(),
            reached,
            log: Log {
                name,
                lines: Vec::new(),
            },
        }
    }

    /// The workflows, for the next walk.
    pub fn into_workflows(self) -> [Workflow; 2] {
        let World { story, other, .. } = self;
        [story.workflow, other]
    }

    /// So many random events.
    pub fn walk(&mut self, steps: usize) {
        for _ in 0..steps {
            let choice = self.chance.weighted(&CHOICES);
            self.choose(choice);
        }
    }

    fn choose(&mut self, choice: Choice) {
        match choice {
            Choice::Claim => drop(self.claim()),
            Choice::Answer => self.answer(),
            Choice::Stale => self.stale(),
            Choice::Forged => self.forged(),
            Choice::Time => self.time_passes(),
            Choice::Overdue => self.overdue(),
            Choice::Sent => self.sent(),
            Choice::Confirmed => drop(self.happens(Event::Confirmed)),
            Choice::Operate => self.operate(),
            Choice::Migrate => self.migrate(),
        }
    }

    /// One event, and every check of what it made of the order.
    pub fn happens(&mut self, event: Event) -> Then {
        let before = self.story.order.clone();
        let line = format!("{} {event:?}", self.story.now.0);
        self.log.lines.push(line);
        let confirmed = event == Event::Confirmed;
        let reply = match &event {
            Event::Reply(reply) if self.story.now <= reply.complete_by => Some(reply.clone()),
            _ => None,
        };
        // The Supervisor does not read what was submitted.
        let unread = match event {
            Event::Overdue => Some(self.story.details.take()),
            _ => None,
        };
        let then = self.story.when(event);
        if let Some(details) = unread {
            self.story.details = details;
        }
        let short = match &then {
            Then::Written => format!("{} {:?}", self.story.state(), self.story.steps()),
            other => format!("{other:?}"),
        };
        self.log.lines.push(format!("    {short}"));
        self.reached.then(&then);
        if then == Then::Written {
            if confirmed {
                self.book.sent();
            }
            if let Some(reply) = reply {
                self.book.taken(&reply);
            }
            self.written(&before);
        }
        then
    }

    fn written(&mut self, before: &triad_core::Order) {
        if self.chance.one_in(8) {
            self.is_read_again();
        }
        let order = &self.story.order;
        self.reached.order(order);
        self.book.written(before, order, &self.story.workflow);
        let now = self.story.now;
        match (order.due, true_due(&self.story.ctx(), order)) {
            (Some(hint), Some(due)) => {
                assert!(hint <= due || due <= now, "the hint is no later");
                let alive = !order.state.is_finished();
                assert!(!alive || hint.0 <= now.0 + LOOKED_AT_WITHIN);
            }
            (None, _) => assert!(order.state.is_finished(), "alive has a due time"),
            (Some(_), None) => panic!("nobody need look, and the hint says so"),
        }
    }

    /// The store gives back what was written.
    fn is_read_again(&mut self) {
        let order = &self.story.order;
        let mut read = order.clone();
        read.state = read_again(&order.state);
        read.steps = read_again(&order.steps);
        read.outbox = read_again(&order.outbox);
        read.incidents = read_again(&order.incidents);
        read.paused = read_again(&order.paused);
        read.closed = read_again(&order.closed);
        assert_eq!(&read, order, "the store gives back what was written");
    }

    pub fn claim(&mut self) -> Then {
        let event = self.story.claim_event();
        let then = self.happens(event.clone());
        if then == Then::Written && self.chance.one_in(4) {
            let again = self.happens(event);
            assert_eq!(again, Then::Repeat, "an input met again");
        }
        then
    }

    /// The requests that are out and awaited.
    pub fn out(&self) -> Vec<Asked> {
        let awaited = |a: &&Asked| {
            let found = match (self.story.step(&a.step), a.direction) {
                (StepState::Running { attempt, .. }, Direction::Forward)
                | (StepState::Probing { attempt, .. }, Direction::Probe)
                | (StepState::Undoing { attempt, .. }, Direction::Undo) => Some(*attempt),
                _ => None,
            };
            found == Some(a.attempt)
        };
        let order = &self.story.order;
        let has = |a: &&Asked| order.steps.iter().any(|s| s.step.as_str() == a.step);
        let mut out = self.book.asked.iter().filter(has).filter(awaited);
        out.by_ref().cloned().collect()
    }

    pub fn reply(&mut self, asked: &Asked, outcome: Outcome) -> Reply {
        let least = u32::from(matches!(outcome, Outcome::Succeeded { .. }));
        let calls = self.chance.below(asked.allowance as usize + 1) as u32;
        Reply {
            order_id: self.story.order.id.clone(),
            step: StepId::new(&asked.step).unwrap(),
            direction: asked.direction,
            attempt: asked.attempt,
            complete_by: asked.complete_by,
            calls: calls.max(least),
            outcome,
        }
    }

    fn outcome(&mut self, direction: Direction) -> Outcome {
        let maybe_applied = self.chance.one_in(2);
        let failed = |kind, maybe_applied| Outcome::Failed {
            failure: Failure::new(kind, "down", ""),
            maybe_applied,
        };
        match self.chance.below(20) {
            0..10 => Outcome::Succeeded {
                output: match direction {
                    Direction::Probe => self.finding(),
                    Direction::Forward | Direction::Undo => json!({"ref": 1}),
                },
            },
            10..12 => failed(
                FailureKind::Permanent,
                maybe_applied && self.chance.one_in(2),
            ),
            12..16 => failed(FailureKind::Transient, maybe_applied),
            _ => {
                let wait = self.chance.up_to(Millis(20 * 60_000));
                Outcome::Deferred {
                    until: self.story.now.plus(wait),
                    failure: Failure::new(FailureKind::Transient, "breaker-open", ""),
                    maybe_applied: maybe_applied && self.chance.one_in(3),
                }
            }
        }
    }

    fn finding(&mut self) -> Value {
        self.chance.of_these(&[
            json!({"applied": true, "output": {"ref": 2}}),
            json!({"applied": false}),
            json!({"applied": "perhaps"}),
        ])
    }

    fn answer(&mut self) {
        let out = self.out();
        if out.is_empty() {
            return;
        }
        let asked = self.chance.of_these(&out);
        let outcome = self.outcome(asked.direction);
        let reply = self.reply(&asked, outcome);
        let then = self.happens(Event::Reply(reply.clone()));
        if then == Then::Written && self.chance.one_in(4) {
            let again = self.happens(Event::Reply(reply));
            assert_eq!(again, Then::Repeat, "an input met again");
        }
    }

    /// A reply to a request that is over changes nothing, in whatever round it was asked.
    fn stale(&mut self) {
        let out = self.out();
        let mut over = self.book.asked.clone();
        over.retain(|a| {
            let live =
                |o: &Asked| (&o.step, o.direction, o.attempt) == (&a.step, a.direction, a.attempt);
            !out.iter().any(live)
        });
        if over.is_empty() {
            return;
        }
        let asked = self.chance.of_these(&over);
        let outcome = self.outcome(asked.direction);
        let reply = self.reply(&asked, outcome);
        let gone = self.story.workflow.step_index(&asked.step).is_none();
        let then = self.happens(Event::Reply(reply));
        let nothing = matches!(then, Then::Ignored(_) | Then::Repeat);
        assert!(nothing || gone, "{then:?}");
    }

    /// A reply to an attempt that was never made is illegal, or too late to matter.
    fn forged(&mut self) {
        let out = self.out();
        if out.is_empty() {
            return;
        }
        let mut asked = self.chance.of_these(&out);
        asked.attempt = asked.attempt.next();
        let outcome = self.outcome(asked.direction);
        let reply = self.reply(&asked, outcome);
        let then = self.happens(Event::Reply(reply));
        let illegal = matches!(then, Then::Illegal(_));
        assert!(illegal || self.story.order.state.is_finished(), "{then:?}");
    }

    fn time_passes(&mut self) {
        let span = self.chance.of_these(&[10, 2_000, 12_000, 3_600_000]);
        let span = self.chance.up_to(Millis(span));
        self.story.now = self.story.now.plus(span);
    }

    /// The Supervisor finds the order, too early or when its time has come.
    fn overdue(&mut self) {
        if let Some(due) = true_due(&self.story.ctx(), &self.story.order)
            && !self.chance.one_in(3)
        {
            let late = self.chance.up_to(Millis(1_500));
            self.story.now = self.story.now.max(due.plus(late));
        }
        let then = self.happens(Event::Overdue);
        if then == Then::Written {
            let again = self.happens(Event::Overdue);
            let over = self.story.order.state.is_finished();
            let nothing = again == Then::Ignored(Reason::NotDue) || (over && again == Then::Repeat);
            assert!(nothing, "a second pass plans nothing more: {again:?}");
        }
    }

    fn sent(&mut self) {
        self.log.lines.push("    sent".into());
        self.story.sent();
        self.book.sent();
    }

    fn operate(&mut self) {
        let steps = self.story.order.steps.iter();
        let names: Vec<StepId> = steps.map(|s| s.step.clone()).collect();
        let step = self.chance.of_these(&names);
        let input = self
            .chance
            .of_these(&[json!({}), json!({"sum": 8}), json!([1])]);
        let applied = self.chance.of_these(&[None, Some(json!({"ref": 3}))]);
        let action = self.chance.of_these(&[
            Action::Resubmit { input: None },
            Action::Resubmit { input: None },
            Action::Resubmit {
                input: Some((step.clone(), input)),
            },
            Action::Cancel,
            Action::RetryUndo,
            Action::Close,
            Action::Pause,
            Action::Resume,
            Action::Resume,
            Action::Settle {
                step: step.clone(),
                applied: applied.clone(),
            },
            Action::Settle { step, applied },
        ]);
        self.act(action);
    }

    pub fn act(&mut self, action: Action) -> Then {
        let name = match &action {
            Action::Resubmit { input: Some(_) } => "correct",
            other => other.name(),
        };
        if let Action::Settle { step, .. } = &action {
            // Before the write is checked: it may let the service be called again.
            let could = matches!(
                self.story.asked(operated(action.clone())),
                Ok(triad_core::Decision::Transition(_))
            );
            if could {
                self.book.settled(step.as_str());
            }
        }
        let then = self.happens(operated(action));
        if then == Then::Written {
            self.reached.act(name);
        }
        then
    }

    fn migrate(&mut self) {
        let (order, now) = (&self.story.order, self.story.now);
        let act = Act::new("ann", "because");
        let from = &self.story.workflow;
        let moved = migrate(order, from, &self.other, &act, self.story.timing, now);
        let Ok((next, _)) = moved else { return };
        self.log.lines.push(format!("{} moved", now.0));
        assert_eq!(invariants::of_write(order, &next, &self.other), []);
        let before = std::mem::replace(&mut self.story.order, next);
        std::mem::swap(&mut self.story.workflow, &mut self.other);
        self.book.moved();
        self.written(&before);
    }
}

fn operated(action: Action) -> Event {
    Event::Operate(triad_core::Operation {
        action,
        act: Act::new("ann", "because"),
    })
}
