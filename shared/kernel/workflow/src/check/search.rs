//! Checks of the search keys that a definition declares.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::expr::{Expression, with_stack};
use crate::model::Definition;
use crate::names::check_name;
use crate::problem::{Path, Problem, Problems};
use crate::search::{MAX_SEARCH_KEYS, expression};
use crate::template::{self, Piece};
use crate::warn::free_names;

/// The expressions of the search keys that compile, each with its path; adds a problem for each other search key.
pub(crate) fn compiled(
    definition: &Definition,
    problems: &mut Problems,
) -> Vec<(Path, Expression)> {
    let mut all = Vec::new();
    for (name, written) in &definition.search {
        let at = Path::top().key("search").key(name);
        match expression(written) {
            Ok(expression) => all.push((at, expression)),
            Err(reason) => problems.push(refused(at, written, reason)),
        }
    }
    all
}

/// Why a text is not the expression of a search key, with what to write instead.
fn refused(at: Path, written: &str, reason: String) -> Problem {
    let problem = Problem::new(at.clone(), reason);
    let value = Value::String(written.to_owned());
    match template::pieces(&value, &at).as_slice() {
        // The expression does not compile, or is not closed: the reason says so.
        [(_, Piece::Expression(source))] if Expression::compile(source).is_err() => {
            problem.on_text([source.clone()])
        }
        [.., (_, Piece::Unclosed(_))] => problem.hint("close it with `}`"),
        [] if Expression::compile(written.trim()).is_ok() => {
            problem.hint(format!("write `${{{}}}`", written.trim()))
        }
        _ => {
            problem.hint("join texts inside of it: `${details.country + \"/\" + details.customer}`")
        }
    }
}

/// Checks the number and the names of the search keys, and that they read only the details: when an order is
/// submitted, none of its steps has run.
pub(super) fn check(definition: &Definition, problems: &mut Problems) {
    let at = Path::top().key("search");
    let count = definition.search.len();
    if count > MAX_SEARCH_KEYS {
        let reason = format!("{count} search keys; {MAX_SEARCH_KEYS} are allowed");
        problems.push(Problem::new(at.clone(), reason).on_key());
    }
    for name in definition.search.keys() {
        if let Err(e) = check_name(name) {
            problems.push(Problem::new(at.key(name), e.to_string()).on_key());
        }
    }
    for (at, expression) in compiled(definition, problems) {
        if let Some(other) = read_beside_details(&expression) {
            let reason =
                format!("reads `{other}`, and a search key is computed of `details` alone");
            problems.push(Problem::new(at, reason).on_text([other.to_owned()]));
        }
    }
}

/// A variable other than `details` that an expression reads.
pub(crate) fn read_beside_details(expression: &Expression) -> Option<&str> {
    let mut names = BTreeSet::new();
    with_stack(|| free_names(expression.tree(), &mut Vec::new(), &mut names));
    names.into_iter().find(|name| *name != "details")
}
