//! Test cases of commands, with the expected exit code and output.

use crate::cli::{Ran, triad};

/// A test case: the command, its environment variables, its exit code, and parts of its output.
pub struct Case {
    situation: &'static str,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    code: i32,
    says: Vec<String>,
    says_not: &'static [&'static str],
}

/// A case of a command, with its exit code and parts of its output.
#[must_use]
pub fn case(situation: &'static str, arguments: &[&str], code: i32, says: &[&str]) -> Case {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    Case {
        situation,
        arguments: owned(arguments),
        variables: Vec::new(),
        code,
        says: owned(says),
        says_not: &[],
    }
}

impl Case {
    /// Adds an environment variable.
    #[must_use]
    pub fn with(mut self, variable: &'static str, value: &str) -> Self {
        self.variables.push((variable, value.to_owned()));
        self
    }

    /// Adds texts that the output must not contain.
    #[must_use]
    pub fn not(mut self, says_not: &'static [&'static str]) -> Self {
        self.says_not = says_not;
        self
    }

    /// Runs the command with these variables and its own, and checks the result.
    ///
    /// # Panics
    /// If the exit code or the output differs.
    pub async fn check(&self, everywhere: &[(&'static str, String)]) {
        let all = everywhere.iter().chain(&self.variables);
        let variables: Vec<(&str, &str)> = all.map(|(name, value)| (*name, &**value)).collect();
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let ran = triad(&words, &variables, b"").await;
        self.judge(&ran);
    }

    fn judge(&self, ran: &Ran) {
        let (situation, words) = (self.situation, self.arguments.join(" "));
        let told = format!("{situation}: triad {words}\n{}{}", ran.out, ran.err);
        assert_eq!(ran.code, self.code, "{told}");
        for part in &self.says {
            let said = ran.err.contains(part) || ran.out.contains(part);
            assert!(said, "{part:?} is not in what is said\n{told}");
        }
        let inner = [
            "panicked",
            "Os {",
            "Error(",
            "RD_KAFKA",
            "dispatch",
            "(os error",
        ];
        for part in inner.iter().chain(self.says_not) {
            assert!(!ran.err.contains(part), "{part:?} is said\n{told}");
        }
    }
}

/// Checks all cases with these variables, a few at a time.
///
/// # Panics
/// If an exit code or an output differs.
pub async fn check(cases: Vec<Case>, everywhere: &[(&'static str, String)]) {
    for some in cases.chunks(4) {
        futures::future::join_all(some.iter().map(|case| case.check(everywhere))).await;
    }
}
