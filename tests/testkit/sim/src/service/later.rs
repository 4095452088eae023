//! Work that a service takes and finishes later: it is done, it fails, or it is never finished. The service calls back,
//! in time or not, once or twice or not at all, and answers questions.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use triad_core::Direction;
use triad_reference_service::Mishap;
use triad_reference_service::contract::{Answer, Cause, Kind};

use super::landing::{fail, refuse};
use super::{Arriving, RemoteState};
use crate::kernel::Kernel;

/// The status of an answer with which a service takes work.
pub(crate) const TAKEN: u16 = 202;

/// How a piece of work ends. It depends only on its key, so it is the same whenever it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Failed,
    Never,
}

/// A piece of work that a service has taken.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    call: Arriving,
    /// Its end, once it has one.
    ended: Option<Result<Value, ()>>,
}

/// The work that services have taken, by key.
pub(crate) type Jobs = BTreeMap<String, Job>;

impl Job {
    fn end(&self) -> End {
        match hash(&self.call.key) % 10 {
            0 | 1 => End::Failed,
            2 => End::Never,
            _ => End::Done,
        }
    }
}

fn hash(key: &str) -> u64 {
    key.bytes().fold(7_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3) >> 3
    })
}

impl RemoteState {
    /// The answer to a call for work that is finished later; `None` if it is judged as any other call: it does not
    /// arrive in order, its compensation has come before, or the work is done.
    pub(super) fn take_later(
        &mut self,
        k: &mut Kernel,
        call: &Arriving,
        mishap: Mishap,
    ) -> Option<(Kind, Option<Cause>, Answer)> {
        call.callback.as_ref()?;
        if call.direction == Direction::Probe {
            return Some(match mishap {
                Mishap::None => self.asked(k, call),
                _ => (Kind::Fault, Some(Cause::Transient), fail(503, "away")),
            });
        }
        let is_before = |mishap| match mishap {
            Mishap::Transient { after_effect, .. } | Mishap::Garbage { after_effect } => {
                !after_effect
            }
            Mishap::None => false,
            _ => true,
        };
        if is_before(mishap) {
            return None;
        }
        match self.jobs.get(&call.key).map(|job| &job.ended) {
            Some(Some(Ok(_))) => return None,
            Some(Some(Err(()))) => return Some(refuse("failed-later")),
            Some(None) => k.coverage.reach("saw: work asked for again in progress"),
            None if self.is_compensated(call) => return None,
            None => {
                k.coverage.reach("saw: work taken");
                let job = Job {
                    call: call.clone(),
                    ended: None,
                };
                self.jobs.insert(call.key.clone(), job);
                self.new_jobs.push(call.key.clone());
            }
        }
        let answer = match mishap {
            Mishap::Transient { status, .. } => fail(status, "after"),
            Mishap::Garbage { .. } => Answer::Garbage,
            _ => fail(TAKEN, "taken"),
        };
        Some((Kind::Replayed, None, answer))
    }

    /// The answer to a question about work that was taken.
    fn asked(&self, k: &mut Kernel, call: &Arriving) -> (Kind, Option<Cause>, Answer) {
        let (seen, answer) = match self.jobs.get(&call.key).map(|job| &job.ended) {
            None => ("saw: question about unknown work", not_applied()),
            Some(None) => ("saw: question about work in progress", fail(TAKEN, "taken")),
            Some(Some(Ok(output))) => {
                let answer = json!({"applied": true, "output": output});
                ("saw: question about finished work", Answer::Output(answer))
            }
            Some(Some(Err(()))) => {
                let (_, _, answer) = refuse("failed-later");
                ("saw: question about failed work", answer)
            }
        };
        k.coverage.reach(seen);
        (Kind::Replayed, None, answer)
    }

    /// The keys of work that was taken since the last call of this function.
    pub(crate) fn new_jobs(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new_jobs)
    }

    /// The call for which a service works, by its key.
    pub(crate) fn job(&self, key: &str) -> Option<Arriving> {
        self.jobs.get(key).map(|job| job.call.clone())
    }

    /// Ends a piece of work: its effect happens, unless it was compensated before.
    pub(crate) fn end_job(&mut self, k: &mut Kernel, key: &str) -> Option<Result<Value, ()>> {
        let job = self.jobs.get(key)?.clone();
        let ended = match job.end() {
            End::Never => {
                // Some of it is forgotten, and some goes on for ever.
                if hash(key) % 20 == 2 {
                    self.jobs.remove(key);
                }
                return None;
            }
            End::Failed => Err(()),
            End::Done => {
                let (kind, _, answer) = self.land_by_contract(k, &job.call, Mishap::None, false);
                if kind == Kind::Applied {
                    let applied = self.applied.entry(job.call.order.clone()).or_default();
                    applied.push(job.call.step.clone());
                }
                match answer {
                    Answer::Output(output) => Ok(output),
                    _ => {
                        k.coverage.reach("saw: work compensated before its end");
                        Err(())
                    }
                }
            }
        };
        if let Some(job) = self.jobs.get_mut(key) {
            job.ended = Some(ended.clone());
        }
        Some(ended)
    }
}

fn not_applied() -> Answer {
    Answer::Output(json!({"applied": false}))
}
