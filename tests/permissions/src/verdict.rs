//! Whether a role may do what it needs, and nothing else.
//!
//! A run with the whole policy must be denied nothing, and must use every permission; a run without one of
//! them must be denied it, and come to something else. Runs are compared by their facts: what a handler said
//! of its records, what became of orders, what was sent. Whether operators are told of what is missing is
//! found out too.

use std::collections::BTreeSet;

use super::policy::{Installation, Permission, Policy};
use super::required::WRITE;
use super::runs;
use super::world::Run;

/// Services of which every request of a run goes through the gate.
const SERVICES: [&str; 3] = ["dynamodb:", "secretsmanager:", "sns:"];

/// An action that no run shows to be needed, and why it is granted all the same.
#[derive(Debug, Clone, Copy)]
pub struct UnprovenGrant {
    /// IAM's name of the action.
    pub action: &'static str,
    /// Who needs it, and why no run shows that.
    pub why: &'static str,
}

/// What was found of one role of one installation.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Permissions whose absence was tried and noticed.
    pub needed: Vec<Permission>,
    /// Those of them without which work is not done, and no alert or failed record or start says so.
    pub quiet: Vec<Permission>,
    /// What is wrong, each as a sentence.
    pub problems: Vec<String>,
}

/// Whether the runs can show that an action is needed.
#[must_use]
pub fn is_tried(action: &str) -> bool {
    action == WRITE || SERVICES.iter().any(|service| action.starts_with(service))
}

/// A part of what a role's function does.
#[derive(Clone, Copy)]
enum FunctionPart {
    Work,
    Start,
}

impl FunctionPart {
    async fn run(self, of: &Installation, role: &str, policy: &Policy) -> Option<Run> {
        match self {
            Self::Work => runs::work(of, role, policy).await,
            Self::Start => runs::start(of, role, policy).await,
        }
    }
}

/// Tries a role of an installation: with its whole policy, and without each permission that can be tried.
///
/// # Panics
/// When what is around the role's function does not work.
pub async fn of_role(installation: &Installation, role: &str, left: &[UnprovenGrant]) -> Verdict {
    let policy = &installation.roles[role];
    let mut verdict = Verdict::default();
    let mut parts = Vec::new();
    for part in [FunctionPart::Work, FunctionPart::Start] {
        if let Some(whole) = part.run(installation, role, policy).await {
            verdict.whole(&whole);
            // A run that differs from its like would make every permission seem to be needed.
            let again = part.run(installation, role, policy).await;
            if let Some(again) = again.filter(|again| again.facts != whole.facts) {
                verdict.say(format!(
                    "two like runs differ: {}",
                    difference(&whole, &again)
                ));
            }
            parts.push((part, whole));
        }
    }
    for permission in policy.permissions() {
        let is_left = left.iter().any(|left| left.action == permission.action);
        if !is_tried(&permission.action) {
            if !is_left {
                verdict.say(format!(
                    "{permission}: no run tries it, and no reason is given"
                ));
            }
            continue;
        }
        if policy.restricts(&permission.action) {
            verdict.say(format!(
                "{permission}: the gate knows neither denials nor conditions"
            ));
        }
        let users = parts
            .iter()
            .filter(|(_, whole)| whole.noted.used.contains(permission));
        let (mut is_needed, mut is_told) = (false, false);
        let mut why = "no run uses it".to_owned();
        for (part, whole) in users {
            let less = part
                .run(installation, role, &policy.without(permission))
                .await;
            let less = less.expect("a part that there is");
            why = "nothing is other without it".to_owned();
            is_needed |= less.noted.denied.contains(permission) && less.facts != whole.facts;
            is_told |= less.facts.difference(&whole.facts).any(|fact| tells(fact));
        }
        match (is_needed, is_left) {
            (true, false) => {
                verdict.needed.push(permission.clone());
                if !is_told {
                    verdict.quiet.push(permission.clone());
                }
            }
            (true, true) => verdict.say(format!(
                "{permission}: it is needed, and need not be left out"
            )),
            (false, false) => verdict.say(format!("{permission}: {why}")),
            (false, true) => {}
        }
    }
    verdict
}

impl Verdict {
    /// What a run with the whole policy must not come to.
    fn whole(&mut self, run: &Run) {
        for denied in &run.noted.denied {
            self.say(format!("{denied}: it is needed, and not granted"));
        }
        for strange in &run.noted.strange {
            self.say(format!("strange: {strange}"));
        }
    }

    fn say(&mut self, problem: String) {
        self.problems.push(problem);
    }
}

/// Whether a fact, which a run with the whole policy does not have, is one that operators are told of: a
/// record that comes again is a lag that grows, what has failed is an error of the function.
fn tells(fact: &str) -> bool {
    fact.starts_with("sent to alerts:") || fact.ends_with(": again") || fact.ends_with(": failed")
}

fn difference(one: &Run, other: &Run) -> String {
    let lines: BTreeSet<_> = one.facts.symmetric_difference(&other.facts).collect();
    format!("{lines:?}")
}
