//! Acts on orders: on one, on several, or on all that a filter finds.

use serde::Deserialize;
use serde_json::{Value, json};
use triad_core::{Action, Attempt, Operation, OperatorAct, OrderId, WorkflowRef};
use triad_operator::acts::{self, Corrected};
use triad_operator::bulk::{ActResult, Bulk, Tally};
use triad_operator::correction::{Correction, Difference, Set};
use triad_operator::find::Filter;
use triad_operator::{json as form, pages, versions};
use triad_runtime::Clock;
use triad_runtime::ports::OperatorStore;
use triad_workflow::StepId;

use super::{act, difference, only_tried, rate};
use crate::caller::Caller;
use crate::hidden::Hidden;
use crate::installation::Installation;
use crate::params::{self, order_id};
use crate::problem::Problem;
use crate::settings::{ACT_WITHIN, MAX_AT_ONCE};
use crate::shared_state::Desk;

/// Most pages of a filter's result that one request reads.
const MAX_PAGES: usize = 10;

/// The act that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OrderAct {
    Resubmit,
    Cancel,
    #[serde(rename = "retry-compensation")]
    RetryCompensation,
    Close,
    Pause,
    Resume,
    Resolve,
    Migrate,
}

impl OrderAct {
    /// All acts, in the order in which the pages offer them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Resubmit,
        Self::Cancel,
        Self::RetryCompensation,
        Self::Close,
        Self::Pause,
        Self::Resume,
        Self::Resolve,
        Self::Migrate,
    ];

    /// The act's name, as on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Resubmit => "resubmit",
            Self::Cancel => "cancel",
            Self::RetryCompensation => "retry-compensation",
            Self::Close => "close",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Resolve => "resolve",
            Self::Migrate => "migrate",
        }
    }

    /// Parses the name of an act.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.name() == name)
    }
}

/// Filter in a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FilterForm {
    pub(crate) search: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) cause: Option<String>,
    pub(crate) workflow: Option<String>,
    pub(crate) older_than: Option<String>,
    pub(crate) id: Option<String>,
}

impl FilterForm {
    pub(super) fn filter(&self, hidden: &Hidden) -> Result<Filter, Problem> {
        let part = |name: &str| match name {
            "search" => self.search.as_deref(),
            "state" => self.state.as_deref(),
            "cause" => self.cause.as_deref(),
            "workflow" => self.workflow.as_deref(),
            "older_than" => self.older_than.as_deref(),
            _ => self.id.as_deref(),
        };
        params::filter(part, hidden)
    }
}

/// A request to act on orders.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) act: OrderAct,
    #[serde(default)]
    pub(crate) orders: Vec<String>,
    #[serde(default)]
    pub(crate) filter: Option<FilterForm>,
    #[serde(default)]
    pub(crate) limit: Option<usize>,
    pub(crate) why: String,
    #[serde(default)]
    pub(crate) by: Option<String>,
    #[serde(default = "only_tried")]
    pub(crate) dry_run: bool,
    #[serde(default)]
    pub(crate) rate: Option<u32>,
    #[serde(default)]
    pub(crate) step: Option<String>,
    #[serde(default)]
    pub(crate) input: Option<Value>,
    #[serde(default)]
    pub(crate) set: Vec<String>,
    #[serde(default)]
    pub(crate) applied: Option<bool>,
    #[serde(default)]
    pub(crate) output: Option<Value>,
    #[serde(default)]
    pub(crate) attempt: Option<u32>,
    #[serde(default)]
    pub(crate) to_workflow: Option<String>,
    #[serde(default)]
    pub(crate) to_version: Option<String>,
}

/// Result of a request.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) act: OrderAct,
    pub(crate) by: OperatorAct,
    pub(crate) dry_run: bool,
    pub(crate) lines: Vec<ActResult>,
    /// Changes of a correction, by order.
    pub(crate) differences: Vec<(OrderId, Vec<Difference>)>,
    pub(crate) tally: Tally,
    /// Whether the filter fits more orders than were acted on.
    pub(crate) more: bool,
}

/// The functions that carry out the request.
pub(super) enum Plan {
    Operate(Action),
    Correct(StepId, Correction),
    Migrate(WorkflowRef),
}

/// Carries a request out.
pub(crate) async fn carry_out<I: Installation>(
    desk: &Desk<I>,
    caller: &Caller,
    request: Request,
) -> Result<Done, Problem> {
    desk.may_act(caller)?;
    let by = act(caller, request.by.as_deref(), &request.why)?;
    let how = Bulk {
        rate: rate(request.rate)?,
        dry_run: request.dry_run,
    };
    let plan = plan(desk, &request).await?;
    let (orders, more) = orders(desk, &request).await?;
    let (mut lines, mut differences) = (Vec::new(), Vec::new());
    let tally = run(desk, &plan, &by, orders, how, &mut lines, &mut differences).await;
    let done = Done {
        act: request.act,
        by,
        dry_run: how.dry_run,
        lines,
        differences,
        tally,
        more,
    };
    tracing::info!(act = done.act.name(), by = %done.by.by, why = %done.by.why, dry_run = done.dry_run,
        done = tally.done, refused = tally.refused, failed = tally.failed, "an operator acted");
    Ok(done)
}

async fn run<I: Installation>(
    desk: &Desk<I>,
    plan: &Plan,
    by: &OperatorAct,
    orders: Vec<OrderId>,
    how: Bulk,
    lines: &mut Vec<ActResult>,
    differences: &mut Vec<(OrderId, Vec<Difference>)>,
) -> Tally {
    let (operator, clock) = (desk.of.operator(), desk.of.clock());
    let stop = clock.sleep(ACT_WITHIN);
    let report = |line: &ActResult| -> Result<(), std::convert::Infallible> {
        lines.push(line.clone());
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
            let show = |id: &OrderId, all: &[Difference]| {
                differences.push((id.clone(), all.to_vec()));
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

pub(super) async fn plan<I: Installation>(
    desk: &Desk<I>,
    request: &Request,
) -> Result<Plan, Problem> {
    fits(request)?;
    Ok(Plan::Operate(match request.act {
        OrderAct::Resubmit => match &request.step {
            None => Action::Resubmit { input: None },
            Some(name) => return Ok(Plan::Correct(step(name)?, correction(request)?)),
        },
        OrderAct::Cancel => Action::Cancel,
        OrderAct::RetryCompensation => Action::RetryCompensation,
        OrderAct::Close => Action::Close,
        OrderAct::Pause => Action::Pause,
        OrderAct::Resume => Action::Resume,
        OrderAct::Resolve => {
            let wanted = || Problem::bad("bad-act", "resolve needs `step` and `applied`");
            let name = request.step.as_deref().ok_or_else(wanted)?;
            let applied = request.applied.ok_or_else(wanted)?;
            Action::Resolve {
                step: step(name)?,
                applied: applied.then(|| request.output.clone().unwrap_or_default()),
                attempt: request.attempt.map(Attempt),
            }
        }
        OrderAct::Migrate => {
            let wanted = || Problem::bad("bad-act", "migrate needs `to_workflow`");
            let workflow = request.to_workflow.as_deref().ok_or_else(wanted)?;
            let stored = desk.of.store().versions().await?;
            let to = versions::find(&stored, workflow, request.to_version.as_deref());
            return Ok(Plan::Migrate(to.map_err(|e| {
                Problem::missing("no-such-version", e.to_string())
            })?));
        }
    }))
}

/// Refuses fields that the act does not use.
fn fits(request: &Request) -> Result<(), Problem> {
    let Request { act, .. } = request;
    let (resubmit, resolve) = (*act == OrderAct::Resubmit, *act == OrderAct::Resolve);
    let said = [
        ("step", request.step.is_some() && !resubmit && !resolve),
        ("input", request.input.is_some() && !resubmit),
        ("set", !request.set.is_empty() && !resubmit),
        ("applied", request.applied.is_some() && !resolve),
        ("attempt", request.attempt.is_some() && !resolve),
        (
            "output",
            request.output.is_some() && request.applied != Some(true),
        ),
        (
            "to_workflow",
            request.to_workflow.is_some() && *act != OrderAct::Migrate,
        ),
        (
            "to_version",
            request.to_version.is_some() && *act != OrderAct::Migrate,
        ),
    ];
    let corrects = request.input.is_some() || !request.set.is_empty();
    if resubmit && corrects != request.step.is_some() {
        let text = "a corrected input needs `step`, and `input` or `set`";
        return Err(Problem::bad("bad-act", text));
    }
    match said.into_iter().find(|(_, is_wrong)| *is_wrong) {
        Some((name, _)) => {
            let text = format!("{} does not go with {}: leave it out", name, act.name());
            Err(Problem::bad("bad-act", text))
        }
        None => Ok(()),
    }
}

fn step(name: &str) -> Result<StepId, Problem> {
    StepId::new(name).map_err(|e| Problem::bad("bad-act", format!("step {name:?}: {e}")))
}

fn correction(request: &Request) -> Result<Correction, Problem> {
    match (&request.input, request.set.as_slice()) {
        (Some(input), []) => Ok(Correction::Whole(input.clone())),
        (None, set) => {
            let set: Result<Vec<Set>, _> = set.iter().map(|text| text.parse()).collect();
            let set = set.map_err(|e| Problem::bad("bad-act", e.to_string()))?;
            Ok(Correction::Set(set))
        }
        (Some(_), _) => Err(Problem::bad("bad-act", "give `input` or `set`, not both")),
    }
}

/// The orders to act on, and whether the filter fits more.
async fn orders<I: Installation>(
    desk: &Desk<I>,
    request: &Request,
) -> Result<(Vec<OrderId>, bool), Problem> {
    let filter = request
        .filter
        .as_ref()
        .map(|filter| filter.filter(&desk.settings.hidden))
        .transpose()?;
    let filter = filter.filter(|filter| !filter.is_empty());
    match (request.orders.as_slice(), filter) {
        ([], None) => {
            let text = "say which orders: their ids in `orders`, or a `filter` that is not empty";
            Err(Problem::bad("no-orders", text))
        }
        ([], Some(filter)) => found(desk, &filter, request.limit).await,
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

async fn found<I: Installation>(
    desk: &Desk<I>,
    filter: &Filter,
    limit: Option<usize>,
) -> Result<(Vec<OrderId>, bool), Problem> {
    let limit = limit.unwrap_or(MAX_AT_ONCE);
    if !(1..=MAX_AT_ONCE).contains(&limit) {
        let text = format!("limit is a number from 1 to {MAX_AT_ONCE}");
        return Err(Problem::bad("bad-limit", text));
    }
    let (mut ids, mut from) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let wanted = limit - ids.len();
        let page = pages::page(desk.of.store(), filter, wanted, from.as_ref(), desk.now()).await?;
        ids.extend(page.orders.into_iter().map(|order| order.id));
        from = page.next;
        if from.is_none() || ids.len() >= limit {
            break;
        }
    }
    Ok((ids, from.is_some()))
}

impl Done {
    /// The result as JSON.
    pub(crate) fn json(&self, hidden: &Hidden) -> Result<Value, Problem> {
        let lines: Result<Vec<Value>, _> = self
            .lines
            .iter()
            .map(|line| form::line("result", line))
            .collect();
        let differences = self.differences.iter().map(|(order, all)| {
            let all: Vec<Value> = all.iter().map(|one| difference(one, hidden)).collect();
            json!({"kind": "difference", "order_id": order, "changes": all})
        });
        let mut done = form::line("acted", &self.tally)?;
        done["act"] = self.act.name().into();
        done["by"] = self.by.by.clone().into();
        done["why"] = self.by.why.clone().into();
        done["dry_run"] = self.dry_run.into();
        done["more"] = self.more.into();
        done["results"] = lines?.into();
        done["differences"] = differences.collect::<Vec<_>>().into();
        Ok(done)
    }
}
