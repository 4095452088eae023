//! Queries of dead letters.

use serde_json::Value;
use triad_operator::dead_letters::{
    LetterError, LetterFilter, LetterView, Listing, list as newest, show,
};
use triad_operator::json as form;
use triad_runtime::dead_letter::LetterId;

use crate::acts::letters::FilterForm;
use crate::hidden::Hidden;
use crate::installation::Installation;
use crate::params::Params;
use crate::problem::Problem;
use crate::shared_state::Desk;

/// The newest letters that fit a query.
pub(crate) async fn list<I: Installation>(
    desk: &Desk<I>,
    query: &Params,
    limit: usize,
) -> Result<Listing, Problem> {
    let said = |name: &str| query.one(name).map(str::to_owned);
    let form = FilterForm {
        cause: said("cause"),
        topic: said("topic"),
        since: said("since"),
    };
    let filter = LetterFilter {
        not_replayed: query.flag("not_replayed"),
        dismissed: query.flag("dismissed"),
        ..form.filter(desk)?
    };
    let _place = desk.read_topics()?;
    newest(desk.of.topics(), &filter, limit)
        .await
        .map_err(|error| match error {
            LetterError::Topic(e) => Problem::unread("dead letters", &e),
            LetterError::Full(full) => {
                Problem::bad("too-many-letters", format!("{full}: ask with a `since`"))
            }
        })
}

/// One letter as JSON, without hidden fields. With the query's `written` moment the topic is read from there, not
/// from its beginning.
pub(crate) async fn letter_json<I: Installation>(
    desk: &Desk<I>,
    id: &str,
    query: &Params,
) -> Result<(LetterView, Value), Problem> {
    let written = query.moment("written")?;
    let bad = |e| Problem::bad("bad-letter-id", format!("{e}"));
    let id: LetterId = id.parse().map_err(bad)?;
    let _place = desk.read_topics()?;
    let found = show(desk.of.topics(), &id, written)
        .await
        .map_err(|e| Problem::unread("dead letters", &e))?;
    let text = format!("there is no dead letter {id}");
    let found = found.ok_or_else(|| Problem::missing("no-such-letter", text))?;
    let mut json = form::line("letter", &found)?;
    mask(&mut json, &desk.settings.hidden);
    Ok((found, json))
}

/// Masks a letter's value, the values replayed in its place, and headers with a hidden name.
fn mask(letter: &mut Value, hidden: &Hidden) {
    let hide = |value: &mut Value| match value.as_str().map(|text| hidden.text(text)) {
        Some(text) => *value = text.into(),
        // A value that is not text may contain a hidden field.
        None if !hidden.is_empty() && !value.is_null() => *value = crate::hidden::SHOWN.into(),
        None => {}
    };
    hide(&mut letter["value"]);
    for header in letter["headers"].as_array_mut().into_iter().flatten() {
        if header[0].as_str().is_some_and(|name| hidden.hides(name)) {
            header[1] = crate::hidden::SHOWN.into();
        }
    }
    for replay in letter["replays"].as_array_mut().into_iter().flatten() {
        hide(&mut replay["corrected"]);
    }
}
