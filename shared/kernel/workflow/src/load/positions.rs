//! Positions of the parts of a YAML text.
//!
//! Serde reads the values and keeps no positions. So the text is parsed a second time, for the positions only. A part
//! without a position, such as one from a merge key (`<<`), is shown at the nearest part around it.

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::problem::{Focus, Path, Problem, Segment, TextPosition};

/// A range of characters within a line.
#[derive(Debug, Clone, Copy)]
struct Spot {
    /// The line, from 1.
    line: usize,
    /// The column of the first character, from 1, in characters.
    column: usize,
    /// The number of characters; those in further lines are not counted.
    width: usize,
}

/// A part of the text.
struct Node {
    spot: Spot,
    kind: Kind,
}

enum Kind {
    Scalar(String),
    /// An unquoted text that YAML reads as a number.
    Number(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

impl Kind {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar(text) | Self::Number(text) => Some(text),
            Self::List(_) | Self::Map(_) => None,
        }
    }
}

/// Whether YAML reads an unquoted text as a number.
fn is_number(text: &str) -> bool {
    let begins = text.starts_with(|c: char| matches!(c, '+' | '-' | '.' | '0'..='9'));
    begins && matches!(super::value::read(text), Ok(serde_json::Value::Number(_)))
}

/// A part whose end is not read yet.
struct OpenNode {
    spot: Spot,
    is_map: bool,
    parts: Vec<Node>,
}

/// Positions of the parts of a YAML text.
pub(super) struct Positions<'t> {
    lines: Vec<&'t str>,
    root: Option<Node>,
}

impl<'t> Positions<'t> {
    /// Parses a text. The caller has read it as YAML before: that reader bounds the nesting, and this one does not.
    pub(super) fn of(text: &'t str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let mut root = None;
        let mut open: Vec<OpenNode> = Vec::new();
        for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
            let spot = spot(&span, &lines);
            let done = match event {
                Event::Scalar(value, ScalarStyle::Plain, _, None) if is_number(&value) => {
                    node(spot, Kind::Number(value.into_owned()))
                }
                Event::Scalar(value, ..) => node(spot, Kind::Scalar(value.into_owned())),
                Event::Alias(_) => node(spot, Kind::List(Vec::new())),
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    open.push(OpenNode {
                        spot,
                        is_map: matches!(event, Event::MappingStart(..)),
                        parts: Vec::new(),
                    });
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                    Some(whole) => whole.close(),
                    None => continue,
                },
                _ => continue,
            };
            match open.last_mut() {
                Some(around) => around.parts.push(done),
                None => root = root.or(Some(done)),
            }
        }
        Self { lines, root }
    }

    /// Sets the position of a problem.
    pub(super) fn place(&self, problem: &mut Problem) {
        let spot = self.find(&problem.at, &problem.focus);
        problem.place = Some(self.text_position(spot));
    }

    /// The position at a line and column, both from 1.
    pub(super) fn at(text: &'t str, line: usize, column: usize) -> TextPosition {
        let lines = Self {
            lines: text.lines().collect(),
            root: None,
        };
        let (line, column) = (line.max(1), column.max(1));
        lines.text_position(Spot {
            line,
            column,
            width: 1,
        })
    }

    fn text_position(&self, spot: Spot) -> TextPosition {
        TextPosition {
            line: spot.line,
            column: spot.column,
            width: spot.width.max(1),
            text: self
                .lines
                .get(spot.line - 1)
                .map_or_else(String::new, |line| (*line).to_owned()),
        }
    }

    /// Every number that a service would receive in another form than written: with a leading sign or zeros, trailing
    /// zeros, or more digits than a number holds.
    pub(super) fn altered_numbers(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        if let Some(root) = &self.root {
            self.altered_in(root, &Path::top(), &mut found);
        }
        found
    }

    fn altered_in(&self, node: &Node, at: &Path, found: &mut Vec<Problem>) {
        match &node.kind {
            Kind::Scalar(_) => {}
            Kind::Number(written) => {
                let read = super::value::read(written).map(|value| value.to_string());
                let read = read.unwrap_or_default();
                if read != *written {
                    let reason = format!("{written} would be read as the number {read}");
                    let mut problem = Problem::new(at.clone(), reason)
                        .hint("put it in quotes if it is meant as a text, or write the number so");
                    problem.place = Some(self.text_position(node.spot));
                    found.push(problem);
                }
            }
            Kind::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.altered_in(item, &at.index(index), found);
                }
            }
            Kind::Map(entries) => {
                for (key, value) in entries {
                    if let Some(name) = key.kind.text() {
                        self.altered_in(value, &at.key(name), found);
                    }
                }
            }
        }
    }

    /// Every key that occurs twice in a mapping.
    pub(super) fn duplicates(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        if let Some(root) = &self.root {
            self.duplicates_in(root, &Path::top(), &mut found);
        }
        found
    }

    fn duplicates_in(&self, node: &Node, at: &Path, found: &mut Vec<Problem>) {
        match &node.kind {
            Kind::Scalar(_) | Kind::Number(_) => {}
            Kind::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.duplicates_in(item, &at.index(index), found);
                }
            }
            Kind::Map(entries) => {
                let is_id = |(k, _): &&(Node, Node)| k.kind.text() == Some("id");
                // A step that begins without its dash: all its keys occur twice, and one problem is enough.
                if at.step_index().is_some()
                    && at.0.len() == 2
                    && let Some((second, _)) = entries.iter().filter(is_id).nth(1)
                {
                    let reason = "this key stands twice: a step begins here without its dash";
                    let mut problem = Problem::new(at.key("id"), reason)
                        .hint("write `- id: …`, and indent the rest of it likewise");
                    problem.place = Some(self.text_position(second.spot));
                    found.push(problem);
                    return;
                }
                for (index, (key, value)) in entries.iter().enumerate() {
                    let Some(name) = key.kind.text() else {
                        continue;
                    };
                    let at = at.key(name);
                    let is_same = |(k, _): &&(Node, Node)| k.kind.text() == Some(name);
                    if name != "<<"
                        && let Some((first, _)) = entries[..index].iter().find(is_same)
                    {
                        let reason =
                            format!("this key stands twice; first in line {}", first.spot.line);
                        let mut problem =
                            Problem::new(at.clone(), reason).hint("remove one of the two");
                        problem.place = Some(self.text_position(key.spot));
                        found.push(problem);
                    }
                    self.duplicates_in(value, &at, found);
                }
            }
        }
    }

    fn find(&self, at: &Path, focus: &Focus) -> Spot {
        let start = Spot {
            line: 1,
            column: 1,
            width: 1,
        };
        let Some(mut node) = self.root.as_ref() else {
            return start;
        };
        // The key, or the element's position, that leads to the present node.
        let mut by = node.spot;
        for segment in &at.0 {
            let next = match (segment, &node.kind) {
                (Segment::Key(key), Kind::Map(entries)) => entries
                    .iter()
                    .find(|(k, _)| k.kind.text() == Some(key))
                    .map(|(k, value)| (k.spot, value)),
                (Segment::Index(index), Kind::List(items)) => {
                    items.get(*index).map(|item| (item.spot, item))
                }
                // A `for_each` that is the list alone.
                (Segment::Key(key), Kind::Scalar(_)) if key == "in" => Some((by, node)),
                _ => None,
            };
            match next {
                Some(next) => (by, node) = next,
                None => return by,
            }
        }
        match (focus, &node.kind) {
            (Focus::Key, _) => by,
            (Focus::Text(texts), Kind::Scalar(_) | Kind::Number(_)) => self.text(node.spot, texts),
            (_, Kind::Scalar(value) | Kind::Number(value)) if !value.is_empty() => node.spot,
            _ => by,
        }
    }

    /// The position of the last of the texts within a scalar, which may span several lines. Each is searched for
    /// within the one before it.
    fn text(&self, scalar: Spot, texts: &[String]) -> Spot {
        let mut spot = scalar;
        for text in texts {
            // A text of several lines is in the file line by line.
            let Some(text) = text.lines().map(str::trim).find(|line| !line.is_empty()) else {
                continue;
            };
            let lines = self.lines.iter().enumerate().skip(spot.line - 1).take(40);
            let found = lines.into_iter().find_map(|(index, line)| {
                let skipped = match index + 1 == spot.line {
                    true => line
                        .char_indices()
                        .nth(spot.column - 1)
                        .map_or(line.len(), |(byte, _)| byte),
                    false => 0,
                };
                let byte = line.get(skipped..)?.find(text)? + skipped;
                Some(Spot {
                    line: index + 1,
                    column: line[..byte].chars().count() + 1,
                    width: text.chars().count(),
                })
            });
            spot = found.unwrap_or(spot);
        }
        spot
    }
}

impl OpenNode {
    fn close(self) -> Node {
        let kind = if self.is_map {
            let mut parts = self.parts.into_iter();
            let mut entries = Vec::new();
            while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
                entries.push((key, value));
            }
            Kind::Map(entries)
        } else {
            Kind::List(self.parts)
        };
        node(self.spot, kind)
    }
}

fn node(spot: Spot, kind: Kind) -> Node {
    Node { spot, kind }
}

fn spot(span: &Span, lines: &[&str]) -> Spot {
    let (line, column) = (span.start.line().max(1), span.start.col() + 1);
    let width = if span.end.line() == span.start.line() {
        span.end.col().saturating_sub(span.start.col())
    } else {
        let rest = lines.get(line - 1).map_or("", |line| *line);
        rest.trim_end().chars().count().saturating_sub(column - 1)
    };
    Spot {
        line,
        column,
        width,
    }
}
