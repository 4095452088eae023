//! Reading YAML, and the error texts of invalid YAML.

use serde_json::Value;
use serde_saphyr::Error;
use serde_saphyr::granit_parser::{ErrorKind, Parser};

use super::positions::Positions;
use super::value;
use crate::problem::Problem;

/// Reads one YAML document. If a key occurs twice, the first value is used, and [`Positions::duplicates`] reports the
/// others.
pub(super) fn read(text: &str) -> Result<Value, Box<Problem>> {
    if let Some(problem) = not_text(text) {
        return Err(Box::new(problem));
    }
    value::read(text).map_err(|error| Box::new(broken(text, &error)))
}

fn not_text(text: &str) -> Option<Problem> {
    let (index, line, c) = text.lines().enumerate().find_map(|(index, line)| {
        let bad = |c: &char| c.is_control() && *c != '\t' && *c != '\u{feff}';
        line.chars().find(bad).map(|c| (index, line, c))
    })?;
    let column = line.chars().position(|found| found == c).unwrap_or(0);
    let reason = format!(
        "the character U+{:04X} cannot stand in a workflow file",
        u32::from(c)
    );
    let mut problem = Problem::of_all(reason).hint("write the file as plain text, in UTF-8");
    problem.place = Some(Positions::at(text, index + 1, column + 1));
    Some(problem)
}

/// The problem of a text that is not a YAML document. The parser of positions is tried first, because it gives the
/// kind of the error.
fn broken(text: &str, error: &Error) -> Problem {
    for event in Parser::new_from_str(text) {
        if let Err(error) = event {
            let marker = error.marker();
            let (mut line, mut column) = (marker.line().max(1), marker.col() + 1);
            // The parser gives the position after the last line.
            let last = text.lines().count().max(1);
            if line > last {
                line = last;
                column = text.lines().last().map_or(1, |l| l.chars().count().max(1));
            }
            // The parser reports a text that continues over a line with a tab at its beginning.
            let mut next = text.lines().enumerate().skip(line - 1).take(2);
            if let Some((index, tabbed)) = next.find(|(_, l)| is_indented_by_tab(l)) {
                line = index + 1;
                column = tabbed.find('\t').unwrap_or(0) + 1;
            } else if let Some((open, line, column)) = unclosed(text, line, column) {
                let kind = ErrorKind::UnclosedFlowCollection { open };
                let (reason, hint) = syntax(&kind, "");
                return placed(text, line, column, reason).hint(hint);
            }
            let (reason, hint) = syntax(error.kind(), text.lines().nth(line - 1).unwrap_or(""));
            return placed(text, line, column, reason).hint(hint);
        }
    }
    let (line, column) = error.location().map_or((1, 1), |at| {
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        (number(at.line()), number(at.column()))
    });
    let is_marker = |line: usize| {
        text.lines()
            .nth(line - 1)
            .is_some_and(|l| l.starts_with("---"))
    };
    let is_second = matches!(error.without_snippet(), Error::MultipleDocuments { .. });
    // The parser reports the error at the beginning of the second document.
    let (line, column) = match (1..line).rev().find(|line| is_marker(*line)) {
        Some(marker) if is_second => (marker, 1),
        _ => (line, column),
    };
    let (reason, hint) = meaning(error);
    placed(text, line, column, reason).hint(hint)
}

fn placed(text: &str, line: usize, column: usize, reason: &str) -> Problem {
    let mut problem = Problem::of_all(reason);
    problem.place = Some(Positions::at(text, line, column));
    problem
}

const QUOTE: &str = "put the text in quotes if it is meant as a text: a plain one may not begin with \
                     any of `[ ] { } , & * ! | > ' \" % @` or a backtick, nor hold `: ` or ` #`";
const INDENT: &str =
    "indent what belongs together by the same number of spaces, and what lies in it by two more";

/// The last bracket that is open at a position, with its own position. Brackets in quotes and comments do not count.
fn unclosed(text: &str, line: usize, column: usize) -> Option<(char, usize, usize)> {
    let mut open = Vec::new();
    let mut quote = None;
    for (index, text) in text.lines().enumerate().take(line) {
        let mut before = ' ';
        for (at, c) in text.chars().enumerate() {
            if index + 1 == line && at + 1 >= column {
                break;
            }
            match (quote, c) {
                (Some(q), _) if c == q && before != '\\' => quote = None,
                (Some(_), _) => {}
                // A quote starts a text only where a value may start; elsewhere it is a letter.
                (None, '"' | '\'') if " [{,:".contains(before) => quote = Some(c),
                (None, '#') if before == ' ' => break,
                (None, '[' | '{') if " [{,:".contains(before) => open.push((c, index + 1, at + 1)),
                (None, ']' | '}') => {
                    open.pop();
                }
                (None, _) => {}
            }
            before = c;
        }
    }
    open.pop()
}

fn is_indented_by_tab(line: &str) -> bool {
    line.trim_start_matches(' ').starts_with('\t')
}

/// Syntax errors: the reason, and what to write instead.
fn syntax(kind: &ErrorKind, line: &str) -> (&'static str, &'static str) {
    if is_indented_by_tab(line) {
        return (
            "a tab stands where the line is indented",
            "YAML is indented with spaces only: put two spaces in the place of each tab",
        );
    }
    match kind {
        ErrorKind::UnclosedQuotedScalar | ErrorKind::DocumentIndicatorInQuotedScalar => (
            "a text begins with a quote that is never closed",
            "close it with the same quote",
        ),
        ErrorKind::InvalidQuotedScalarIndent => (
            "a text in quotes that began before goes on here: its quote is not closed",
            "close it with the same quote",
        ),
        ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => (
            "something stands behind the closing quote of a text",
            "put the whole text in quotes; a quote of the other kind may stand in it as it is",
        ),
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidUnicodeEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate => (
            "a backslash in double quotes begins an escape that there is not",
            "write `\\\\` for a backslash, or put the text in single quotes",
        ),
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar
        | ErrorKind::TabAtBlockScalarStart => (
            "a tab stands where YAML allows none",
            "put spaces in its place",
        ),
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::UnclosedFlowCollection { open: '[' } => (
            "a list that begins with `[` has no `]`, or no comma between two of its elements",
            "close it with `]`",
        ),
        ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::UnclosedFlowCollection { .. } => (
            "a mapping that begins with `{` has no `}`, or no comma between two of its keys",
            "close it with `}`; a text with `${` in it is to stand in quotes there",
        ),
        ErrorKind::MisplacedFlowCollectionEnd | ErrorKind::MismatchedFlowCollectionEnd { .. } => (
            "a bracket is closed that was not opened",
            "remove it, or close with the bracket that was opened last",
        ),
        ErrorKind::MappingValueNotAllowed
        | ErrorKind::InvalidColonPlacement
        | ErrorKind::MappingKeyNotAllowed => (
            "a `:` stands where no key can be",
            "put a text that holds `: ` in quotes; if it is a key, indent it like the keys beside it",
        ),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => (
            "a key has no `:` behind it",
            "write `key: value`, with a space behind the `:`",
        ),
        ErrorKind::InvalidMappingValueWhitespace | ErrorKind::ExpectedWhitespace => (
            "a space is missing here",
            "write `key: value`, with a space behind the `:`",
        ),
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::InvalidIndentation
        | ErrorKind::InvalidFlowScalarIndent
        | ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::UnexpectedEofBlockSequence => {
            ("this line is not indented like those it belongs to", INDENT)
        }
        ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::BlockEntryInFlowCollection
        | ErrorKind::InvalidBlockEntryWhitespace => (
            "a `-` stands where no element of a list can be",
            "put the list below its key, each element on a line of its own: `- element`",
        ),
        ErrorKind::UnknownAnchor => (
            "an alias (`*name`) names an anchor (`&name`) that there is not before it",
            "put a text that begins with `*` in quotes",
        ),
        ErrorKind::UnexpectedCharacter { .. } | ErrorKind::ExpectedNodeContent => {
            ("a text cannot begin like this", QUOTE)
        }
        ErrorKind::MissingAnchorOrAliasName => (
            "a text cannot begin with `&` or `*`: that is an anchor or an alias",
            "put it in quotes",
        ),
        ErrorKind::RecursionLimitExceeded => (
            "lists and mappings are nested too deep",
            "64 levels are allowed",
        ),
        ErrorKind::ExpectedDocumentStart | ErrorKind::InvalidDocumentEnd => {
            ("something stands behind the end of the document", INDENT)
        }
        _ => ("the text cannot be read as YAML from here on", QUOTE),
    }
}

/// Errors of a syntactically valid text: the reason, and what to write instead.
fn meaning(error: &Error) -> (&'static str, &'static str) {
    match error.without_snippet() {
        Error::Eof { .. } => (
            "the file is empty",
            "a workflow has at least `workflow:`, its name, and `steps:`, a list",
        ),
        Error::MultipleDocuments { .. } => (
            "a second document begins here, with `---`",
            "write one workflow in each file",
        ),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. } => (
            "the file says too much: it is nested deeper than 64, or its aliases (`*name`) come to far \
             more text than the file has",
            "write less, or without aliases",
        ),
        Error::AliasError { error, .. } => meaning(error),
        Error::NonFiniteFloat { .. } => (
            "this is no number that JSON has",
            "infinity and NaN cannot be given to a service: write a number, or put it in quotes",
        ),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => (
            "`<<` takes in a mapping, and this is none",
            "write `<<: *name`, where `&name` stands before a mapping",
        ),
        Error::UnsupportedTag { .. }
        | Error::TaggedEnumMismatch { .. }
        | Error::BytesNotSupportedMissingBinaryTag { .. } => (
            "a tag (`!name`) cannot be used in a workflow file",
            "remove it; put a text that begins with `!` in quotes",
        ),
        _ => (
            "this cannot stand in a workflow file",
            "a key is a text; a value is a text, a number, true, false, null, a list or a mapping",
        ),
    }
}
