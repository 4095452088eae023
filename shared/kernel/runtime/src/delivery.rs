//! Delivers records to a handler, and catches the handler's panics.
//!
//! A panic is a fault of the software in one record; other records must not wait for its fix. So the records of its
//! batch are delivered once more, one by one, and a record with which alone the handler panics becomes a dead letter,
//! which can be replayed after the fix. The consumer loops and the Lambda shell deliver through this module; no other
//! module catches panics.
//!
//! Architecture invariant: nothing is stored before a delivery. A record that ends the process (out of memory, stack
//! overflow) leaves no note here, and is redelivered until an operator skips it: see docs/reference/limits.md.

use std::any::Any;
use std::collections::HashSet;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;

use crate::dead_letter::Cause;
use crate::handled::{Handled, Redelivery};
use crate::record::InputRecord;

/// Cause code of the dead letter of a record with which alone a handler has panicked.
pub const HANDLER_PANICKED: &str = "handler-panicked";

/// Delivers these records to the handler together; if it panics, one by one.
///
/// `handle` gets records, and where they are in `records`; it answers one [`Handled`] for each, in their
/// order. `put_aside` gets the place of a record with which alone the handler has panicked, and the cause for
/// its dead letter; it answers [`Handled::Done`] once letter and alert are acknowledged. One by one, a record
/// behind one of its partition that is to be delivered again is not delivered.
///
/// Returned is one answer for each record, in their order. It may be fewer if the handler answered fewer:
/// records without an answer must be delivered again.
pub async fn deliver<F, R, P, Q>(
    records: &Arc<Vec<InputRecord>>,
    handle: F,
    put_aside: P,
) -> Vec<Handled>
where
    F: Fn(Arc<Vec<InputRecord>>, Range<usize>) -> R,
    R: Future<Output = Vec<Handled>>,
    P: Fn(usize, Cause) -> Q,
    Q: Future<Output = Handled>,
{
    let together = || handle(records.clone(), 0..records.len());
    let cause = match catch(records, together).await {
        Ok(answers) => return answers,
        Err(cause) => cause,
    };
    if records.len() == 1 {
        return vec![put_aside(0, cause).await];
    }
    let mut held: HashSet<(&str, i32)> = HashSet::new();
    let mut answers = Vec::with_capacity(records.len());
    for (at, record) in records.iter().enumerate() {
        let partition = (record.topic.as_str(), record.partition);
        if held.contains(&partition) {
            answers.push(Handled::Redeliver(Redelivery::Behind));
            continue;
        }
        let alone = || handle(Arc::new(vec![record.clone()]), at..at + 1);
        let answer = match catch(std::slice::from_ref(record), alone).await {
            Ok(answers) => answers.into_iter().next(),
            Err(cause) => Some(put_aside(at, cause).await),
        };
        let Some(answer) = answer else { break };
        if !answer.is_done() {
            held.insert(partition);
        }
        answers.push(answer);
    }
    answers
}

/// Runs the handler with these records. If it panics, the panic is logged with the place of the first record,
/// and returned as the cause for a dead letter.
///
/// # Errors
/// A [`Cause`] with the code [`HANDLER_PANICKED`].
pub async fn catch<R: Future>(
    records: &[InputRecord],
    handle: impl FnOnce() -> R,
) -> Result<R::Output, Cause> {
    // State that a handler shares is behind locks that survive a panic.
    let handled = AssertUnwindSafe(async { handle().await }).catch_unwind();
    handled.await.map_err(|panic| {
        let said = panic_text(&*panic);
        let first = records.first();
        tracing::error!(
            topic = first.map(|record| &*record.topic),
            partition = first.map(|record| record.partition),
            offset = first.map(|record| record.offset),
            count = records.len(),
            said,
            "a handler panicked"
        );
        Cause::new(HANDLER_PANICKED, format!("the handler panicked: {said}"))
    })
}

/// The text of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or(panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}
