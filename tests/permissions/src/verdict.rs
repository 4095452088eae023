//! Checks that a role has the permissions that it needs, and no others.
//!
//! In a run with the whole policy no request may be denied, and every permission must be used. In a run without one
//! permission, a request must be denied for it, and the facts must differ. Facts are the handler's results for its
//! records, the orders' states, and the sent messages. The effect of a missing permission must be visible to
//! operators, or the permission must be listed as quiet.

use std::collections::BTreeSet;

use super::policy::{Installation, Permission, Policy};
use super::required::WRITE;
use super::runs;
use super::world::Run;

/// Services all of whose requests go through the gate.
const SERVICES: [&str; 5] = ["dynamodb:", "lambda:", "secretsmanager:", "sns:", "sqs:"];

/// An action that is granted although no run proves that it is needed.
#[derive(Debug, Clone, Copy)]
pub struct UnprovenGrant {
    /// IAM's name of the action.
    pub action: &'static str,
    /// The roles that no run proves it for; empty: all.
    pub roles: &'static [&'static str],
    /// Why it is needed, and why no run proves it.
    pub why: &'static str,
}

/// The result for one role of one installation.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Permissions without which a run had another result.
    pub needed: Vec<Permission>,
    /// Those of them without which work fails and no alert, failed record or failed start shows it.
    pub quiet: Vec<Permission>,
    /// The problems found, a sentence each.
    pub problems: Vec<String>,
}

/// Whether runs can show that an action is needed.
#[must_use]
pub fn is_tried(action: &str) -> bool {
    action == WRITE || SERVICES.iter().any(|service| action.starts_with(service))
}

/// Which part of a role's function a run covers.
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

/// Runs a role of an installation with its whole policy, and once without each permission that the runs can check.
///
/// # Panics
/// If the environment of the role's function fails.
pub async fn of_role(installation: &Installation, role: &str, left: &[UnprovenGrant]) -> Verdict {
    let policy = &installation.roles[role];
    let is_of_triad = installation.variables.contains_key(role);
    let mut verdict = Verdict::default();
    let mut parts = Vec::new();
    for part in [FunctionPart::Work, FunctionPart::Start] {
        if let Some(whole) = part.run(installation, role, policy).await {
            verdict.whole(&whole);
            // Run twice: if the results varied, every permission would seem to be needed.
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
        let is_left = left.iter().any(|left| {
            left.action == permission.action
                && (left.roles.is_empty() || left.roles.contains(&role))
        });
        if !is_tried(&permission.action) || !is_of_triad {
            if !is_left {
                verdict.say(format!(
                    "{permission}: no run tries it, and no reason is given"
                ));
            }
            continue;
        }
        if policy.restricts(&permission.action) && !is_left {
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
    /// Adds the problems of a run with the whole policy.
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

/// Whether operators notice a fact: an alert, a redelivered record (a growing lag), or a failed function.
fn tells(fact: &str) -> bool {
    fact.starts_with("sent to alerts:") || fact.ends_with(": again") || fact.ends_with(": failed")
}

fn difference(one: &Run, other: &Run) -> String {
    let lines: BTreeSet<_> = one.facts.symmetric_difference(&other.facts).collect();
    format!("{lines:?}")
}
