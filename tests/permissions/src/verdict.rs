//! Checks that a role has the permissions that it needs, and no others.
//!
//! A run with the whole policy must be denied nothing, and must use every permission; a run without one permission
//! must be denied it, and have another result. Runs are compared by their facts: the handler's results for its
//! records, the orders' states, the sent messages. A missing permission must also be visible to operators, or be
//! listed as quiet.

use std::collections::BTreeSet;

use super::policy::{Installation, Permission, Policy};
use super::required::WRITE;
use super::runs;
use super::world::Run;

/// Services all of whose requests go through the gate.
const SERVICES: [&str; 3] = ["dynamodb:", "secretsmanager:", "sns:"];

/// An action that no run proves to be needed, and why it is granted all the same.
#[derive(Debug, Clone, Copy)]
pub struct UnprovenGrant {
    /// IAM's name of the action.
    pub action: &'static str,
    /// Why it is needed, and why no run proves that.
    pub why: &'static str,
}

/// Result for one role of one installation.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Permissions whose absence was tried and had an effect.
    pub needed: Vec<Permission>,
    /// Those of them whose absence prevents work without an alert, a failed record or a failed start.
    pub quiet: Vec<Permission>,
    /// Problems, each as a sentence.
    pub problems: Vec<String>,
}

/// Whether the runs can prove that an action is needed.
#[must_use]
pub fn is_tried(action: &str) -> bool {
    action == WRITE || SERVICES.iter().any(|service| action.starts_with(service))
}

/// A part of the work of a role's function.
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
/// If the surroundings of the role's function do not work.
pub async fn of_role(installation: &Installation, role: &str, left: &[UnprovenGrant]) -> Verdict {
    let policy = &installation.roles[role];
    let mut verdict = Verdict::default();
    let mut parts = Vec::new();
    for part in [FunctionPart::Work, FunctionPart::Start] {
        if let Some(whole) = part.run(installation, role, policy).await {
            verdict.whole(&whole);
            // If two equal runs differed, every permission would seem to be needed.
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
    /// Problems of a run with the whole policy.
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

/// Whether a fact, absent with the whole policy, is visible to operators: a redelivered record is a growing lag, a
/// failure is an error of the function.
fn tells(fact: &str) -> bool {
    fact.starts_with("sent to alerts:") || fact.ends_with(": again") || fact.ends_with(": failed")
}

fn difference(one: &Run, other: &Run) -> String {
    let lines: BTreeSet<_> = one.facts.symmetric_difference(&other.facts).collect();
    format!("{lines:?}")
}
