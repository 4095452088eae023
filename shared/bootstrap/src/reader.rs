//! Reads settings by name, collects every problem, and reports all in one error.

use std::fmt;

use triad_workflow::Millis;

/// The error of a configuration that cannot be used: every setting that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(
    /// One line for each problem; each begins with the setting's name. Values that may be secrets
    /// are not quoted.
    pub Vec<String>,
);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration is wrong:")?;
        for problem in &self.0 {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// A variable of the process's environment; `None` if it is not set, is not Unicode, or holds only
/// blanks.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one home of the environment"
)]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.trim().is_empty())
}

/// Reads settings, and collects every problem.
pub(crate) struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) problems: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            lookup,
            problems: Vec::new(),
        }
    }

    /// The result, unless there was a problem.
    pub(crate) fn end<T>(self, read: T) -> Result<T, ConfigError> {
        if self.problems.is_empty() {
            Ok(read)
        } else {
            Err(ConfigError(self.problems))
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        (self.lookup)(name)
    }

    /// Parses a setting; a problem is noted and the default used.
    pub(crate) fn parsed<T, E: fmt::Display>(
        &mut self,
        name: &str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> T {
        match self.text(name) {
            None => default,
            Some(text) => match parse(&text) {
                Ok(value) => value,
                Err(why) => {
                    self.problems.push(format!("{name}: {why}"));
                    default
                }
            },
        }
    }

    /// A required setting. A wrong value is noted; a missing one is noted with the expected form.
    #[cfg(feature = "console")]
    pub(crate) fn needed<T>(
        &mut self,
        name: &str,
        what: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let read = match self.text(name) {
            None => Err(format!("is missing; {what}")),
            Some(text) => parse(&text),
        };
        read.map_err(|why| self.problems.push(format!("{name}: {why}")))
            .ok()
    }

    /// A setting whose parser may report several problems; each is noted.
    pub(crate) fn listed<T: Default>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Vec<String>>,
    ) -> T {
        let read = self
            .text(name)
            .map_or_else(|| Ok(T::default()), |text| parse(&text));
        read.unwrap_or_else(|problems| {
            let named = problems.into_iter().map(|why| format!("{name}: {why}"));
            self.problems.extend(named);
            T::default()
        })
    }

    /// An optional time span.
    pub(crate) fn optional_span(&mut self, name: &str) -> Option<Millis> {
        self.parsed(name, None, |t| t.parse().map(Some))
    }

    pub(crate) fn span(&mut self, name: &str, default: Millis) -> Millis {
        self.parsed(name, default, str::parse::<Millis>)
    }
}
