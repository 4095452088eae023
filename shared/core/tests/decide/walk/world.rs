//! One order on a random way: events that resolve to what fits it at the moment, each checked.

use serde_json::{Value, json};
use triad_core::decide::true_due;
use triad_core::ledger::to_revoke;
use triad_core::migrate::migrate;
use triad_core::{
    Action, Direction, Event, Failure, FailureKind, OperatorAct, Reason, Reply, ReplyOutcome,
    Timestamp, Untaken, invariants,
};
use triad_workflow::{Millis, StepId, Workflow};

use super::book::{Asked, Book, Ledger};
use super::chance::Chance;
use super::reached::Reached;
use super::told::Told;
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
    Admit,
}

const CHOICES: [(usize, Choice); 11] = [
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
    (2, Choice::Admit),
];

/// An order, its book, and the version that it is not on.
pub struct World<'a> {
    pub story: Story,
    other: Workflow,
    pub chance: Chance,
    pub book: Book,
    pub ledger: Ledger,
    told: Told,
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
        let mut chance = Chance::of(seed);
        let mut story = Story::with_workflow(workflow, json!({"amount": 7}));
        if chance.one_in(8) {
            story.order = story.order.aside();
        }
        if chance.one_in(4) {
            let within = chance.up_to(Millis(10 * 60_000));
            story.order.deadline = Some(story.now.plus(within));
            story.order.due = story.order.due.min(story.order.deadline);
        }
        Self {
            story,
            other,
            chance,
            book: Book::default(),
            ledger: Ledger::default(),
            told: Told::default(),
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
            Choice::Admit => drop(self.happens(Event::Admit)),
        }
    }

    /// One event, and every check of what it made of the order.
    pub fn happens(&mut self, event: Event) -> Then {
        let before = self.story.order.clone();
        let line = format!("{} {event:?}", self.story.now.0);
        self.log.lines.push(line);
        let reply = match &event {
            Event::Reply(reply) if is_in_time(reply, self.story.now) => Some(reply.clone()),
            _ => None,
        };
        // The Supervisor does not read what was submitted.
        let unread = match event {
            Event::Overdue(_) => Some(self.story.details.take()),
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
            if let Some(reply) = reply {
                self.book.taken(&reply);
                self.told.taken(&reply);
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
        self.told.is_whole(order, &self.book.asked);
        let now = self.story.now;
        match (order.due, true_due(&self.story.ctx(), order)) {
            (Some(hint), Some(due)) => {
                assert!(hint <= due || due <= now, "the hint is no later");
                let alive = !order.state.is_finished();
                assert!(!alive || hint.0 <= now.0 + LOOKED_AT_WITHIN);
            }
            (None, _) => assert!(order.state.is_finished(), "alive has a due time"),
            (Some(_), None) => assert!(
                matches!(order.outbox.dedup_key.as_deref(), Some("claim")),
                "nobody need look, and the hint says so: {order:?}"
            ),
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
        read.dropped = read_again(&order.dropped);
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
            let out = self.story.step(&a.step).out();
            out.is_some_and(|out| (out.direction, out.attempt) == (a.direction, a.attempt))
        };
        let order = &self.story.order;
        let has = |a: &&Asked| order.steps.iter().any(|s| s.step.as_str() == a.step);
        let mut out = self.book.asked.iter().filter(has).filter(awaited);
        out.by_ref().cloned().collect()
    }

    pub fn reply(&mut self, asked: &Asked, outcome: ReplyOutcome) -> Reply {
        let least = u32::from(matches!(outcome, ReplyOutcome::Succeeded { .. }));
        let calls = self.chance.below(asked.allowance as usize + 1) as u32;
        Reply {
            order_id: self.story.order.id.clone(),
            step: StepId::new(&asked.step).unwrap(),
            direction: asked.direction,
            attempt: asked.attempt,
            complete_by: asked.complete_by,
            calls: calls.max(least),
            outcome,
            sent_at: None,
            pace: None,
        }
    }

    /// When a reply was sent that is read now: an agent of an earlier version does not say. One
    /// that has come too late was sent in time as often as not.
    fn sent_at(&mut self, complete_by: Timestamp) -> Option<Timestamp> {
        let now = self.story.now;
        let waited = self.chance.up_to(Millis(5_000));
        match self.chance.below(3) {
            0 => None,
            1 => Some(now.minus(waited)),
            // Its clock is ahead, or it was in time and has waited.
            _ => Some(now.plus(waited).min(complete_by)),
        }
    }

    fn outcome(&mut self, direction: Direction) -> ReplyOutcome {
        let maybe_applied = self.chance.one_in(2);
        let permanent = maybe_applied && self.chance.one_in(2);
        let failed = |kind, maybe_applied| ReplyOutcome::Failed {
            failure: Failure::new(kind, "down", ""),
            maybe_applied,
        };
        match self.chance.below(20) {
            0..10 => ReplyOutcome::Succeeded {
                output: match direction {
                    Direction::Probe => self.finding(),
                    Direction::Forward | Direction::Compensate => json!({"ref": 1}),
                },
            },
            10..12 => failed(FailureKind::Permanent, permanent),
            12..14 => failed(FailureKind::Transient, maybe_applied),
            14..16 => failed(FailureKind::TimedOut, maybe_applied),
            _ => {
                let wait = self.chance.up_to(Millis(20 * 60_000));
                ReplyOutcome::Deferred {
                    until: self.story.now.plus(wait),
                    opens: None,
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
        let revoked = self.ledger.is_revoked(&asked);
        let outcome = match revoked {
            // Its agent found the Supervisor's mark, and has made no call.
            true => ReplyOutcome::Deferred {
                until: self.story.now,
                opens: None,
                failure: Failure::new(FailureKind::TimedOut, "revoked", ""),
                maybe_applied: false,
            },
            false => self.outcome(asked.direction),
        };
        let mut reply = self.reply(&asked, outcome);
        reply.sent_at = self.sent_at(asked.complete_by);
        if revoked {
            reply.calls = 0;
        } else if reply.calls > 0 {
            self.ledger.taken(&asked);
        }
        let heard = is_in_time(&reply, self.story.now);
        if heard && self.story.now > asked.complete_by {
            self.reached.add("reply", "sent in time, read late");
        }
        let then = self.happens(Event::Reply(reply.clone()));
        if then == Then::Written {
            let out = self.out().iter().any(|a| a.is(&asked));
            assert!(
                out != heard,
                "what was sent in time is taken, and nothing else"
            );
        }
        if then == Then::Written && self.chance.one_in(4) {
            let again = self.happens(Event::Reply(reply));
            assert_eq!(again, Then::Repeat, "an input met again");
        }
    }

    /// A reply to a request that is over changes nothing, in whatever run it was asked.
    fn stale(&mut self) {
        let out = self.out();
        let mut over = self.book.asked.clone();
        over.retain(|a| !out.iter().any(|o| o.is(a)));
        if over.is_empty() {
            return;
        }
        let asked = self.chance.of_these(&over);
        let outcome = self.outcome(asked.direction);
        let mut reply = self.reply(&asked, outcome);
        reply.sent_at = self.sent_at(asked.complete_by);
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
            // What it has met already it meets again when it has listened for long enough.
            if self.chance.one_in(2) {
                self.story.now = self.heard_out();
            }
        }
        let untaken = self.revoked();
        if self.chance.one_in(10) {
            // It dies between the ledger and its decision.
            return;
        }
        let then = self.happens(Event::Overdue(untaken.clone().into()));
        if then == Then::Written {
            let again = self.happens(Event::Overdue(untaken.into()));
            let over = self.story.order.state.is_finished();
            let nothing = again == Then::Ignored(Reason::NotDue) || (over && again == Then::Repeat);
            assert!(nothing, "a second pass plans nothing more: {again:?}");
        }
    }

    /// When the Supervisor has listened for long enough for what it has met beyond complete-by.
    pub fn heard_out(&self) -> Timestamp {
        let steps = self.story.order.steps.iter();
        let met = steps.filter(|s| s.state.complete_by().is_some());
        let last = met.filter_map(|s| s.state.unheard_since()).max();
        let heard = last.map(|at| at.plus(self.story.timing.hear_within));
        heard.map_or(self.story.now, |at| at.max(self.story.now))
    }

    /// The Supervisor writes its marks into the call ledger: it revokes what no agent has taken.
    pub fn revoked(&mut self) -> Untaken {
        let silent = to_revoke(&self.story.ctx(), &self.story.order, self.story.now);
        let mut untaken = Untaken::new();
        for asked in self.out() {
            let step = StepId::new(&asked.step).unwrap();
            if silent.iter().any(|s| s.step == step) {
                let taken = self.chance.one_in(2);
                if self.ledger.revokes(&asked, taken) {
                    self.book.untaken(&asked);
                }
                let revoked = self.ledger.is_revoked(&asked);
                let mark = if revoked { "untaken" } else { "taken" };
                let name = format!("{mark} {}", asked.direction);
                self.reached.add("silence", &name);
                if revoked {
                    untaken.insert(step);
                }
            } else if self.is_unheard(&asked) {
                // No promise is made about its calls: nobody knows of any.
                self.book.silent(&asked);
                self.reached.add("silence", "uncounted");
            }
        }
        untaken
    }

    /// Whether the Supervisor has listened for long enough.
    fn is_unheard(&self, asked: &Asked) -> bool {
        let met = self.story.record(&asked.step).state.unheard_since();
        met.is_some_and(|at| self.story.now >= at.plus(self.story.timing.hear_within))
    }

    fn sent(&mut self) {
        self.log.lines.push("    sent".into());
        self.story.sent();
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
            Action::RetryCompensation,
            Action::Close,
            Action::Pause,
            Action::Resume,
            Action::Resume,
            Action::Resolve {
                step: step.clone(),
                applied: applied.clone(),
                attempt: None,
            },
            Action::Resolve {
                step,
                applied,
                attempt: None,
            },
        ]);
        self.act(action);
    }

    pub fn act(&mut self, action: Action) -> Then {
        let name = match &action {
            Action::Resubmit { input: Some(_) } => "correct",
            other => other.name(),
        };
        if let Action::Resolve { step, .. } = &action {
            // Before the write is checked: it may let the service be called again.
            let could = matches!(
                self.story.asked(operated(action.clone())),
                Ok(triad_core::Decision::Transition(_))
            );
            if could {
                self.book.resolved(step.as_str());
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
        let act = OperatorAct::new("ann", "because");
        let from = &self.story.workflow;
        let moved = migrate(order, from, &self.other, &act, self.story.timing, now);
        let Ok((change, _)) = moved else { return };
        let next = change.next;
        self.log.lines.push(format!("{} moved", now.0));
        assert_eq!(invariants::of_write(order, &next, &self.other), []);
        let before = std::mem::replace(&mut self.story.order, next);
        std::mem::swap(&mut self.story.workflow, &mut self.other);
        self.book.moved();
        self.written(&before);
    }
}

/// Whether a reply that is read now was sent in time, as far as it says.
fn is_in_time(reply: &Reply, now: Timestamp) -> bool {
    reply.sent_at.unwrap_or(now).min(now) <= reply.complete_by
}

fn operated(action: Action) -> Event {
    Event::Operate(triad_core::Operation {
        action,
        act: OperatorAct::new("ann", "because"),
    })
}
