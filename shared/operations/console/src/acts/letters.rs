//! Replaying and dismissing dead letters.

use serde::Deserialize;
use serde_json::{Value, json};
use triad_operator::dead_letters::{
    Chosen, Deed, LetterFilter, Replay, ReplayError, ReplayOutcome, Tally, replay,
};
use triad_operator::json as form;
use triad_runtime::dead_letter::MAX_VALUE_BYTES;
use triad_runtime::dead_letter::replay::ReplayAct;
use triad_workflow::Millis;

use super::{act, only_tried, rate};
use crate::caller::Caller;
use crate::installation::Installation;
use crate::problem::Problem;
use crate::settings::{ACT_WITHIN, MAX_AT_ONCE};
use crate::shared_state::Desk;

/// The act that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LetterAct {
    Replay,
    Dismiss,
}

impl LetterAct {
    fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Dismiss => "dismiss",
        }
    }
}

/// Filter of letters, used when a request names none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FilterForm {
    pub(crate) cause: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) since: Option<String>,
}

/// A request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) act: LetterAct,
    #[serde(default)]
    pub(crate) letters: Vec<String>,
    #[serde(default)]
    pub(crate) filter: Option<FilterForm>,
    /// The corrected value of a single letter.
    #[serde(default)]
    pub(crate) value: Option<String>,
    #[serde(default)]
    pub(crate) again: bool,
    pub(crate) why: String,
    #[serde(default)]
    pub(crate) by: Option<String>,
    #[serde(default = "only_tried")]
    pub(crate) dry_run: bool,
    #[serde(default)]
    pub(crate) rate: Option<u32>,
}

/// One letter and its result.
#[derive(Debug, Clone)]
pub(crate) struct LetterResult {
    pub(crate) id: String,
    pub(crate) cause: String,
    pub(crate) outcome: String,
    pub(crate) why: Option<String>,
}

/// Result of a request.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) act: LetterAct,
    pub(crate) dry_run: bool,
    pub(crate) lines: Vec<LetterResult>,
    pub(crate) tally: Tally,
    /// Whether the request stopped at a bound, so that letters may be left.
    pub(crate) more: bool,
}

/// Error by which the handler stops at a bound.
struct Enough;

/// Carries a request out.
pub(crate) async fn carry_out<I: Installation>(
    desk: &Desk<I>,
    caller: &Caller,
    request: Request,
) -> Result<Done, Problem> {
    desk.may_act(caller)?;
    let _place = desk.read_topics()?;
    let what = letter_act(desk, caller, &request)?;
    let (mut lines, mut tally, began) = (Vec::new(), Tally::default(), desk.now());
    let report = |letter: &triad_runtime::dead_letter::Letter, outcome: &ReplayOutcome| {
        tally.count(outcome);
        if !(matches!(outcome, ReplayOutcome::Before(_)) && request.letters.is_empty()) {
            lines.push(LetterResult {
                id: letter.id.to_string(),
                cause: letter.cause.clone(),
                outcome: outcome.name(what.deed),
                why: outcome.why(what.deed),
            });
        }
        let is_late = desk.now().since(began) >= ACT_WITHIN;
        match lines.len() >= MAX_AT_ONCE || is_late {
            true => Err(Enough),
            false => Ok(()),
        }
    };
    let ran = replay(
        desk.of.topics(),
        desk.of.bus(),
        desk.of.clock(),
        &what,
        report,
    )
    .await;
    let more = match ran {
        Ok(_) => false,
        Err(ReplayError::Report(Enough)) => true,
        Err(other) => return Err(failed(other)),
    };
    tracing::info!(act = request.act.name(), by = %what.act.by, why = %what.act.why, dry_run = what.dry_run,
        letters = lines.len(), "an operator acted on dead letters");
    Ok(Done {
        act: request.act,
        dry_run: what.dry_run,
        lines,
        tally,
        more,
    })
}

fn letter_act<I: Installation>(
    desk: &Desk<I>,
    caller: &Caller,
    request: &Request,
) -> Result<Replay, Problem> {
    let by = act(caller, request.by.as_deref(), &request.why)?;
    let by = ReplayAct::new(&by.by, &by.why, desk.now());
    let letters = match (request.letters.as_slice(), &request.filter) {
        ([], Some(filter)) => Chosen::All(filter.filter(desk)?),
        (ids, None) if !ids.is_empty() => {
            let ids: Result<_, _> = ids.iter().map(|id| id.parse()).collect();
            Chosen::Named(ids.map_err(|e| Problem::bad("bad-letter-id", format!("{e}")))?)
        }
        _ => {
            let text = "say which: their ids in `letters`, or a `filter`, which may be empty";
            return Err(Problem::bad("no-letters", text));
        }
    };
    let is_wrong = request.value.is_some()
        && (request.act == LetterAct::Dismiss || request.letters.len() != 1);
    let is_long = request
        .value
        .as_ref()
        .is_some_and(|v| v.len() > MAX_VALUE_BYTES);
    if is_wrong || is_long {
        let text = format!(
            "`value` is for the replay of a single letter that is named, and has {MAX_VALUE_BYTES} bytes at most"
        );
        return Err(Problem::bad("bad-value", text));
    }
    Ok(Replay {
        deed: match request.act {
            LetterAct::Replay => Deed::Replay,
            LetterAct::Dismiss => Deed::Dismiss,
        },
        letters,
        act: by.map_err(|e| Problem::bad("bad-why", e.to_string()))?,
        corrected: request.value.clone().map(String::into_bytes),
        again: request.again,
        dry_run: request.dry_run,
        rate: rate(request.rate)?,
    })
}

impl FilterForm {
    pub(crate) fn filter<I: Installation>(&self, desk: &Desk<I>) -> Result<LetterFilter, Problem> {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let since = said(&self.since).map(Millis::try_from).transpose();
        let since = since.map_err(|e| Problem::bad("bad-filter", format!("since {e}")))?;
        Ok(LetterFilter {
            cause: said(&self.cause),
            topic: said(&self.topic),
            since: since.map(|span| desk.now().minus(span)),
            ..LetterFilter::default()
        })
    }
}

fn failed<E: std::fmt::Display>(error: ReplayError<E, Enough>) -> Problem {
    match error {
        ReplayError::Topic(e) => Problem::unread("dead letters", &e),
        ReplayError::Full(full) => Problem::bad(
            "too-many-letters",
            format!("{full}: act on them in parts, with `since`"),
        ),
        ReplayError::Unknown(ids) => {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let text = format!(
                "there is no dead letter {}; nothing was done",
                ids.join(", ")
            );
            Problem::missing("no-such-letter", text)
        }
        ReplayError::NoAnswer => {
            let text = "the bus has not answered in time; the letter in hand may have been sent";
            Problem::later("bus-unavailable", text, 5)
        }
        ReplayError::Report(Enough) => Problem::internal("it ended at a bound"),
    }
}

/// The topic cannot be read.
impl Done {
    /// The result as JSON.
    pub(crate) fn json(&self) -> Result<Value, Problem> {
        let lines = self.lines.iter().map(|line| {
            let LetterResult {
                id,
                cause,
                outcome,
                why,
            } = line;
            json!({"kind": "letter", "id": id, "cause": cause, "outcome": outcome, "why": why})
        });
        let Tally {
            replayed,
            before,
            failed,
        } = self.tally;
        let done = json!({"act": self.act.name(), "done": replayed, "done_before": before, "failed": failed,
            "dry_run": self.dry_run, "more": self.more, "results": lines.collect::<Vec<_>>()});
        Ok(form::line("acted", &done)?)
    }
}
