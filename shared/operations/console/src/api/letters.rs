//! Dead letters.

use serde_json::{Value, json};
use triad_operator::json as form;

use crate::answer::{self, Answer};
use crate::installation::Installation;
use crate::letters::letter_json;
use crate::params::Params;
use crate::problem::Problem;
use crate::shared_state::Desk;

/// The newest letters, and the number of letters of each cause. Reads the whole topic, or from a moment on.
pub(super) async fn list<I: Installation>(
    desk: &Desk<I>,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&[
        "cause",
        "topic",
        "since",
        "not_replayed",
        "dismissed",
        "limit",
    ])?;
    let (limit, _) = query.page()?;
    let found = crate::letters::list(desk, query, limit).await?;
    let letters: Result<Vec<Value>, _> = found
        .letters
        .iter()
        .map(|letter| form::line("letter", letter))
        .collect();
    answer::json(&json!({
        "kind": "letters",
        "causes": form::of(&found.causes)?,
        "letters": letters?,
        "more": found.more,
        "unreadable": found.unreadable,
    }))
}

/// One letter.
pub(super) async fn get_letter<I: Installation>(
    desk: &Desk<I>,
    id: &str,
    query: &Params,
) -> Result<Answer, Problem> {
    query.only(&["written"])?;
    answer::json(&letter_json(desk, id, query).await?.1)
}
