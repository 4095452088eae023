//! Downstreams and step types: shown, paused, forced and released.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use triad_core::downstream::{DownstreamAction, ForcedTo};
use triad_runtime::operator::{DownstreamOperated, OperateError};
use triad_workflow::AgentName;

use super::local::{Execute, Installation, Local};
use super::{Caller, Form, Problem, Reason, only_tried, plain_form, with_kinds};
use crate::downstreams::{self, DownstreamView, HoldError, Published, StepType, Waiting};
use crate::json as form;

/// Every downstream, and what waits for it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListDownstreams {}

/// Every downstream.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DownstreamsFound {
    /// The downstreams, by name.
    pub downstreams: Vec<DownstreamView>,
    /// What orders wait for before a Scheduler starts them, by downstream and lane.
    pub waiting: Vec<Waiting>,
    /// How many orders under way have a step that is deferred, by downstream.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub deferred: BTreeMap<AgentName, u64>,
    /// Whether more orders may be under way than were looked at for `deferred`.
    pub sampled: bool,
}

impl Form for DownstreamsFound {
    fn form(&self) -> Result<Value, serde_json::Error> {
        let kinds = [("downstreams", "downstream"), ("waiting", "waiting")];
        let mut shown = with_kinds(form::line("downstreams", self)?, &kinds);
        let lines = shown["downstreams"].as_array_mut().into_iter().flatten();
        for (line, one) in lines.zip(&self.downstreams) {
            line["not_called"] = one.is_not_called().into();
        }
        Ok(shown)
    }

    fn schema(of: &mut schemars::SchemaGenerator) -> schemars::Schema {
        super::routes::with_kind(Self::json_schema(of), "downstreams")
    }
}

impl Execute for ListDownstreams {
    type Answer = DownstreamsFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<DownstreamsFound, Problem> {
        let store = on.store();
        let published = Published::read(store).await?;
        let mut all = Vec::new();
        for agent in published.agents() {
            all.push(downstreams::view(store, &agent).await?);
        }
        let deferred = downstreams::deferred(store, &published).await?;
        Ok(DownstreamsFound {
            downstreams: all,
            waiting: downstreams::waiting(store, on.moment()).await?,
            deferred: deferred.orders,
            sampled: deferred.more,
        })
    }
}

/// An act on a downstream or a step type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DownstreamAct {
    /// No call is made until it is resumed; what waits does not count as failed.
    Pause,
    /// Calls are made again.
    Resume,
    /// The breaker is held open: the same as pausing the downstream.
    ForceOpen,
    /// The breaker is held closed: calls are made although they fail.
    ForceClosed,
    /// The breaker decides again.
    Release,
}

impl DownstreamAct {
    /// All acts, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("pause", Self::Pause),
        ("resume", Self::Resume),
        ("force-open", Self::ForceOpen),
        ("force-closed", Self::ForceClosed),
        ("release", Self::Release),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, act)| *act == self);
        named.map_or("", |(name, _)| name)
    }
}

/// Act on a downstream, or on a step in all orders of a workflow.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActOnDownstreams {
    /// What is done.
    pub act: DownstreamAct,
    /// The downstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downstream: Option<String>,
    /// In place of a downstream: WORKFLOW/STEP, to pause and resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_type: Option<String>,
    /// Who and why.
    #[serde(flatten)]
    pub reason: Reason,
    /// If true, nothing is done, and the answer says what would be.
    #[serde(default = "only_tried")]
    pub dry_run: bool,
}

/// What came of an act for one downstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DownstreamResult {
    /// The downstream.
    #[schemars(with = "String")]
    pub downstream: AgentName,
    /// `done` or `refused`.
    pub result: String,
    /// What was done, or why not, for people.
    pub text: String,
}

impl DownstreamResult {
    /// Whether it was done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.result == "done"
    }
}

/// What came of an act on downstreams.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActedOnDownstreams {
    /// For how many downstreams it was done, or would be.
    pub done: usize,
    /// How many refused it.
    pub refused: usize,
    /// Whether this was a dry run, in which nothing is done.
    pub dry_run: bool,
    /// The result of each.
    pub results: Vec<DownstreamResult>,
}

plain_form!(ActedOnDownstreams: "acted" { "results": "result" });

impl Execute for ActOnDownstreams {
    type Answer = ActedOnDownstreams;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<ActedOnDownstreams, Problem> {
        on.may_act(caller)?;
        let by = self.reason.of(caller)?;
        let published = Published::read(on.store()).await?;
        let (agents, action) = self.chosen(&published)?;
        let mut results = Vec::new();
        let report =
            |held: &downstreams::DownstreamOutcome| -> Result<(), std::convert::Infallible> {
                let (result, text) = match &held.operated {
                    DownstreamOperated::Done(record) => ("done", record.last.what.clone()),
                    DownstreamOperated::Refused(refusal) => ("refused", refusal.to_string()),
                };
                results.push(DownstreamResult {
                    downstream: held.downstream.clone(),
                    result: result.to_owned(),
                    text,
                });
                Ok(())
            };
        let operator = &on.parts().operator;
        let ran = downstreams::operate(operator, &agents, &action, &by, self.dry_run, report).await;
        ran.map_err(|error| match error {
            HoldError::Operate(OperateError::Store(e)) => e.into(),
            HoldError::Operate(e) => Problem::later("contended", e.to_string(), 1),
            HoldError::Report(never) => match never {},
        })?;
        tracing::info!(act = self.act.name(), by = %by.by, why = %by.why, dry_run = self.dry_run,
            "an operator acted on downstreams");
        let done = results.iter().filter(|one| one.is_done()).count();
        Ok(ActedOnDownstreams {
            done,
            refused: results.len() - done,
            dry_run: self.dry_run,
            results,
        })
    }
}

impl ActOnDownstreams {
    /// The downstreams that are named, and the act on them.
    fn chosen(
        &self,
        published: &Published,
    ) -> Result<(BTreeSet<AgentName>, DownstreamAction), Problem> {
        match (&self.downstream, &self.step_type) {
            (Some(name), None) => {
                let agent = published.agent(name)?;
                let action = match self.act {
                    DownstreamAct::Pause | DownstreamAct::ForceOpen => {
                        DownstreamAction::Force(ForcedTo::Open)
                    }
                    DownstreamAct::ForceClosed => DownstreamAction::Force(ForcedTo::Closed),
                    DownstreamAct::Resume | DownstreamAct::Release => DownstreamAction::Release,
                };
                Ok((BTreeSet::from([agent]), action))
            }
            (None, Some(text)) => {
                let bad = |text: String| Problem::bad("bad-act", text);
                let step: StepType = text.parse().map_err(|e| bad(format!("step_type {e}")))?;
                let agents = published.agents_of(&step)?;
                let StepType { workflow, step } = step;
                let action = match self.act {
                    DownstreamAct::Pause => DownstreamAction::PauseStep(workflow, step),
                    DownstreamAct::Resume => DownstreamAction::ResumeStep(workflow, step),
                    _ => {
                        return Err(bad("a step type can only be paused or resumed".to_owned()));
                    }
                };
                Ok((agents, action))
            }
            _ => {
                let text = "name a `downstream` or a `step_type`, one of them";
                Err(Problem::bad("bad-act", text))
            }
        }
    }
}
