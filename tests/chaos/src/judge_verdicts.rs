//! The verdicts of the independent judge, in the form of those of the checks.

use anyhow::{Context, Result};

use super::checks::{Guarantee, Verdict};
use super::evidence::Evidence;
use super::installation::Installation;
use super::judge_history;
use triad_judge::verdict::{FindingGroup, Judged, judge};

/// Ends the recording, adds the evidence of topics and ledger, and has the judge decide on the history. The workers
/// cannot reach the store afterwards.
///
/// # Errors
/// If the history cannot be written or read completely.
pub async fn of_run(installation: &Installation, evidence: &Evidence) -> Result<Judged> {
    let mut endpoint = installation.endpoint.lock().await;
    endpoint.stop().await;
    let recorder = endpoint.recorder();
    for line in judge_history::lines(evidence) {
        recorder.write(&line);
    }
    let (_, path) = recorder.finish()?;
    let path = path.to_owned();
    let judging = tokio::task::spawn_blocking(move || judge(&path));
    judging.await.context("the judge has ended")?
}

/// For one object in this many the judge may find no decision: its search grows with the number of overlapping
/// operations, and kills make many overlap. The report names the number.
const UNDECIDED_ONE_OF: usize = 100;

/// The judge's verdicts, by guarantee.
#[must_use]
pub fn verdicts(judged: &Judged) -> Vec<Verdict> {
    let few = judged.objects / UNDECIDED_ONE_OF;
    let undecided = match judged.undecided.objects <= few {
        true => &FindingGroup::default(),
        false => &judged.undecided,
    };
    [
        (
            Guarantee::G4,
            "one order of all reads and writes explains their answers (stateright)",
            judged.operations,
            &judged.unexplained,
        ),
        (
            Guarantee::G4,
            "a request, a reply, an effect comes after the write that asked for it (stateright)",
            judged.seen,
            &judged.unfounded,
        ),
        (
            Guarantee::G4,
            "the history of an object can be decided on (all but one in a hundred)",
            judged.objects,
            undecided,
        ),
    ]
    .map(|(guarantee, what, checked, found)| {
        let verdict = Verdict {
            guarantee,
            what,
            checked,
            breaches: breach_texts(found),
        };
        verdict.or_nothing()
    })
    .into()
}

/// One violation for each object of the finding.
fn breach_texts(found: &FindingGroup) -> Vec<String> {
    let mut breaches = found.examples.clone();
    breaches.resize(found.objects, "one more object".to_owned());
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_that_is_not_explained_is_a_breach_and_so_is_nothing_to_judge() {
        let judged = Judged {
            operations: 9,
            objects: 3,
            unexplained: FindingGroup {
                objects: 2,
                examples: vec!["order/a: why".into()],
            },
            ..Judged::default()
        };
        let verdicts = verdicts(&judged);
        let breaches: Vec<usize> = verdicts.iter().map(|v| v.breaches.len()).collect();
        assert_eq!(breaches, [2, 1, 0], "{verdicts:?}");
    }

    #[test]
    fn one_object_in_a_hundred_may_be_beyond_what_can_be_decided_on() {
        let breaches = |objects, undecided| {
            let judged = Judged {
                objects,
                undecided: FindingGroup {
                    objects: undecided,
                    examples: Vec::new(),
                },
                ..Judged::default()
            };
            verdicts(&judged)[2].breaches.len()
        };
        assert_eq!((breaches(100, 1), breaches(199, 1)), (0, 0));
        assert_eq!((breaches(100, 2), breaches(99, 1)), (2, 1));
    }
}
