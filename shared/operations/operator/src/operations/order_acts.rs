//! Acts on orders: on one, on several, or on all that a filter finds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_core::{Action, Attempt, Operation, OperatorAct, OrderId, WorkflowRef};
use triad_workflow::StepId;

use super::filter::said;
use super::hidden::SHOWN;
use super::local::{ACT_WITHIN, Execute, Installation, Local, rate};
use super::order_queries::order_id;
use super::workflows::named;
use super::{Caller, Hidden, OrderFilter, Problem, Reason, only_tried, plain_form};
use crate::acts::{self, Corrected};
use crate::bulk::{ActResult, Bulk, MAX_AT_ONCE, Tally};
use crate::correction::{Correction, Difference, Set};
use crate::find::Filter;
use crate::pages;
use triad_runtime::Clock;

/// Most pages of a filter's result that one request reads.
const MAX_PAGES: usize = 10;

/// An act on an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum OrderAct {
    /// Has the failed step of an order in Error done again, with a corrected input or as it is; runs a compensated
    /// order again.
    Resubmit,
    /// Compensates an order that has not reached its point of no return.
    Cancel,
    /// Tries failed compensations again.
    RetryCompensation,
    /// Notes that an order was put right by hand; it keeps its state.
    Close,
    /// Replaces details that no step has read yet.
    Amend,
    /// No further step starts until it is resumed.
    Pause,
    /// Lets a paused order go on.
    Resume,
    /// Says whether an effect in doubt happened.
    Resolve,
    /// Moves an order to another version of its workflow.
    Migrate,
}

impl OrderAct {
    /// All acts, in the order in which the pages offer them.
    pub const ALL: [Self; 9] = [
        Self::Resubmit,
        Self::Cancel,
        Self::RetryCompensation,
        Self::Close,
        Self::Amend,
        Self::Pause,
        Self::Resume,
        Self::Resolve,
        Self::Migrate,
    ];

    /// The act's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resubmit => "resubmit",
            Self::Cancel => "cancel",
            Self::RetryCompensation => "retry-compensation",
            Self::Close => "close",
            Self::Amend => "amend",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Resolve => "resolve",
            Self::Migrate => "migrate",
        }
    }

    /// Whether what the act says is about a single order, so that no campaign does it.
    #[must_use]
    pub const fn is_of_one_order(self) -> bool {
        matches!(self, Self::Resolve | Self::Amend)
    }

    /// The act of this name; `None` if there is none.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.name() == name)
    }
}

/// What an act needs beside its name: other details, a corrected input, an answer about an effect, a version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ActDetails {
    /// To amend: what changes in the details, as a merge patch (RFC 7396): fields that are null are removed, others
    /// replaced, and all others stay. At most 8 KiB of JSON.
    #[serde(rename = "details", skip_serializing_if = "Option::is_none")]
    pub amendment: Option<Value>,
    /// To resolve, or to resubmit with another input: the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// To resubmit: the step's whole new input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// To resubmit: values in the step's input, each such as amount=12.5.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// To resolve: whether the effect happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<bool>,
    /// To resolve as applied: what the service answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// To resolve: the attempt that the service was asked about; refused if there has been another one since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// To migrate: the workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_workflow: Option<String>,
    /// To migrate: the beginning of a version's hash; the present version where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_version: Option<String>,
}

/// Act on orders: on those that are named, or on at most 1,000 that a filter finds.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActOnOrders {
    /// What is done to each.
    pub act: OrderAct,
    /// The orders, by their ids; 1,000 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<String>,
    /// In place of ids: which orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<OrderFilter>,
    /// Most orders that a filter takes, from 1 to 1,000, which it is where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// What the act needs.
    #[serde(flatten)]
    pub details: ActDetails,
    /// Who and why.
    #[serde(flatten)]
    pub reason: Reason,
    /// If true, nothing is done, and the answer says what would be.
    #[serde(default = "only_tried")]
    pub dry_run: bool,
    /// Orders a second; 50 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
}

/// What changes in the input of one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderDifferences {
    /// The order.
    #[schemars(with = "String")]
    pub order_id: OrderId,
    /// The changes.
    pub changes: Vec<Difference>,
}

/// What came of an act on orders.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActedOnOrders {
    /// The act.
    pub act: OrderAct,
    /// Who did it.
    pub by: String,
    /// Why.
    pub why: String,
    /// Whether this was a dry run, in which nothing is done.
    pub dry_run: bool,
    /// How many orders came to which result.
    #[serde(flatten)]
    pub tally: Tally,
    /// Whether the filter fits more orders than were acted on.
    pub more: bool,
    /// The result of each order.
    pub results: Vec<ActResult>,
    /// What a correction changes, by order.
    pub differences: Vec<OrderDifferences>,
}

plain_form!(ActedOnOrders: "acted" { "results": "result", "differences": "difference" });

/// The functions that carry out an act.
#[derive(Debug)]
pub(super) enum Plan {
    Operate(Action),
    Correct(StepId, Correction),
    Migrate(WorkflowRef),
}

impl Execute for ActOnOrders {
    type Answer = ActedOnOrders;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<ActedOnOrders, Problem> {
        on.may_act(caller)?;
        let by = self.reason.of(caller)?;
        let how = Bulk {
            rate: rate(self.rate)?,
            dry_run: self.dry_run,
        };
        let plan = plan(on, self.act, &self.details).await?;
        let (orders, more) = self.chosen(on).await?;
        let (mut results, mut differences) = (Vec::new(), Vec::new());
        let tally = run(
            on,
            &plan,
            &by,
            orders,
            how,
            (&mut results, &mut differences),
        )
        .await;
        tracing::info!(act = self.act.name(), by = %by.by, why = %by.why, dry_run = how.dry_run,
            done = tally.done, refused = tally.refused, failed = tally.failed, "an operator acted");
        Ok(ActedOnOrders {
            act: self.act,
            by: by.by,
            why: by.why,
            dry_run: how.dry_run,
            tally,
            more,
            results,
            differences,
        })
    }
}

async fn run<I: Installation>(
    on: &Local<I>,
    plan: &Plan,
    by: &OperatorAct,
    orders: Vec<OrderId>,
    how: Bulk,
    (results, differences): (&mut Vec<ActResult>, &mut Vec<OrderDifferences>),
) -> Tally {
    let (operator, clock) = (&on.parts().operator, &on.parts().clock);
    let stop = clock.sleep(ACT_WITHIN);
    let report = |line: &ActResult| -> Result<(), std::convert::Infallible> {
        results.push(line.clone());
        Ok(())
    };
    let ran = match plan {
        Plan::Operate(action) => {
            let operation = Operation {
                action: action.clone(),
                act: by.clone(),
            };
            acts::operate(operator, clock, orders, &operation, how, stop, report).await
        }
        Plan::Correct(step, correction) => {
            let corrected = Corrected {
                step,
                correction,
                act: by,
            };
            let hidden = &on.settings.hidden;
            let show = |id: &OrderId, all: &[Difference]| {
                differences.push(OrderDifferences {
                    order_id: id.clone(),
                    changes: all.iter().map(|one| masked(one, hidden)).collect(),
                });
            };
            acts::resubmit_corrected(operator, clock, orders, corrected, how, stop, show, report)
                .await
        }
        Plan::Migrate(to) => {
            acts::migrate(operator, clock, orders, (to, by), how, stop, report).await
        }
    };
    match ran {
        Ok(tally) => tally,
        Err(never) => match never {},
    }
}

/// A difference of two inputs without hidden fields.
fn masked(one: &Difference, hidden: &Hidden) -> Difference {
    let shown = |value: &Option<Value>| {
        let mut value = value.clone()?;
        hidden.mask(&mut value);
        Some(match hidden.hides_place(&one.path) {
            true => SHOWN.into(),
            false => value,
        })
    };
    Difference {
        path: one.path.clone(),
        before: shown(&one.before),
        after: shown(&one.after),
    }
}

/// How an act is carried out. Refuses what it needs and has not, and what does not go with it.
pub(super) async fn plan<I: Installation>(
    on: &Local<I>,
    act: OrderAct,
    details: &ActDetails,
) -> Result<Plan, Problem> {
    details.fit(act)?;
    Ok(Plan::Operate(match act {
        OrderAct::Resubmit => match said(&details.step) {
            None => Action::Resubmit { input: None },
            Some(name) => return Ok(Plan::Correct(step(name)?, details.correction()?)),
        },
        OrderAct::Cancel => Action::Cancel,
        OrderAct::RetryCompensation => Action::RetryCompensation,
        OrderAct::Close => Action::Close,
        OrderAct::Amend => {
            let wanted = || Problem::bad("bad-act", "amend needs `details`");
            let patch = details.amendment.clone().ok_or_else(wanted)?;
            Action::Amend { patch }
        }
        OrderAct::Pause => Action::Pause,
        OrderAct::Resume => Action::Resume,
        OrderAct::Resolve => {
            let wanted = || Problem::bad("bad-act", "resolve needs `step` and `applied`");
            let name = said(&details.step).ok_or_else(wanted)?;
            let applied = details.applied.ok_or_else(wanted)?;
            Action::Resolve {
                step: step(name)?,
                applied: applied.then(|| details.output.clone().unwrap_or_default()),
                attempt: details.attempt.map(Attempt),
            }
        }
        OrderAct::Migrate => {
            let wanted = || Problem::bad("bad-act", "migrate needs `to_workflow`");
            let workflow = said(&details.to_workflow).ok_or_else(wanted)?;
            let to = named(on, workflow, said(&details.to_version)).await?;
            return Ok(Plan::Migrate(to));
        }
    }))
}

fn step(name: &str) -> Result<StepId, Problem> {
    StepId::new(name).map_err(|e| Problem::bad("bad-act", format!("step {name:?}: {e}")))
}

impl ActDetails {
    /// Refuses fields that do not go with the act.
    fn fit(&self, act: OrderAct) -> Result<(), Problem> {
        let (resubmit, resolve) = (act == OrderAct::Resubmit, act == OrderAct::Resolve);
        let (migrate, amend) = (act == OrderAct::Migrate, act == OrderAct::Amend);
        let wrong = [
            ("details", self.amendment.is_some() && !amend),
            ("step", self.step.is_some() && !resubmit && !resolve),
            ("input", self.input.is_some() && !resubmit),
            ("set", !self.set.is_empty() && !resubmit),
            ("applied", self.applied.is_some() && !resolve),
            ("attempt", self.attempt.is_some() && !resolve),
            (
                "output",
                self.output.is_some() && self.applied != Some(true),
            ),
            ("to_workflow", self.to_workflow.is_some() && !migrate),
            ("to_version", self.to_version.is_some() && !migrate),
        ];
        let corrects = self.input.is_some() || !self.set.is_empty();
        if resubmit && corrects != self.step.is_some() {
            let text = "a corrected input needs `step`, and `input` or `set`";
            return Err(Problem::bad("bad-act", text));
        }
        match wrong.into_iter().find(|(_, is_wrong)| *is_wrong) {
            Some((name, _)) => {
                let text = format!("{name} does not go with {}: leave it out", act.name());
                Err(Problem::bad("bad-act", text))
            }
            None => Ok(()),
        }
    }

    fn correction(&self) -> Result<Correction, Problem> {
        match (&self.input, self.set.as_slice()) {
            (Some(input), []) => Ok(Correction::Whole(input.clone())),
            (None, set) => {
                let set: Result<Vec<Set>, _> = set.iter().map(|text| text.parse()).collect();
                let set = set.map_err(|e| Problem::bad("bad-act", e.to_string()))?;
                Ok(Correction::Set(set))
            }
            (Some(_), _) => Err(Problem::bad("bad-act", "give `input` or `set`, not both")),
        }
    }
}

impl ActOnOrders {
    /// The orders to act on, and whether the filter fits more.
    async fn chosen<I: Installation>(
        &self,
        on: &Local<I>,
    ) -> Result<(Vec<OrderId>, bool), Problem> {
        let filter = self.filter.as_ref().filter(|filter| !filter.is_empty());
        match (self.orders.as_slice(), filter) {
            ([], None) => {
                let text =
                    "say which orders: their ids in `orders`, or a `filter` that is not empty";
                Err(Problem::bad("no-orders", text))
            }
            ([], Some(filter)) => {
                let filter = filter.read(&on.settings.hidden)?;
                found(on, &filter, self.limit.unwrap_or(MAX_AT_ONCE)).await
            }
            (ids, None) if ids.len() <= MAX_AT_ONCE => {
                let ids: Result<_, _> = ids.iter().map(|id| order_id(id)).collect();
                Ok((ids?, false))
            }
            (_, None) => {
                let text = format!("one request acts on {MAX_AT_ONCE} orders at most");
                Err(Problem::bad("too-many-orders", text))
            }
            (_, Some(_)) => {
                let text = "give the ids of orders or a filter, not both";
                Err(Problem::bad("no-orders", text))
            }
        }
    }
}

async fn found<I: Installation>(
    on: &Local<I>,
    filter: &Filter,
    limit: usize,
) -> Result<(Vec<OrderId>, bool), Problem> {
    if !(1..=MAX_AT_ONCE).contains(&limit) {
        let text = format!("limit is a number from 1 to {MAX_AT_ONCE}");
        return Err(Problem::bad("bad-limit", text));
    }
    let (mut ids, mut from) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let wanted = limit - ids.len();
        let page = pages::page(on.store(), filter, wanted, from.as_ref(), on.moment()).await?;
        ids.extend(page.orders.into_iter().map(|order| order.id));
        from = page.next;
        if from.is_none() || ids.len() >= limit {
            break;
        }
    }
    Ok((ids, from.is_some()))
}
