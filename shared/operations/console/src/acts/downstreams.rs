//! Acts on downstreams and step types.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};
use triad_core::downstream::{DownstreamAction, ForcedTo};
use triad_operator::downstreams::{self, DownstreamError, HoldError, Published, StepType};
use triad_runtime::operator::{DownstreamOperated, OperateError};
use triad_workflow::AgentName;

use super::{act, only_tried};
use crate::caller::Caller;
use crate::installation::Installation;
use crate::problem::Problem;
use crate::shared_state::Desk;

/// The act that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DownstreamAct {
    Pause,
    Resume,
    ForceOpen,
    ForceClosed,
    Release,
}

impl DownstreamAct {
    /// All acts, by name.
    pub(crate) const ALL: [(&'static str, Self); 5] = [
        ("pause", Self::Pause),
        ("resume", Self::Resume),
        ("force-open", Self::ForceOpen),
        ("force-closed", Self::ForceClosed),
        ("release", Self::Release),
    ];

    fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, act)| *act == self);
        named.map_or("", |(name, _)| name)
    }
}

/// A request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) act: DownstreamAct,
    #[serde(default)]
    pub(crate) downstream: Option<String>,
    /// `WORKFLOW/STEP`.
    #[serde(default)]
    pub(crate) step_type: Option<String>,
    pub(crate) why: String,
    #[serde(default)]
    pub(crate) by: Option<String>,
    #[serde(default = "only_tried")]
    pub(crate) dry_run: bool,
}

/// Result for each downstream: the agent, whether it was done, and a text for people.
pub(crate) type Results = Vec<(AgentName, bool, String)>;

/// Carries a request out.
pub(crate) async fn carry_out<I: Installation>(
    desk: &Desk<I>,
    caller: &Caller,
    request: Request,
) -> Result<Results, Problem> {
    desk.may_act(caller)?;
    let by = act(caller, request.by.as_deref(), &request.why)?;
    let published = Published::read(desk.of.store()).await.map_err(unknown)?;
    let (agents, action) = selected_downstream(&request, &published)?;
    let mut results = Results::new();
    let report = |held: &downstreams::DownstreamOutcome| -> Result<(), std::convert::Infallible> {
        let (is_done, text) = match &held.operated {
            DownstreamOperated::Done(record) => (true, record.last.what.clone()),
            DownstreamOperated::Refused(refusal) => (false, refusal.to_string()),
        };
        results.push((held.downstream.clone(), is_done, text));
        Ok(())
    };
    let ran = downstreams::operate(
        desk.of.operator(),
        &agents,
        &action,
        &by,
        request.dry_run,
        report,
    )
    .await;
    ran.map_err(|error| match error {
        HoldError::Operate(OperateError::Store(e)) => e.into(),
        HoldError::Operate(e) => Problem::later("contended", e.to_string(), 1),
        HoldError::Report(never) => match never {},
    })?;
    tracing::info!(act = request.act.name(), by = %by.by, why = %by.why, dry_run = request.dry_run,
        "an operator acted on downstreams");
    Ok(results)
}

/// Resolves which downstreams a request names, and the act on them.
fn selected_downstream(
    request: &Request,
    published: &Published,
) -> Result<(BTreeSet<AgentName>, DownstreamAction), Problem> {
    match (&request.downstream, &request.step_type) {
        (Some(name), None) => {
            let agent = published.agent(name).map_err(unknown)?;
            let action = match request.act {
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
            let agents = published.agents_of(&step).map_err(unknown)?;
            let StepType { workflow, step } = step;
            let action = match request.act {
                DownstreamAct::Pause => DownstreamAction::PauseStep(workflow, step),
                DownstreamAct::Resume => DownstreamAction::ResumeStep(workflow, step),
                _ => return Err(bad("a step type can only be paused or resumed".to_owned())),
            };
            Ok((agents, action))
        }
        _ => {
            let text = "name a `downstream` or a `step_type`, one of them";
            Err(Problem::bad("bad-act", text))
        }
    }
}

/// Why a downstream or a step type is not found.
pub(crate) fn unknown(error: DownstreamError) -> Problem {
    match error {
        DownstreamError::Store(e) => e.into(),
        DownstreamError::NoSuchAgent { .. } | DownstreamError::NoSuchStep(_) => {
            Problem::missing("no-such-downstream", error.to_string())
        }
    }
}

/// The results as JSON.
pub(crate) fn json(results: &Results, dry_run: bool) -> Value {
    let lines = results.iter().map(|(agent, is_done, text)| {
        let result = if *is_done { "done" } else { "refused" };
        json!({"kind": "result", "downstream": agent, "result": result, "text": text})
    });
    let done = results.iter().filter(|(_, is_done, _)| *is_done).count();
    json!({"kind": "acted", "done": done, "refused": results.len() - done, "dry_run": dry_run,
        "results": lines.collect::<Vec<_>>()})
}
