//! Compilation of what is said about work that a service finishes later.

use crate::duration::Millis;
use crate::model::{FinishesLaterDefinition, PollDefinition};
use crate::variables::Variables;
use crate::workflow::{FinishesLater, Poll, Retry};

const DEFAULT_EVERY: Millis = Millis(1_000);
const DEFAULT_MAX: Millis = Millis(60_000);

pub(super) fn compile(
    written: &FinishesLaterDefinition,
    attempt_timeout: Millis,
    retry: Retry,
    variables: &Variables<'_>,
) -> Result<FinishesLater, String> {
    let poll = written.poll.as_ref();
    Ok(FinishesLater {
        within: written.within,
        poll: poll
            .map(|written| poll_of(written, attempt_timeout, retry, variables))
            .transpose()?,
        heartbeat: written.heartbeat,
        fails_when: written
            .fails_when
            .as_deref()
            .map(|condition| variables.of_event().bare(condition))
            .transpose()?,
    })
}

fn poll_of(
    written: &PollDefinition,
    attempt_timeout: Millis,
    retry: Retry,
    variables: &Variables<'_>,
) -> Result<Poll, String> {
    let every = written.every.unwrap_or(DEFAULT_EVERY);
    Ok(Poll {
        action: written.action.clone(),
        input: super::input(&written.input, variables)?,
        attempt_timeout,
        retry: super::asking(retry),
        every: (every, written.max.unwrap_or(DEFAULT_MAX).max(every)),
    })
}
