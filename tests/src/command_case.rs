//! Situations in which a command is run, and what its answer must say.

use crate::cli::{Ran, triad};

/// A situation: what is typed, with which variables, how it ends, and what its answer says.
pub struct Case {
    situation: &'static str,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    code: i32,
    says: Vec<String>,
    says_not: &'static [&'static str],
}

/// A command, the exit code with which it is to end, and parts of what it is to say.
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
    /// The same with an environment variable.
    #[must_use]
    pub fn with(mut self, variable: &'static str, value: &str) -> Self {
        self.variables.push((variable, value.to_owned()));
        self
    }

    /// The same, and parts that are not to be said.
    #[must_use]
    pub fn not(mut self, says_not: &'static [&'static str]) -> Self {
        self.says_not = says_not;
        self
    }

    /// Runs it with these variables and its own, and judges what came.
    ///
    /// # Panics
    /// When it ends or says otherwise.
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

/// Checks all of them with these variables, a few at a time.
///
/// # Panics
/// When one ends or says otherwise.
pub async fn check(cases: Vec<Case>, everywhere: &[(&'static str, String)]) {
    for some in cases.chunks(4) {
        futures::future::join_all(some.iter().map(|case| case.check(everywhere))).await;
    }
}
