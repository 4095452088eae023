//! What operators did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use triad_core::Timestamp;
use triad_runtime::ports::Unreadable;

use super::filter::span;
use super::hidden::SHOWN;
use super::local::{Execute, Installation, Local};
use super::{Caller, Problem, plain_form};
use crate::audit::{AuditEntry, AuditError, LettersError, export, letters};

/// Most acts of an answer.
pub const MAX_ACTS: usize = 100_000;
/// Default acts of an answer.
const ACTS: usize = 1_000;

/// What operators did, by the records that still keep it. The whole table of orders is read.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListActs {
    /// Only acts not older than this, such as 30d; all where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Most acts, from 1 to 100,000; 1,000 where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub limit: Option<usize>,
}

/// Acts of operators.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ActsFound {
    /// The acts: on campaigns first, then on downstreams, on orders, and on dead letters.
    pub acts: Vec<AuditEntry>,
    /// Whether there are more acts than were asked for.
    pub more: bool,
    /// Why acts on dead letters are not among them; `None` if they are.
    pub without_dead_letters: Option<String>,
    /// Records that could not be read.
    #[schemars(with = "Vec<crate::schema::Object>")]
    pub unreadable: Vec<Unreadable>,
}

plain_form!(ActsFound: "acts" { "acts": "audit" });

/// Error by which the report stops the reading at the bound.
struct Enough;

impl Execute for ListActs {
    type Answer = ActsFound;

    async fn execute<I: Installation>(
        self,
        on: &Local<I>,
        _caller: &Caller,
    ) -> Result<ActsFound, Problem> {
        let limit = self.limit.unwrap_or(ACTS);
        if !(1..=MAX_ACTS).contains(&limit) {
            let text = format!("limit is a number from 1 to {MAX_ACTS}");
            return Err(Problem::bad("bad-limit", text));
        }
        let since = span("since", &self.since)?;
        let since = since.map_or(Timestamp(0), |span| on.moment().minus(span));
        let _place = on.read_topics()?;
        let mut found = ActsFound::default();
        let acts = std::sync::Mutex::new(Vec::new());
        let hidden = &on.settings.hidden;
        let take = |line: &AuditEntry| {
            let mut acts = acts
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if acts.len() >= limit {
                return Err(Enough);
            }
            let mut line = line.clone();
            if !hidden.is_empty() {
                line.note = line.note.map(|_| SHOWN.to_owned());
            }
            acts.push(line);
            Ok(())
        };
        match export(on.store(), since, take).await {
            Ok(skipped) => found.unreadable = skipped.unreadable,
            Err(AuditError::Report(Enough)) => found.more = true,
            Err(AuditError::Store(e)) => return Err(e.into()),
            Err(AuditError::Downstreams(e)) => return Err(e.into()),
        }
        if !found.more {
            match letters(&on.parts().topics, since, take).await {
                Ok(()) => {}
                Err(LettersError::Report(Enough)) => found.more = true,
                Err(LettersError::Topic(e)) => found.without_dead_letters = Some(e.to_string()),
            }
        }
        found.acts = acts
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(found)
    }
}
