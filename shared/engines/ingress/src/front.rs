//! What all paths of a server share: access, bounds, and the paths of operators.

use std::sync::Arc;

use axum::extract::Request;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use triad_console::{
    Answer, Answers, Keys, MAX_BODY_BYTES, STRANGER_BODY_BYTES, answer, elsewhere, no_path,
};
use triad_operator::operations::Problem;

use crate::access::Access;
use crate::body::Memory;
use crate::settings::Limits;

/// Access, bounds and operators of one server.
pub(crate) struct Front {
    pub(crate) access: Arc<Access>,
    /// Memory budget for the bodies of orders; no other bodies use it.
    pub(crate) memory: Memory,
    /// Memory budget for the bodies of operators.
    pub(crate) operators_memory: Memory,
    /// Memory budget for the bodies of unknown callers, who may log in as operators.
    pub(crate) strangers_memory: Memory,
    pub(crate) limits: Limits,
    /// Cancelled when the server begins to stop.
    pub(crate) stopping: CancellationToken,
    /// Answers operators' requests; `None`: they get 404.
    pub(crate) operators: Option<Arc<dyn Answers>>,
}

impl Front {
    /// Answers a request for a path that is not one of applications.
    pub(crate) async fn answer(&self, request: Request) -> Answer {
        let path = request.uri().path();
        match &self.operators {
            Some(operators) if operators.is_ours(path) => {
                let answered = self.operate(&**operators, request).await;
                answered.unwrap_or_else(|problem| answer::problem(&problem))
            }
            Some(_) => elsewhere(path),
            None => answer::problem(&no_path()),
        }
    }

    /// Answers a request of operators.
    async fn operate(&self, operators: &dyn Answers, request: Request) -> Result<Answer, Problem> {
        let (head, body) = request.into_parts();
        self.access.reached(&head)?;
        let within = self.limits.body_within;
        let keys: Arc<dyn Keys> = self.access.clone();
        let read = match operators.knows(&head.headers, &*keys) {
            true => {
                let memory = &self.operators_memory;
                memory.read(body, MAX_BODY_BYTES, within).await?
            }
            false => {
                let memory = &self.strangers_memory;
                let read = memory.read(body, STRANGER_BODY_BYTES, within).await;
                read.map_err(of_stranger)?
            }
        };
        let request = Request::from_parts(head, Bytes::from(read.bytes));
        let answer = operators.answer(request, keys).await;
        drop(read.held);
        Ok(answer)
    }
}

/// The problem of an unknown caller whose body is too large: it must log in first.
fn of_stranger(problem: Problem) -> Problem {
    match problem.status {
        413 => {
            let text = "the caller is not logged in, so its body is not read";
            Problem::new(401, "token", text)
                .next("Send the header `Authorization: Bearer TOKEN`, or log in at /console/.")
        }
        _ => problem,
    }
}
