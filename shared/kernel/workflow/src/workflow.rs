//! A checked and compiled workflow, as the core runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::details::DetailsSchema;
use crate::duration::Millis;
use crate::expr::Expression;
use crate::hash::DefinitionHash;
use crate::model::Definition;
use crate::names::{AgentName, StepId, WorkflowName};
use crate::search::SearchKeys;
use crate::service::CallDefinition;
use crate::template::Template;

/// Position of a step in [`Workflow::steps`], from 0.
pub type StepIndex = usize;

/// Most child orders that one step may run, inclusive.
pub const MAX_INSTANCES: usize = 500;

pub(crate) const DEFAULT_ATTEMPT_TIMEOUT: Millis = Millis(30_000);

/// A definition that has passed every check, compiled. In its list of steps each one comes after all steps
/// that it depends on.
#[derive(Debug)]
pub struct Workflow {
    /// Name of the workflow, the same for all its versions.
    pub name: WorkflowName,
    /// Content hash of the definition. Together with the name it identifies the version that an order runs
    /// on.
    pub hash: DefinitionHash,
    /// Longest time from an order's submission to its end, which an order can shorten; `None`: there is no
    /// such bound.
    pub order_timeout: Option<Millis>,
    /// Whether the submitting application gets the status `step-completed` for each completed step. Default: false.
    pub progress: bool,
    /// The schema that the details of its orders have to fit; `None`: any details are allowed.
    pub details: Option<DetailsSchema>,
    /// Names of values of the details that expressions see as variables too. The steps inside a `for_each` see the
    /// element and its place so; otherwise there are none.
    pub variables: Vec<String>,
    /// What the end of an order brings to the step of another order that started it. `None`: the output of the step
    /// that is written last, null if it was skipped.
    pub output: Option<Template>,
    /// The search keys by which operators find its orders; there may be none.
    pub search: SearchKeys,
    /// The steps, 1 to [`MAX_STEPS`](crate::check::MAX_STEPS).
    pub steps: Vec<Step>,
    /// The descriptions of the actions of its steps, by agent and action. An action without one is
    /// `POST /<action>` with JSON.
    pub calls: BTreeMap<(AgentName, String), Arc<CallDefinition>>,
    /// The workflows that its steps make for what is inside a `for_each` or beside an `on_failure`. They are published
    /// together with it, and may have parts themselves.
    pub parts: Vec<Workflow>,
    /// The definition as its author wrote it.
    pub definition: Definition,
}

impl Workflow {
    /// The description of an action of one of its steps; `None` if its service has none.
    #[must_use]
    pub fn call(&self, agent: &AgentName, action: &str) -> Option<&Arc<CallDefinition>> {
        if self.calls.is_empty() {
            return None;
        }
        self.calls.get(&(agent.clone(), action.to_owned()))
    }
}

/// One step of a workflow, with every default resolved.
#[derive(Debug)]
pub struct Step {
    /// Id of the step, unique in the workflow.
    pub id: StepId,
    /// Positions of the steps that must be completed or skipped first; each is below this step's
    /// own. Empty: the step starts at once.
    pub after: Vec<StepIndex>,
    /// The condition: if it is false for an order, the step is skipped; if it has no value, `then` is
    /// done. `None`: the step always runs.
    pub when: Option<Expression>,
    /// What the step does: it calls a service, waits, or runs other orders.
    pub kind: StepKind,
    /// What is done when no further attempt is made. Default: [`Above::Compensate`] before the point of no
    /// return, [`Above::Error`] from it on.
    pub then: Above,
    /// What holds after a failure with one of these codes, in place of `then` and of the policy of the step's action.
    pub by_code: BTreeMap<String, CodePolicy>,
    /// How the effect is compensated; `None` if there is nothing to compensate, for the point of no return,
    /// and for the steps that come after it.
    pub compensation: Option<Compensation>,
    /// Whether this is the point of no return: if this step or one that comes after it fails, the order is
    /// not compensated but stops in Error. A workflow has one at most.
    pub is_pivot: bool,
}

/// What a step does.
#[derive(Debug)]
pub enum StepKind {
    /// It asks an agent for an action.
    Call(Box<Call>),
    /// It waits for a moment.
    Timer(Timer),
    /// It waits for events from outside.
    Await(Box<Await>),
    /// It starts orders of another workflow and ends when they have ended.
    Run(Box<Run>),
}

impl fmt::Display for StepKind {
    /// For people: `payment/charge`, `a wait of 3days`, `a wait until a moment`, `a wait for paid, signed`, `an order of
    /// ship`, `orders of ship`, `express/book, else road/book` or `the first of express/book, road/book`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => write!(f, "{}/{}", call.agent, call.action),
            Self::Timer(Timer::For(span)) => write!(f, "a wait of {span}"),
            Self::Timer(Timer::Until { .. }) => f.write_str("a wait until a moment"),
            Self::Await(wait) => {
                let names: Vec<&str> = wait.events.iter().map(|e| e.event.as_str()).collect();
                write!(f, "a wait for {}", names.join(", "))
            }
            Self::Run(run) => match run.each {
                None if run.own.asks.is_some() => {
                    let ways: Vec<&str> = run.ways().filter_map(|w| w.asks.as_deref()).collect();
                    match run.is_race {
                        true => write!(f, "the first of {}", ways.join(", ")),
                        false => f.write_str(&ways.join(", else ")),
                    }
                }
                None => write!(f, "an order of {}", run.own.workflow),
                Some(_) => write!(f, "orders of {}", run.own.workflow),
            },
        }
    }
}

impl Step {
    /// The action that the step asks an agent for; `None` of a step that waits or runs other orders.
    #[must_use]
    pub fn call(&self) -> Option<&Call> {
        match &self.kind {
            StepKind::Call(call) => Some(call),
            StepKind::Timer(_) | StepKind::Await(_) | StepKind::Run(_) => None,
        }
    }

    /// The orders that the step runs; `None` of every other step.
    #[must_use]
    pub fn run(&self) -> Option<&Run> {
        match &self.kind {
            StepKind::Run(run) => Some(run),
            StepKind::Call(_) | StepKind::Timer(_) | StepKind::Await(_) => None,
        }
    }

    /// Whether its effect is compensated when its order is: by an action of an agent, or by compensating the orders
    /// that it has run.
    #[must_use]
    pub fn can_be_compensated(&self) -> bool {
        self.compensation.is_some() || self.run().is_some_and(|run| run.is_compensated)
    }

    /// Whether the step may be done again while it is in doubt whether its effect happened; true of a step that
    /// waits, because waiting has no effect.
    #[must_use]
    pub fn is_safe_to_repeat(&self) -> bool {
        self.call().is_none_or(|call| call.repeat.is_safe())
    }

    /// The policy that holds after a failure with this code; `None` of a step that calls nothing.
    #[must_use]
    pub fn policy_after(&self, code: &str) -> Option<&Policy> {
        let call = self.call()?;
        let of_code = self.by_code.get(code).map(|by_code| &by_code.policy);
        Some(of_code.unwrap_or(&call.policy))
    }

    /// What is done if no attempt follows a failure with this code.
    #[must_use]
    pub fn then_after(&self, code: &str) -> Above {
        self.by_code.get(code).map_or(self.then, |by| by.then)
    }

    /// The policies of the action, each of which may hold after a failure; none of a step that calls nothing.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        let call = self.call();
        let by_code = self.by_code.values().filter(move |_| call.is_some());
        let own = call.map(|call| &call.policy);
        own.into_iter()
            .chain(by_code.map(|by_code| &by_code.policy))
    }

    /// Most failed attempts at the step in one run, before it is given up: see [`Policy::max_attempts`]. Failures with a
    /// code of [`by_code`](Self::by_code) are counted by themselves. 0 of a step that waits: a wait is no failure.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        let retries = self.policies().map(|policy| policy.max_attempts() - 1);
        self.call().map_or(0, |_| 1 + retries.sum::<u32>())
    }

    /// Most calls of the step's action and probe in one run; 0 of a step that waits.
    #[must_use]
    pub fn calls_per_run(&self) -> u32 {
        self.call().map_or(0, |call| call.calls_per_run)
    }

    /// Every expression that is computed for the step: its condition and its input, or the moment that it waits for, or
    /// the conditions of the events; and those that find out how work ends that a service finishes later.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let own: Vec<&Expression> = match &self.kind {
            StepKind::Call(call) => {
                let later = call.finishes_later.iter();
                let later = later.flat_map(|later| later.expressions());
                call.input.expressions().into_iter().chain(later).collect()
            }
            StepKind::Timer(Timer::For(_)) => Vec::new(),
            StepKind::Timer(Timer::Until { at, .. }) => at.expressions(),
            StepKind::Await(wait) => {
                let events = wait.events.iter();
                let own = events.flat_map(|event| {
                    let keys = event.key.iter().flat_map(|key| key.expressions());
                    keys.chain(&event.matches)
                });
                own.chain(&wait.fails_when).collect()
            }
            StepKind::Run(run) => {
                let each = run.each.iter();
                let lists = each.flat_map(|each| each.list.expressions());
                let details = run.ways().flat_map(|way| way.details.expressions());
                lists.chain(details).collect()
            }
        };
        own.into_iter().chain(&self.when)
    }

    /// The longest time that one try at the step takes, as far as the definition says: the attempt timeout of an
    /// action and the time to finish its work, or the time that a timer or an event may take. Zero for a timer that ends at a moment of the order's.
    #[must_use]
    pub fn longest_try(&self) -> Millis {
        match &self.kind {
            StepKind::Call(call) => {
                let later = call.finishes_later.as_ref().map(|later| later.within);
                Millis(
                    call.attempt_timeout
                        .0
                        .saturating_add(later.unwrap_or_default().0),
                )
            }
            StepKind::Timer(Timer::For(span)) => *span,
            StepKind::Timer(Timer::Until { .. }) => Millis(0),
            StepKind::Await(wait) => wait.within,
            StepKind::Run(_) => Millis(0),
        }
    }
}

/// An action that a step asks an agent for, with every default resolved.
#[derive(Debug)]
pub struct Call {
    /// The agent that carries the action out.
    pub agent: AgentName,
    /// Name of the action that the agent is asked for.
    pub action: String,
    /// Input of the action; an empty object if the author gave none.
    pub input: Template,
    /// How long one attempt may take, from when its agent takes the request. Default `30s`.
    pub attempt_timeout: Millis,
    /// How often, and at what intervals, the agent calls the service in one attempt. If the effect
    /// may not be repeated, it calls once.
    pub retry: Retry,
    /// Most calls to the service in one run, over all attempts at the action and all probes: the total that
    /// the workflow declares, or else the calls of one attempt and one probe times
    /// [`Policy::max_attempts`]. If `is_counted` is false, a request that is delivered again after a crash
    /// may make its calls again, and these are not counted.
    pub calls_per_run: u32,
    /// Whether each attempt claims its calls in the call ledger before the first one, so that a
    /// redelivered request cannot make them a second time. True if a total is declared, or the effect may
    /// not be repeated.
    pub is_counted: bool,
    /// What is done while it is in doubt whether the effect happened.
    pub repeat: Repeat,
    /// When a failed attempt at the action is followed by another one.
    pub policy: Policy,
    /// How the service tells the end of work that it has taken and not finished; `None` if its answer is the end.
    pub finishes_later: Option<Box<FinishesLater>>,
}

/// How the end of work is known that a service has taken and finishes later.
#[derive(Debug)]
pub struct FinishesLater {
    /// How long the work may take, from when the service has taken it.
    pub within: Millis,
    /// How the service is asked; `None` if it has to call back.
    pub poll: Option<Poll>,
    /// Longest time without a sign of life, beyond which the attempt has failed; `None`: there is no such bound.
    pub heartbeat: Option<Millis>,
    /// The condition under which what a callback brings is a failure of the step, over the step's variables and
    /// `event`. `None`: it never is.
    pub fails_when: Option<Expression>,
}

/// How a service is asked whether the work that it has taken is done.
#[derive(Debug)]
pub struct Poll {
    /// Name of the action by which it is asked; `None`: the location that it named when it took the work is asked.
    pub action: Option<String>,
    /// Input of that action, over the step's variables and `output`, what the service answered when it took the work.
    pub input: Template,
    /// How long one such attempt may take, from when its agent takes the request: as the step's.
    pub attempt_timeout: Millis,
    /// How often and at what intervals the agent calls the service in one such attempt: at most 3 calls.
    pub retry: Retry,
    /// How long after the answer the service is asked first, and the bound of that time, which doubles. Default `1s`
    /// and `1m`.
    pub every: (Millis, Millis),
}

impl FinishesLater {
    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let poll = self.poll.iter().flat_map(|poll| poll.input.expressions());
        poll.chain(&self.fails_when)
    }
}

impl Poll {
    /// How long after an answer the service is asked again, if it was asked `times` before and asks for this wait
    /// itself.
    #[must_use]
    pub fn wait(&self, times: u32, asked: Option<Millis>) -> Millis {
        let (every, max) = self.every;
        growing(every, max, times.saturating_add(1)).max(asked.unwrap_or_default())
    }
}

/// A wait for a moment. It ends at the first sweep of the Supervisor after the moment, and is no failure.
#[derive(Debug)]
pub enum Timer {
    /// This long after the step starts.
    For(Millis),
    /// At a moment that an expression gives. One that has passed ends the wait at once.
    Until {
        /// The moment as a text: see [`moment`](crate::moment::moment).
        at: Box<Template>,
        /// The time zone of a text that names none.
        zone: chrono_tz::Tz,
    },
}

/// A wait for events from outside, which ends without a failure when they have come.
#[derive(Debug)]
pub struct Await {
    /// The events, at least one and at most [`MAX_EVENTS`](crate::check::MAX_EVENTS), each with another name.
    pub events: Vec<AwaitedEvent>,
    /// Whether all of them are awaited; otherwise the first one ends the wait.
    pub needs_all: bool,
    /// Whether the author wrote a single event, so that the output is what it brought. Otherwise the output is
    /// `{"event": name, "data": …}` of the first one, or the data of each by its name if all are awaited.
    pub is_single: bool,
    /// The condition under which what came is a failure of the step, over the step's variables and `event`, the output
    /// that it would have. `None`: it never is.
    pub fails_when: Option<Expression>,
    /// Who may send the event, and with what; `None` if it is no person's decision.
    pub decision: Option<Decision>,
    /// How long they are waited for, from when the step starts.
    pub within: Millis,
    /// What is done if they have not come by then.
    pub otherwise: Otherwise,
}

/// A person's decision that a step waits for.
#[derive(Debug)]
pub struct Decision {
    /// The names of those who may decide; empty: whoever may act on orders.
    pub by: Vec<String>,
    /// What it has to bring; `None`: anything.
    pub form: Option<DetailsSchema>,
    /// How often it is asked for again; `None`: never.
    pub remind: Option<Millis>,
    /// After what time others may decide, too, and their names; `None`: no others may.
    pub escalate: Option<(Millis, Vec<String>)>,
}

impl Decision {
    /// Whether a person may decide when the step has waited for this time.
    #[must_use]
    pub fn may_be_by(&self, name: Option<&str>, waited: Millis) -> bool {
        let mut names = self.names(waited);
        self.by.is_empty() || name.is_some_and(|name| names.any(|known| known == name))
    }

    /// The names of those who may decide when the step has waited for this time.
    pub fn names(&self, waited: Millis) -> impl Iterator<Item = &str> {
        let escalated = self
            .escalate
            .iter()
            .filter(move |(after, _)| waited >= *after);
        let more = escalated.flat_map(|(_, to)| to);
        self.by.iter().chain(more).map(String::as_str)
    }

    /// Why a person may not decide with this data when the step has waited for this time, for people; `None` if they may.
    #[must_use]
    pub fn refusal(&self, name: Option<&str>, data: &Value, waited: Millis) -> Option<String> {
        if !self.may_be_by(name, waited) {
            let names: Vec<&str> = self.names(waited).collect();
            let name = name.unwrap_or("nobody");
            return Some(format!("{name} may not decide; {} may", names.join(", ")));
        }
        let misfits = match self.form.as_ref()?.misfits(data) {
            Ok(misfits) => misfits,
            // Nothing is decided by a form that this version of Triad cannot read.
            Err(e) => return Some(format!("the form cannot be used here: {e}")),
        };
        let said = misfits.iter().map(|misfit| {
            let within = misfit.path.strip_prefix("details");
            format!("data{} {}", within.unwrap_or_default(), misfit.reason)
        });
        let said: Vec<String> = said.collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// After what time the decision is asked for again, of a step that has waited for `waited` and waits for `within` at
    /// most; `within` if it is not asked for again.
    #[must_use]
    pub fn asked_again(&self, waited: Millis, within: Millis) -> Millis {
        let reminder = self.remind.filter(|every| every.0 > 0);
        let reminder =
            reminder.map(|every| Millis((waited.0 / every.0 + 1).saturating_mul(every.0)));
        let escalated = self.escalate.as_ref().map(|(after, _)| *after);
        let escalated = escalated.filter(|after| *after > waited);
        let next = reminder.into_iter().chain(escalated).min();
        next.unwrap_or(within).min(within)
    }
}

/// An event that a step waits for.
#[derive(Debug)]
pub struct AwaitedEvent {
    /// Its name.
    pub event: String,
    /// The condition that it must fulfil, over the step's variables and `event`, what it brought. An event that does
    /// not fulfil it does not end the wait. `None`: any such event does.
    pub matches: Option<Expression>,
    /// What its senders may name in place of the order; `None`: they name the order.
    pub key: Option<Box<Template>>,
}

/// Orders of another workflow that a step runs: child orders. The step is completed when they are Processed, and
/// failed when one is Compensated and there is no other way to do its work.
#[derive(Debug)]
pub struct Run {
    /// What is started.
    pub own: Started,
    /// Other ways to do the same work, each tried after the one before, or all at once; never beside `each`.
    pub others: Vec<Alternative>,
    /// Whether all ways are begun at once. The first that is Processed completes the step, and the others are let go.
    pub is_race: bool,
    /// Longest time of a child order, from its submission to its end; `None`: that of its workflow.
    pub within: Option<Millis>,
    /// One child order for each element of a list; `None`: one child order.
    pub each: Option<ForEach>,
    /// Whether the child orders are compensated when the order is. Default: true before the point of no return.
    pub is_compensated: bool,
}

/// A workflow of which a step starts an order.
#[derive(Debug)]
pub struct Started {
    /// The workflow of the child order.
    pub workflow: WorkflowName,
    /// Its version; `None`: the one that is current when the child order is submitted.
    pub version: Option<DefinitionHash>,
    /// The details of the child order: an object. Of one among several, over the element of the list too.
    pub details: Template,
    /// What it asks for, such as `express/book`, of one of several ways to do a step's work; `None` of other workflows.
    pub asks: Option<String>,
}

/// Another way to do the work of a step.
#[derive(Debug)]
pub struct Alternative {
    /// The order that does it.
    pub started: Started,
    /// The codes of failures after which it is not tried.
    pub unless: Vec<String>,
}

impl Run {
    /// What is started the `way`-th time, from 0: the step's own work, then each other way to do it. The last one if
    /// there are fewer.
    #[must_use]
    pub fn way(&self, way: u32) -> &Started {
        let nth = (way as usize).min(self.others.len());
        match nth.checked_sub(1) {
            None => &self.own,
            Some(other) => &self.others[other].started,
        }
    }

    /// Whether there is another way after the `way`-th one, to be tried after a failure with this code.
    #[must_use]
    pub fn has_way_after(&self, way: u32, code: &str) -> bool {
        let next = self.others.get(way as usize).filter(|_| !self.is_race);
        next.is_some_and(|next| !next.unless.iter().any(|no| no == code))
    }

    /// How many child orders may be under way at once.
    #[must_use]
    pub fn at_once(&self) -> usize {
        match &self.each {
            Some(each) => each.at_once as usize,
            None if self.is_race => self.others.len() + 1,
            None => 1,
        }
    }

    /// How many child orders may fail without a failure of the step.
    #[must_use]
    pub fn tolerated(&self) -> usize {
        match &self.each {
            Some(each) => each.tolerate as usize,
            None if self.is_race => self.others.len(),
            None => 0,
        }
    }

    /// All that may be started.
    pub fn ways(&self) -> impl Iterator<Item = &Started> {
        let others = self.others.iter().map(|other| &other.started);
        std::iter::once(&self.own).chain(others)
    }
}

/// One child order for each element of a list. The output of the step is the list of what they bring, in its order,
/// null for one that failed.
#[derive(Debug)]
pub struct ForEach {
    /// The list; at most [`MAX_INSTANCES`](crate::check::MAX_INSTANCES) elements, checked when the step begins.
    pub list: Template,
    /// The variable that is the element in [`Run::details`]. Its place in the list, from 0, is the variable `index`.
    pub item: String,
    /// Most child orders that are under way at once, from 1 to [`MAX_AT_ONCE`](crate::check::MAX_AT_ONCE). Default 10.
    pub at_once: u32,
    /// How many child orders may fail without a failure of the step. Default 0.
    pub tolerate: u32,
}

/// What is done when an awaited event has not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// As for a step that failed: the order is compensated.
    Compensate,
    /// The order stops in Error, with an alert.
    Error,
    /// The step is completed with the output null.
    Continue,
}

/// What is done while it is in doubt whether a step's effect happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeat {
    /// The action is called again under the same idempotency key.
    Safe,
    /// The service is not called again, and the order stops until an operator says whether the effect
    /// happened.
    Never,
    /// The service is asked whether the effect happened, before the action may be called again.
    Probe(Probe),
}

impl Repeat {
    /// Whether the action may be called again while its effect is in doubt: true only for [`Repeat::Safe`].
    #[must_use]
    pub fn is_safe(&self) -> bool {
        *self == Self::Safe
    }
}

/// How the service is asked whether an effect happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Name of the action by which the service is asked.
    pub action: String,
    /// How long one probe may take, from when its agent takes the request. Default: as the step's.
    pub attempt_timeout: Millis,
    /// How often and at what intervals the agent calls the service in one probe: at most 3 calls, with the
    /// waits of [`Call::retry`].
    pub retry: Retry,
}

/// How often and at what intervals an agent calls the service in one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Most calls, the first one included; from 1 to [`MAX_CALLS`](crate::check::MAX_CALLS).
    /// Default 3.
    pub calls_per_attempt: u32,
    /// Upper bound of the wait after the first call; it doubles with each further call. Default
    /// `100ms`.
    pub initial: Millis,
    /// Upper bound of the wait after any call, at least `initial`. Default: `5s`, or `initial` if that is
    /// longer.
    pub max: Millis,
}

/// When a failed attempt at an action, or at a compensation, is followed by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How many failed attempts in one run are each followed by another attempt, at most
    /// [`MAX_THRESHOLD`](crate::check::MAX_THRESHOLD). Default 3.
    pub failure_threshold: u32,
    /// Wait before the attempt after the first failure; it doubles with each further failure. Default zero:
    /// there is no wait.
    pub delay: Millis,
    /// Upper bound of that wait, at least `delay`. Default: 64 times `delay`.
    pub max_delay: Millis,
    /// Whether the Scheduler itself counts a transient failure that an agent reports, and makes the
    /// next attempt. `delay` is zero then. Default: false.
    pub retry_at_once: bool,
    /// Extra attempts above the failure_threshold: the wait before each, and how many there are, at most
    /// [`MAX_THRESHOLD`](crate::check::MAX_THRESHOLD). `None`, the default: there are no extra attempts. Always
    /// `None` for a compensation.
    pub wait: Option<(Millis, u32)>,
    /// How long the work may be deferred, or wait for an agent, without counting as failed. Default 24 hours.
    pub defer_for: Millis,
}

/// What holds after a failure with a certain code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodePolicy {
    /// Whether another attempt at the action follows; of no meaning for a step that runs orders.
    pub policy: Policy,
    /// What is done if none follows.
    pub then: Above,
}

/// What is done when the Supervisor makes no further attempt at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Above {
    /// The order is compensated.
    Compensate,
    /// The order stops in Error, with an alert.
    Error,
}

/// The compensation of a step, with every default resolved.
#[derive(Debug)]
pub struct Compensation {
    /// The agent that carries the compensation out. Default: the step's.
    pub agent: AgentName,
    /// Name of the action that the agent is asked for.
    pub action: String,
    /// Input of the compensation; an empty object if the author gave none.
    pub input: Template,
    /// How long one attempt may take, from when its agent takes the request. Default: as the
    /// step's.
    pub attempt_timeout: Millis,
    /// How often and at what intervals the agent calls the service in one attempt. Default: what the
    /// definition gives for the step or for all steps.
    pub retry: Retry,
    /// Most calls to the service in one run, over all attempts: the total that is declared for the
    /// compensation or, if it has no retry of its own, for the step. If none is declared: the calls of one
    /// attempt times [`Policy::max_attempts`].
    pub calls_per_run: u32,
    /// Whether each attempt claims its calls in the call ledger before the first one, so that a
    /// redelivered request cannot make them a second time. True if such a total is declared.
    pub is_counted: bool,
    /// When a failed attempt is followed by another one; after the last one the order ends in
    /// CompensationFailed. Default: as the step's, without its extra attempts.
    pub policy: Policy,
}

impl Policy {
    /// How many attempts can fail in one run: the first one, one for each failure up to `failure_threshold`, and
    /// the extra attempts of `wait`.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        1 + self.failure_threshold + self.wait.map_or(0, |(_, times)| times)
    }

    /// Wait before the attempt that follows the `failures`-th failure, counted from 1; `None` if no
    /// further attempt is made.
    #[must_use]
    pub fn retry_after(&self, failures: u32) -> Option<Millis> {
        if failures <= self.failure_threshold {
            Some(growing(self.delay, self.max_delay, failures))
        } else {
            let (delay, times) = self.wait?;
            (failures - self.failure_threshold <= times).then_some(delay)
        }
    }
}

fn growing(first: Millis, max: Millis, failures: u32) -> Millis {
    let doublings = failures.saturating_sub(1).min(32);
    Millis(first.0.saturating_mul(1 << doublings).min(max.0))
}

impl Workflow {
    /// This workflow, after all its parts and theirs.
    #[must_use]
    pub fn with_parts(&self) -> Vec<&Self> {
        let parts = self.parts.iter().flat_map(Self::with_parts);
        parts.chain([self]).collect()
    }

    /// Position of the step with this id; `None` if there is no such step.
    #[must_use]
    pub fn step_index(&self, id: &str) -> Option<StepIndex> {
        self.steps.iter().position(|s| s.id.as_str() == id)
    }

    /// The column of each step when the workflow is drawn, from 0, in the order of [`steps`](Self::steps): 0
    /// for a step that comes after no other, else one more than the highest column of the steps that it comes
    /// after.
    #[must_use]
    pub fn columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let behind = step.after.iter().map(|&before| columns[before] + 1).max();
            columns.push(behind.unwrap_or(0));
        }
        columns
    }

    /// Position of the point of no return; `None` if the workflow has none.
    #[must_use]
    pub fn pivot(&self) -> Option<StepIndex> {
        self.steps.iter().position(|s| s.is_pivot)
    }

    /// Whether the step at `later` comes after the one at `earlier`, directly or because a step that it comes
    /// after does. False if they are the same step.
    ///
    /// # Panics
    /// If `later` is not the position of a step.
    #[must_use]
    pub fn is_after(&self, later: StepIndex, earlier: StepIndex) -> bool {
        let mut open = self.steps[later].after.clone();
        let mut seen = vec![false; self.steps.len()];
        while let Some(step) = open.pop() {
            if step == earlier {
                return true;
            }
            if !std::mem::replace(&mut seen[step], true) {
                open.extend(&self.steps[step].after);
            }
        }
        false
    }

    /// Most calls to remote services that one order can cause in one run: the total calls of all
    /// steps and of all compensations. Where calls are not counted in the ledger
    /// ([`Call::is_counted`]), a request that is redelivered after a crash can cause more.
    #[must_use]
    pub fn worst_case_calls(&self) -> u64 {
        self.steps
            .iter()
            .map(|s| {
                let compensation = s
                    .compensation
                    .as_ref()
                    .map_or(0, |c| u64::from(c.calls_per_run));
                u64::from(s.calls_per_run()) + compensation
            })
            .sum()
    }

    /// As [`worst_case_calls`](Self::worst_case_calls), with those of the child orders that do a part of this workflow's
    /// work: in each way of a step that has several, and for each element of a list, of which there may be
    /// [`MAX_INSTANCES`]. Child orders of other workflows are left out: see [`others_run`](Self::others_run).
    #[must_use]
    pub fn worst_case_calls_with_parts(&self) -> u64 {
        let runs = self.steps.iter().filter_map(Step::run);
        let of_parts = runs.map(|run| {
            let parts = run.ways().filter_map(|way| self.part(&way.workflow));
            let calls: u64 = parts.map(Self::worst_case_calls_with_parts).sum();
            let times = run.each.as_ref().map_or(1, |_| MAX_INSTANCES as u64);
            calls.saturating_mul(times)
        });
        of_parts.fold(self.worst_case_calls(), u64::saturating_add)
    }

    /// The part of this name; `None` if it is another workflow.
    #[must_use]
    pub fn part(&self, name: &WorkflowName) -> Option<&Self> {
        self.parts.iter().find(|part| part.name == *name)
    }

    /// The other workflows of which steps run orders, in this workflow and its parts.
    #[must_use]
    pub fn others_run(&self) -> BTreeSet<&WorkflowName> {
        let runs = self.steps.iter().filter_map(Step::run).flat_map(Run::ways);
        let own = runs.map(|way| &way.workflow);
        let own = own.filter(|name| self.part(name).is_none());
        own.chain(self.parts.iter().flat_map(Self::others_run))
            .collect()
    }

    /// The longest that all steps may take, in milliseconds, with one attempt at each action and no time between
    /// them: the largest sum of [`Step::longest_try`] over a chain of steps that come after one another.
    #[must_use]
    pub fn one_attempt_each(&self) -> Millis {
        let mut until = vec![0_u64; self.steps.len()];
        for (at, step) in self.steps.iter().enumerate() {
            let before = step.after.iter().map(|&a| until[a]).max().unwrap_or(0);
            until[at] = before.saturating_add(step.longest_try().0);
        }
        Millis(until.into_iter().max().unwrap_or(0))
    }

    /// The shortest attempt timeout of the actions of all steps, in milliseconds.
    #[must_use]
    pub fn shortest_attempt_timeout(&self) -> Millis {
        self.steps
            .iter()
            .filter_map(Step::call)
            .map(|call| call.attempt_timeout)
            .min()
            .unwrap_or(DEFAULT_ATTEMPT_TIMEOUT)
    }
}
