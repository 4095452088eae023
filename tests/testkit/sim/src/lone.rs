//! Worlds with one fault: a topic, partition, service, process or order fails for many minutes, and some orders need
//! it. `crate::isolation` runs such a world, and `crate::checks::lone` checks that the other work continued meanwhile
//! (G11).

use std::collections::BTreeSet;
use std::sync::Arc;

use triad_core::{OrderId, Priority, topics};
use triad_workflow::Workflow;

use crate::bus::{BusState, place};
use crate::definitions;
use crate::kernel::{InstanceId, Rng};
use crate::scenario::{self, NewOrder, REPLIES};
use crate::setup::Setup;

/// The agent whose service or topic fails.
const TROUBLED: &str = "bank";
/// Number of kinds of faults.
const KINDS: u64 = 15;
/// Limit on the attempts to generate a fitting order.
const MAX_DRAWS: usize = 1_000;

/// The one fault of a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lone {
    /// A topic refuses Triad's writes.
    Topic(String),
    /// A partition has no leader, so sends to it are never answered.
    Partition(String, usize),
    /// A service does not answer.
    Service(&'static str),
    /// A process cannot send.
    Process(InstanceId),
    /// Every write of one order fails.
    Order(OrderId),
    /// A service refuses one order: with a refusal of its caller's credentials, or (true) with a request to call
    /// later.
    Refused(OrderId, bool),
    /// Access to the table of control records is denied. Agents read it before calls with a rate limit (these agents
    /// are given) and before counted calls.
    Control(BTreeSet<&'static str>),
    /// A newer version of Triad has published the definition of this workflow, which processes of an older version
    /// cannot read.
    Definition(&'static str, Older),
}

/// Which processes are of the older version: all, or every second one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Older {
    All,
    Half,
}

impl Older {
    pub(crate) fn is(self, who: InstanceId) -> bool {
        match self {
            Self::All => true,
            Self::Half => who % 2 == 1,
        }
    }
}

/// An order as it is sent, with the properties that decide which parts it needs.
#[derive(Debug)]
pub(crate) struct Sample {
    pub id: OrderId,
    pub workflow: &'static Workflow,
    pub priority: Priority,
    /// Whether its statuses go to the application's own topic.
    pub replies: bool,
}

impl Lone {
    /// The fault with this number; the kinds come in turn.
    pub(crate) fn of_number(number: u64, rng: &mut Rng, setup: &Setup, bus: &BusState) -> Self {
        let topic = |name: &str| Self::Topic(name.to_owned());
        match number % KINDS {
            0 => topic(topics::STATUS),
            1 => topic(REPLIES),
            2 => topic(topics::ALERTS),
            3 => topic(topics::DEAD_LETTER),
            4 => Self::Topic(format!("agent.{TROUBLED}")),
            5 => topic(topics::SCHEDULER_HIGH),
            6 => {
                let partition = usize::try_from(rng.below(3)).unwrap_or(0);
                Self::Partition(topics::SCHEDULER.to_owned(), partition)
            }
            7 => Self::Service(TROUBLED),
            8 => {
                let partitions = bus.topics.values().flatten();
                let readers: Vec<InstanceId> = partitions.filter_map(|p| p.owner).collect();
                Self::Process(*rng.pick(&readers))
            }
            9 => Self::Order(the_one()),
            11 => Self::Refused(the_one(), false),
            12 => Self::Refused(the_one(), true),
            10 => {
                let is_rated = |agent: &&str| setup.limits(agent).rate_per_second.is_some();
                Self::Control(definitions::AGENTS.into_iter().filter(is_rated).collect())
            }
            kind => {
                let name = rng
                    .pick::<Arc<Workflow>>(definitions::calling())
                    .name
                    .as_str();
                let older = if kind == 13 { Older::All } else { Older::Half };
                Self::Definition(name, older)
            }
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Topic(name) => match name.as_str() {
                topics::STATUS => "alone: topic of statuses refused",
                REPLIES => "alone: reply topic refused",
                topics::ALERTS => "alone: topic of alerts refused",
                topics::DEAD_LETTER => "alone: topic of dead letters refused",
                topics::SCHEDULER_HIGH => "alone: high lane of the Scheduler refused",
                _ => "alone: requests of one agent refused",
            },
            Self::Partition(..) => "alone: partition without a leader",
            Self::Service(_) => "alone: service hangs",
            Self::Process(_) => "alone: process can send nothing",
            Self::Order(_) => "alone: writes of one order refused",
            Self::Refused(_, false) => "alone: service refuses one order",
            Self::Refused(_, true) => "alone: service asks one order to wait",
            Self::Control(_) => "alone: control records denied",
            Self::Definition(_, Older::All) => "alone: definition that nobody can read",
            Self::Definition(_, Older::Half) => {
                "alone: definition that only newer processes can read"
            }
        }
    }

    /// Whether an order needs the faulty part. Whether it needs the topic of alerts depends on how it ends.
    pub(crate) fn is_needed_by(&self, order: &Sample, bus: &BusState) -> bool {
        match self {
            Self::Topic(name) => match name.as_str() {
                topics::STATUS => !order.replies,
                REPLIES => order.replies,
                topics::SCHEDULER_HIGH => order.priority == Priority::High,
                _ => order.requests().any(|topic| topic == *name),
            },
            Self::Partition(topic, at) => order.lines(bus).contains(&(topic.clone(), *at)),
            Self::Service(name) => order.agents().any(|agent| agent == *name),
            Self::Process(who) => order.lines(bus).into_iter().any(|(topic, at)| {
                let partition = bus.topics.get(&topic).and_then(|all| all.get(at));
                partition.is_some_and(|p| p.owner == Some(*who))
            }),
            Self::Order(id) | Self::Refused(id, _) => order.id == *id,
            Self::Control(rated) => {
                order.agents().any(|agent| rated.contains(agent)) || order.is_counted()
            }
            Self::Definition(name, _) => order.workflow.name.as_str() == *name,
        }
    }

    /// Whether only an operator can repair the fault, so that operators must get an alert.
    pub(crate) fn is_told(&self) -> bool {
        match self {
            Self::Topic(name) => name != topics::ALERTS,
            Self::Control(_) => true,
            Self::Partition(..)
            | Self::Service(_)
            | Self::Process(_)
            | Self::Order(_)
            | Self::Refused(..)
            | Self::Definition(..) => false,
        }
    }

    /// How many of `orders` orders need the faulty part.
    pub(crate) fn needing(&self, orders: usize) -> usize {
        match self {
            Self::Topic(name) if *name == topics::SCHEDULER_HIGH => orders / 3,
            Self::Service(_) | Self::Definition(..) => orders / 3,
            // None: only unreadable records need these topics, and orders that end in failure.
            Self::Topic(name) if [topics::ALERTS, topics::DEAD_LETTER].contains(&name.as_str()) => {
                0
            }
            // One, because any other order of the same partition may have to wait behind it.
            _ => 1,
        }
    }

    /// An order that needs the faulty part, or one that does not.
    pub(crate) fn order(
        &self,
        rng: &mut Rng,
        bus: &BusState,
        n: usize,
        needs: bool,
    ) -> (Sample, NewOrder) {
        let mut drawn = Sample::drawn(rng, n);
        if let (Self::Order(id) | Self::Refused(id, _), true) = (self, needs) {
            while !drawn.agents().any(|agent| agent == TROUBLED) {
                drawn = Sample::drawn(rng, n);
            }
            drawn.id = id.clone();
        }
        for _ in 0..MAX_DRAWS {
            if self.is_needed_by(&drawn, bus) == needs {
                break;
            }
            drawn = Sample::drawn(rng, n);
        }
        let (id, high) = (drawn.id.to_string(), drawn.priority == Priority::High);
        let order = scenario::order_of(id, drawn.workflow.name.as_str(), high, drawn.replies);
        (drawn, order)
    }
}

/// The order that fails in faults of one order.
fn the_one() -> OrderId {
    OrderId::new("the-one").expect("a good id")
}

impl Sample {
    fn drawn(rng: &mut Rng, n: usize) -> Self {
        Self {
            id: OrderId::new(scenario::drawn_id(rng, n)).expect("a good id"),
            workflow: rng.pick::<Arc<Workflow>>(definitions::calling()),
            priority: match rng.chance(200) {
                true => Priority::High,
                false => Priority::Normal,
            },
            replies: rng.chance(500),
        }
    }

    /// The agents that the order's steps call, including compensations.
    fn agents(&self) -> impl Iterator<Item = &'static str> {
        let of_step = |agent: &str| definitions::AGENTS.into_iter().find(|a| *a == agent);
        self.workflow.steps.iter().flat_map(move |step| {
            let compensation = step.compensation.as_ref().map(|c| c.agent.as_str());
            [step.call().map(|call| call.agent.as_str()), compensation]
                .into_iter()
                .flatten()
                .filter_map(of_step)
        })
    }

    /// Whether the calls of any of its steps are counted in the call ledger.
    pub(crate) fn is_counted(&self) -> bool {
        self.workflow.steps.iter().any(|step| {
            step.call().is_some_and(|c| c.is_counted)
                || step.compensation.as_ref().is_some_and(|c| c.is_counted)
        })
    }

    /// The topics of its requests.
    fn requests(&self) -> impl Iterator<Item = String> {
        let lane = match self.priority {
            Priority::High => ".high",
            Priority::Normal => "",
        };
        self.agents()
            .map(move |agent| format!("agent.{agent}{lane}"))
    }

    /// The partitions in which its messages wait for Submission, a Scheduler or an agent.
    pub(crate) fn lines(&self, bus: &BusState) -> BTreeSet<(String, usize)> {
        let named = [
            topics::orders(self.priority),
            topics::scheduler(self.priority),
        ];
        let all = named.into_iter().map(str::to_owned).chain(self.requests());
        all.map(|topic| {
            let partitions = bus.topics.get(&topic).map_or(0, Vec::len);
            let at = place(Some(self.id.as_str().as_bytes()), partitions);
            (topic, at)
        })
        .collect()
    }
}
