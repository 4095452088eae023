//! Single orders: submit, read, and wait for the end.

use std::sync::Arc;
use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use triad_console::{Answer, Body, answer};
use triad_core::message::TRACEPARENT;
use triad_core::submission::MAX_SUBMISSION_BYTES;
use triad_core::{Order, OrderId, Priority, topics};
use triad_operator::operations::Problem;
use triad_runtime::submission::Submitted;
use triad_runtime::{InputRecord, StateStore};

use crate::acts::no_such_order;
use crate::forms::{Kind, Submitted as SubmittedForm, Taken};
use crate::order_end_waiters::WaitPermit;
use crate::problem;
use crate::service::Service;

/// Reads of the store by all waiting requests together, in each [`Limits::look_every`](crate::Limits).
const LOOKS: usize = 256;
/// First read of an order that was just submitted: the notification may have come before this request began to wait,
/// if the request was delayed for as long as the order takes.
const FIRST_LOOK: Duration = Duration::from_millis(200);

impl<S: StateStore> Service<S> {
    /// Submits one order.
    pub(crate) async fn submit(
        &self,
        wait: Option<Duration>,
        priority: Priority,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Answer, Problem> {
        // Taken before the submission, so that a request that gets no permit to wait has submitted nothing.
        let wait = wait.map(|wait| self.place(wait)).transpose()?;
        let within = self.front.limits.body_within;
        let read = self.front.memory.read(body, MAX_SUBMISSION_BYTES, within);
        let read = read.await?;
        let record = record(read.bytes, priority, headers);
        let held = Some(Arc::new(read.held));
        let answers = self
            .queue
            .submit(vec![record], held, Duration::ZERO)
            .await?;
        let one = answers.into_iter().next();
        let (id, taken) = taken(&one.ok_or_else(|| Problem::internal("there is no answer"))?)?;
        let Some((place, until)) = wait else {
            return submitted(taken.status(), &id, taken, None);
        };
        let look_at = match taken {
            Taken::Accepted => Instant::now() + FIRST_LOOK,
            Taken::Repeated => Instant::now(),
        };
        let order = self.until_end(place, &id, look_at, until).await?;
        let status = match &order {
            Some(order) if order.state.is_finished() => taken.status(),
            _ => StatusCode::ACCEPTED,
        };
        let view = order.map(|order| self.hidden.view(&order, &self.timing));
        submitted(status, &id, taken, view.transpose()?)
    }

    /// Answers with an order, now or at its end.
    pub(crate) async fn get(
        &self,
        id: &OrderId,
        wait: Option<Duration>,
    ) -> Result<Answer, Problem> {
        let found = match wait {
            None => self.load(id).await?.map(Arc::new),
            Some(wait) => {
                let (place, until) = self.place(wait)?;
                self.until_end(place, id, Instant::now(), until).await?
            }
        };
        let Some(order) = found else {
            return Err(no_such_order(id));
        };
        let is_early = wait.is_some() && !order.state.is_finished();
        let status = match is_early {
            true => StatusCode::ACCEPTED,
            false => StatusCode::OK,
        };
        answer::json(status, &self.hidden.view(&order, &self.timing)?)
    }

    /// A permit to wait, and the end of the wait.
    fn place(&self, wait: Duration) -> Result<(WaitPermit, Instant), Problem> {
        let until = Instant::now() + wait;
        let place = self.ends.place().ok_or_else(|| {
            let text = "too many requests wait for ends of orders";
            Problem::busy("too-many-waiting", text, 5)
        })?;
        Ok((place, until))
    }

    /// The order at its end, or as it is when the time is up or the server stops; `None` if there is no such order.
    /// An end in this process brings it along; else it is read, at `look_at` and from time to time.
    async fn until_end(
        &self,
        place: WaitPermit,
        id: &OrderId,
        mut look_at: Instant,
        until: Instant,
    ) -> Result<Option<Arc<Order>>, Problem> {
        // Subscribe first, then read: an end in between is in the record.
        let mut waiting = place.of(id);
        loop {
            tokio::select! {
                ended = waiting.ended() => {
                    if ended.is_some() {
                        return Ok(ended);
                    }
                }
                () = sleep_until(look_at.min(until)) => {}
                () = self.front.stopping.cancelled() => {}
            }
            let order = self.load(id).await?.map(Arc::new);
            let is_over = order.as_ref().is_none_or(|order| order.state.is_finished());
            if is_over || Instant::now() >= until || self.front.stopping.is_cancelled() {
                return Ok(order);
            }
            look_at = Instant::now() + self.between_looks();
        }
    }

    /// Interval between two reads of one request.
    fn between_looks(&self) -> Duration {
        let share = self.ends.waiting().div_ceil(LOOKS).max(1);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        self.front.limits.look_every.saturating_mul(share)
    }

    /// The record of an order.
    pub(crate) async fn load(&self, id: &OrderId) -> Result<Option<Order>, Problem> {
        let found = self.store.load(vec![id.clone()]).await.pop();
        let found = found.ok_or_else(|| Problem::internal("the store has not answered"))?;
        Ok(found?)
    }
}

/// An order in the form of a topic's record, for Submission.
pub(crate) fn record(value: Vec<u8>, priority: Priority, headers: &HeaderMap) -> InputRecord {
    let trace = headers.get(TRACEPARENT);
    let trace = trace.map(|trace| (TRACEPARENT.to_owned(), Some(trace.as_bytes().to_vec())));
    InputRecord {
        topic: topics::orders(priority).to_owned(),
        partition: -1,
        offset: -1,
        timestamp_ms: -1,
        key: None,
        value: Some(value),
        headers: trace.into_iter().collect(),
    }
}

/// The accepted order, or the problem of a refused one.
pub(crate) fn taken(submitted: &Submitted) -> Result<(OrderId, Taken), Problem> {
    match submitted {
        Submitted::Accepted(id) => Ok((id.clone(), Taken::Accepted)),
        Submitted::Repeated(id) => Ok((id.clone(), Taken::Repeated)),
        Submitted::Refused(refusal) => Err(problem::refused(refusal)),
        Submitted::Rejected(why) => Err(Problem::busy("no-room", why.clone(), 2)),
        Submitted::Later(why) => Err(problem::later(why)),
    }
}

/// The answer for an accepted order. `order` is its record, if the request waited for the end.
fn submitted(
    status: StatusCode,
    id: &OrderId,
    result: Taken,
    order: Option<Value>,
) -> Result<Answer, Problem> {
    let form = SubmittedForm {
        kind: Kind::Submitted,
        order_id: id,
        result,
        order,
    };
    let mut answer = answer::json(status, &form)?;
    // A new order's id needs no percent-encoding.
    if let Ok(place) = HeaderValue::try_from(format!("/v1/orders/{id}")) {
        answer.headers_mut().insert(LOCATION, place);
    }
    Ok(answer)
}
