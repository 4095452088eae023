//! Dead letters: listed, shown, replayed and dismissed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_runtime::dead_letter::index::Group;
use triad_runtime::dead_letter::replay::ReplayAct;
use triad_runtime::dead_letter::{LetterId, MAX_VALUE_BYTES};

use super::filter::said;
use super::hidden::SHOWN;
use super::local::{ACT_WITHIN, Execute, Installation, Local, rate};
use super::order_queries::limit;
use super::{Caller, DeadLetterFilter, Hidden, Problem, Reason, only_tried, plain_form};
use crate::dead_letters::{
    Bytes, Chosen, Deed, LetterError, LetterFilter, LetterView, Listed, Listing, Replay,
    ReplayError, ReplayOutcome, Tally, list, replay, show,
};
use crate::json as form;

/// The newest dead letters, and the number of letters of each cause.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListDeadLetters {
    /// Which letters.
    #[serde(flatten)]
    pub filter: DeadLetterFilter,
    /// Leaves out what was replayed.
    #[serde(default)]
    pub not_replayed: bool,
    /// Lists also what was dismissed.
    #[serde(default)]
    pub dismissed: bool,
    /// Most letters, from 1 to 500; 100 where it is left out. The newest are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<usize>,
}

/// Dead letters.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LettersFound {
    /// How many letters there are of each cause, the most frequent first.
    #[schemars(with = "Vec<crate::schema::Object>")]
    pub causes: Vec<Group>,
    /// The newest letters, oldest first.
    pub letters: Vec<Listed>,
    /// Whether older letters were left out.
    pub more: bool,
    /// Records of the topic that are no dead letters.
    pub unreadable: u64,
}

impl From<Listing> for LettersFound {
    fn from(found: Listing) -> Self {
        Self {
            causes: found.causes,
            letters: found.letters,
            more: found.more,
            unreadable: found.unreadable,
        }
    }
}

plain_form!(LettersFound: "letters" { "letters": "letter" });

impl Execute for ListDeadLetters {
    type Answer = LettersFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<LettersFound, Problem> {
        let filter = LetterFilter {
            not_replayed: self.not_replayed,
            dismissed: self.dismissed,
            ..self.filter.read(on.moment())?
        };
        let limit = limit(self.limit)?;
        let _place = on.read_topics()?;
        let found = list(&on.parts().topics, &filter, limit).await;
        found.map(LettersFound::from).map_err(|error| match error {
            LetterError::Topic(e) => Problem::unread("dead letters", &e),
            LetterError::Full(full) => {
                Problem::bad("too-many-letters", format!("{full}: ask with a `since`"))
            }
        })
    }
}

/// One dead letter.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetDeadLetter {
    /// The topic that the record was read from.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// `at` of the list, by which the letter is found without reading all of the topic: a moment such as
    /// 2023-11-14T22:13:20.123Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
}

/// One dead letter.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct LetterFound(pub LetterView);

plain_form!(LetterFound: "letter");

impl Execute for GetDeadLetter {
    type Answer = LetterFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<LetterFound, Problem> {
        let written = said(&self.written).map(form::read_moment).transpose();
        let text = "written is a moment such as 2023-11-14T22:13:20.123Z";
        let written = written.map_err(|_| Problem::bad("bad-filter", text))?;
        let id = format!("{}/{}/{}", self.topic, self.partition, self.offset);
        let id: LetterId = id
            .parse()
            .map_err(|e| Problem::bad("bad-letter-id", format!("{e}")))?;
        let _place = on.read_topics()?;
        let found = show(&on.parts().topics, &id, written)
            .await
            .map_err(|e| Problem::unread("dead letters", &e))?;
        let text = format!("there is no dead letter {id}");
        let mut found = found.ok_or_else(|| Problem::missing("no-such-letter", text))?;
        mask(&mut found, &on.settings.hidden);
        Ok(LetterFound(found))
    }
}

/// Hides what is hidden in a letter's value, in the values replayed in its place, and headers with a hidden name.
fn mask(letter: &mut LetterView, hidden: &Hidden) {
    if hidden.is_empty() {
        return;
    }
    let hide = |bytes: &mut Bytes| {
        let text = std::str::from_utf8(&bytes.0).map(|text| hidden.text(text));
        // A value that is not text may contain a hidden field.
        bytes.0 = text.unwrap_or_else(|_| SHOWN.to_owned()).into_bytes();
    };
    if !letter.tombstone {
        hide(&mut letter.value);
    }
    for (name, value) in &mut letter.headers {
        if hidden.hides(name) {
            *value = Some(Bytes(SHOWN.into()));
        }
    }
    let corrected = letter
        .replays
        .iter_mut()
        .filter_map(|one| one.corrected.as_mut());
    corrected.for_each(hide);
}

/// An act on dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LetterAct {
    /// Sends the record again to its topic.
    Replay,
    /// Notes that the letter needs no attention any more.
    Dismiss,
}

impl LetterAct {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Dismiss => "dismiss",
        }
    }
}

/// Replay or dismiss dead letters.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActOnDeadLetters {
    /// What is done.
    pub act: LetterAct,
    /// The letters, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub letters: Vec<String>,
    /// In place of ids: which letters; it may be empty for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<DeadLetterFilter>,
    /// To replay a single letter: the value to send in place of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Bytes>,
    /// Also letters that were replayed before.
    #[serde(default)]
    pub again: bool,
    /// Who and why.
    #[serde(flatten)]
    pub reason: Reason,
    /// If true, nothing is sent, and the answer says what would be.
    #[serde(default = "only_tried")]
    pub dry_run: bool,
    /// Letters a second; 50 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
}

/// What came of an act for one letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LetterResult {
    /// The letter's id.
    pub id: String,
    /// The letter's cause.
    pub cause: String,
    /// What came of it, such as `replayed`, `would-be-dismissed`, `replayed-before` or `failed`.
    pub outcome: String,
    /// Why, for people.
    pub why: Option<String>,
}

/// What came of an act on dead letters.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActedOnLetters {
    /// The act.
    pub act: LetterAct,
    /// With how many letters it was done, or would be.
    pub done: u64,
    /// With how many it was done before.
    pub done_before: u64,
    /// With how many it failed.
    pub failed: u64,
    /// Whether this was a dry run, in which nothing is sent.
    pub dry_run: bool,
    /// Whether the request stopped at a bound, so that letters may be left.
    pub more: bool,
    /// The result of each letter.
    pub results: Vec<LetterResult>,
}

plain_form!(ActedOnLetters: "acted" { "results": "letter" });

/// Error by which the report stops an act at a bound.
struct Enough;

impl Execute for ActOnDeadLetters {
    type Answer = ActedOnLetters;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        caller: &Caller,
    ) -> Result<ActedOnLetters, Problem> {
        on.may_act(caller)?;
        let _place = on.read_topics()?;
        let what = self.read(on, caller)?;
        let (mut results, mut tally, began) = (Vec::new(), Tally::default(), on.moment());
        let report = |letter: &triad_runtime::dead_letter::Letter, outcome: &ReplayOutcome| {
            tally.count(outcome);
            if !(matches!(outcome, ReplayOutcome::Before(_)) && self.letters.is_empty()) {
                results.push(LetterResult {
                    id: letter.id.to_string(),
                    cause: letter.cause.clone(),
                    outcome: outcome.name(what.deed),
                    why: outcome.why(what.deed),
                });
            }
            let is_late = on.moment().since(began) >= ACT_WITHIN;
            match results.len() >= crate::bulk::MAX_AT_ONCE || is_late {
                true => Err(Enough),
                false => Ok(()),
            }
        };
        let parts = on.parts();
        let ran = replay(&parts.topics, &parts.bus, &parts.clock, &what, report).await;
        let more = match ran {
            Ok(_) => false,
            Err(ReplayError::Report(Enough)) => true,
            Err(other) => return Err(failed(other)),
        };
        tracing::info!(act = self.act.name(), by = %what.act.by, why = %what.act.why, dry_run = what.dry_run,
            letters = results.len(), "an operator acted on dead letters");
        Ok(ActedOnLetters {
            act: self.act,
            done: tally.replayed,
            done_before: tally.before,
            failed: tally.failed,
            dry_run: self.dry_run,
            more,
            results,
        })
    }
}

impl ActOnDeadLetters {
    fn read<I: Installation>(&self, on: &Local<I>, caller: &Caller) -> Result<Replay, Problem> {
        let by = self.reason.of(caller)?;
        let by = ReplayAct::new(&by.by, &by.why, on.moment());
        let letters = match (self.letters.as_slice(), &self.filter) {
            ([], Some(filter)) => Chosen::All(filter.read(on.moment())?),
            (ids, None) if !ids.is_empty() => {
                let ids: Result<_, _> = ids.iter().map(|id| id.parse()).collect();
                Chosen::Named(ids.map_err(|e| Problem::bad("bad-letter-id", format!("{e}")))?)
            }
            _ => {
                let text = "say which: their ids in `letters`, or a `filter`, which may be empty";
                return Err(Problem::bad("no-letters", text));
            }
        };
        let value = self.value.as_ref();
        let is_wrong =
            value.is_some() && (self.act == LetterAct::Dismiss || self.letters.len() != 1);
        if is_wrong || value.is_some_and(|value| value.0.len() > MAX_VALUE_BYTES) {
            let text = format!(
                "`value` is for the replay of a single letter that is named, and has {MAX_VALUE_BYTES} bytes at most"
            );
            return Err(Problem::bad("bad-value", text));
        }
        Ok(Replay {
            deed: match self.act {
                LetterAct::Replay => Deed::Replay,
                LetterAct::Dismiss => Deed::Dismiss,
            },
            letters,
            act: by.map_err(|e| Problem::bad("bad-why", e.to_string()))?,
            corrected: value.map(|value| value.0.clone()),
            again: self.again,
            dry_run: self.dry_run,
            rate: rate(self.rate)?,
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
            let ids = ids.join(", ");
            let text = format!("there is no dead letter {ids}; nothing was done");
            Problem::missing("no-such-letter", text)
        }
        ReplayError::NoAnswer => {
            let text = "the bus has not answered in time; the letter in hand may have been sent";
            Problem::later("bus-unavailable", text, 5)
        }
        ReplayError::Report(Enough) => Problem::internal("it ended at a bound"),
    }
}
