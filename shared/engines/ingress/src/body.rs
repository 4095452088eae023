//! Bodies of requests: read whole, within bounds of length, time and memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use triad_console::Body;
use triad_operator::operations::Problem;

/// The unit in which memory is counted, in bytes.
const UNIT: usize = 1024;
/// How much of a too large body is read and discarded, in bytes, so that a client that is still sending sees the
/// answer and not a reset connection.
const THROWN_AWAY: usize = 1024 * 1024;
/// Most bytes that are allocated for a body before any of it has arrived.
const AT_FIRST: usize = 64 * 1024;

/// The shared memory budget for bodies of all requests.
#[derive(Debug)]
pub(crate) struct Memory(Arc<Semaphore>);

/// A body, with its permit from the memory budget.
pub(crate) struct BodyRead {
    pub(crate) bytes: Vec<u8>,
    pub(crate) held: OwnedSemaphorePermit,
}

impl Memory {
    /// A budget of this many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(units)))
    }

    /// Reads a body of at most `limit` bytes that arrives within a time. The budget counts the bytes that have
    /// arrived, not the declared length.
    pub(crate) async fn read(
        &self,
        body: Body,
        limit: usize,
        within: Duration,
    ) -> Result<BodyRead, Problem> {
        let told = body.size_hint().exact();
        let told = told.map_or(0, |told| usize::try_from(told).unwrap_or(usize::MAX));
        if told > limit.saturating_add(THROWN_AWAY) {
            return Err(too_large(limit));
        }
        // Sets no timer if the body has arrived already.
        let read = tokio::time::timeout(within, self.collect(body, limit, told));
        let late = |_| {
            let text = format!("the body has not come within {} s", within.as_secs_f32());
            Problem::new(408, "body-timeout", text)
        };
        read.await.map_err(late)?
    }

    async fn collect(
        &self,
        mut body: Body,
        limit: usize,
        told: usize,
    ) -> Result<BodyRead, Problem> {
        let mut held = self.hold(1)?;
        let mut bytes = Vec::with_capacity(told.min(limit).min(AT_FIRST));
        let mut seen = 0_usize;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| Problem::bad("bad-body", format!("the body: {e}")))?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            seen = seen.saturating_add(data.len());
            if seen <= limit {
                let units = seen / UNIT + 1;
                if units > held.num_permits() {
                    held.merge(self.hold(units - held.num_permits())?);
                }
                bytes.extend_from_slice(data);
            } else if seen > limit.saturating_add(THROWN_AWAY) {
                break;
            }
        }
        if seen > limit {
            return Err(too_large(limit));
        }
        Ok(BodyRead { bytes, held })
    }

    fn hold(&self, units: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let held = Arc::clone(&self.0).try_acquire_many_owned(units);
        held.map_err(|_| Problem::busy("queue-full", "the memory for request bodies is full", 1))
    }
}

fn too_large(limit: usize) -> Problem {
    let text = format!("the body is larger than {limit} bytes");
    Problem::new(413, "too-large", text)
}
