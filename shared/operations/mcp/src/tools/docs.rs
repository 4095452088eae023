//! Reads the documentation.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::pages::Pages;
use crate::told::{Told, problem};

/// Most bytes of a page in one result.
const PART: usize = 24 * 1024;
/// Most sections in the result of a search.
const SECTIONS: usize = 20;

/// What of the documentation. Without anything: which pages there are.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadDocs {
    /// The name of a page.
    #[serde(default)]
    page: Option<String>,
    /// Where in the page to begin, in bytes: `next` of the part before.
    #[serde(default)]
    from: usize,
    /// In place of a page: the sections with this text.
    #[serde(default)]
    find: Option<String>,
}

pub(super) fn read(pages: &dyn Pages, what: &ReadDocs) -> Told {
    match (&what.page, &what.find) {
        (Some(_), Some(_)) => Err(problem("bad-arguments", "give `page` or `find`, not both")),
        (Some(name), None) => page(pages, name, what.from),
        (None, Some(text)) => Ok(find(pages, text)),
        (None, None) => Ok(json!({"kind": "pages", "pages": named(pages)})),
    }
}

fn named(pages: &dyn Pages) -> Vec<Value> {
    let all = pages.list().into_iter();
    all.map(|(name, title)| json!({"name": name, "title": title}))
        .collect()
}

fn page(pages: &dyn Pages, name: &str, from: usize) -> Told {
    let Some(text) = pages.page(name) else {
        let mut unknown = problem("no-such-page", "there is no page of this name");
        unknown["pages"] = named(pages).into();
        return Err(unknown);
    };
    let Some(rest) = text.get(from..) else {
        return Err(problem(
            "bad-arguments",
            "`from` is not the beginning of a part",
        ));
    };
    let end = match rest.len() > PART {
        // Ends at a line's end, if there is one.
        true => rest.floor_char_boundary(PART),
        false => rest.len(),
    };
    let end = match end < rest.len() {
        true => rest[..end].rfind('\n').map_or(end, |at| at + 1),
        false => end,
    };
    let next = (end < rest.len()).then_some(from + end);
    Ok(json!({"kind": "page", "name": name, "text": &rest[..end], "next": next}))
}

fn find(pages: &dyn Pages, text: &str) -> Value {
    let found = pages.find(text);
    let shown = found
        .iter()
        .take(SECTIONS)
        .map(|one| json!({"page": one.page, "heading": one.heading, "lines": one.lines}));
    json!({"kind": "sections", "sections": shown.collect::<Vec<_>>(), "of": found.len()})
}
