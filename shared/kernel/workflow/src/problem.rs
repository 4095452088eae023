//! Problems of a definition, and their positions.

use std::fmt;

use crate::model::Definition;

/// One level of a path from the top of a definition to a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// The value of a key.
    Key(String),
    /// An element of a list, from 0.
    Index(usize),
}

/// The path from the top of a definition to a part of it. Empty: the whole definition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Path(pub(crate) Vec<Segment>);

impl Path {
    /// The whole definition.
    pub(crate) fn top() -> Self {
        Self::default()
    }

    /// A step, by its position in the file, from 0.
    pub(crate) fn step(index: usize) -> Self {
        Self::top().key("steps").index(index)
    }

    /// The value of a key of this part.
    pub(crate) fn key(&self, key: &str) -> Self {
        let mut longer = self.clone();
        longer.0.push(Segment::Key(key.to_owned()));
        longer
    }

    /// The value of keys, one below the other: `retry.calls_per_attempt`.
    pub(crate) fn keys(&self, dotted: &str) -> Self {
        dotted.split('.').fold(self.clone(), |at, key| at.key(key))
    }

    /// An element of this part.
    pub(crate) fn index(&self, index: usize) -> Self {
        let mut longer = self.clone();
        longer.0.push(Segment::Index(index));
        longer
    }

    /// Position of the step that this part lies in.
    pub(crate) fn step_index(&self) -> Option<usize> {
        match self.0.as_slice() {
            [Segment::Key(steps), Segment::Index(index), ..] if steps == "steps" => Some(*index),
            _ => None,
        }
    }

    /// Whether this part is the other one, or inside it.
    #[cfg(feature = "load")]
    pub(crate) fn is_in(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The path for an author: from the step if the part is in one, else from the top.
    fn display_path(&self) -> String {
        let from = if self.step_index().is_some() { 2 } else { 0 };
        let mut said = String::new();
        for segment in &self.0[from..] {
            match segment {
                Segment::Key(key) => {
                    if !said.is_empty() {
                        said.push('.');
                    }
                    said.push_str(key);
                }
                Segment::Index(index) => said.push_str(&format!("[{index}]")),
            }
        }
        said
    }
}

/// The piece of a part's text that a problem is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Focus {
    /// The part's value.
    #[default]
    Value,
    /// The part's key.
    Key,
    /// The last of these texts, each searched for within the one before it, in the part's value.
    Text(Vec<String>),
}

/// A position in a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPosition {
    /// Line, from 1.
    pub line: usize,
    /// Column, in characters, from 1.
    pub column: usize,
    /// How many characters, from this column on, the place has; at least 1.
    pub width: usize,
    /// The whole line of the file.
    pub text: String,
}

/// Most characters of a line that an excerpt shows.
const EXCERPT_CHARS: usize = 100;

impl TextPosition {
    /// Two lines of text: the line of the file, and below it a mark under the place. At most 100 characters
    /// of the line are shown, with the beginning of the place among them. `None` if the line is empty or has
    /// only blanks.
    #[must_use]
    pub fn excerpt(&self) -> Option<String> {
        if self.text.trim().is_empty() {
            return None;
        }
        let before = self.column - 1;
        let from = match before + self.width {
            end if end <= EXCERPT_CHARS => 0,
            _ => before.saturating_sub(EXCERPT_CHARS / 2),
        };
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let chars = self.text.chars().map(plain);
        let shown: String = chars.skip(from).take(EXCERPT_CHARS).collect();
        let room = (EXCERPT_CHARS - (before - from)).max(1);
        let number = self.line.to_string();
        Some(format!(
            "{number:>5} | {}\n{:>5} | {}{}",
            shown.trim_end(),
            "",
            " ".repeat(before - from),
            "^".repeat(self.width.min(room))
        ))
    }
}

/// One problem of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Id of the step that the problem is about; `number 2` for the second step if it has no id; `None` if
    /// the problem is not about one step.
    pub step: Option<String>,
    /// The part of the step, or of the definition, that the problem is about, such as `supervisor.failure_threshold`;
    /// empty if it is about the whole step or definition.
    pub path: String,
    /// The problem, for the author.
    pub reason: String,
    /// For the author: what to write instead; `None` if there is no suggestion.
    pub hint: Option<String>,
    /// The position in the file; `None` if the definition was not read from a text, or the text cannot be checked at
    /// all, for example because it is too large.
    pub place: Option<TextPosition>,
    pub(crate) at: Path,
    pub(crate) focus: Focus,
    /// Whether the problem is about a name that is not the id of a step.
    pub(crate) is_of_ids: bool,
}

impl Problem {
    /// A problem of a part of a definition.
    pub(crate) fn new(at: Path, reason: impl Into<String>) -> Self {
        Self {
            step: at.step_index().map(|index| format!("number {}", index + 1)),
            path: at.display_path(),
            reason: reason.into(),
            hint: None,
            place: None,
            at,
            focus: Focus::Value,
            is_of_ids: false,
        }
    }

    /// A problem of the whole definition.
    pub(crate) fn of_all(reason: impl Into<String>) -> Self {
        Self::new(Path::top(), reason)
    }

    /// Adds what to write instead.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the nearest of the existing names, if one is near.
    pub(crate) fn nearest<'a>(
        mut self,
        name: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        if let Some(near) = nearest(name, names) {
            self.hint = Some(format!("did you mean `{near}`?"));
        }
        self
    }

    /// Marks it as about a name that is not the id of a step.
    pub(crate) fn of_ids(mut self) -> Self {
        self.is_of_ids = true;
        self
    }

    /// Moves it to the part in which something is missing.
    pub(crate) fn missing(mut self) -> Self {
        self.path.clear();
        self.on_key()
    }

    /// Moves it to the key instead of its value.
    pub(crate) fn on_key(mut self) -> Self {
        self.focus = Focus::Key;
        self
    }

    /// Moves it to a piece of the text.
    pub(crate) fn on_text(mut self, texts: impl IntoIterator<Item = String>) -> Self {
        self.focus = Focus::Text(texts.into_iter().collect());
        self
    }

    /// Adds the id of its step.
    pub(crate) fn named(mut self, definition: &Definition) -> Self {
        if let Some(step) = self.at.step_index().and_then(|i| definition.steps.get(i)) {
            self.step = Some(step.id.clone());
        }
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(step) = &self.step {
            write!(f, "step {step}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)?;
        match &self.hint {
            Some(hint) if hint.starts_with("did you mean") => write!(f, ", {hint}"),
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// The list of problems so far.
#[derive(Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, at: Path, reason: impl Into<String>) {
        self.0.push(Problem::new(at, reason));
    }

    pub(crate) fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }
}

/// Longest name, in bytes, for which a near one is searched: the time is the product of the lengths.
const NEAR_BYTES: usize = 64;

/// Finds, among `names`, the one that is nearest to a misspelt `name`; of several, the first one. `None` if
/// none is near enough to be meant: the letters to put in, leave out, change or exchange with their neighbour
/// may be at most a third of those of `name`, rounded down. Upper and lower case, `-` and `_` do not count.
/// Names of more than 64 bytes, and one that equals `name`, are not compared.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.is_empty() || name.len() > NEAR_BYTES {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    let wanted = plain(name);
    let mut best: Option<(usize, &str)> = None;
    for candidate in names {
        if candidate.len() > NEAR_BYTES || candidate == name {
            continue;
        }
        let far = distance(&wanted, &plain(candidate));
        let allowed = wanted.chars().count() / 3;
        if far <= allowed && best.is_none_or(|(least, _)| far < least) {
            best = Some((far, candidate));
        }
    }
    best.map(|(_, near)| near)
}

/// Number of letters to insert, remove, change, or exchange with their neighbour, to turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_found_and_a_far_one_is_not() {
        let names = ["failure_threshold", "delay", "wait", "defer_for", "then"];
        for (wrong, meant) in [
            ("failure_treshold", Some("failure_threshold")),
            ("failure_tresholds", Some("failure_threshold")),
            ("Delay", Some("delay")),
            ("dealy", Some("delay")),
            ("thn", Some("then")),
            ("retries", None),
            ("x", None),
            ("ab", None),
        ] {
            assert_eq!(nearest(wrong, names), meant, "{wrong}");
        }
        assert_eq!(
            nearest("chargePayment", ["charge-payment"]),
            Some("charge-payment")
        );
    }

    #[test]
    fn a_problem_is_told_from_its_step_on() {
        let at = Path::step(1).keys("supervisor.failure_treshold");
        let problem =
            Problem::new(at, "unknown key").nearest("failure_treshold", ["failure_threshold"]);
        assert_eq!(
            problem.to_string(),
            "step number 2: supervisor.failure_treshold: unknown key, did you mean `failure_threshold`?"
        );
        let at = Path::top().key("steps").index(0).key("after").index(2);
        assert_eq!(Problem::new(at, "x").path, "after[2]");
    }

    #[test]
    fn an_excerpt_marks_what_is_meant_in_a_long_line_too() {
        let place = |column, text: &str| TextPosition {
            line: 7,
            column,
            width: 3,
            text: text.to_owned(),
        };
        let shown = place(5, "abc def").excerpt().unwrap();
        assert_eq!(shown, "    7 | abc def\n      |     ^^^");
        let long = format!("{}KEY{}", "x".repeat(500), "y".repeat(500));
        let shown = place(501, &long).excerpt().unwrap();
        let (text, mark) = shown.split_once('\n').unwrap();
        assert_eq!(text.find("KEY"), mark.find("^^^"));
        assert_eq!(place(1, "  ").excerpt(), None);
    }
}
