//! Parts shared by all servers of this crate: access, bounds, and the operators' part.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use triad_console::{Answers, Body, Keys, MAX_BODY_BYTES, STRANGER_BODY_BYTES, elsewhere};

use crate::access::Access;
use crate::answer::{self, Answer};
use crate::body::Memory;
use crate::problem::Problem;
use crate::settings::Limits;

/// Settings that a listener takes from the service behind it.
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

/// Answers the requests of a listener.
pub(crate) trait Serves: Send + Sync + 'static {
    /// The settings for the listener.
    fn front(&self) -> &Front;

    /// Answers a request; a problem becomes an answer.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// Converts an answer with a complete body.
pub(crate) fn into_response(answer: Answer) -> Response<Body> {
    answer.map(Body::new)
}

/// A problem as an answer.
pub(crate) fn refused(problem: &Problem) -> Answer {
    tracing::debug!(code = problem.code, detail = %problem.detail, "refused");
    answer::problem(problem)
}

impl Front {
    /// Whether a request is for operators, and this server serves them.
    pub(crate) fn is_for_operators(&self, request: &Request<Incoming>) -> bool {
        let path = request.uri().path();
        let operators = self.operators.as_ref();
        operators.is_some_and(|operators| operators.is_ours(path))
    }

    /// Answers a request of operators.
    pub(crate) async fn operate(&self, request: Request<Incoming>) -> Response<Body> {
        match self.of_operators(request).await {
            Ok(answer) => answer,
            Err(problem) => into_response(refused(&problem)),
        }
    }

    async fn of_operators(&self, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
        let Some(operators) = &self.operators else {
            return Err(Problem::internal("this server does not serve operators"));
        };
        let (head, body) = request.into_parts();
        self.access.reached(&head.uri, &head.headers)?;
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
                read.map_err(Problem::of_stranger)?
            }
        };
        let request = Request::from_parts(head, Bytes::from(read.bytes));
        let answer = operators.answer(request, keys).await;
        drop(read.held);
        Ok(answer)
    }
}

/// A server only for operators.
pub(crate) struct OperatorsAlone(pub(crate) Front);

impl Serves for OperatorsAlone {
    fn front(&self) -> &Front {
        &self.0
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if self.0.is_for_operators(&request) {
            return self.0.operate(request).await;
        }
        elsewhere(request.uri().path())
    }
}
