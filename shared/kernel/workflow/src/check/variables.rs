//! Checks of the variables that a definition makes of its details, and of its output.

use std::collections::BTreeSet;

use super::ids;
use crate::bounds;
use crate::expr::Expression;
use crate::model::Definition;
use crate::parts::is_part;
use crate::problem::{Path, Problem, Problems};
use crate::template::{self, Piece};
use crate::variables::{INDEX, Variables, check_name};

pub(super) fn check(definition: &Definition, problems: &mut Problems) {
    let mut names = BTreeSet::new();
    for (nth, name) in definition.variables.iter().enumerate() {
        let at = Path::top().key("variables").index(nth);
        if !names.insert(name) {
            problems.add(at, format!("{name} is there already"));
        } else if name == INDEX && is_part(definition) {
            // The place of the element.
        } else if let Err(reason) = check_name(name) {
            problems.add(at, reason);
        }
    }
    for (at, expression) in output(definition, problems) {
        for read in expression.steps() {
            if !ids(definition).any(|id| id == read) {
                let reason = format!("reads the output of {read:?}, and there is no such step");
                let problem = Problem::new(at.clone(), reason).nearest(read, ids(definition));
                let source = expression.source().to_owned();
                problems.push(problem.of_ids().on_text([source, read.clone()]));
            }
        }
    }
}

/// The expressions of the output that compile, each with its path; adds a problem for each other one.
pub(crate) fn output(definition: &Definition, problems: &mut Problems) -> Vec<(Path, Expression)> {
    let at = Path::top().key("output");
    if let Err(e) = bounds::check_nesting(&definition.output) {
        problems.add(at, e.to_string());
        return Vec::new();
    }
    let variables = Variables::of(definition);
    let mut all = Vec::new();
    for (at, piece) in template::pieces(&definition.output, &at) {
        let compiled = match piece {
            Piece::Expression(source) => variables.expression(&source).map_err(|e| (e, source)),
            Piece::Unclosed(text) => Err((format!("`{text}` has `${{` without its `}}`"), text)),
        };
        match compiled {
            Ok(expression) => all.push((at, expression)),
            Err((reason, text)) => problems.push(Problem::new(at, reason).on_text([text])),
        }
    }
    all
}
