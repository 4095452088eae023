//! Batches: one order on each line, and one answer on each line, in the same order.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use triad_console::answer::Details;
use triad_console::{Answer, Body, answer};
use triad_core::{OrderId, Priority};
use triad_operator::operations::Problem;
use triad_runtime::{InputRecord, StateStore};

use crate::forms::{LineAnswer, Taken};
use crate::orders::{record, taken};
use crate::problem::with_next;
use crate::queue::GROUP;
use crate::service::Service;

/// Longest wait of one group of lines for room in the queue.
const ROOM_WITHIN: Duration = Duration::from_secs(5);
/// Time after which no further group of lines is submitted.
const ALL_WITHIN: Duration = Duration::from_secs(60);

impl<S: StateStore> Service<S> {
    /// Submits a batch. Groups of lines are submitted one after the other, so that lines of one order keep their
    /// order.
    pub(crate) async fn submit_batch(
        &self,
        priority: Priority,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Answer, Problem> {
        let limits = &self.front.limits;
        let read = self
            .front
            .memory
            .read(body, limits.batch_bytes, limits.body_within);
        let read = read.await?;
        let lines = lines(&read.bytes, limits.batch_lines)?;
        let held = Arc::new(read.held);
        let until = Instant::now() + ALL_WITHIN;
        let mut answers = Vec::new();
        for group in lines.chunks(GROUP) {
            let records = group
                .iter()
                .map(|(_, line)| record(line.to_vec(), priority, headers));
            let answered = match Instant::now() < until {
                true => self.submit_group(records.collect(), &held).await,
                false => vec![Err(out_of_time()); group.len()],
            };
            for ((line, _), answered) in group.iter().zip(answered) {
                write(&mut answers, *line, answered)?;
            }
        }
        Ok(answer::of(StatusCode::OK, "application/x-ndjson", answers))
    }

    async fn submit_group(
        &self,
        records: Vec<InputRecord>,
        held: &Arc<OwnedSemaphorePermit>,
    ) -> Vec<Result<(OrderId, Taken), Problem>> {
        let count = records.len();
        let held = Some(Arc::clone(held));
        match self.queue.submit(records, held, ROOM_WITHIN).await {
            Ok(answers) => answers.iter().map(taken).collect(),
            Err(why) => vec![Err(why.into()); count],
        }
    }
}

fn out_of_time() -> Problem {
    let text = "the lines before it took all the time of the batch";
    Problem::later("not-now", text, 1)
}

/// The lines that are not blank, with their numbers from 1.
fn lines(body: &[u8], most: usize) -> Result<Vec<(usize, &[u8])>, Problem> {
    let mut lines = Vec::new();
    for (at, line) in body.split(|b| *b == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if lines.len() == most {
            let text = format!("a batch has {most} lines at most");
            return Err(Problem::new(413, "too-many-lines", text));
        }
        lines.push((at + 1, line));
    }
    match lines.is_empty() {
        true => Err(Problem::bad(
            "empty-batch",
            "there is no order in the batch",
        )),
        false => Ok(lines),
    }
}

fn write(
    answers: &mut Vec<u8>,
    line: usize,
    answered: Result<(OrderId, Taken), Problem>,
) -> Result<(), Problem> {
    let answered = answered.map_err(with_next);
    let told = match &answered {
        Ok((order_id, result)) => LineAnswer::Taken {
            line,
            status: result.status().as_u16(),
            order_id,
            result: *result,
        },
        Err(problem) => LineAnswer::Refused {
            line,
            problem: Details::of(problem),
        },
    };
    serde_json::to_writer(&mut *answers, &told)?;
    answers.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_passed_over_and_counted() {
        let found = lines(b"\n{1}\r\n  \n{2}", 2).unwrap();
        assert_eq!(found, [(2, &b"{1}\r"[..]), (4, &b"{2}"[..])]);
        assert_eq!(lines(b"1\n2\n3", 2).unwrap_err().code, "too-many-lines");
        assert_eq!(lines(b"\n \r\n", 2).unwrap_err().code, "empty-batch");
    }
}
